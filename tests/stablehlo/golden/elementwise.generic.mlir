"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3x?xf32>, tensor<5xui8>) -> (), sym_name = "unary"}> ({
  ^bb0(%arg6: tensor<3x?xf32>, %arg7: tensor<5xui8>):
    %38 = "stablehlo.abs"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %39 = "stablehlo.ceil"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %40 = "stablehlo.floor"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %41 = "stablehlo.negate"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %42 = "stablehlo.round_nearest_afz"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %43 = "stablehlo.round_nearest_even"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %44 = "stablehlo.sign"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %45 = "stablehlo.cbrt"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %46 = "stablehlo.cosine"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %47 = "stablehlo.exponential"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %48 = "stablehlo.exponential_minus_one"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %49 = "stablehlo.log"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %50 = "stablehlo.log_plus_one"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %51 = "stablehlo.logistic"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %52 = "stablehlo.rsqrt"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %53 = "stablehlo.sine"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %54 = "stablehlo.sqrt"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %55 = "stablehlo.tan"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %56 = "stablehlo.tanh"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %57 = "stablehlo.count_leading_zeros"(%arg7) : (tensor<5xui8>) -> tensor<5xui8>
    %58 = "stablehlo.not"(%arg7) : (tensor<5xui8>) -> tensor<5xui8>
    %59 = "stablehlo.popcnt"(%arg7) : (tensor<5xui8>) -> tensor<5xui8>
    %60 = "stablehlo.negate"(%arg7) : (tensor<5xui8>) -> tensor<5xui8>
    %61 = "stablehlo.exponential"(%arg6) <{result_accuracy = #stablehlo.result_accuracy<atol = 1.000000e-05, ulps = 3, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}> : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %62 = "stablehlo.tanh"(%arg6) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> {note = "kept"} : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %63 = "stablehlo.convert"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xbf16>
    %64 = "stablehlo.convert"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %65 = "stablehlo.reduce_precision"(%arg6) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> {tag} : (tensor<3x?xf32>) -> tensor<3x?xf32>
    %66 = "stablehlo.is_finite"(%arg6) : (tensor<3x?xf32>) -> tensor<3x?xi1>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x6xf64>, tensor<2x6xf64>, tensor<7xi16>, tensor<4x?xf32>, tensor<?x8xf32>) -> (), sym_name = "binary"}> ({
  ^bb0(%arg1: tensor<2x6xf64>, %arg2: tensor<2x6xf64>, %arg3: tensor<7xi16>, %arg4: tensor<4x?xf32>, %arg5: tensor<?x8xf32>):
    %2 = "stablehlo.add"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %3 = "stablehlo.atan2"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %4 = "stablehlo.divide"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %5 = "stablehlo.maximum"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %6 = "stablehlo.minimum"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %7 = "stablehlo.multiply"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %8 = "stablehlo.power"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %9 = "stablehlo.remainder"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %10 = "stablehlo.subtract"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %11 = "stablehlo.and"(%arg3, %arg3) : (tensor<7xi16>, tensor<7xi16>) -> tensor<7xi16>
    %12 = "stablehlo.or"(%arg3, %arg3) : (tensor<7xi16>, tensor<7xi16>) -> tensor<7xi16>
    %13 = "stablehlo.xor"(%arg3, %arg3) : (tensor<7xi16>, tensor<7xi16>) -> tensor<7xi16>
    %14 = "stablehlo.shift_left"(%arg3, %arg3) : (tensor<7xi16>, tensor<7xi16>) -> tensor<7xi16>
    %15 = "stablehlo.shift_right_arithmetic"(%arg3, %arg3) : (tensor<7xi16>, tensor<7xi16>) -> tensor<7xi16>
    %16 = "stablehlo.shift_right_logical"(%arg3, %arg3) : (tensor<7xi16>, tensor<7xi16>) -> tensor<7xi16>
    %17 = "stablehlo.add"(%arg4, %arg5) : (tensor<4x?xf32>, tensor<?x8xf32>) -> tensor<?x?xf32>
    %18 = "stablehlo.multiply"(%arg1, %arg2) {frontend = {depth = 2 : i32}} : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %19 = "stablehlo.compare"(%arg1, %arg2) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %20 = "stablehlo.compare"(%arg1, %arg2) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %21 = "stablehlo.compare"(%arg1, %arg2) <{comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %22 = "stablehlo.compare"(%arg1, %arg2) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %23 = "stablehlo.compare"(%arg1, %arg2) <{comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %24 = "stablehlo.compare"(%arg1, %arg2) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %25 = "stablehlo.compare"(%arg1, %arg2) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %26 = "stablehlo.compare"(%arg1, %arg2) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xi1>
    %27 = "stablehlo.compare"(%arg3, %arg3) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> {why} : (tensor<7xi16>, tensor<7xi16>) -> tensor<7xi1>
    %28 = "stablehlo.select"(%19, %arg1, %arg2) : (tensor<2x6xi1>, tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %29 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %30 = "stablehlo.select"(%29, %arg4, %arg5) : (tensor<i1>, tensor<4x?xf32>, tensor<?x8xf32>) -> tensor<?x?xf32>
    %31 = "stablehlo.clamp"(%arg1, %arg2, %arg1) : (tensor<2x6xf64>, tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xf64>
    %32 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f64>}> : () -> tensor<f64>
    %33 = "stablehlo.clamp"(%32, %arg2, %32) : (tensor<f64>, tensor<2x6xf64>, tensor<f64>) -> tensor<2x6xf64>
    %34 = "stablehlo.complex"(%arg1, %arg2) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xcomplex<f64>>
    %35 = "stablehlo.real"(%34) : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
    %36 = "stablehlo.imag"(%34) : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
    %37 = "stablehlo.abs"(%34) : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4xf32>) -> (), sym_name = "generic"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "stablehlo.tanh"(%arg0) {sdy.extra = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.add"(%0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
