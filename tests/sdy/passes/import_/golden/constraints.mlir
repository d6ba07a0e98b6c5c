// sdy-apply-sharding-constraints
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @dictates(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}]>}) -> tensor<4x4xf32> {
  %0 = stablehlo.add %arg0, %arg1 : tensor<4x4xf32>
  %1 = sdy.sharding_constraint %0 <@m, [{"x"}, {}]> : tensor<4x4xf32>
  %2 = sdy.sharding_constraint %arg1 <@m, [{"x", ?}, {}]> : tensor<4x4xf32>
  %3 = sdy.sharding_constraint %arg2 <@m, [{"y"}, {}]> : tensor<4x4xf32>
  %4 = sdy.sharding_constraint %arg0 <@m, [{"y"}, {}]> : tensor<4x4xf32>
  %5 = sdy.sharding_constraint %arg0 <@m, [{"y"}, {}]> : tensor<4x4xf32>
  %6 = stablehlo.multiply %2, %3 : tensor<4x4xf32>
  %7 = sdy.sharding_constraint %6 <@m, [{"x"}, {}]> : tensor<4x4xf32>
  %8 = sdy.sharding_constraint %6 <@m, [{"y"}, {}]> : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
func.func @chain(%arg0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = stablehlo.negate %arg0 : tensor<4x4xf32>
  %1 = stablehlo.abs %0 : tensor<4x4xf32>
  %2 = sdy.sharding_constraint %0 <@m, [{"x"}, {}]> : tensor<4x4xf32>
  %3 = sdy.sharding_constraint %2 <@m, [{}, {"x"}]> : tensor<4x4xf32>
  %4 = stablehlo.add %0, %0 : tensor<4x4xf32>
  %5 = stablehlo.add %3, %4 : tensor<4x4xf32>
  return %5, %0 : tensor<4x4xf32>, tensor<4x4xf32>
}
func.func @edges(%arg0: tensor<4x4xf32>, %arg1: tensor<i32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0:2 = stablehlo.optimization_barrier %arg0, %arg0 : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = sdy.data_flow_edge %0#0 : tensor<4x4xf32>
  %2 = sdy.data_flow_edge %0#1 : tensor<4x4xf32>
  %3 = stablehlo.abs %1 : tensor<4x4xf32>
  %4 = sdy.sharding_constraint %1 <@m, [{"x"}, {}], unreduced={"y"}> : tensor<4x4xf32>
  %5 = stablehlo.add %3, %2 : tensor<4x4xf32>
  %6 = sdy.manual_computation(%2, %2, %5) in_shardings=[<@m, [{"y"}, {}], replicated={"x"}>, <@m, [{"y"}, {}], replicated={"x"}>, <@m, [{"x"}, {}], replicated={"y"}>] out_shardings=[<@m, [{"x", "y"}, {}]>] manual_axes={"x", "y"} (%arg2: tensor<2x4xf32>, %arg3: tensor<2x4xf32>, %arg4: tensor<2x4xf32>) {
    %8 = stablehlo.slice %arg2 [0:1, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
    sdy.return %8 : tensor<1x4xf32>
  } : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = sdy.data_flow_edge %6 : tensor<4x4xf32>
  return %4, %7 : tensor<4x4xf32>, tensor<4x4xf32>
}
