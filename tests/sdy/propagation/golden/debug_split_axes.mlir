// sdy-aggressive-propagate{debug-sharding-origins=true debug-propagation-edge-sharding=true}
sdy.mesh @grid = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %b: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<8xf32>) {
  %0 = stablehlo.reshape %a : (tensor<8xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.add %0, %b : tensor<2x4xf32>
  %2 = stablehlo.reshape %b : (tensor<2x4xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>, sdy.sharding_origins = {x = "self"}}, %arg1: tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(1)2, ?}, {"x":(2)2, ?}]>, sdy.sharding_origins = {"x:(1)2" = "input: 0", "x:(2)2" = "input: 0"}}) -> (tensor<2x4xf32> {sdy.propagation_edges = #sdy.propagation_edges<[{step-3 = [{"x":(1)2 = operand-0 -> [result-0]}, {"x":(2)2 = operand-0 -> [result-0]}]}, {step-4 = [{"x" = operand-0 -> [result-0]}]}]>, sdy.sharding = #sdy.sharding<@grid, [{"x":(1)2, ?}, {"x":(2)2, ?}]>, sdy.sharding_origins = {"x:(1)2" = "input: 0", "x:(2)2" = "input: 0"}}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>, sdy.sharding_origins = {x = "input: 0"}}) {
    %0 = stablehlo.reshape %arg0 {sdy.propagation_edges = #sdy.propagation_edges<[{step-0 = [{"x":(1)2 = operand-0 -> [result-0]}, {"x":(2)2 = operand-0 -> [result-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x":(1)2, ?}, {"x":(2)2, ?}]>]>, sdy.sharding_origins = [{"x:(1)2" = "input: 0", "x:(2)2" = "input: 0"}]} : (tensor<8xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.add %0, %arg1 {sdy.propagation_edges = #sdy.propagation_edges<[{step-1 = [{"x":(1)2 = operand-0 -> [operand-1, result-0]}, {"x":(2)2 = operand-0 -> [operand-1, result-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x":(1)2, ?}, {"x":(2)2, ?}]>]>, sdy.sharding_origins = [{"x:(1)2" = "input: 0", "x:(2)2" = "input: 0"}]} : tensor<2x4xf32>
    %2 = stablehlo.reshape %arg1 {sdy.propagation_edges = #sdy.propagation_edges<[{step-2 = [{"x" = operand-0 -> [result-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>, sdy.sharding_origins = [{x = "input: 0"}]} : (tensor<2x4xf32>) -> tensor<8xf32>
    return %1, %2 : tensor<2x4xf32>, tensor<8xf32>
  }
}
