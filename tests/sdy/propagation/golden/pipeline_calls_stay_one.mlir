// sdy-propagation-pipeline{dedup-functions-fully=true}
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = call @square(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @square(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @square(%p: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.multiply %p, %p : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}, {name = "y", size = 2 : i64}]}}
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) {
    %0 = sdy.reshard %arg1 <@grid, [{"x"}, {"y"}]> : tensor<8x8xf32>
    %1 = sdy.reshard %arg0 <@grid, [{"x"}, {"y"}]> : tensor<8x8xf32>
    %2 = call @square(%1) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = call @square(%0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>
  }
  func.func private @square(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) {
    %0 = stablehlo.multiply %arg0, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
