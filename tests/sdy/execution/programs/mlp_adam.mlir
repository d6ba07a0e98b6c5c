module @jit_train attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]> {stablehlo.mesh = {axes = [{name = "a", size = 2 : i64}, {name = "b", size = 2 : i64}, {name = "c", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"c"}]>}, %arg1: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"c"}, {}]>}, %arg2: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"c"}]>}, %arg3: tensor<24x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", "b"}, {}]>}, %arg4: tensor<24x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", "b"}, {}]>}) -> (tensor<32xf32> {jax.result_info = "result[0]['b']"}, tensor<32x8xf32> {jax.result_info = "result[0]['v']"}, tensor<16x32xf32> {jax.result_info = "result[0]['w']"}, tensor<3xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %3 = stablehlo.iota dim = 0 : tensor<3xi32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %5:14 = stablehlo.while(%iterArg = %3, %iterArg_3 = %arg3, %iterArg_4 = %arg4, %iterArg_5 = %c, %iterArg_6 = %arg0, %iterArg_7 = %arg1, %iterArg_8 = %arg2, %iterArg_9 = %0, %iterArg_10 = %1, %iterArg_11 = %2, %iterArg_12 = %0, %iterArg_13 = %1, %iterArg_14 = %2, %iterArg_15 = %4) : tensor<3xi32>, tensor<24x16xf32>, tensor<24x8xf32>, tensor<i32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<3xf32>
    cond {
      %c_16 = stablehlo.constant dense<3> : tensor<i32>
      %6 = stablehlo.compare LT, %iterArg_5, %c_16, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %6 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_5) : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
      %7:10 = func.call @closed_call(%iterArg_3, %iterArg_4, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11, %iterArg_12, %iterArg_13, %iterArg_14, %6) : (tensor<24x16xf32>, tensor<24x8xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<i32>) -> (tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<f32>)
      %8 = func.call @dynamic_update_index_in_dim(%iterArg_15, %7#9, %iterArg_5) : (tensor<3xf32>, tensor<f32>, tensor<i32>) -> tensor<3xf32>
      %c_16 = stablehlo.constant dense<1> : tensor<i32>
      %9 = stablehlo.add %iterArg_5, %c_16 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_3, %iterArg_4, %9, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7, %7#8, %8 : tensor<3xi32>, tensor<24x16xf32>, tensor<24x8xf32>, tensor<i32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<3xf32>
    }
    return %5#4, %5#5, %5#6, %5#13 : tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<3xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3xi32>, %arg1: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] : (tensor<3xi32>, tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    return %1 : tensor<i32>
  }
  func.func private @closed_call(%arg0: tensor<24x16xf32>, %arg1: tensor<24x8xf32>, %arg2: tensor<32xf32>, %arg3: tensor<32x8xf32>, %arg4: tensor<16x32xf32>, %arg5: tensor<32xf32>, %arg6: tensor<32x8xf32>, %arg7: tensor<16x32xf32>, %arg8: tensor<32xf32>, %arg9: tensor<32x8xf32>, %arg10: tensor<16x32xf32>, %arg11: tensor<i32>) -> (tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<f32>) {
    %0 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x16xf32>, tensor<16x32xf32>) -> tensor<24x32xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<24x32xf32>
    %3 = stablehlo.add %0, %2 : tensor<24x32xf32>
    %4 = stablehlo.multiply %3, %3 : tensor<24x32xf32>
    %5 = stablehlo.multiply %4, %3 : tensor<24x32xf32>
    %6 = stablehlo.multiply %3, %3 : tensor<24x32xf32>
    %cst = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %8 = stablehlo.multiply %7, %6 : tensor<24x32xf32>
    %cst_0 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %10 = stablehlo.multiply %9, %5 : tensor<24x32xf32>
    %11 = stablehlo.add %3, %10 : tensor<24x32xf32>
    %cst_1 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %13 = stablehlo.multiply %12, %11 : tensor<24x32xf32>
    %14 = stablehlo.tanh %13 : tensor<24x32xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %16 = stablehlo.subtract %15, %14 : tensor<24x32xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %18 = stablehlo.add %17, %14 : tensor<24x32xf32>
    %cst_4 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %20 = stablehlo.multiply %19, %18 : tensor<24x32xf32>
    %21 = stablehlo.multiply %3, %20 : tensor<24x32xf32>
    %22 = stablehlo.dot_general %21, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x32xf32>, tensor<32x8xf32>) -> tensor<24x8xf32>
    %23 = stablehlo.subtract %22, %arg1 : tensor<24x8xf32>
    %24 = stablehlo.multiply %23, %23 : tensor<24x8xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<24x8xf32>
    %26 = stablehlo.multiply %25, %23 : tensor<24x8xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.reduce(%24 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<24x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.920000e+02> : tensor<f32>
    %28 = stablehlo.divide %27, %cst_7 : tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_9 = stablehlo.constant dense<1.920000e+02> : tensor<f32>
    %29 = stablehlo.divide %cst_8, %cst_9 : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [] : (tensor<f32>) -> tensor<24x8xf32>
    %31 = stablehlo.multiply %30, %26 : tensor<24x8xf32>
    %32 = stablehlo.dot_general %31, %21, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x8xf32>, tensor<24x32xf32>) -> tensor<8x32xf32>
    %33 = stablehlo.transpose %32, dims = [1, 0] : (tensor<8x32xf32>) -> tensor<32x8xf32>
    %34 = stablehlo.dot_general %31, %arg3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<24x8xf32>, tensor<32x8xf32>) -> tensor<24x32xf32>
    %35 = stablehlo.multiply %3, %34 : tensor<24x32xf32>
    %36 = stablehlo.multiply %34, %20 : tensor<24x32xf32>
    %cst_10 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %38 = stablehlo.multiply %37, %35 : tensor<24x32xf32>
    %39 = stablehlo.multiply %38, %16 : tensor<24x32xf32>
    %40 = stablehlo.multiply %39, %14 : tensor<24x32xf32>
    %41 = stablehlo.add %39, %40 : tensor<24x32xf32>
    %cst_11 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %43 = stablehlo.multiply %42, %41 : tensor<24x32xf32>
    %44 = stablehlo.add %36, %43 : tensor<24x32xf32>
    %cst_12 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<24x32xf32>
    %46 = stablehlo.multiply %45, %43 : tensor<24x32xf32>
    %47 = stablehlo.multiply %46, %8 : tensor<24x32xf32>
    %48 = stablehlo.add %44, %47 : tensor<24x32xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_13) applies stablehlo.add across dimensions = [0] : (tensor<24x32xf32>, tensor<f32>) -> tensor<32xf32>
    %50 = stablehlo.reshape %49 : (tensor<32xf32>) -> tensor<1x32xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.reduce(%50 init: %cst_14) applies stablehlo.add across dimensions = [0] : (tensor<1x32xf32>, tensor<f32>) -> tensor<32xf32>
    %52 = stablehlo.dot_general %48, %arg0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<24x32xf32>, tensor<24x16xf32>) -> tensor<32x16xf32>
    %53 = stablehlo.transpose %52, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %cst_15 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %55 = stablehlo.multiply %54, %arg5 : tensor<32xf32>
    %cst_16 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %57 = stablehlo.multiply %56, %51 : tensor<32xf32>
    %58 = stablehlo.add %55, %57 : tensor<32xf32>
    %cst_17 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %60 = stablehlo.multiply %59, %arg6 : tensor<32x8xf32>
    %cst_18 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %62 = stablehlo.multiply %61, %33 : tensor<32x8xf32>
    %63 = stablehlo.add %60, %62 : tensor<32x8xf32>
    %cst_19 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %65 = stablehlo.multiply %64, %arg7 : tensor<16x32xf32>
    %cst_20 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %67 = stablehlo.multiply %66, %53 : tensor<16x32xf32>
    %68 = stablehlo.add %65, %67 : tensor<16x32xf32>
    %cst_21 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %70 = stablehlo.multiply %69, %arg8 : tensor<32xf32>
    %cst_22 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %72 = stablehlo.multiply %71, %51 : tensor<32xf32>
    %73 = stablehlo.multiply %72, %51 : tensor<32xf32>
    %74 = stablehlo.add %70, %73 : tensor<32xf32>
    %cst_23 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %76 = stablehlo.multiply %75, %arg9 : tensor<32x8xf32>
    %cst_24 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %78 = stablehlo.multiply %77, %33 : tensor<32x8xf32>
    %79 = stablehlo.multiply %78, %33 : tensor<32x8xf32>
    %80 = stablehlo.add %76, %79 : tensor<32x8xf32>
    %cst_25 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %82 = stablehlo.multiply %81, %arg10 : tensor<16x32xf32>
    %cst_26 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %84 = stablehlo.multiply %83, %53 : tensor<16x32xf32>
    %85 = stablehlo.multiply %84, %53 : tensor<16x32xf32>
    %86 = stablehlo.add %82, %85 : tensor<16x32xf32>
    %87 = stablehlo.convert %arg11 : (tensor<i32>) -> tensor<f32>
    %cst_27 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %88 = stablehlo.add %87, %cst_27 : tensor<f32>
    %cst_28 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %89 = stablehlo.power %cst_28, %88 : tensor<f32>
    %cst_29 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %90 = stablehlo.subtract %cst_29, %89 : tensor<f32>
    %91 = stablehlo.sqrt %90 : tensor<f32>
    %cst_30 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %92 = stablehlo.multiply %cst_30, %91 : tensor<f32>
    %93 = stablehlo.convert %arg11 : (tensor<i32>) -> tensor<f32>
    %cst_31 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %94 = stablehlo.add %93, %cst_31 : tensor<f32>
    %cst_32 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %95 = stablehlo.power %cst_32, %94 : tensor<f32>
    %cst_33 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %96 = stablehlo.subtract %cst_33, %95 : tensor<f32>
    %97 = stablehlo.divide %92, %96 : tensor<f32>
    %98 = stablehlo.convert %97 : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %100 = stablehlo.multiply %99, %58 : tensor<32xf32>
    %101 = stablehlo.sqrt %74 : tensor<32xf32>
    %cst_34 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %102 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %103 = stablehlo.add %101, %102 : tensor<32xf32>
    %104 = stablehlo.divide %100, %103 : tensor<32xf32>
    %105 = stablehlo.subtract %arg2, %104 : tensor<32xf32>
    %106 = stablehlo.convert %97 : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %108 = stablehlo.multiply %107, %63 : tensor<32x8xf32>
    %109 = stablehlo.sqrt %80 : tensor<32x8xf32>
    %cst_35 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %111 = stablehlo.add %109, %110 : tensor<32x8xf32>
    %112 = stablehlo.divide %108, %111 : tensor<32x8xf32>
    %113 = stablehlo.subtract %arg3, %112 : tensor<32x8xf32>
    %114 = stablehlo.convert %97 : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %114, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %116 = stablehlo.multiply %115, %68 : tensor<16x32xf32>
    %117 = stablehlo.sqrt %86 : tensor<16x32xf32>
    %cst_36 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %119 = stablehlo.add %117, %118 : tensor<16x32xf32>
    %120 = stablehlo.divide %116, %119 : tensor<16x32xf32>
    %121 = stablehlo.subtract %arg4, %120 : tensor<16x32xf32>
    return %105, %113, %121, %58, %63, %68, %74, %80, %86, %28 : tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<32xf32>, tensor<32x8xf32>, tensor<16x32xf32>, tensor<f32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
}
