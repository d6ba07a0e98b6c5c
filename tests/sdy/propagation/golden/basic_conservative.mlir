// sdy-basic-propagate{conservative-propagation=true}
sdy.mesh @grid = <["x"=4, "y"=3]>
func.func @main(%a: tensor<2x8x9xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}, {"y", ?}]>}, %b: tensor<16x9xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}) -> (tensor<16x9xf32>, tensor<2x8x9xf32>) {
  %0 = stablehlo.reshape %a : (tensor<2x8x9xf32>) -> tensor<16x9xf32>
  %1 = stablehlo.reshape %b : (tensor<16x9xf32>) -> tensor<2x8x9xf32>
  return %0, %1 : tensor<16x9xf32>, tensor<2x8x9xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=4, "y"=3]>
  func.func @main(%arg0: tensor<2x8x9xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}, {"y", ?}]>}, %arg1: tensor<16x9xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}) -> (tensor<16x9xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}, tensor<2x8x9xf32>) {
    %0 = stablehlo.reshape %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"y", ?}]>]>} : (tensor<2x8x9xf32>) -> tensor<16x9xf32>
    %1 = stablehlo.reshape %arg1 : (tensor<16x9xf32>) -> tensor<2x8x9xf32>
    return %0, %1 : tensor<16x9xf32>, tensor<2x8x9xf32>
  }
}
