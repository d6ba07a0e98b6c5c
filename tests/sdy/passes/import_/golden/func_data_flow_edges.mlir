// sdy-add-func-data-flow-edges
sdy.mesh @m = <["x"=2]>
func.func private @helper(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}, %arg1: !stablehlo.token, %arg2: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>, !stablehlo.token) {
  %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
  return %0, %arg2, %arg1 : tensor<4xf32>, tensor<2xf32>, !stablehlo.token
}
func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<2xf32>, %arg2: !stablehlo.token) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:3 = call @helper(%arg0, %arg2, %arg1) {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}]>, <@m, [{"x"}]>, <@m, []>]>} : (tensor<4xf32>, !stablehlo.token, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>, !stablehlo.token)
  %1 = stablehlo.add %0#0, %0#0 : tensor<4xf32>
  return %1, %0#0 : tensor<4xf32>, tensor<4xf32>
}
