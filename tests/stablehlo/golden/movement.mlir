module {
  func.func @made() {
    %c = stablehlo.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>
    %cst = stablehlo.constant {sdy.note = "kept"} dense<2.500000e+00> : tensor<3xf16>
    %c_0 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %cst_1 = stablehlo.constant dense<> : tensor<0x4xf32>
    %cst_2 = stablehlo.constant dense<(1.000000e+00,-1.000000e+00)> : tensor<complex<f64>>
    %cst_3 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %0 = stablehlo.iota dim = 1 : tensor<3x7xui32>
    %1 = stablehlo.iota dim = 0 {tag} : tensor<9xcomplex<f32>>
    %c_4 = stablehlo.constant dense<[5, 6]> : tensor<2xi64>
    %2 = stablehlo.dynamic_iota %c_4, dim = 0 : (tensor<2xi64>) -> tensor<?x6xf32>
    return
  }
  func.func @shaped(%arg0: tensor<2x3x4xf32>, %arg1: tensor<i32>, %arg2: tensor<3xi64>) {
    %0 = stablehlo.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
    %1 = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    %2 = stablehlo.transpose %arg1, dims = [] : (tensor<i32>) -> tensor<i32>
    %3 = stablehlo.reverse %arg0, dims = [0, 2] : tensor<2x3x4xf32>
    %4 = stablehlo.bitcast_convert %arg0 : (tensor<2x3x4xf32>) -> tensor<2x3x4xi32>
    %5 = stablehlo.broadcast %arg0, sizes = [5, 6] : (tensor<2x3x4xf32>) -> tensor<5x6x2x3x4xf32>
    %6 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2, 3] {seen = false} : (tensor<2x3x4xf32>) -> tensor<2x8x3x4xf32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<i32>) -> tensor<10xi32>
    %8 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<2x3x4xf32>) -> tensor<i32>
    %9 = stablehlo.set_dimension_size %arg0, %8, dim = 1 : (tensor<2x3x4xf32>, tensor<i32>) -> tensor<2x?x4xf32, #stablehlo.bounds<?, 3, ?>>
    %10 = stablehlo.dynamic_reshape %arg0, %arg2 : (tensor<2x3x4xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
    %11 = stablehlo.dynamic_broadcast_in_dim %arg0, %arg2, dims = [0, 1, 2] {known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 1, 2>} : (tensor<2x3x4xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
    return
  }
  func.func @cut(%arg0: tensor<6x10xf32>, %arg1: tensor<2x5xf32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<2xi32>) {
    %0 = stablehlo.slice %arg0 [1:5, 0:10:3] : (tensor<6x10xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.dynamic_slice %arg0, %arg3, %arg3, sizes = [2, 5] : (tensor<6x10xf32>, tensor<i32>, tensor<i32>) -> tensor<2x5xf32>
    %2 = stablehlo.dynamic_update_slice %arg0, %arg1, %arg3, %arg3 : (tensor<6x10xf32>, tensor<2x5xf32>, tensor<i32>, tensor<i32>) -> tensor<6x10xf32>
    %3 = stablehlo.pad %arg0, %arg2, low = [1, -1], high = [0, 2], interior = [0, 1] : (tensor<6x10xf32>, tensor<f32>) -> tensor<7x20xf32>
    %4 = stablehlo.concatenate %arg0, %arg0, %arg0, dim = 0 : (tensor<6x10xf32>, tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<18x10xf32>
    %5 = stablehlo.concatenate %arg0, dim = 1 {alone} : (tensor<6x10xf32>) -> tensor<6x10xf32>
    %6 = stablehlo.real_dynamic_slice %arg0, %arg4, %arg4, %arg4 : (tensor<6x10xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    %7 = stablehlo.dynamic_pad %arg0, %arg2, %arg4, %arg4, %arg4 : (tensor<6x10xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    return
  }
  func.func @indexed(%arg0: tensor<6x10xf32>, %arg1: tensor<4x1xi32>, %arg2: tensor<4x10xf32>, %arg3: tensor<2xi32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 10>}> : (tensor<6x10xf32>, tensor<4x1xi32>) -> tensor<4x10xf32>
    %1 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %4 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<6x10xf32>, tensor<4x1xi32>, tensor<4x10xf32>) -> tensor<6x10xf32>
    %2 = "stablehlo.dynamic_gather"(%arg0, %arg1, %arg3) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<6x10xf32>, tensor<4x1xi32>, tensor<2xi32>) -> tensor<4x?xf32>
    %3 = "stablehlo.torch_index_select"(%arg0, %arg3) <{batch_dims = 0 : i64, dim = 0 : i64}> : (tensor<6x10xf32>, tensor<2xi32>) -> tensor<2x10xf32>
    return
  }
  func.func @random(%arg0: tensor<2xui64>, %arg1: tensor<f32>, %arg2: tensor<2xi64>) {
    %0 = stablehlo.rng %arg1, %arg1, %arg2, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
    %output_state, %output = stablehlo.rng_bit_generator %arg0, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
    %output_state_0, %output_1 = stablehlo.rng_bit_generator %output_state, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
    return
  }
  func.func @normed(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>) {
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg1) <{epsilon = 1.000000e+00 : f32, feature_index = 1 : i64}> : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
    %grad_operand, %grad_scale, %grad_offset = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg1, %arg1, %output) <{epsilon = 1.000000e+00 : f32, feature_index = 1 : i64}> : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
    %0 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg1, %arg1, %grad_offset) <{epsilon = 1.000000e+00 : f32, feature_index = 1 : i64}> : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    return
  }
}
