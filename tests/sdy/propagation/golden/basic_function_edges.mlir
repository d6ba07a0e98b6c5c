// sdy-add-func-data-flow-edges,sdy-basic-propagate,func.func(sdy-sink-func-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}) {
  %0 = call @twice(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @twice(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.negate %1 : tensor<8x8xf32>
  return %0, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @twice(%p: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %p, %p : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) {
    %0 = call @twice(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = call @twice(%arg1) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = stablehlo.negate %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<8x8xf32>
    return %0, %2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
  func.func private @twice(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.add %arg0, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
