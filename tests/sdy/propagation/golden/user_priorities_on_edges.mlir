// sdy-add-data-flow-edges,sdy-user-priority-propagate{keep-sharding-rules=true},func.func(sdy-sink-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}p2]>}) -> tensor<8x8xf32> {
  %0 = "stablehlo.optimization_barrier"(%a) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}p1, {?}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}) {
    %0 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} %arg0 : tensor<8x8xf32>
    %1 = stablehlo.tanh %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}>} : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
