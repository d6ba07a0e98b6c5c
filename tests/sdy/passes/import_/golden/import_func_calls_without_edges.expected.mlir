module {
  sdy.mesh @m = <["x"=2]>
  func.func @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = sdy.named_computation<"outer">(%arg0) out_shardings=[<@m, [{"x"}]>] (%arg1: tensor<4xf32>) {
      %4 = sdy.named_computation<"leaf">(%arg1) in_shardings=[<@m, [{"x"}]>] (%arg2: tensor<4xf32>) {
        %6 = stablehlo.tanh %arg2 : tensor<4xf32>
        sdy.return %6 : tensor<4xf32>
      } : (tensor<4xf32>) -> tensor<4xf32>
      %5 = sdy.named_computation<"leaf">(%4) in_shardings=[<@m, [{"x"}]>] (%arg2: tensor<4xf32>) {
        %6 = stablehlo.tanh %arg2 : tensor<4xf32>
        sdy.return %6 : tensor<4xf32>
      } : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %5 : tensor<4xf32>
    } {mark} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = sdy.named_computation<"outer">(%0) (%arg1: tensor<4xf32>) {
      %4 = sdy.named_computation<"leaf">(%arg1) in_shardings=[<@m, [{"x"}]>] (%arg2: tensor<4xf32>) {
        %6 = stablehlo.tanh %arg2 : tensor<4xf32>
        sdy.return %6 : tensor<4xf32>
      } : (tensor<4xf32>) -> tensor<4xf32>
      %5 = sdy.named_computation<"leaf">(%4) in_shardings=[<@m, [{"x"}]>] (%arg2: tensor<4xf32>) {
        %6 = stablehlo.tanh %arg2 : tensor<4xf32>
        sdy.return %6 : tensor<4xf32>
      } : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %5 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %2 = sdy.named_computation<"leaf">(%1) in_shardings=[<@m, [{"x"}]>] (%arg1: tensor<4xf32>) {
      %4 = stablehlo.tanh %arg1 : tensor<4xf32>
      sdy.return %4 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %3 = sdy.named_computation<"once">(%2) (%arg1: tensor<4xf32>) {
      sdy.return %arg1 : tensor<4xf32>
    } {execution_thread = "side"} : (tensor<4xf32>) -> tensor<4xf32>
    return %2, %3 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @leaf_0(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %arg0 : tensor<4xf32>
  }
}
