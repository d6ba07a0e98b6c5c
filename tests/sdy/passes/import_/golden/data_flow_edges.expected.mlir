module {
  sdy.mesh @m = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<i32>, %arg2: !stablehlo.token) -> (tensor<4xf32>, tensor<4xf32>) {
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<4xf32>, tensor<i32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>, <@m, []>]>}
    cond {
      %11 = stablehlo.compare LT, %iterArg_0, %arg1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    } do {
      %11:2 = stablehlo.optimization_barrier %iterArg, %iterArg_0 : tensor<4xf32>, tensor<i32>
      %12 = sdy.data_flow_edge %11#0 : tensor<4xf32>
      %13 = sdy.data_flow_edge %11#1 : tensor<i32>
      stablehlo.return %12, %13 : tensor<4xf32>, tensor<i32>
    }
    %1 = sdy.data_flow_edge %0#0 sharding=<@m, [{"x"}]> : tensor<4xf32>
    %2 = sdy.data_flow_edge %0#1 sharding=<@m, []> : tensor<i32>
    %3:2 = "stablehlo.case"(%2) ({
      stablehlo.return %1, %arg2 : tensor<4xf32>, !stablehlo.token
    }, {
      stablehlo.return %arg0, %arg2 : tensor<4xf32>, !stablehlo.token
    }) : (tensor<i32>) -> (tensor<4xf32>, !stablehlo.token)
    %4 = sdy.data_flow_edge %3#0 : tensor<4xf32>
    %5 = stablehlo.optimization_barrier %3#1 : !stablehlo.token
    %6 = sdy.manual_computation(%1) in_shardings=[<@m, [{"x", "y"}]>] out_shardings=[<@m, [{"x", ?}]>] manual_axes={"x"} (%arg3: tensor<2xf32>) {
      %11 = sdy.data_flow_edge %arg3 sharding=<@m, [{"y"}]> : tensor<2xf32>
      %12 = stablehlo.add %11, %11 : tensor<2xf32>
      sdy.return %12 : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %7 = sdy.data_flow_edge %6 sharding=<@m, [{"x", ?}]> : tensor<4xf32>
    %8 = sdy.named_computation<"n">(%7) out_shardings=[<@m, [{"y"}]>] (%arg3: tensor<4xf32>) {
      %11 = sdy.data_flow_edge %arg3 : tensor<4xf32>
      sdy.return %11 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %9 = sdy.data_flow_edge %8 sharding=<@m, [{"y"}]> : tensor<4xf32>
    %10 = stablehlo.add %9, %9 : tensor<4xf32>
    return %10, %9 : tensor<4xf32>, tensor<4xf32>
  }
}
