// sdy-aggressive-propagate{debug-sharding-origins=true debug-propagation-edge-sharding=true}
sdy.mesh @grid = <["x"=4, "y"=2]>
func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y", ?}]>}, %b: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(1)2, ?}]>}) -> tensor<16xf32> {
  %0 = stablehlo.add %a, %b : tensor<16xf32>
  return %0 : tensor<16xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=4, "y"=2]>
  func.func @main(%arg0: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y", ?}]>, sdy.sharding_origins = {x = "self", y = "self"}}, %arg1: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y", ?}]>, sdy.sharding_origins = {x = "input: 0", "x:(1)2" = "self", y = "input: 0"}}) -> (tensor<16xf32> {sdy.propagation_edges = #sdy.propagation_edges<[{step-1 = [{"x" = operand-0 -> [result-0]}, {"y" = operand-0 -> [result-0]}]}]>, sdy.sharding = #sdy.sharding<@grid, [{"x", "y", ?}]>, sdy.sharding_origins = {x = "input: 0", y = "input: 0"}}) {
    %0 = stablehlo.add %arg0, %arg1 {sdy.propagation_edges = #sdy.propagation_edges<[{step-0 = [{"x" = operand-0 -> [operand-1, result-0]}, {"y" = operand-0 -> [operand-1, result-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y", ?}]>]>, sdy.sharding_origins = [{x = "input: 0", y = "input: 0"}]} : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
