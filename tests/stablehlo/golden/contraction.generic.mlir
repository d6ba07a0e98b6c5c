"builtin.module"() ({
  "func.func"() <{function_type = (tensor<5x7xf32>, tensor<7x3xf32>, tensor<2x5x7xf32>, tensor<2x7x3xf32>) -> (), sym_name = "dots"}> ({
  ^bb0(%arg8: tensor<5x7xf32>, %arg9: tensor<7x3xf32>, %arg10: tensor<2x5x7xf32>, %arg11: tensor<2x7x3xf32>):
    %11 = "stablehlo.dot"(%arg8, %arg9) : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %12 = "stablehlo.dot"(%arg8, %arg9) <{precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]}> {tag} : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %13 = "stablehlo.dot_general"(%arg8, %arg9) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %14 = "stablehlo.dot_general"(%arg10, %arg11) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x5x7xf32>, tensor<2x7x3xf32>) -> tensor<2x5x3xf32>
    %15 = "stablehlo.dot_general"(%arg8, %arg9) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false>, dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %16 = "stablehlo.dot_general"(%arg8, %arg9) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = f8E5M2, rhs_precision_type = f8E5M2, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = true>, dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> {tag} : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %17 = "stablehlo.dot_general"(%arg8, %arg9) <{dot_dimension_numbers = #stablehlo.dot<>}> : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x7x7x3xf32>
    %18 = "stablehlo.einsum"(%arg8, %arg9) <{einsum_config = "ab,bc->ac"}> : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %19 = "stablehlo.unary_einsum"(%arg8) <{einsum_config = "ab->a"}> : (tensor<5x7xf32>) -> tensor<5xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x9x9x4xf32>, tensor<3x3x4x8xf32>, tensor<2x4x9x9xf32>, tensor<2x2xi32>) -> (), sym_name = "windows"}> ({
  ^bb0(%arg4: tensor<2x9x9x4xf32>, %arg5: tensor<3x3x4x8xf32>, %arg6: tensor<2x4x9x9xf32>, %arg7: tensor<2x2xi32>):
    %7 = "stablehlo.convolution"(%arg4, %arg5) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<2x9x9x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x7x7x8xf32>
    %8 = "stablehlo.convolution"(%arg4, %arg5) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 1, 0, f]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<1> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>], rhs_dilation = array<i64: 1, 1>, window_reversal = array<i1: false, true>, window_strides = array<i64: 2, 1>}> : (tensor<2x9x9x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x9x5x8xf32>
    %9 = "stablehlo.convolution"(%arg6, %arg5) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[0, 1, i, o]->[b, f, 0, 1]>, feature_group_count = 1 : i64, padding = dense<[[0, 1], [-1, 2]]> : tensor<2x2xi64>}> {mine = [1, 2.500000e+00, "x"]} : (tensor<2x4x9x9xf32>, tensor<3x3x4x8xf32>) -> tensor<2x8x8x8xf32>
    %10 = "stablehlo.dynamic_conv"(%arg4, %arg5, %arg7) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x9x9x4xf32>, tensor<3x3x4x8xf32>, tensor<2x2xi32>) -> tensor<2x?x?x8xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x4xf32>, tensor<4x2xf32>, tensor<3x9xcomplex<f32>>, tensor<3x9xf32>) -> (), sym_name = "solved"}> ({
  ^bb0(%arg0: tensor<4x4xf32>, %arg1: tensor<4x2xf32>, %arg2: tensor<3x9xcomplex<f32>>, %arg3: tensor<3x9xf32>):
    %0 = "stablehlo.cholesky"(%arg0) <{lower = true}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = "stablehlo.cholesky"(%arg0) {tag} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %3 = "stablehlo.fft"(%arg2) <{fft_length = array<i64: 9>, fft_type = #stablehlo<fft_type FFT>}> : (tensor<3x9xcomplex<f32>>) -> tensor<3x9xcomplex<f32>>
    %4 = "stablehlo.fft"(%arg3) <{fft_length = array<i64: 9>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<3x9xf32>) -> tensor<3x5xcomplex<f32>>
    %5 = "stablehlo.fft"(%4) <{fft_length = array<i64: 9>, fft_type = #stablehlo<fft_type IRFFT>}> {tag} : (tensor<3x5xcomplex<f32>>) -> tensor<3x9xf32>
    %6 = "stablehlo.fft"(%arg2) <{fft_length = array<i64: 3, 9>, fft_type = #stablehlo<fft_type IFFT>}> : (tensor<3x9xcomplex<f32>>) -> tensor<3x9xcomplex<f32>>
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
