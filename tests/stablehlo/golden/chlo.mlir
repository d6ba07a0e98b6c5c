module {
  func.func @unary(%arg0: tensor<5xf32>, %arg1: tensor<5xcomplex<f32>>) {
    %0 = chlo._asin_acos_kernel %arg1 : tensor<5xcomplex<f32>> -> tensor<5xcomplex<f32>>
    %1 = chlo.acos %arg0 : tensor<5xf32> -> tensor<5xf32>
    %2 = chlo.acosh %arg0 : tensor<5xf32> -> tensor<5xf32>
    %3 = chlo.asin %arg0 : tensor<5xf32> -> tensor<5xf32>
    %4 = chlo.asinh %arg0 : tensor<5xf32> -> tensor<5xf32>
    %5 = chlo.atan %arg0 : tensor<5xf32> -> tensor<5xf32>
    %6 = chlo.atanh %arg0 : tensor<5xf32> -> tensor<5xf32>
    %7 = chlo.bessel_i1e %arg0 : tensor<5xf32> -> tensor<5xf32>
    %8 = chlo.conj %arg1 : tensor<5xcomplex<f32>> -> tensor<5xcomplex<f32>>
    %9 = chlo.cosh %arg0 : tensor<5xf32> -> tensor<5xf32>
    %10 = chlo.digamma %arg0 : tensor<5xf32> -> tensor<5xf32>
    %11 = chlo.erf %arg0 : tensor<5xf32> -> tensor<5xf32>
    %12 = chlo.erf_inv %arg0 : tensor<5xf32> -> tensor<5xf32>
    %13 = chlo.erfc %arg0 : tensor<5xf32> -> tensor<5xf32>
    %14 = chlo.lgamma %arg0 : tensor<5xf32> -> tensor<5xf32>
    %15 = chlo.sinh %arg0 : tensor<5xf32> -> tensor<5xf32>
    %16 = chlo.square %arg0 : tensor<5xf32> -> tensor<5xf32>
    %17 = chlo.tan %arg0 : tensor<5xf32> -> tensor<5xf32>
    %18 = chlo.is_inf %arg0 : tensor<5xf32> -> tensor<5xi1>
    %19 = chlo.is_neg_inf %arg0 : tensor<5xf32> -> tensor<5xi1>
    %20 = chlo.is_pos_inf %arg0 : tensor<5xf32> -> tensor<5xi1>
    %21 = mhlo.erf %arg0 {tag} : tensor<5xf32>
    return
  }
  func.func @binary(%arg0: tensor<5xf32>, %arg1: tensor<2x5xf32>, %arg2: tensor<5xi32>, %arg3: tensor<5xi1>) {
    %0 = chlo.next_after %arg0, %arg0 : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>
    %1 = chlo.polygamma %arg0, %arg0 : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>
    %2 = chlo.zeta %arg0, %arg0 : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>
    %3 = chlo.broadcast_add %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %4 = chlo.broadcast_atan2 %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %5 = chlo.broadcast_divide %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %6 = chlo.broadcast_maximum %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %7 = chlo.broadcast_minimum %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %8 = chlo.broadcast_multiply %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %9 = chlo.broadcast_next_after %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %10 = chlo.broadcast_polygamma %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %11 = chlo.broadcast_power %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %12 = chlo.broadcast_remainder %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %13 = chlo.broadcast_subtract %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %14 = chlo.broadcast_zeta %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %15 = chlo.broadcast_and %arg2, %arg2 {broadcast_dimensions = array<i64: 0>, tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %16 = chlo.broadcast_or %arg2, %arg2 {broadcast_dimensions = array<i64: 0>, tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %17 = chlo.broadcast_xor %arg2, %arg2 {broadcast_dimensions = array<i64: 0>, tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %18 = chlo.broadcast_shift_left %arg2, %arg2 {broadcast_dimensions = array<i64: 0>, tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %19 = chlo.broadcast_shift_right_arithmetic %arg2, %arg2 {broadcast_dimensions = array<i64: 0>, tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %20 = chlo.broadcast_shift_right_logical %arg2, %arg2 {broadcast_dimensions = array<i64: 0>, tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %21 = chlo.broadcast_complex %arg0, %arg1 : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xcomplex<f32>>
    %22 = chlo.broadcast_compare %arg0, %arg1 {compare_type = #chlo<comparison_type TOTALORDER>, comparison_direction = #chlo<comparison_direction LT>} : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %23 = chlo.broadcast_select %arg3, %arg0, %arg1 : (tensor<5xi1>, tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    return
  }
  func.func @others(%arg0: tensor<5x8xf32>, %arg1: tensor<3xi64>, %arg2: tensor<3x8x2xf32>, %arg3: tensor<8xf32>) {
    %0 = chlo.constant {tag} dense<1.000000e+00> : tensor<2xf32>
    %1 = "chlo.constant_like"(%arg0) <{value = 2.000000e+00 : f32}> : (tensor<5x8xf32>) -> tensor<5x8xf32>
    %values, %indices = chlo.top_k(%arg0, k = 3) : tensor<5x8xf32> -> (tensor<5x3xf32>, tensor<5x3xi32>)
    %values_0, %indices_1 = mhlo.topk(%arg0, k = 2) {tag} : tensor<5x8xf32> -> (tensor<5x2xf32>, tensor<5x2xi32>)
    %values_2, %indices_3 = mhlo.topk(%arg0, k = 2, largest = false) : tensor<5x8xf32> -> (tensor<5x2xf32>, tensor<5x2xi32>)
    %2 = "chlo.ragged_dot"(%arg0, %arg2, %arg1) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision HIGHEST>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x8xf32>, tensor<3x8x2xf32>, tensor<3xi64>) -> tensor<5x2xf32>
    %3:2 = chlo.scan(%arg0) inits (%arg3) dimension=0  attributes {is_reverse = true} {
    ^bb0(%input: tensor<8xf32>, %carry: tensor<8xf32>):
      %4 = stablehlo.add %input, %carry : tensor<8xf32>
      stablehlo.return %4, %4 : tensor<8xf32>, tensor<8xf32>
    } : (tensor<5x8xf32>, tensor<8xf32>) -> (tensor<5x8xf32>, tensor<8xf32>)
    return
  }
}
