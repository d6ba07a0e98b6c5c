module {
  sdy.mesh @m = <["x"=2]>
  func.func @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = sdy.named_computation<"outer">(%arg0) out_shardings=[<@m, [{"x"}]>] (%arg1: tensor<4xf32>) {
      %8 = sdy.data_flow_edge %arg1 : tensor<4xf32>
      %9 = sdy.named_computation<"leaf">(%8) in_shardings=[<@m, [{"x"}]>] (%arg2: tensor<4xf32>) {
        %13 = sdy.data_flow_edge %arg2 sharding=<@m, [{"x"}]> : tensor<4xf32>
        %14 = stablehlo.tanh %13 : tensor<4xf32>
        sdy.return %14 : tensor<4xf32>
      } : (tensor<4xf32>) -> tensor<4xf32>
      %10 = sdy.data_flow_edge %9 : tensor<4xf32>
      %11 = sdy.named_computation<"leaf">(%10) in_shardings=[<@m, [{"x"}]>] (%arg2: tensor<4xf32>) {
        %13 = sdy.data_flow_edge %arg2 sharding=<@m, [{"x"}]> : tensor<4xf32>
        %14 = stablehlo.tanh %13 : tensor<4xf32>
        sdy.return %14 : tensor<4xf32>
      } : (tensor<4xf32>) -> tensor<4xf32>
      %12 = sdy.data_flow_edge %11 : tensor<4xf32>
      sdy.return %12 : tensor<4xf32>
    } {mark} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = sdy.data_flow_edge %0 sharding=<@m, [{"x"}]> : tensor<4xf32>
    %2 = sdy.named_computation<"outer">(%1) (%arg1: tensor<4xf32>) {
      %8 = sdy.data_flow_edge %arg1 : tensor<4xf32>
      %9 = sdy.named_computation<"leaf">(%8) in_shardings=[<@m, [{"x"}]>] (%arg2: tensor<4xf32>) {
        %13 = sdy.data_flow_edge %arg2 sharding=<@m, [{"x"}]> : tensor<4xf32>
        %14 = stablehlo.tanh %13 : tensor<4xf32>
        sdy.return %14 : tensor<4xf32>
      } : (tensor<4xf32>) -> tensor<4xf32>
      %10 = sdy.data_flow_edge %9 : tensor<4xf32>
      %11 = sdy.named_computation<"leaf">(%10) in_shardings=[<@m, [{"x"}]>] (%arg2: tensor<4xf32>) {
        %13 = sdy.data_flow_edge %arg2 sharding=<@m, [{"x"}]> : tensor<4xf32>
        %14 = stablehlo.tanh %13 : tensor<4xf32>
        sdy.return %14 : tensor<4xf32>
      } : (tensor<4xf32>) -> tensor<4xf32>
      %12 = sdy.data_flow_edge %11 : tensor<4xf32>
      sdy.return %12 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %3 = sdy.data_flow_edge %2 : tensor<4xf32>
    %4 = sdy.named_computation<"leaf">(%3) in_shardings=[<@m, [{"x"}]>] (%arg1: tensor<4xf32>) {
      %8 = sdy.data_flow_edge %arg1 sharding=<@m, [{"x"}]> : tensor<4xf32>
      %9 = stablehlo.tanh %8 : tensor<4xf32>
      sdy.return %9 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %5 = sdy.data_flow_edge %4 : tensor<4xf32>
    %6 = sdy.named_computation<"once">(%5) (%arg1: tensor<4xf32>) {
      %8 = sdy.data_flow_edge %arg1 : tensor<4xf32>
      sdy.return %8 : tensor<4xf32>
    } {execution_thread = "side"} : (tensor<4xf32>) -> tensor<4xf32>
    %7 = sdy.data_flow_edge %6 : tensor<4xf32>
    return %5, %7 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @leaf_0(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %arg0 : tensor<4xf32>
  }
}
