// sdy-add-data-flow-edges,sdy-apply-sharding-constraints{debug-sharding-origins=true debug-propagation-edge-sharding=true},sdy-aggressive-propagate{debug-sharding-origins=true debug-propagation-edge-sharding=true},func.func(sdy-sink-data-flow-edges{sink-debug-sharding-origins=true sink-debug-propagation-edge-sharding=true})
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}) {
  %0 = stablehlo.dot %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.tanh %b : tensor<8x8xf32>
  %2 = sdy.sharding_constraint %1 <@grid, [{}, {"x"}]> : tensor<8x8xf32>
  %3 = stablehlo.optimization_barrier %0 : tensor<8x8xf32>
  %4 = sdy.manual_computation(%3) in_shardings=[<@grid, [{"x", ?}, {?}]>] out_shardings=[<@grid, [{"x", ?}, {?}]>] manual_axes={"x"} (%p: tensor<4x8xf32>) {
    %5 = stablehlo.abs %p : tensor<4x8xf32>
    sdy.return %5 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = stablehlo.reshape %4 : (tensor<8x8xf32>) -> tensor<64xf32>
  %7 = stablehlo.reshape %6 : (tensor<64xf32>) -> tensor<8x8xf32>
  return %2, %7 : tensor<8x8xf32>, tensor<8x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>, sdy.sharding_origins = {x = "self"}}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>, sdy.sharding_origins = {x = "constraint_0"}}) -> (tensor<8x8xf32> {sdy.propagation_edges = #sdy.propagation_edges<[{step-1 = [{"x" = operand-0 -> [result-0]}]}, {step-2 = [{"y" = result-0 -> [operand-0]}]}]>, sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>, sdy.sharding_origins = {x = "constraint_0"}}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>, sdy.sharding_origins = {x = "mc_0_output: 0", y = "self"}}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.propagation_edges = #sdy.propagation_edges<[{step-3 = [{"x" = operand-0 -> [result-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>, sdy.sharding_origins = [{x = "input: 0"}]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.tanh %arg1 {sdy.propagation_edges = #sdy.propagation_edges<[{step-4 = [{"x" = result-0 -> [operand-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>, sdy.sharding_origins = [{x = "constraint_0"}]} : tensor<8x8xf32>
    %2 = sdy.sharding_constraint %1 <@grid, [{}, {"x"}]> {sdy.propagation_edges = #sdy.propagation_edges<[{step-0 = [{"x" = result-0 -> [operand-0]}]}]>, sdy.sharding_origin_name = "constraint_0", sdy.sharding_origins = {x = "self"}} : tensor<8x8xf32>
    %3 = stablehlo.optimization_barrier {sdy.block_arg_propagation_edges = [], sdy.block_arg_sharding_origins = [], sdy.result_propagation_edges = [#sdy.propagation_edges<[{step-5 = [{"x" = operand-0 -> [result-0]}]}]>], sdy.result_sharding_origins = [{x = "input: 0"}], sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} %0 : tensor<8x8xf32>
    %4 = sdy.manual_computation(%3) in_shardings=[<@grid, [{"x", ?}, {?}]>] out_shardings=[<@grid, [{"x", ?}, {?}]>] manual_axes={"x"} (%arg2: tensor<4x8xf32>) {
      %7 = stablehlo.abs %arg2 : tensor<4x8xf32>
      sdy.return %7 : tensor<4x8xf32>
    } {sdy.block_arg_propagation_edges = [], sdy.block_arg_sharding_origins = [{x = "self"}], sdy.result_propagation_edges = [], sdy.result_sharding_origins = [{x = "self"}], sdy.sharding_origin_name = "mc_0"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = stablehlo.reshape %4 {sdy.propagation_edges = #sdy.propagation_edges<[{step-6 = [{"x" = operand-0 -> [result-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>, sdy.sharding_origins = [{x = "mc_0_output: 0", y = "output: 1"}]} : (tensor<8x8xf32>) -> tensor<64xf32>
    %6 = stablehlo.reshape %5 {sdy.propagation_edges = #sdy.propagation_edges<[{step-7 = [{"x" = operand-0 -> [result-0]}, {"y" = result-0 -> [operand-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>, sdy.sharding_origins = [{x = "mc_0_output: 0", y = "output: 1"}]} : (tensor<64xf32>) -> tensor<8x8xf32>
    return %2, %6 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
