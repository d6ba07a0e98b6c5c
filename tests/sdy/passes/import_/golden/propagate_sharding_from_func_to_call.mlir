// sdy-propagate-sharding-from-func-to-call
sdy.mesh @m = <["x"=2]>
sdy.mesh @solo = <[], device_ids=[1]>
func.func @main(%arg0: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0:2 = call @two(%arg0) : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<f32>)
  %1:2 = call @two(%0#0) {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}, {?}]>, <@m, []>]>} : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<f32>)
  %2 = call @none(%1#0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}
func.func private @two(%arg0: tensor<4x2xf32>) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}, tensor<f32>) {
  %0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  return %arg0, %0 : tensor<4x2xf32>, tensor<f32>
}
func.func private @none(%arg0: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) -> tensor<4x2xf32> {
  return %arg0 : tensor<4x2xf32>
}
