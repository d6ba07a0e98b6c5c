module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]> {stablehlo.mesh = {axes = [{name = "a", size = 2 : i64}, {name = "b", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<16x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"b"}]>}, %arg1: tensor<8x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"b"}]>}, %arg2: tensor<5x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}, {}]>}) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<16x4x16xf32> {jax.result_info = "result[1]['h']"}, tensor<8x4x16xf32> {jax.result_info = "result[1]['x']"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<5x3x8x16xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %12:17 = stablehlo.while(%iterArg = %arg2, %iterArg_23 = %arg1, %iterArg_24 = %arg0, %iterArg_25 = %c, %iterArg_26 = %0, %iterArg_27 = %0, %iterArg_28 = %1, %iterArg_29 = %2, %iterArg_30 = %3, %iterArg_31 = %4, %iterArg_32 = %5, %iterArg_33 = %6, %iterArg_34 = %7, %iterArg_35 = %8, %iterArg_36 = %9, %iterArg_37 = %10, %iterArg_38 = %11) : tensor<5x8x8xf32>, tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x3x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>
    cond {
      %c_39 = stablehlo.constant dense<5> : tensor<i32>
      %28 = stablehlo.compare LT, %iterArg_25, %c_39, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %28 : tensor<i1>
    } do {
      %28 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_25) : (tensor<5x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %29:13 = func.call @closed_call(%iterArg_23, %iterArg_24, %iterArg_26, %iterArg_27, %28) : (tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x8xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<3x8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>)
      %30 = func.call @dynamic_update_index_in_dim(%iterArg_28, %29#2, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %31 = func.call @dynamic_update_index_in_dim(%iterArg_29, %29#3, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %32 = func.call @dynamic_update_index_in_dim_0(%iterArg_30, %29#4, %iterArg_25) : (tensor<5x3x8x16xf32>, tensor<3x8x16xf32>, tensor<i32>) -> tensor<5x3x8x16xf32>
      %33 = func.call @dynamic_update_index_in_dim(%iterArg_31, %29#5, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %34 = func.call @dynamic_update_index_in_dim(%iterArg_32, %29#6, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %35 = func.call @dynamic_update_index_in_dim(%iterArg_33, %29#7, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %36 = func.call @dynamic_update_index_in_dim(%iterArg_34, %29#8, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %37 = func.call @dynamic_update_index_in_dim(%iterArg_35, %29#9, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %38 = func.call @dynamic_update_index_in_dim(%iterArg_36, %29#10, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %39 = func.call @dynamic_update_index_in_dim(%iterArg_37, %29#11, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %40 = func.call @dynamic_update_index_in_dim(%iterArg_38, %29#12, %iterArg_25) : (tensor<5x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<5x8x16xf32>
      %c_39 = stablehlo.constant dense<1> : tensor<i32>
      %41 = stablehlo.add %iterArg_25, %c_39 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_23, %iterArg_24, %41, %29#0, %29#1, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40 : tensor<5x8x8xf32>, tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x3x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>
    }
    %13 = stablehlo.multiply %12#6, %12#6 : tensor<5x8x16xf32>
    %cst_11 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %15 = stablehlo.multiply %14, %12#6 : tensor<5x8x16xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%13 init: %cst_12) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<5x8x16xf32>, tensor<f32>) -> tensor<f32>
    %cst_13 = stablehlo.constant dense<6.400000e+02> : tensor<f32>
    %17 = stablehlo.divide %16, %cst_13 : tensor<f32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_17 = stablehlo.constant dense<6.400000e+02> : tensor<f32>
    %20 = stablehlo.divide %cst_16, %cst_17 : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [] : (tensor<f32>) -> tensor<5x8x16xf32>
    %22 = stablehlo.multiply %21, %15 : tensor<5x8x16xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<8x4x16xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<16x4x16xf32>
    %c_22 = stablehlo.constant dense<0> : tensor<i32>
    %27:18 = stablehlo.while(%iterArg = %22, %iterArg_23 = %arg2, %iterArg_24 = %12#7, %iterArg_25 = %12#8, %iterArg_26 = %12#9, %iterArg_27 = %12#10, %iterArg_28 = %12#11, %iterArg_29 = %12#12, %iterArg_30 = %12#13, %iterArg_31 = %12#14, %iterArg_32 = %12#15, %iterArg_33 = %12#16, %iterArg_34 = %arg0, %iterArg_35 = %c_22, %iterArg_36 = %25, %iterArg_37 = %26, %iterArg_38 = %23, %iterArg_39 = %24) : tensor<5x8x16xf32>, tensor<5x8x8xf32>, tensor<5x8x16xf32>, tensor<5x3x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<16x4x16xf32>, tensor<i32>, tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
    cond {
      %c_40 = stablehlo.constant dense<5> : tensor<i32>
      %28 = stablehlo.compare LT, %iterArg_35, %c_40, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %28 : tensor<i1>
    } do {
      %c_40 = stablehlo.constant dense<5> : tensor<i32>
      %28 = stablehlo.subtract %c_40, %iterArg_35 : tensor<i32>
      %c_41 = stablehlo.constant dense<1> : tensor<i32>
      %29 = stablehlo.subtract %28, %c_41 : tensor<i32>
      %30 = func.call @dynamic_index_in_dim_1(%iterArg, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %31 = func.call @dynamic_index_in_dim(%iterArg_23, %29) : (tensor<5x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %32 = func.call @dynamic_index_in_dim_1(%iterArg_24, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %33 = func.call @dynamic_index_in_dim_2(%iterArg_25, %29) : (tensor<5x3x8x16xf32>, tensor<i32>) -> tensor<3x8x16xf32>
      %34 = func.call @dynamic_index_in_dim_1(%iterArg_26, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %35 = func.call @dynamic_index_in_dim_1(%iterArg_27, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %36 = func.call @dynamic_index_in_dim_1(%iterArg_28, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %37 = func.call @dynamic_index_in_dim_1(%iterArg_29, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %38 = func.call @dynamic_index_in_dim_1(%iterArg_30, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %39 = func.call @dynamic_index_in_dim_1(%iterArg_31, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %40 = func.call @dynamic_index_in_dim_1(%iterArg_32, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %41 = func.call @dynamic_index_in_dim_1(%iterArg_33, %29) : (tensor<5x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %42:4 = func.call @closed_call_3(%iterArg_34, %iterArg_36, %iterArg_37, %iterArg_38, %iterArg_39, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41) : (tensor<16x4x16xf32>, tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x16xf32>, tensor<3x8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> (tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>)
      %c_42 = stablehlo.constant dense<1> : tensor<i32>
      %43 = stablehlo.add %iterArg_35, %c_42 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_23, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %iterArg_29, %iterArg_30, %iterArg_31, %iterArg_32, %iterArg_33, %iterArg_34, %43, %42#0, %42#1, %42#2, %42#3 : tensor<5x8x16xf32>, tensor<5x8x8xf32>, tensor<5x8x16xf32>, tensor<5x3x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<5x8x16xf32>, tensor<16x4x16xf32>, tensor<i32>, tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
    }
    return %17, %27#15, %27#14 : tensor<f32>, tensor<16x4x16xf32>, tensor<8x4x16xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<5x8x8xf32>, %arg1: tensor<i32>) -> tensor<8x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 8] : (tensor<5x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
  func.func private @closed_call(%arg0: tensor<8x4x16xf32>, %arg1: tensor<16x4x16xf32>, %arg2: tensor<8x16xf32>, %arg3: tensor<8x16xf32>, %arg4: tensor<8x8xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<3x8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [0] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x16xf32>, tensor<8x8xf32>) -> tensor<4x16x8xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<4x16x8xf32>) -> tensor<4x8x16xf32>
    %2 = stablehlo.dot_general %arg1, %arg2, contracting_dims = [0] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x4x16xf32>, tensor<8x16xf32>) -> tensor<4x16x8xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<4x16x8xf32>) -> tensor<4x8x16xf32>
    %4 = stablehlo.add %1, %3 : tensor<4x8x16xf32>
    %5 = stablehlo.slice %4 [0:3, 0:8, 0:16] : (tensor<4x8x16xf32>) -> tensor<3x8x16xf32>
    %6 = stablehlo.negate %5 : tensor<3x8x16xf32>
    %7 = stablehlo.exponential %6 : tensor<3x8x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x8x16xf32>
    %9 = stablehlo.add %8, %7 : tensor<3x8x16xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x8x16xf32>
    %11 = stablehlo.divide %10, %9 : tensor<3x8x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x8x16xf32>
    %13 = stablehlo.subtract %12, %11 : tensor<3x8x16xf32>
    %14 = stablehlo.multiply %11, %13 : tensor<3x8x16xf32>
    %15 = stablehlo.slice %11 [0:1, 0:8, 0:16] : (tensor<3x8x16xf32>) -> tensor<1x8x16xf32>
    %16 = stablehlo.reshape %15 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
    %17 = stablehlo.slice %11 [1:2, 0:8, 0:16] : (tensor<3x8x16xf32>) -> tensor<1x8x16xf32>
    %18 = stablehlo.reshape %17 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
    %19 = stablehlo.slice %11 [2:3, 0:8, 0:16] : (tensor<3x8x16xf32>) -> tensor<1x8x16xf32>
    %20 = stablehlo.reshape %19 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
    %21 = stablehlo.multiply %18, %arg3 : tensor<8x16xf32>
    %22 = stablehlo.slice %4 [3:4, 0:8, 0:16] : (tensor<4x8x16xf32>) -> tensor<1x8x16xf32>
    %23 = stablehlo.reshape %22 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
    %24 = stablehlo.tanh %23 : tensor<8x16xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %26 = stablehlo.subtract %25, %24 : tensor<8x16xf32>
    %27 = stablehlo.multiply %16, %24 : tensor<8x16xf32>
    %28 = stablehlo.add %21, %27 : tensor<8x16xf32>
    %29 = stablehlo.tanh %28 : tensor<8x16xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %31 = stablehlo.subtract %30, %29 : tensor<8x16xf32>
    %32 = stablehlo.multiply %20, %29 : tensor<8x16xf32>
    return %32, %28, %32, %arg2, %14, %arg3, %18, %24, %26, %16, %29, %31, %20 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<3x8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<5x8x16xf32>, %arg1: tensor<8x16xf32>, %arg2: tensor<i32>) -> tensor<5x8x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<5x8x16xf32>, tensor<1x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x8x16xf32>
    return %1 : tensor<5x8x16xf32>
  }
  func.func private @dynamic_update_index_in_dim_0(%arg0: tensor<5x3x8x16xf32>, %arg1: tensor<3x8x16xf32>, %arg2: tensor<i32>) -> tensor<5x3x8x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<5x3x8x16xf32>, tensor<1x3x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x3x8x16xf32>
    return %1 : tensor<5x3x8x16xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<5x8x16xf32>, %arg1: tensor<i32>) -> tensor<8x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 16] : (tensor<5x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<5x3x8x16xf32>, %arg1: tensor<i32>) -> tensor<3x8x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 3, 8, 16] : (tensor<5x3x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x8x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x8x16xf32>) -> tensor<3x8x16xf32>
    return %1 : tensor<3x8x16xf32>
  }
  func.func private @closed_call_3(%arg0: tensor<16x4x16xf32>, %arg1: tensor<8x4x16xf32>, %arg2: tensor<16x4x16xf32>, %arg3: tensor<8x16xf32>, %arg4: tensor<8x16xf32>, %arg5: tensor<8x16xf32>, %arg6: tensor<8x8xf32>, %arg7: tensor<8x16xf32>, %arg8: tensor<3x8x16xf32>, %arg9: tensor<8x16xf32>, %arg10: tensor<8x16xf32>, %arg11: tensor<8x16xf32>, %arg12: tensor<8x16xf32>, %arg13: tensor<8x16xf32>, %arg14: tensor<8x16xf32>, %arg15: tensor<8x16xf32>, %arg16: tensor<8x16xf32>) -> (tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
    %0 = stablehlo.add %arg3, %arg5 : tensor<8x16xf32>
    %1 = stablehlo.multiply %arg16, %0 : tensor<8x16xf32>
    %2 = stablehlo.multiply %0, %arg14 : tensor<8x16xf32>
    %3 = stablehlo.multiply %1, %arg15 : tensor<8x16xf32>
    %4 = stablehlo.add %arg4, %3 : tensor<8x16xf32>
    %5 = stablehlo.multiply %3, %arg14 : tensor<8x16xf32>
    %6 = stablehlo.add %4, %5 : tensor<8x16xf32>
    %7 = stablehlo.multiply %arg13, %6 : tensor<8x16xf32>
    %8 = stablehlo.multiply %6, %arg11 : tensor<8x16xf32>
    %9 = stablehlo.multiply %7, %arg12 : tensor<8x16xf32>
    %10 = stablehlo.multiply %9, %arg11 : tensor<8x16xf32>
    %11 = stablehlo.add %9, %10 : tensor<8x16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.pad %12, %cst, low = [3, 0, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<4x8x16xf32>
    %14 = stablehlo.multiply %arg10, %6 : tensor<8x16xf32>
    %15 = stablehlo.multiply %6, %arg9 : tensor<8x16xf32>
    %16 = stablehlo.broadcast_in_dim %2, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.pad %16, %cst_0, low = [2, 0, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<3x8x16xf32>
    %18 = stablehlo.broadcast_in_dim %15, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.pad %18, %cst_1, low = [1, 0, 0], high = [1, 0, 0], interior = [0, 0, 0] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<3x8x16xf32>
    %20 = stablehlo.add %17, %19 : tensor<3x8x16xf32>
    %21 = stablehlo.broadcast_in_dim %8, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.pad %21, %cst_2, low = [0, 0, 0], high = [2, 0, 0], interior = [0, 0, 0] : (tensor<1x8x16xf32>, tensor<f32>) -> tensor<3x8x16xf32>
    %23 = stablehlo.add %20, %22 : tensor<3x8x16xf32>
    %24 = stablehlo.multiply %23, %arg8 : tensor<3x8x16xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %25 = stablehlo.pad %24, %cst_3, low = [0, 0, 0], high = [1, 0, 0], interior = [0, 0, 0] : (tensor<3x8x16xf32>, tensor<f32>) -> tensor<4x8x16xf32>
    %26 = stablehlo.add %13, %25 : tensor<4x8x16xf32>
    %27 = stablehlo.transpose %26, dims = [0, 2, 1] : (tensor<4x8x16xf32>) -> tensor<4x16x8xf32>
    %28 = stablehlo.dot_general %27, %arg0, contracting_dims = [0, 1] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x16x8xf32>, tensor<16x4x16xf32>) -> tensor<8x16xf32>
    %29 = stablehlo.dot_general %27, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16x8xf32>, tensor<8x16xf32>) -> tensor<4x16x16xf32>
    %30 = stablehlo.transpose %29, dims = [2, 0, 1] : (tensor<4x16x16xf32>) -> tensor<16x4x16xf32>
    %31 = stablehlo.add %arg2, %30 : tensor<16x4x16xf32>
    %32 = stablehlo.transpose %26, dims = [0, 2, 1] : (tensor<4x8x16xf32>) -> tensor<4x16x8xf32>
    %33 = stablehlo.dot_general %32, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16x8xf32>, tensor<8x8xf32>) -> tensor<4x16x8xf32>
    %34 = stablehlo.transpose %33, dims = [2, 0, 1] : (tensor<4x16x8xf32>) -> tensor<8x4x16xf32>
    %35 = stablehlo.add %arg1, %34 : tensor<8x4x16xf32>
    return %35, %31, %28, %14 : tensor<8x4x16xf32>, tensor<16x4x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  }
}
