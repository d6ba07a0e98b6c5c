module {
  sdy.mesh @m = <["x"=2]>
  func.func @two_components(%arg0: tensor<4x8x5xf32>, %arg1: tensor<4x3x1xi32>) -> tensor<4x3x5xf32> {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 5>}> {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {}, {}]>]>} : (tensor<4x8x5xf32>, tensor<4x3x1xi32>) -> tensor<4x3x5xf32>
    return %0 : tensor<4x3x5xf32>
  }
  func.func @three_components(%arg0: tensor<4x8x5xf32>, %arg1: tensor<4x1xi32>, %arg2: tensor<4x1xi32>) -> tensor<4xf32> {
    %0 = stablehlo.concatenate %arg1, %arg2, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
    %1 = "stablehlo.gather"(%arg0, %0) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1, 2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1, 2], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<4x8x5xf32>, tensor<4x2xi32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func @iota_itself(%arg0: tensor<4x8x5xf32>) -> tensor<4xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<4x3xi32>
    %1 = stablehlo.slice %0 [0:4, 0:1] : (tensor<4x3xi32>) -> tensor<4x1xi32>
    %2 = stablehlo.slice %0 [0:4, 2:3] : (tensor<4x3xi32>) -> tensor<4x1xi32>
    %3 = stablehlo.concatenate %1, %2, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
    %4 = "stablehlo.gather"(%arg0, %3) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1, 2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1, 2], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<4x8x5xf32>, tensor<4x2xi32>) -> tensor<4xf32>
    return %4 : tensor<4xf32>
  }
  func.func @around_the_index(%arg0: tensor<4x8xf32>, %arg1: tensor<4x1xi32>, %arg2: tensor<4x1xi1>) -> tensor<4xf32> {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x1xi32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @scatter(%arg0: tensor<4x8xf32>, %arg1: tensor<4x1xi32>, %arg2: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %0:2 = "stablehlo.scatter"(%arg0, %arg0, %arg1, %arg2, %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<f32>):
      %1 = stablehlo.add %arg3, %arg5 : tensor<f32>
      stablehlo.return %1, %arg6 : tensor<f32>, tensor<f32>
    }) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xi32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xf32>
  }
  func.func @not_these(%arg0: tensor<4x8xf32>, %arg1: tensor<4x2xi32>, %arg2: tensor<3x1xi32>) -> (tensor<4xf32>, tensor<3xf32>, tensor<4xf32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<4xf32>
    %1 = stablehlo.iota dim = 0 : tensor<3x1xi32>
    %2 = stablehlo.concatenate %1, %arg2, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
    %3 = "stablehlo.gather"(%arg0, %2) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<3x2xi32>) -> tensor<3xf32>
    %4 = stablehlo.iota dim = 1 : tensor<4x2xi32>
    %5 = "stablehlo.gather"(%arg0, %4) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<4xf32>
    return %0, %3, %5 : tensor<4xf32>, tensor<3xf32>, tensor<4xf32>
  }
}
