// sdy-basic-propagate
sdy.mesh @grid = <["data"=2, "model"=4]>
func.func @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"data"}, {}]>}, %w: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"model", ?}]>}, %v: tensor<64x8xf32>) -> tensor<16x8xf32> {
  %h = stablehlo.dot %x, %w : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %t = stablehlo.tanh %h : tensor<16x64xf32>
  %y = stablehlo.dot %t, %v : (tensor<16x64xf32>, tensor<64x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["data"=2, "model"=4]>
  func.func @main(%arg0: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"data"}, {}]>}, %arg1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"model", ?}]>}, %arg2: tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"model", ?}, {?}]>}) -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"data", ?}, {?}]>}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"data", ?}, {"model", ?}]>]>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
    %1 = stablehlo.tanh %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"data", ?}, {"model", ?}]>]>} : tensor<16x64xf32>
    %2 = stablehlo.dot %1, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"data", ?}, {?}]>]>} : (tensor<16x64xf32>, tensor<64x8xf32>) -> tensor<16x8xf32>
    return %2 : tensor<16x8xf32>
  }
}
