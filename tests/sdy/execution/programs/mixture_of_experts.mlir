module @jit_layer attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=8]> {stablehlo.mesh = {axes = [{name = "a", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg2: tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}, {}]>}) -> (tensor<32x8xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1, %arg2) in_shardings=[<@mesh, [{"a"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{"a"}, {}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%arg3: tensor<4x8xf32>, %arg4: tensor<8x8xf32>, %arg5: tensor<1x8x8xf32>) {
      %1 = stablehlo.dot_general %arg3, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %2 = func.call @argmax(%1) : (tensor<4x8xf32>) -> tensor<4xi32>
      %3 = func.call @_one_hot(%2) : (tensor<4xi32>) -> tensor<4x8xi32>
      %4 = func.call @cumsum(%3) : (tensor<4x8xi32>) -> tensor<4x8xi32>
      %5 = stablehlo.multiply %4, %3 : tensor<4x8xi32>
      %c = stablehlo.constant dense<0> : tensor<i32>
      %6 = stablehlo.reduce(%5 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<4x8xi32>, tensor<i32>) -> tensor<4xi32>
      %c_0 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %8 = stablehlo.subtract %6, %7 : tensor<4xi32>
      %c_1 = stablehlo.constant dense<3> : tensor<i32>
      %9 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %10 = stablehlo.compare LT, %8, %9, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x3x8xf32>
      %c_2 = stablehlo.constant dense<3> : tensor<i32>
      %12 = func.call @_where(%10, %8, %c_2) : (tensor<4xi1>, tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
      %c_3 = stablehlo.constant dense<0> : tensor<i32>
      %13 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %14 = stablehlo.compare LT, %2, %13, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %c_4 = stablehlo.constant dense<8> : tensor<i32>
      %15 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %16 = stablehlo.add %2, %15 : tensor<4xi32>
      %17 = stablehlo.select %14, %16, %2 : tensor<4xi1>, tensor<4xi32>
      %c_5 = stablehlo.constant dense<0> : tensor<i32>
      %18 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %19 = stablehlo.compare LT, %12, %18, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %c_6 = stablehlo.constant dense<3> : tensor<i32>
      %20 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %21 = stablehlo.add %12, %20 : tensor<4xi32>
      %22 = stablehlo.select %19, %21, %12 : tensor<4xi1>, tensor<4xi32>
      %23 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
      %24 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
      %25 = stablehlo.concatenate %23, %24, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
      %26 = "stablehlo.scatter"(%11, %25, %arg3) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
      ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
        stablehlo.return %arg7 : tensor<f32>
      }) : (tensor<8x3x8xf32>, tensor<4x2xi32>, tensor<4x8xf32>) -> tensor<8x3x8xf32>
      %27 = "stablehlo.all_to_all"(%26) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, split_count = 8 : i64, split_dimension = 0 : i64}> : (tensor<8x3x8xf32>) -> tensor<8x3x8xf32>
      %28 = stablehlo.reshape %27 : (tensor<8x3x8xf32>) -> tensor<24x8xf32>
      %29 = stablehlo.reshape %arg5 : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %30 = stablehlo.dot_general %28, %29, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
      %31 = func.call @relu(%30) : (tensor<24x8xf32>) -> tensor<24x8xf32>
      %32 = stablehlo.reshape %31 : (tensor<24x8xf32>) -> tensor<8x3x8xf32>
      %33 = "stablehlo.all_to_all"(%32) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, split_count = 8 : i64, split_dimension = 0 : i64}> : (tensor<8x3x8xf32>) -> tensor<8x3x8xf32>
      %34 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<4xi1>) -> tensor<4x1xi1>
      %c_7 = stablehlo.constant dense<0> : tensor<i32>
      %35 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %36 = stablehlo.compare LT, %2, %35, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %c_8 = stablehlo.constant dense<8> : tensor<i32>
      %37 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %38 = stablehlo.add %2, %37 : tensor<4xi32>
      %39 = stablehlo.select %36, %38, %2 : tensor<4xi1>, tensor<4xi32>
      %c_9 = stablehlo.constant dense<0> : tensor<i32>
      %40 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %41 = stablehlo.compare LT, %8, %40, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %c_10 = stablehlo.constant dense<3> : tensor<i32>
      %42 = stablehlo.broadcast_in_dim %c_10, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %43 = stablehlo.add %8, %42 : tensor<4xi32>
      %44 = stablehlo.select %41, %43, %8 : tensor<4xi1>, tensor<4xi32>
      %45 = stablehlo.broadcast_in_dim %39, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
      %46 = stablehlo.broadcast_in_dim %44, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
      %47 = stablehlo.concatenate %45, %46, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
      %48 = "stablehlo.gather"(%33, %47) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 8>}> : (tensor<8x3x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
      %49 = func.call @_where_1(%34, %48, %arg3) : (tensor<4x1xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      sdy.return %49 : tensor<4x8xf32>
    } : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x8xf32>) -> tensor<32x8xf32>
    return %0 : tensor<32x8xf32>
  }
  func.func private @argmax(%arg0: tensor<4x8xf32>) -> tensor<4xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<4x8xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<4x8xf32>, tensor<4x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<4xi32>
  }
  func.func private @_one_hot(%arg0: tensor<4xi32>) -> tensor<4x8xi32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x8xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<4x1xi32>) -> tensor<4x8xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x8xi32>) -> tensor<4x8xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %5 = stablehlo.convert %4 : (tensor<4x8xi1>) -> tensor<4x8xi32>
    return %5 : tensor<4x8xi32>
  }
  func.func private @cumsum(%arg0: tensor<4x8xi32>) -> tensor<4x8xi32> {
    %0 = call @cumsum_0(%arg0) : (tensor<4x8xi32>) -> tensor<4x8xi32>
    return %0 : tensor<4x8xi32>
  }
  func.func private @cumsum_0(%arg0: tensor<4x8xi32>) -> tensor<4x8xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<i32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1>, padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 4, 1>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<i32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<i32>
      stablehlo.return %2 : tensor<i32>
    }) : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
    return %1 : tensor<4x8xi32>
  }
  func.func private @_where(%arg0: tensor<4xi1>, %arg1: tensor<4xi32>, %arg2: tensor<i32>) -> tensor<4xi32> {
    %0 = stablehlo.convert %arg2 : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<4xi1>, tensor<4xi32>
    return %2 : tensor<4xi32>
  }
  func.func private @relu(%arg0: tensor<24x8xf32>) -> tensor<24x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<24x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<24x8xf32>
    return %1 : tensor<24x8xf32>
  }
  func.func private @_where_1(%arg0: tensor<4x1xi1>, %arg1: tensor<4x8xf32>, %arg2: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<4x1xi1>) -> tensor<4x8xi1>
    %1 = stablehlo.select %0, %arg1, %arg2 : tensor<4x8xi1>, tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
