module {
  sdy.mesh @m = <["x"=2]>
  func.func private @helper(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}, %arg1: !stablehlo.token, %arg2: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>, !stablehlo.token) {
    %0 = sdy.func_data_flow_edge %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : tensor<4xf32>
    %1 = sdy.func_data_flow_edge %arg2 : tensor<2xf32>
    %2 = stablehlo.add %0, %0 : tensor<4xf32>
    return %2, %1, %arg1 : tensor<4xf32>, tensor<2xf32>, !stablehlo.token
  }
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<2xf32>, %arg2: !stablehlo.token) -> (tensor<4xf32>, tensor<4xf32>) {
    %0:3 = call @helper(%arg0, %arg2, %arg1) {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}]>, <@m, [{"x"}]>, <@m, []>]>} : (tensor<4xf32>, !stablehlo.token, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>, !stablehlo.token)
    %1 = sdy.func_data_flow_edge %0#0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}]>]>} : tensor<4xf32>
    %2 = sdy.func_data_flow_edge %0#1 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : tensor<2xf32>
    %3 = stablehlo.add %1, %1 : tensor<4xf32>
    return %3, %1 : tensor<4xf32>, tensor<4xf32>
  }
}
