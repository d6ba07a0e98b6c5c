// sdy-add-data-flow-edges
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<i32>, %arg2: !stablehlo.token) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<4xf32>, tensor<i32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>, <@m, []>]>}
  cond {
    %6 = stablehlo.compare  LT, %iterArg_0, %arg1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %6 : tensor<i1>
  } do {
    %6:2 = stablehlo.optimization_barrier %iterArg, %iterArg_0 : tensor<4xf32>, tensor<i32>
    stablehlo.return %6#0, %6#1 : tensor<4xf32>, tensor<i32>
  }
  %1:2 = "stablehlo.case"(%0#1) ({
    stablehlo.return %0#0, %arg2 : tensor<4xf32>, !stablehlo.token
  }, {
    stablehlo.return %arg0, %arg2 : tensor<4xf32>, !stablehlo.token
  }) : (tensor<i32>) -> (tensor<4xf32>, !stablehlo.token)
  %2 = stablehlo.optimization_barrier %1#1 : !stablehlo.token
  %3 = sdy.manual_computation(%0#0) in_shardings=[<@m, [{"x", "y"}]>] out_shardings=[<@m, [{"x", ?}]>] manual_axes={"x"} (%arg3: tensor<2xf32>) {
    %6 = stablehlo.add %arg3, %arg3 : tensor<2xf32>
    sdy.return %6 : tensor<2xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  %4 = sdy.named_computation<"n">(%3) out_shardings=[<@m, [{"y"}]>] (%arg3: tensor<4xf32>) {
    sdy.return %arg3 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  %5 = stablehlo.add %4, %4 : tensor<4xf32>
  return %5, %4 : tensor<4xf32>, tensor<4xf32>
}
