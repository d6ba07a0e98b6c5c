// CASE a gather of whole rows, cut along the rows
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}]>}, %i: tensor<4x1xi32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 6>}> {note = "kept", sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} : (tensor<8x6xf32>, tensor<4x1xi32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}]>}, %arg1: tensor<2x1xi32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 3>}> {note = "kept", sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} : (tensor<8x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}

// CASE a gather of what is cut and indexed
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x6x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {}]>}, %i: tensor<3x2xi64>) -> tensor<3x5xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 5>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<8x6x5xf32>, tensor<3x2xi64>) -> tensor<3x5xf32>
  %1 = sdy.all_reduce {"r"} %0 out_sharding=<@grid, [{}, {}]> : tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x6x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {}]>}, %arg1: tensor<3x2xi64>) -> tensor<3x5xf32> {
    %c = stablehlo.constant dense<0> : tensor<3x2xi64>
    %c_0 = stablehlo.constant dense<[5, 7]> : tensor<2xi64>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [1] : (tensor<2xi64>) -> tensor<3x2xi64>
    %1 = stablehlo.clamp %c, %arg1, %0 : tensor<3x2xi64>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %c_2 = stablehlo.constant dense<5> : tensor<i64>
    %2 = stablehlo.partition_id : tensor<ui32>
    %3 = stablehlo.convert %2 : (tensor<ui32>) -> tensor<i64>
    %c_3 = stablehlo.constant dense<[0, 0, 4, 4]> : tensor<4xi64>
    %4 = stablehlo.dynamic_slice %c_3, %3, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %5 = stablehlo.reshape %4 : (tensor<1xi64>) -> tensor<i64>
    %6 = stablehlo.convert %5 : tensor<i64>
    %c_4 = stablehlo.constant dense<3> : tensor<i64>
    %7 = stablehlo.add %6, %c_4 : tensor<i64>
    %8 = stablehlo.reshape %c_1 : (tensor<i64>) -> tensor<1xi64>
    %9 = stablehlo.reshape %6 : (tensor<i64>) -> tensor<1xi64>
    %10 = stablehlo.concatenate %8, %9, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %11 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<2xi64>) -> tensor<3x2xi64>
    %12 = stablehlo.reshape %c_2 : (tensor<i64>) -> tensor<1xi64>
    %13 = stablehlo.reshape %7 : (tensor<i64>) -> tensor<1xi64>
    %14 = stablehlo.concatenate %12, %13, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<2xi64>) -> tensor<3x2xi64>
    %16 = stablehlo.subtract %1, %11 : tensor<3x2xi64>
    %17 = stablehlo.compare GE, %1, %11 : (tensor<3x2xi64>, tensor<3x2xi64>) -> tensor<3x2xi1>
    %18 = stablehlo.compare LE, %1, %15 : (tensor<3x2xi64>, tensor<3x2xi64>) -> tensor<3x2xi1>
    %19 = stablehlo.and %17, %18 : tensor<3x2xi1>
    %20 = "stablehlo.gather"(%arg0, %16) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 5>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<4x6x5xf32>, tensor<3x2xi64>) -> tensor<3x5xf32>
    %c_5 = stablehlo.constant dense<true> : tensor<i1>
    %21 = stablehlo.reduce(%19 init: %c_5) applies stablehlo.and across dimensions = [1] : (tensor<3x2xi1>, tensor<i1>) -> tensor<3xi1>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0] : (tensor<3xi1>) -> tensor<3x5xi1>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<3x5xf32>
    %23 = stablehlo.select %22, %20, %cst : tensor<3x5xi1>, tensor<3x5xf32>
    %24 = "stablehlo.all_reduce"(%23) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %25 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %25 : tensor<f32>
    }) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    return %24 : tensor<3x5xf32>
  }
}

// CASE a gather of what is cut and not indexed, too
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x6xi32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, %i: tensor<3xi64>, %j: tensor<3x0xi64>) -> (tensor<3xi32>, tensor<3xi32>) {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<8x6xi32>, tensor<3xi64>) -> tensor<3xi32>
  %1 = sdy.all_reduce {"r", "c"} %0 out_sharding=<@grid, [{}]> : tensor<3xi32>
  %2 = "stablehlo.gather"(%a, %j) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<8x6xi32>, tensor<3x0xi64>) -> tensor<3xi32>
  %3 = sdy.all_reduce {"r", "c"} %2 out_sharding=<@grid, [{}]> : tensor<3xi32>
  return %1, %3 : tensor<3xi32>, tensor<3xi32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x3xi32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, %arg1: tensor<3xi64>, %arg2: tensor<3x0xi64>) -> (tensor<3xi32>, tensor<3xi32>) {
    %c = stablehlo.constant dense<0> : tensor<3xi64>
    %c_0 = stablehlo.constant dense<5> : tensor<3xi64>
    %0 = stablehlo.clamp %c, %arg1, %c_0 : tensor<3xi64>
    %1 = stablehlo.partition_id : tensor<ui32>
    %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<i64>
    %c_1 = stablehlo.constant dense<[0, 3, 0, 3]> : tensor<4xi64>
    %3 = stablehlo.dynamic_slice %c_1, %2, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %4 = stablehlo.reshape %3 : (tensor<1xi64>) -> tensor<i64>
    %5 = stablehlo.convert %4 : tensor<i64>
    %c_2 = stablehlo.constant dense<2> : tensor<i64>
    %6 = stablehlo.add %5, %c_2 : tensor<i64>
    %7 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<i64>) -> tensor<3xi64>
    %8 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<i64>) -> tensor<3xi64>
    %9 = stablehlo.subtract %0, %7 : tensor<3xi64>
    %10 = stablehlo.compare GE, %0, %7 : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %11 = stablehlo.compare LE, %0, %8 : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %12 = stablehlo.and %10, %11 : tensor<3xi1>
    %13 = stablehlo.partition_id : tensor<ui32>
    %14 = stablehlo.convert %13 : (tensor<ui32>) -> tensor<i64>
    %c_3 = stablehlo.constant dense<[0, 0, 4, 4]> : tensor<4xi64>
    %15 = stablehlo.dynamic_slice %c_3, %14, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %16 = stablehlo.reshape %15 : (tensor<1xi64>) -> tensor<i64>
    %c_4 = stablehlo.constant dense<0> : tensor<i64>
    %17 = stablehlo.compare EQ, %16, %c_4 : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %18 = stablehlo.broadcast_in_dim %17, dims = [] : (tensor<i1>) -> tensor<3xi1>
    %19 = stablehlo.and %12, %18 : tensor<3xi1>
    %20 = "stablehlo.gather"(%arg0, %9) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<4x3xi32>, tensor<3xi64>) -> tensor<3xi32>
    %21 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<3xi1>) -> tensor<3xi1>
    %c_5 = stablehlo.constant dense<0> : tensor<3xi32>
    %22 = stablehlo.select %21, %20, %c_5 : tensor<3xi1>, tensor<3xi32>
    %23 = "stablehlo.all_reduce"(%22) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<i32>):
      %39 = stablehlo.add %arg3, %arg4 : tensor<i32>
      stablehlo.return %39 : tensor<i32>
    }) : (tensor<3xi32>) -> tensor<3xi32>
    %24 = stablehlo.partition_id : tensor<ui32>
    %25 = stablehlo.convert %24 : (tensor<ui32>) -> tensor<i64>
    %c_6 = stablehlo.constant dense<[0, 0, 4, 4]> : tensor<4xi64>
    %26 = stablehlo.dynamic_slice %c_6, %25, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %27 = stablehlo.reshape %26 : (tensor<1xi64>) -> tensor<i64>
    %c_7 = stablehlo.constant dense<0> : tensor<i64>
    %28 = stablehlo.compare EQ, %27, %c_7 : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %29 = stablehlo.partition_id : tensor<ui32>
    %30 = stablehlo.convert %29 : (tensor<ui32>) -> tensor<i64>
    %c_8 = stablehlo.constant dense<[0, 3, 0, 3]> : tensor<4xi64>
    %31 = stablehlo.dynamic_slice %c_8, %30, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %32 = stablehlo.reshape %31 : (tensor<1xi64>) -> tensor<i64>
    %c_9 = stablehlo.constant dense<0> : tensor<i64>
    %33 = stablehlo.compare EQ, %32, %c_9 : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %34 = stablehlo.and %28, %33 : tensor<i1>
    %35 = "stablehlo.gather"(%arg0, %arg2) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<4x3xi32>, tensor<3x0xi64>) -> tensor<3xi32>
    %36 = stablehlo.broadcast_in_dim %34, dims = [] : (tensor<i1>) -> tensor<3xi1>
    %c_10 = stablehlo.constant dense<0> : tensor<3xi32>
    %37 = stablehlo.select %36, %35, %c_10 : tensor<3xi1>, tensor<3xi32>
    %38 = "stablehlo.all_reduce"(%37) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<i32>):
      %39 = stablehlo.add %arg3, %arg4 : tensor<i32>
      stablehlo.return %39 : tensor<i32>
    }) : (tensor<3xi32>) -> tensor<3xi32>
    return %23, %38 : tensor<3xi32>, tensor<3xi32>
  }
}

// CASE a gather with 32-bit indices of two dimensions, on which Shardy crashes
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %i: tensor<3x2xi32>) -> tensor<3xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<8x6xf32>, tensor<3x2xi32>) -> tensor<3xf32>
  %1 = sdy.all_reduce {"r"} %0 out_sharding=<@grid, [{}]> : tensor<3xf32>
  return %1 : tensor<3xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %arg1: tensor<3x2xi32>) -> tensor<3xf32> {
    %c = stablehlo.constant dense<0> : tensor<3x2xi32>
    %c_0 = stablehlo.constant dense<[7, 5]> : tensor<2xi32>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [1] : (tensor<2xi32>) -> tensor<3x2xi32>
    %1 = stablehlo.clamp %c, %arg1, %0 : tensor<3x2xi32>
    %2 = stablehlo.partition_id : tensor<ui32>
    %3 = stablehlo.convert %2 : (tensor<ui32>) -> tensor<i64>
    %c_1 = stablehlo.constant dense<[0, 0, 4, 4]> : tensor<4xi64>
    %4 = stablehlo.dynamic_slice %c_1, %3, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %5 = stablehlo.reshape %4 : (tensor<1xi64>) -> tensor<i64>
    %6 = stablehlo.convert %5 : (tensor<i64>) -> tensor<i32>
    %c_2 = stablehlo.constant dense<3> : tensor<i32>
    %7 = stablehlo.add %6, %c_2 : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<5> : tensor<i32>
    %8 = stablehlo.reshape %6 : (tensor<i32>) -> tensor<1xi32>
    %9 = stablehlo.reshape %c_3 : (tensor<i32>) -> tensor<1xi32>
    %10 = stablehlo.concatenate %8, %9, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<2xi32>) -> tensor<3x2xi32>
    %12 = stablehlo.reshape %7 : (tensor<i32>) -> tensor<1xi32>
    %13 = stablehlo.reshape %c_4 : (tensor<i32>) -> tensor<1xi32>
    %14 = stablehlo.concatenate %12, %13, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<2xi32>) -> tensor<3x2xi32>
    %16 = stablehlo.subtract %1, %11 : tensor<3x2xi32>
    %17 = stablehlo.compare GE, %1, %11 : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
    %18 = stablehlo.compare LE, %1, %15 : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
    %19 = stablehlo.and %17, %18 : tensor<3x2xi1>
    %20 = "stablehlo.gather"(%arg0, %16) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<4x6xf32>, tensor<3x2xi32>) -> tensor<3xf32>
    %c_5 = stablehlo.constant dense<true> : tensor<i1>
    %21 = stablehlo.reduce(%19 init: %c_5) applies stablehlo.and across dimensions = [1] : (tensor<3x2xi1>, tensor<i1>) -> tensor<3xi1>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0] : (tensor<3xi1>) -> tensor<3xi1>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
    %23 = stablehlo.select %22, %20, %cst : tensor<3xi1>, tensor<3xf32>
    %24 = "stablehlo.all_reduce"(%23) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %25 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %25 : tensor<f32>
    }) : (tensor<3xf32>) -> tensor<3xf32>
    return %24 : tensor<3xf32>
  }
}

// CASE a scatter into what is cut
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x6x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}, %i: tensor<3x2xi32>, %u: tensor<3x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}]>}) -> (tensor<8x6x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}) {
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) {note = "kept", sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}, {"c"}]>]>} : (tensor<8x6x4xf32>, tensor<3x2xi32>, tensor<3x4xf32>) -> tensor<8x6x4xf32>
  return %0 : tensor<8x6x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x6x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}, %arg1: tensor<3x2xi32>, %arg2: tensor<3x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}]>}) -> (tensor<4x6x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}) {
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[0, 0, 4, 4]> : tensor<4xi64>
    %2 = stablehlo.dynamic_slice %c, %1, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %3 = stablehlo.reshape %2 : (tensor<1xi64>) -> tensor<i64>
    %4 = stablehlo.convert %3 : (tensor<i64>) -> tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.reshape %4 : (tensor<i32>) -> tensor<1xi32>
    %6 = stablehlo.reshape %c_0 : (tensor<i32>) -> tensor<1xi32>
    %7 = stablehlo.concatenate %5, %6, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<2xi32>) -> tensor<3x2xi32>
    %9 = stablehlo.subtract %arg1, %8 : tensor<3x2xi32>
    %10 = "stablehlo.scatter"(%arg0, %9, %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      stablehlo.return %arg4 : tensor<f32>
    }) {note = "kept", sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}, {"c"}]>]>} : (tensor<4x6x2xf32>, tensor<3x2xi32>, tensor<3x2xf32>) -> tensor<4x6x2xf32>
    return %10 : tensor<4x6x2xf32>
  }
}

// CASE a scatter of updates that are cut, as Shardy adds up
// PASSES sdy-convert-global-to-local{fix-wrong-results=false}
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>, %i: tensor<6x1xi64> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}, %u: tensor<6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%w: tensor<f32>, %x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>):
    %3 = stablehlo.maximum %w, %y : tensor<f32>
    %4 = stablehlo.maximum %x, %z : tensor<f32>
    stablehlo.return %3, %4 : tensor<f32>, tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>, <@grid, [{}]>]>} : (tensor<8xf32>, tensor<8xf32>, tensor<6x1xi64>, tensor<6xf32>, tensor<6xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %1 = sdy.all_reduce {"c"} %0#0 out_sharding=<@grid, [{}]> : tensor<8xf32>
  %2 = sdy.all_reduce {"c"} %0#1 out_sharding=<@grid, [{}]> : tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<3x1xi64> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}, %arg3: tensor<3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
    %cst = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[true, false, true, false]> : tensor<4xi1>
    %2 = stablehlo.dynamic_slice %c, %1, sizes = [1] : (tensor<4xi1>, tensor<i64>) -> tensor<1xi1>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<1xi1>) -> tensor<8xi1>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %5 = stablehlo.select %3, %arg0, %4 : tensor<8xi1>, tensor<8xf32>
    %6 = stablehlo.select %3, %arg1, %4 : tensor<8xi1>, tensor<8xf32>
    %7:2 = "stablehlo.scatter"(%5, %6, %arg2, %arg3, %arg3) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<f32>, %arg7: tensor<f32>):
      %10 = stablehlo.maximum %arg4, %arg6 : tensor<f32>
      %11 = stablehlo.maximum %arg5, %arg7 : tensor<f32>
      stablehlo.return %10, %11 : tensor<f32>, tensor<f32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>, <@grid, [{}]>]>} : (tensor<8xf32>, tensor<8xf32>, tensor<3x1xi64>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %8 = "stablehlo.all_reduce"(%7#0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %10 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %10 : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %9 = "stablehlo.all_reduce"(%7#1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %10 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %10 : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %8, %9 : tensor<8xf32>, tensor<8xf32>
  }
}
