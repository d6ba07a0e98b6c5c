"builtin.module"() ({
  "func.func"() <{function_type = (tensor<5xf32>, tensor<5xcomplex<f32>>) -> (), sym_name = "unary"}> ({
  ^bb0(%arg10: tensor<5xf32>, %arg11: tensor<5xcomplex<f32>>):
    %32 = "chlo._asin_acos_kernel"(%arg11) : (tensor<5xcomplex<f32>>) -> tensor<5xcomplex<f32>>
    %33 = "chlo.acos"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %34 = "chlo.acosh"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %35 = "chlo.asin"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %36 = "chlo.asinh"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %37 = "chlo.atan"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %38 = "chlo.atanh"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %39 = "chlo.bessel_i1e"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %40 = "chlo.conj"(%arg11) : (tensor<5xcomplex<f32>>) -> tensor<5xcomplex<f32>>
    %41 = "chlo.cosh"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %42 = "chlo.digamma"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %43 = "chlo.erf"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %44 = "chlo.erf_inv"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %45 = "chlo.erfc"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %46 = "chlo.lgamma"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %47 = "chlo.sinh"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %48 = "chlo.square"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %49 = "chlo.tan"(%arg10) : (tensor<5xf32>) -> tensor<5xf32>
    %50 = "chlo.is_inf"(%arg10) : (tensor<5xf32>) -> tensor<5xi1>
    %51 = "chlo.is_neg_inf"(%arg10) : (tensor<5xf32>) -> tensor<5xi1>
    %52 = "chlo.is_pos_inf"(%arg10) : (tensor<5xf32>) -> tensor<5xi1>
    %53 = "mhlo.erf"(%arg10) {tag} : (tensor<5xf32>) -> tensor<5xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xf32>, tensor<2x5xf32>, tensor<5xi32>, tensor<5xi1>) -> (), sym_name = "binary"}> ({
  ^bb0(%arg6: tensor<5xf32>, %arg7: tensor<2x5xf32>, %arg8: tensor<5xi32>, %arg9: tensor<5xi1>):
    %8 = "chlo.next_after"(%arg6, %arg6) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %9 = "chlo.polygamma"(%arg6, %arg6) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %10 = "chlo.zeta"(%arg6, %arg6) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %11 = "chlo.broadcast_add"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %12 = "chlo.broadcast_atan2"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %13 = "chlo.broadcast_divide"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %14 = "chlo.broadcast_maximum"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %15 = "chlo.broadcast_minimum"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %16 = "chlo.broadcast_multiply"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %17 = "chlo.broadcast_next_after"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %18 = "chlo.broadcast_polygamma"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %19 = "chlo.broadcast_power"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %20 = "chlo.broadcast_remainder"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %21 = "chlo.broadcast_subtract"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %22 = "chlo.broadcast_zeta"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    %23 = "chlo.broadcast_and"(%arg8, %arg8) <{broadcast_dimensions = array<i64: 0>}> {tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %24 = "chlo.broadcast_or"(%arg8, %arg8) <{broadcast_dimensions = array<i64: 0>}> {tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %25 = "chlo.broadcast_xor"(%arg8, %arg8) <{broadcast_dimensions = array<i64: 0>}> {tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %26 = "chlo.broadcast_shift_left"(%arg8, %arg8) <{broadcast_dimensions = array<i64: 0>}> {tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %27 = "chlo.broadcast_shift_right_arithmetic"(%arg8, %arg8) <{broadcast_dimensions = array<i64: 0>}> {tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %28 = "chlo.broadcast_shift_right_logical"(%arg8, %arg8) <{broadcast_dimensions = array<i64: 0>}> {tag} : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %29 = "chlo.broadcast_complex"(%arg6, %arg7) : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xcomplex<f32>>
    %30 = "chlo.broadcast_compare"(%arg6, %arg7) <{compare_type = #chlo<comparison_type TOTALORDER>, comparison_direction = #chlo<comparison_direction LT>}> : (tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %31 = "chlo.broadcast_select"(%arg9, %arg6, %arg7) : (tensor<5xi1>, tensor<5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5x8xf32>, tensor<3xi64>, tensor<3x8x2xf32>, tensor<8xf32>) -> (), sym_name = "others"}> ({
  ^bb0(%arg0: tensor<5x8xf32>, %arg1: tensor<3xi64>, %arg2: tensor<3x8x2xf32>, %arg3: tensor<8xf32>):
    %0 = "chlo.constant"() <{value = dense<1.000000e+00> : tensor<2xf32>}> {tag} : () -> tensor<2xf32>
    %1 = "chlo.constant_like"(%arg0) <{value = 2.000000e+00 : f32}> : (tensor<5x8xf32>) -> tensor<5x8xf32>
    %2:2 = "chlo.top_k"(%arg0) <{k = 3 : i64}> : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi32>)
    %3:2 = "mhlo.topk"(%arg0) <{k = 2 : i64}> {tag} : (tensor<5x8xf32>) -> (tensor<5x2xf32>, tensor<5x2xi32>)
    %4:2 = "mhlo.topk"(%arg0) <{k = 2 : i64, largest = false}> : (tensor<5x8xf32>) -> (tensor<5x2xf32>, tensor<5x2xi32>)
    %5 = "chlo.ragged_dot"(%arg0, %arg2, %arg1) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision HIGHEST>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x8xf32>, tensor<3x8x2xf32>, tensor<3xi64>) -> tensor<5x2xf32>
    %6:2 = "chlo.scan"(%arg0, %arg3) <{dimension = 0 : i64, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%arg4: tensor<8xf32>, %arg5: tensor<8xf32>):
      %7 = "stablehlo.add"(%arg4, %arg5) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      "stablehlo.return"(%7, %7) : (tensor<8xf32>, tensor<8xf32>) -> ()
    }) : (tensor<5x8xf32>, tensor<8xf32>) -> (tensor<5x8xf32>, tensor<8xf32>)
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
