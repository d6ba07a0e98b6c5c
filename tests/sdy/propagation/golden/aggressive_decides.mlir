// sdy-aggressive-propagate
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %b: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}, %c: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {?}]>}) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %0 = stablehlo.dot %a, %b : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %1 = stablehlo.add %0, %c : tensor<8x64xf32>
  return %0, %1 : tensor<8x64xf32>, tensor<8x64xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %arg1: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}, %arg2: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>}) -> (tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>}, tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y", ?}, {"x", ?}]>]>} : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    %1 = stablehlo.add %0, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y", ?}, {"x", ?}]>]>} : tensor<8x64xf32>
    return %0, %1 : tensor<8x64xf32>, tensor<8x64xf32>
  }
}
