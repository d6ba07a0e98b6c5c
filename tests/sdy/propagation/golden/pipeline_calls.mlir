// sdy-propagation-pipeline
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %c = stablehlo.constant dense<2.0> : tensor<8x8xf32>
  %0 = call @square(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @square(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.add %0, %c : tensor<8x8xf32>
  %3 = stablehlo.multiply %1, %c : tensor<8x8xf32>
  return %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @square(%p: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.multiply %p, %p : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}, {name = "y", size = 2 : i64}]}}
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) {
    %0 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} dense<2.000000e+00> : tensor<8x8xf32>
    %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}]>]>} dense<2.000000e+00> : tensor<8x8xf32>
    %2 = call @square(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = call @square_0(%arg1) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = stablehlo.add %2, %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<8x8xf32>
    %5 = stablehlo.multiply %3, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}]>]>} : tensor<8x8xf32>
    return %4, %5 : tensor<8x8xf32>, tensor<8x8xf32>
  }
  func.func private @square(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) {
    %0 = stablehlo.multiply %arg0, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @square_0(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) {
    %0 = stablehlo.multiply %arg0, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
