// sdy-constant-or-scalar-splitter
sdy.mesh @m = <["x"=2]>
func.func @shared(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} dense<1.500000e+00> : tensor<4x4xf32>
  %1 = stablehlo.iota dim = 0 : tensor<4x4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4x4xf32>
  %3 = stablehlo.multiply %2, %0 : tensor<4x4xf32>
  %4 = stablehlo.add %arg0, %3 : tensor<4x4xf32>
  %5 = stablehlo.dot %3, %arg1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = stablehlo.subtract %2, %arg1 : tensor<4x4xf32>
  return %4, %5, %6 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
func.func @groups(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  sdy.sharding_group %0 group_id=3 : tensor<4xf32>
  sdy.sharding_group %0 group_id=5 : tensor<4xf32>
  %1 = stablehlo.add %0, %arg0 : tensor<4xf32>
  %2 = stablehlo.tanh %0 : tensor<4xf32>
  sdy.sharding_group %2 group_id=4 : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
func.func @scalars(%arg0: tensor<f32>, %arg1: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
  %1 = stablehlo.add %arg0, %0 : tensor<f32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %3 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
  %4 = stablehlo.reshape %3 : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %5 = stablehlo.add %2, %arg1 : tensor<2x3xf32>
  %6 = stablehlo.add %4, %arg1 : tensor<2x3xf32>
  %7 = stablehlo.multiply %5, %2 : tensor<2x3xf32>
  %8 = stablehlo.multiply %6, %4 : tensor<2x3xf32>
  return %7, %8 : tensor<2x3xf32>, tensor<2x3xf32>
}
func.func @regions(%arg0: tensor<i1>, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.constant dense<3.000000e+00> : tensor<4xf32>
  %1 = stablehlo.constant dense<0> : tensor<i32>
  %2 = "stablehlo.case"(%1) ({
    %4 = stablehlo.add %arg1, %0 : tensor<4xf32>
    stablehlo.return %4 : tensor<4xf32>
  }, {
    stablehlo.return %0 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  %3 = sdy.named_computation<"fixed">(%0) (%arg2: tensor<4xf32>) {
    %4 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %5 = stablehlo.add %arg2, %4 : tensor<4xf32>
    sdy.return %5 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  %6 = stablehlo.add %3, %2 : tensor<4xf32>
  %7 = sdy.sharding_constraint %3 <@m, [{"x"}]> : tensor<4xf32>
  return %6, %7 : tensor<4xf32>, tensor<4xf32>
}
func.func @calls(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.constant dense<3.000000e+00> : tensor<4xf32>
  %1 = call @fixed(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @varying(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = stablehlo.add %1, %arg0 : tensor<4xf32>
  %4 = stablehlo.add %2, %1 : tensor<4xf32>
  return %1, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @fixed(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %arg0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @varying(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @unknown(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
