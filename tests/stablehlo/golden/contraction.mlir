module {
  func.func @dots(%arg0: tensor<5x7xf32>, %arg1: tensor<7x3xf32>, %arg2: tensor<2x5x7xf32>, %arg3: tensor<2x7x3xf32>) {
    %0 = stablehlo.dot %arg0, %arg1 : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %1 = stablehlo.dot %arg0, %arg1, precision = [HIGH, DEFAULT] {tag} : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %2 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %3 = stablehlo.dot_general %arg2, %arg3, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x5x7xf32>, tensor<2x7x3xf32>) -> tensor<2x5x3xf32>
    %4 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %5 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = f8E5M2, rhs_precision_type = f8E5M2, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = true> {tag} : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %6 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [] x [] : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x7x7x3xf32>
    %7 = stablehlo.einsum %arg0, %arg1, config = "ab,bc->ac" : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
    %8 = stablehlo.unary_einsum %arg0, config = "ab->a" : (tensor<5x7xf32>) -> tensor<5xf32>
    return
  }
  func.func @windows(%arg0: tensor<2x9x9x4xf32>, %arg1: tensor<3x3x4x8xf32>, %arg2: tensor<2x4x9x9xf32>, %arg3: tensor<2x2xi32>) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x9x9x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x7x7x8xf32>
    %1 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 1, 0, f], window = {stride = [2, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]} : (tensor<2x9x9x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x9x5x8xf32>
    %2 = stablehlo.convolution(%arg2, %arg1) dim_numbers = [b, f, 0, 1]x[0, 1, i, o]->[b, f, 0, 1], window = {pad = [[0, 1], [-1, 2]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, mine = [1, 2.500000e+00, "x"]} : (tensor<2x4x9x9xf32>, tensor<3x3x4x8xf32>) -> tensor<2x8x8x8xf32>
    %3 = "stablehlo.dynamic_conv"(%arg0, %arg1, %arg3) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x9x9x4xf32>, tensor<3x3x4x8xf32>, tensor<2x2xi32>) -> tensor<2x?x?x8xf32>
    return
  }
  func.func @solved(%arg0: tensor<4x4xf32>, %arg1: tensor<4x2xf32>, %arg2: tensor<3x9xcomplex<f32>>, %arg3: tensor<3x9xf32>) {
    %0 = stablehlo.cholesky %arg0, lower = true : tensor<4x4xf32>
    %1 = stablehlo.cholesky %arg0 {tag} : tensor<4x4xf32>
    %2 = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %3 = stablehlo.fft %arg2, type = FFT, length = [9] : (tensor<3x9xcomplex<f32>>) -> tensor<3x9xcomplex<f32>>
    %4 = stablehlo.fft %arg3, type = RFFT, length = [9] : (tensor<3x9xf32>) -> tensor<3x5xcomplex<f32>>
    %5 = stablehlo.fft %4, type = IRFFT, length = [9] {tag} : (tensor<3x5xcomplex<f32>>) -> tensor<3x9xf32>
    %6 = stablehlo.fft %arg2, type = IFFT, length = [3, 9] : (tensor<3x9xcomplex<f32>>) -> tensor<3x9xcomplex<f32>>
    return
  }
}
