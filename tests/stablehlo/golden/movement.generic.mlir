"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "made"}> ({
    %31 = "stablehlo.constant"() <{value = dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2xi8>
    %32 = "stablehlo.constant"() <{value = dense<2.500000e+00> : tensor<3xf16>}> {sdy.note = "kept"} : () -> tensor<3xf16>
    %33 = "stablehlo.constant"() <{value = dense<[true, false]> : tensor<2xi1>}> : () -> tensor<2xi1>
    %34 = "stablehlo.constant"() <{value = dense<> : tensor<0x4xf32>}> : () -> tensor<0x4xf32>
    %35 = "stablehlo.constant"() <{value = dense<(1.000000e+00,-1.000000e+00)> : tensor<complex<f64>>}> : () -> tensor<complex<f64>>
    %36 = "stablehlo.constant"() <{value = dense<0x7F800000> : tensor<f32>}> : () -> tensor<f32>
    %37 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<3x7xui32>
    %38 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> {tag} : () -> tensor<9xcomplex<f32>>
    %39 = "stablehlo.constant"() <{value = dense<[5, 6]> : tensor<2xi64>}> : () -> tensor<2xi64>
    %40 = "stablehlo.dynamic_iota"(%39) <{iota_dimension = 0 : i64}> : (tensor<2xi64>) -> tensor<?x6xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x3x4xf32>, tensor<i32>, tensor<3xi64>) -> (), sym_name = "shaped"}> ({
  ^bb0(%arg16: tensor<2x3x4xf32>, %arg17: tensor<i32>, %arg18: tensor<3xi64>):
    %19 = "stablehlo.reshape"(%arg16) : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
    %20 = "stablehlo.transpose"(%arg16) <{permutation = array<i64: 2, 0, 1>}> : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    %21 = "stablehlo.transpose"(%arg17) <{permutation = array<i64>}> : (tensor<i32>) -> tensor<i32>
    %22 = "stablehlo.reverse"(%arg16) <{dimensions = array<i64: 0, 2>}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    %23 = "stablehlo.bitcast_convert"(%arg16) : (tensor<2x3x4xf32>) -> tensor<2x3x4xi32>
    %24 = "stablehlo.broadcast"(%arg16) <{broadcast_sizes = array<i64: 5, 6>}> : (tensor<2x3x4xf32>) -> tensor<5x6x2x3x4xf32>
    %25 = "stablehlo.broadcast_in_dim"(%arg16) <{broadcast_dimensions = array<i64: 0, 2, 3>}> {seen = false} : (tensor<2x3x4xf32>) -> tensor<2x8x3x4xf32>
    %26 = "stablehlo.broadcast_in_dim"(%arg17) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<10xi32>
    %27 = "stablehlo.get_dimension_size"(%arg16) <{dimension = 1 : i64}> : (tensor<2x3x4xf32>) -> tensor<i32>
    %28 = "stablehlo.set_dimension_size"(%arg16, %27) <{dimension = 1 : i64}> : (tensor<2x3x4xf32>, tensor<i32>) -> tensor<2x?x4xf32, #stablehlo.bounds<?, 3, ?>>
    %29 = "stablehlo.dynamic_reshape"(%arg16, %arg18) : (tensor<2x3x4xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
    %30 = "stablehlo.dynamic_broadcast_in_dim"(%arg16, %arg18) <{broadcast_dimensions = array<i64: 0, 1, 2>, known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 1, 2>}> : (tensor<2x3x4xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<6x10xf32>, tensor<2x5xf32>, tensor<f32>, tensor<i32>, tensor<2xi32>) -> (), sym_name = "cut"}> ({
  ^bb0(%arg11: tensor<6x10xf32>, %arg12: tensor<2x5xf32>, %arg13: tensor<f32>, %arg14: tensor<i32>, %arg15: tensor<2xi32>):
    %11 = "stablehlo.slice"(%arg11) <{limit_indices = array<i64: 5, 10>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 3>}> : (tensor<6x10xf32>) -> tensor<4x4xf32>
    %12 = "stablehlo.dynamic_slice"(%arg11, %arg14, %arg14) <{slice_sizes = array<i64: 2, 5>}> : (tensor<6x10xf32>, tensor<i32>, tensor<i32>) -> tensor<2x5xf32>
    %13 = "stablehlo.dynamic_update_slice"(%arg11, %arg12, %arg14, %arg14) : (tensor<6x10xf32>, tensor<2x5xf32>, tensor<i32>, tensor<i32>) -> tensor<6x10xf32>
    %14 = "stablehlo.pad"(%arg11, %arg13) <{edge_padding_high = array<i64: 0, 2>, edge_padding_low = array<i64: 1, -1>, interior_padding = array<i64: 0, 1>}> : (tensor<6x10xf32>, tensor<f32>) -> tensor<7x20xf32>
    %15 = "stablehlo.concatenate"(%arg11, %arg11, %arg11) <{dimension = 0 : i64}> : (tensor<6x10xf32>, tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<18x10xf32>
    %16 = "stablehlo.concatenate"(%arg11) <{dimension = 1 : i64}> {alone} : (tensor<6x10xf32>) -> tensor<6x10xf32>
    %17 = "stablehlo.real_dynamic_slice"(%arg11, %arg15, %arg15, %arg15) : (tensor<6x10xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    %18 = "stablehlo.dynamic_pad"(%arg11, %arg13, %arg15, %arg15, %arg15) : (tensor<6x10xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<6x10xf32>, tensor<4x1xi32>, tensor<4x10xf32>, tensor<2xi32>) -> (), sym_name = "indexed"}> ({
  ^bb0(%arg5: tensor<6x10xf32>, %arg6: tensor<4x1xi32>, %arg7: tensor<4x10xf32>, %arg8: tensor<2xi32>):
    %6 = "stablehlo.gather"(%arg5, %arg6) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 10>}> : (tensor<6x10xf32>, tensor<4x1xi32>) -> tensor<4x10xf32>
    %7 = "stablehlo.scatter"(%arg5, %arg6, %arg7) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %10 = "stablehlo.add"(%arg9, %arg10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) : (tensor<6x10xf32>, tensor<4x1xi32>, tensor<4x10xf32>) -> tensor<6x10xf32>
    %8 = "stablehlo.dynamic_gather"(%arg5, %arg6, %arg8) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<6x10xf32>, tensor<4x1xi32>, tensor<2xi32>) -> tensor<4x?xf32>
    %9 = "stablehlo.torch_index_select"(%arg5, %arg8) <{batch_dims = 0 : i64, dim = 0 : i64}> : (tensor<6x10xf32>, tensor<2xi32>) -> tensor<2x10xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2xui64>, tensor<f32>, tensor<2xi64>) -> (), sym_name = "random"}> ({
  ^bb0(%arg2: tensor<2xui64>, %arg3: tensor<f32>, %arg4: tensor<2xi64>):
    %3 = "stablehlo.rng"(%arg3, %arg3, %arg4) <{rng_distribution = #stablehlo<rng_distribution UNIFORM>}> : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
    %4:2 = "stablehlo.rng_bit_generator"(%arg2) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
    %5:2 = "stablehlo.rng_bit_generator"(%4#0) <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x8xf32>, tensor<8xf32>) -> (), sym_name = "normed"}> ({
  ^bb0(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>):
    %0:3 = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg1) <{epsilon = 1.000000e+00 : f32, feature_index = 1 : i64}> : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
    %1:3 = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg1, %arg1, %0#0) <{epsilon = 1.000000e+00 : f32, feature_index = 1 : i64}> : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
    %2 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg1, %arg1, %1#2) <{epsilon = 1.000000e+00 : f32, feature_index = 1 : i64}> : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
