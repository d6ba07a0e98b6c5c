// sdy-add-data-flow-edges,sdy-basic-propagate,func.func(sdy-sink-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}) -> tensor<16x32xf32> {
  %0 = stablehlo.abs %a : tensor<16x32xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@grid, [{"x", ?}, {?}]>] out_shardings=[<@grid, [{"x", ?}, {?}]>] manual_axes={"x"} (%p: tensor<8x32xf32>) {
    %2 = stablehlo.tanh %p : tensor<8x32xf32>
    sdy.return %2 : tensor<8x32xf32>
  } : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %3 = stablehlo.negate %1 : tensor<16x32xf32>
  return %3 : tensor<16x32xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) -> (tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) {
    %0 = stablehlo.abs %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x32xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@grid, [{"x", ?}, {"y", ?}]>] out_shardings=[<@grid, [{"x", ?}, {"y", ?}]>] manual_axes={"x"} (%arg1: tensor<8x32xf32>) {
      %3 = stablehlo.tanh %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"y", ?}]>]>} : tensor<8x32xf32>
      sdy.return %3 : tensor<8x32xf32>
    } : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %2 = stablehlo.negate %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x32xf32>
    return %2 : tensor<16x32xf32>
  }
}
