// sdy-op-priority-propagate
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.dot %b, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.add %0, %c : tensor<8x8xf32>
  %2 = stablehlo.tanh %1 : tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}) {
    %0 = stablehlo.dot %arg1, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"x", ?}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.add %0, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"x", ?}]>]>} : tensor<8x8xf32>
    %2 = stablehlo.tanh %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"x", ?}]>]>} : tensor<8x8xf32>
    return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
