module {
  func.func @unary(%arg0: tensor<3x?xf32>, %arg1: tensor<5xui8>) {
    %0 = stablehlo.abs %arg0 : tensor<3x?xf32>
    %1 = stablehlo.ceil %arg0 : tensor<3x?xf32>
    %2 = stablehlo.floor %arg0 : tensor<3x?xf32>
    %3 = stablehlo.negate %arg0 : tensor<3x?xf32>
    %4 = stablehlo.round_nearest_afz %arg0 : tensor<3x?xf32>
    %5 = stablehlo.round_nearest_even %arg0 : tensor<3x?xf32>
    %6 = stablehlo.sign %arg0 : tensor<3x?xf32>
    %7 = stablehlo.cbrt %arg0 : tensor<3x?xf32>
    %8 = stablehlo.cosine %arg0 : tensor<3x?xf32>
    %9 = stablehlo.exponential %arg0 : tensor<3x?xf32>
    %10 = stablehlo.exponential_minus_one %arg0 : tensor<3x?xf32>
    %11 = stablehlo.log %arg0 : tensor<3x?xf32>
    %12 = stablehlo.log_plus_one %arg0 : tensor<3x?xf32>
    %13 = stablehlo.logistic %arg0 : tensor<3x?xf32>
    %14 = stablehlo.rsqrt %arg0 : tensor<3x?xf32>
    %15 = stablehlo.sine %arg0 : tensor<3x?xf32>
    %16 = stablehlo.sqrt %arg0 : tensor<3x?xf32>
    %17 = stablehlo.tan %arg0 : tensor<3x?xf32>
    %18 = stablehlo.tanh %arg0 : tensor<3x?xf32>
    %19 = stablehlo.count_leading_zeros %arg1 : tensor<5xui8>
    %20 = stablehlo.not %arg1 : tensor<5xui8>
    %21 = stablehlo.popcnt %arg1 : tensor<5xui8>
    %22 = stablehlo.negate %arg1 : tensor<5xui8>
    %23 = stablehlo.exponential %arg0 {result_accuracy = #stablehlo.result_accuracy<atol = 1.000000e-05, ulps = 3, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<3x?xf32>
    %24 = stablehlo.tanh %arg0 {note = "kept", result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<3x?xf32>
    %25 = stablehlo.convert %arg0 : (tensor<3x?xf32>) -> tensor<3x?xbf16>
    %26 = stablehlo.convert %arg0 : tensor<3x?xf32>
    %27 = stablehlo.reduce_precision %arg0, format = e5m10 {tag} : tensor<3x?xf32>
    %28 = stablehlo.is_finite %arg0 : (tensor<3x?xf32>) -> tensor<3x?xi1>
    return
  }
  func.func @binary(%arg0: tensor<2x6xf64>, %arg1: tensor<2x6xf64>, %arg2: tensor<7xi16>, %arg3: tensor<4x?xf32>, %arg4: tensor<?x8xf32>) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<2x6xf64>
    %1 = stablehlo.atan2 %arg0, %arg1 : tensor<2x6xf64>
    %2 = stablehlo.divide %arg0, %arg1 : tensor<2x6xf64>
    %3 = stablehlo.maximum %arg0, %arg1 : tensor<2x6xf64>
    %4 = stablehlo.minimum %arg0, %arg1 : tensor<2x6xf64>
    %5 = stablehlo.multiply %arg0, %arg1 : tensor<2x6xf64>
    %6 = stablehlo.power %arg0, %arg1 : tensor<2x6xf64>
    %7 = stablehlo.remainder %arg0, %arg1 : tensor<2x6xf64>
    %8 = stablehlo.subtract %arg0, %arg1 : tensor<2x6xf64>
    %9 = stablehlo.and %arg2, %arg2 : tensor<7xi16>
    %10 = stablehlo.or %arg2, %arg2 : tensor<7xi16>
    %11 = stablehlo.xor %arg2, %arg2 : tensor<7xi16>
    %12 = stablehlo.shift_left %arg2, %arg2 : tensor<7xi16>
    %13 = stablehlo.shift_right_arithmetic %arg2, %arg2 : tensor<7xi16>
    %14 = stablehlo.shift_right_logical %arg2, %arg2 : tensor<7xi16>
    %15 = stablehlo.add %arg3, %arg4 : (tensor<4x?xf32>, tensor<?x8xf32>) -> tensor<?x?xf32>
    %16 = stablehlo.multiply %arg0, %arg1 {frontend = {depth = 2 : i32}} : tensor<2x6xf64>
    %17 = stablehlo.compare EQ, %arg0, %arg1 : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %18 = stablehlo.compare NE, %arg0, %arg1 : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %19 = stablehlo.compare GE, %arg0, %arg1 : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %20 = stablehlo.compare GT, %arg0, %arg1 : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %21 = stablehlo.compare LE, %arg0, %arg1 : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %22 = stablehlo.compare LT, %arg0, %arg1 : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %23 = stablehlo.compare LT, %arg0, %arg1, FLOAT : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %24 = stablehlo.compare LT, %arg0, %arg1, TOTALORDER : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %25 = stablehlo.compare LT, %arg2, %arg2, SIGNED {why} : (tensor<7xi16>, tensor<7xi16>) -> tensor<7xi1>
    %26 = stablehlo.select %17, %arg0, %arg1 : tensor<2x6xi1>, tensor<2x6xf64>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %27 = stablehlo.select %c, %arg3, %arg4 : (tensor<i1>, tensor<4x?xf32>, tensor<?x8xf32>) -> tensor<?x?xf32>
    %28 = stablehlo.clamp %arg0, %arg1, %arg0 : tensor<2x6xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %29 = stablehlo.clamp %cst, %arg1, %cst : (tensor<f64>, tensor<2x6xf64>, tensor<f64>) -> tensor<2x6xf64>
    %30 = stablehlo.complex %arg0, %arg1 : tensor<2x6xcomplex<f64>>
    %31 = stablehlo.real %30 : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
    %32 = stablehlo.imag %30 : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
    %33 = stablehlo.abs %30 : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
    return
  }
  func.func @generic(%arg0: tensor<4xf32>) {
    %0 = stablehlo.tanh %arg0 {sdy.extra = 1 : i32} : tensor<4xf32>
    %1 = stablehlo.add %0, %arg0 : tensor<4xf32>
    return
  }
}
