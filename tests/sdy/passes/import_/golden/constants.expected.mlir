module {
  sdy.mesh @m = <["x"=2]>
  func.func @shared(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
    %0 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} dense<1.500000e+00> : tensor<4x4xf32>
    %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} dense<1.500000e+00> : tensor<4x4xf32>
    %2 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} dense<1.500000e+00> : tensor<4x4xf32>
    %3 = stablehlo.iota dim = 0 : tensor<4x4xf32>
    %4 = stablehlo.iota dim = 0 : tensor<4x4xf32>
    %5 = stablehlo.iota dim = 0 : tensor<4x4xf32>
    %6 = stablehlo.add %0, %3 : tensor<4x4xf32>
    %7 = stablehlo.add %1, %4 : tensor<4x4xf32>
    %8 = stablehlo.add %2, %5 : tensor<4x4xf32>
    %9 = stablehlo.multiply %6, %0 : tensor<4x4xf32>
    %10 = stablehlo.multiply %7, %1 : tensor<4x4xf32>
    %11 = stablehlo.add %arg0, %9 : tensor<4x4xf32>
    %12 = stablehlo.dot %10, %arg1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %13 = stablehlo.subtract %8, %arg1 : tensor<4x4xf32>
    return %11, %12, %13 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  func.func @groups(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = sdy.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
    sdy.sharding_group %0 group_id=3 : tensor<4xf32>
    sdy.sharding_group %0 group_id=5 : tensor<4xf32>
    %1 = sdy.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
    sdy.sharding_group %1 group_id=3 : tensor<4xf32>
    sdy.sharding_group %1 group_id=5 : tensor<4xf32>
    %2 = stablehlo.add %0, %arg0 : tensor<4xf32>
    %3 = stablehlo.tanh %1 : tensor<4xf32>
    sdy.sharding_group %3 group_id=4 : tensor<4xf32>
    return %2, %3 : tensor<4xf32>, tensor<4xf32>
  }
  func.func @scalars(%arg0: tensor<f32>, %arg1: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
    %0 = sdy.constant dense<2.000000e+00> : tensor<f32>
    %1 = stablehlo.add %arg0, %0 : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %4 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
    %5 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
    %6 = stablehlo.reshape %4 : (tensor<3x2xf32>) -> tensor<2x3xf32>
    %7 = stablehlo.reshape %5 : (tensor<3x2xf32>) -> tensor<2x3xf32>
    %8 = stablehlo.add %2, %arg1 : tensor<2x3xf32>
    %9 = stablehlo.add %6, %arg1 : tensor<2x3xf32>
    %10 = stablehlo.multiply %8, %3 : tensor<2x3xf32>
    %11 = stablehlo.multiply %9, %7 : tensor<2x3xf32>
    return %10, %11 : tensor<2x3xf32>, tensor<2x3xf32>
  }
  func.func @regions(%arg0: tensor<i1>, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = sdy.constant dense<3.000000e+00> : tensor<4xf32>
    %1 = sdy.constant dense<3.000000e+00> : tensor<4xf32>
    %2 = sdy.constant dense<3.000000e+00> : tensor<4xf32>
    %3 = sdy.constant dense<3.000000e+00> : tensor<4xf32>
    %4 = sdy.constant dense<0> : tensor<i32>
    %5 = "stablehlo.case"(%4) ({
      %10 = stablehlo.add %arg1, %0 : tensor<4xf32>
      stablehlo.return %10 : tensor<4xf32>
    }, {
      stablehlo.return %1 : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %6 = sdy.named_computation<"fixed">(%2) (%arg2: tensor<4xf32>) {
      %10 = sdy.constant dense<1.000000e+00> : tensor<4xf32>
      %11 = stablehlo.add %arg2, %10 : tensor<4xf32>
      sdy.return %11 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %7 = sdy.named_computation<"fixed">(%3) (%arg2: tensor<4xf32>) {
      %10 = sdy.constant dense<1.000000e+00> : tensor<4xf32>
      %11 = stablehlo.add %arg2, %10 : tensor<4xf32>
      sdy.return %11 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %8 = stablehlo.add %6, %5 : tensor<4xf32>
    %9 = sdy.sharding_constraint %7 <@m, [{"x"}]> : tensor<4xf32>
    return %8, %9 : tensor<4xf32>, tensor<4xf32>
  }
  func.func @calls(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = sdy.constant dense<3.000000e+00> : tensor<4xf32>
    %1 = sdy.constant dense<3.000000e+00> : tensor<4xf32>
    %2 = sdy.constant dense<3.000000e+00> : tensor<4xf32>
    %3 = sdy.constant dense<3.000000e+00> : tensor<4xf32>
    %4 = call @fixed_0(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %5 = call @fixed_1(%2) : (tensor<4xf32>) -> tensor<4xf32>
    %6 = call @fixed_2(%3) : (tensor<4xf32>) -> tensor<4xf32>
    %7 = call @varying(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %8 = stablehlo.add %4, %arg0 : tensor<4xf32>
    %9 = stablehlo.add %7, %5 : tensor<4xf32>
    return %6, %8, %9 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func private @fixed(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @varying(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @unknown(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @fixed_0(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {sdy.original_func_name = "fixed"} {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @fixed_1(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {sdy.original_func_name = "fixed"} {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @fixed_2(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {sdy.original_func_name = "fixed"} {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
