// sdy-basic-propagate{keep-sharding-rules=true}
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) -> (tensor<4x8xf32>, tensor<8x4xf32>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.custom_call @mine(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4} blocked_propagation={j}, custom>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<8x4xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>}, tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}) {
    %0 = stablehlo.transpose %arg0, dims = [1, 0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y", ?}, {"x", ?}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i])->([i, j]) {i=4, j=8}>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.custom_call @mine(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4} blocked_propagation={j}, custom>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0, %1 : tensor<4x8xf32>, tensor<8x4xf32>
  }
}
