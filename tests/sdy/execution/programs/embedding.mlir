module @jit_gradients attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=4, "b"=2]> {stablehlo.mesh = {axes = [{name = "a", size = 4 : i64}, {name = "b", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>}, %arg1: tensor<16x4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}) -> (tensor<f32> {jax.result_info = "result[0][0]"}, tensor<32x8xf32> {jax.result_info = "result[0][1]"}, tensor<32xi32> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %1 = stablehlo.reshape %arg1 : (tensor<16x4xi32>) -> tensor<64xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %3 = stablehlo.compare LT, %1, %2, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_1 = stablehlo.constant dense<32> : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %5 = stablehlo.add %1, %4 : tensor<64xi32>
    %6 = stablehlo.select %3, %5, %1 : tensor<64xi1>, tensor<64xi32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %c_2 = stablehlo.constant dense<1> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %9 = "stablehlo.scatter"(%0, %7, %8) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>):
      %35 = stablehlo.add %arg2, %arg3 : tensor<i32>
      stablehlo.return %35 : tensor<i32>
    }) : (tensor<32xi32>, tensor<64x1xi32>, tensor<64xi32>) -> tensor<32xi32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %10 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<16x4xi32>
    %11 = stablehlo.compare LT, %arg1, %10, SIGNED : (tensor<16x4xi32>, tensor<16x4xi32>) -> tensor<16x4xi1>
    %c_4 = stablehlo.constant dense<32> : tensor<i32>
    %12 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<16x4xi32>
    %13 = stablehlo.add %arg1, %12 : tensor<16x4xi32>
    %14 = stablehlo.select %11, %13, %arg1 : tensor<16x4xi1>, tensor<16x4xi32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<16x4xi32>) -> tensor<16x4x1xi32>
    %16 = "stablehlo.gather"(%arg0, %15) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<32x8xf32>, tensor<16x4x1xi32>) -> tensor<16x4x8xf32>
    %17 = stablehlo.tanh %16 : tensor<16x4x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x4x8xf32>
    %19 = stablehlo.subtract %18, %17 : tensor<16x4x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%17 init: %cst_5) applies stablehlo.add across dimensions = [1] : (tensor<16x4x8xf32>, tensor<f32>) -> tensor<16x8xf32>
    %21 = stablehlo.multiply %20, %20 : tensor<16x8xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %23 = stablehlo.multiply %22, %20 : tensor<16x8xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %24 = stablehlo.reduce(%21 init: %cst_7) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %25 = stablehlo.divide %24, %cst_8 : tensor<f32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_10 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %26 = stablehlo.divide %cst_9, %cst_10 : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %28 = stablehlo.multiply %27, %23 : tensor<16x8xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x4x8xf32>
    %30 = stablehlo.multiply %29, %19 : tensor<16x4x8xf32>
    %31 = stablehlo.multiply %30, %17 : tensor<16x4x8xf32>
    %32 = stablehlo.add %30, %31 : tensor<16x4x8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %34 = "stablehlo.scatter"(%33, %15, %32) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %35 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %35 : tensor<f32>
    }) : (tensor<32x8xf32>, tensor<16x4x1xi32>, tensor<16x4x8xf32>) -> tensor<32x8xf32>
    return %25, %34, %9 : tensor<f32>, tensor<32x8xf32>, tensor<32xi32>
  }
}
