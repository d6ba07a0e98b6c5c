// sdy-op-priority-propagate
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}) -> (tensor<8x16xf32>, tensor<16x8xf32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.add %0, %b : tensor<8x16xf32>
  %2 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
  return %1, %2 : tensor<8x16xf32>, tensor<16x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %arg1: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}, tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"x", ?}]>]>} : (tensor<8xf32>) -> tensor<8x16xf32>
    %1 = stablehlo.add %0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"x", ?}]>]>} : tensor<8x16xf32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"x", ?}]>]>} : (tensor<8xf32>) -> tensor<16x8xf32>
    return %1, %2 : tensor<8x16xf32>, tensor<16x8xf32>
  }
}
