"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "callee", sym_visibility = "private"}> ({
  }) : () -> ()
  "func.func"() <{function_type = (tensor<i32>, tensor<4xf32>) -> tensor<4xf32>, sym_name = "loops"}> ({
  ^bb0(%arg38: tensor<i32>, %arg39: tensor<4xf32>):
    %34:2 = "stablehlo.while"(%arg38, %arg39) ({
    ^bb0(%arg44: tensor<i32>, %arg45: tensor<4xf32>):
      %41 = "stablehlo.constant"() <{value = dense<10> : tensor<i32>}> : () -> tensor<i32>
      %42 = "stablehlo.compare"(%arg44, %41) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%42) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg40: tensor<i32>, %arg41: tensor<4xf32>):
      %36 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %37 = "stablehlo.add"(%arg40, %36) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %38 = "stablehlo.while"(%arg41) ({
      ^bb0(%arg43: tensor<4xf32>):
        %40 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>
        "stablehlo.return"(%40) : (tensor<i1>) -> ()
      }, {
      ^bb0(%arg42: tensor<4xf32>):
        %39 = "stablehlo.add"(%arg42, %arg41) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        "stablehlo.return"(%39) : (tensor<4xf32>) -> ()
      }) : (tensor<4xf32>) -> tensor<4xf32>
      "stablehlo.return"(%37, %38) : (tensor<i32>, tensor<4xf32>) -> ()
    }) {trip = 3 : i32} : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
    "stablehlo.while"() ({
      %35 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>
      "stablehlo.return"(%35) : (tensor<i1>) -> ()
    }, {
      "stablehlo.return"() : () -> ()
    }) : () -> ()
    "func.return"(%34#1) : (tensor<4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<i1>, tensor<i32>, tensor<4xf32>) -> (), sym_name = "branches"}> ({
  ^bb0(%arg35: tensor<i1>, %arg36: tensor<i32>, %arg37: tensor<4xf32>):
    %31 = "stablehlo.if"(%arg35) ({
      "stablehlo.return"(%arg37) : (tensor<4xf32>) -> ()
    }, {
      %33 = "stablehlo.negate"(%arg37) : (tensor<4xf32>) -> tensor<4xf32>
      "stablehlo.return"(%33) : (tensor<4xf32>) -> ()
    }) : (tensor<i1>) -> tensor<4xf32>
    %32:2 = "stablehlo.case"(%arg36) ({
      "stablehlo.return"(%arg37, %arg35) : (tensor<4xf32>, tensor<i1>) -> ()
    }, {
      "stablehlo.return"(%31, %arg35) {last} : (tensor<4xf32>, tensor<i1>) -> ()
    }) {tag} : (tensor<i32>) -> (tensor<4xf32>, tensor<i1>)
    "stablehlo.case"(%arg36) ({
      "stablehlo.return"() {bare} : () -> ()
    }) : (tensor<i32>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (), sym_name = "reductions"}> ({
  ^bb0(%arg17: tensor<4x6xf32>, %arg18: tensor<4x6xi32>, %arg19: tensor<f32>, %arg20: tensor<i32>):
    %19 = "stablehlo.reduce"(%arg17, %arg19) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg33: tensor<f32>, %arg34: tensor<f32>):
      %30 = "stablehlo.add"(%arg33, %arg34) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%30) : (tensor<f32>) -> ()
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %20 = "stablehlo.reduce"(%arg18, %arg20) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg31: tensor<i32>, %arg32: tensor<i32>):
      %29 = "stablehlo.xor"(%arg31, %arg32) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%29) : (tensor<i32>) -> ()
    }) {tag} : (tensor<4x6xi32>, tensor<i32>) -> tensor<i32>
    %21 = "stablehlo.reduce"(%arg17, %arg19) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg29: tensor<f32>, %arg30: tensor<f32>):
      %28 = "stablehlo.subtract"(%arg29, %arg30) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%28) : (tensor<f32>) -> ()
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %22 = "stablehlo.reduce"(%arg17, %arg19) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg27: tensor<f32>, %arg28: tensor<f32>):
      %27 = "stablehlo.add"(%arg28, %arg27) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%27) : (tensor<f32>) -> ()
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %23:2 = "stablehlo.reduce"(%arg17, %arg18, %arg19, %arg20) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg23: tensor<f32>, %arg24: tensor<i32>, %arg25: tensor<f32>, %arg26: tensor<i32>):
      %25 = "stablehlo.maximum"(%arg23, %arg25) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %26 = "stablehlo.minimum"(%arg24, %arg26) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%25, %26) : (tensor<f32>, tensor<i32>) -> ()
    }) {tag} : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    %24 = "stablehlo.reduce"(%arg17, %arg19) <{dimensions = array<i64>}> ({
    ^bb0(%arg21: tensor<f32>, %arg22: tensor<f32>):
      "stablehlo.return"(%arg21) : (tensor<f32>) -> ()
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<8x8xf32>, tensor<f32>, tensor<4x4xf32>) -> (), sym_name = "regions"}> ({
  ^bb0(%arg4: tensor<8x8xf32>, %arg5: tensor<f32>, %arg6: tensor<4x4xf32>):
    %10 = "stablehlo.map"(%arg4, %arg4) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      %18 = "stablehlo.multiply"(%arg15, %arg16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%18) : (tensor<f32>) -> ()
    }) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %11 = "stablehlo.sort"(%arg4) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>):
      %17 = "stablehlo.compare"(%arg13, %arg14) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%17) : (tensor<i1>) -> ()
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %12 = "stablehlo.reduce_window"(%arg4, %arg5) <{padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %16 = "stablehlo.add"(%arg11, %arg12) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%16) : (tensor<f32>) -> ()
    }) : (tensor<8x8xf32>, tensor<f32>) -> tensor<4x5xf32>
    %13 = "stablehlo.select_and_scatter"(%arg4, %arg6, %arg5) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %15 = "stablehlo.compare"(%arg9, %arg10) <{comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%15) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %14 = "stablehlo.add"(%arg7, %arg8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%14) : (tensor<f32>) -> ()
    }) : (tensor<8x8xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<8x8xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4xf32>, tensor<2xi32>) -> (), sym_name = "calls"}> ({
  ^bb0(%arg2: tensor<4xf32>, %arg3: tensor<2xi32>):
    "stablehlo.custom_call"() <{call_target_name = "nothing"}> : () -> ()
    %5 = "stablehlo.custom_call"(%arg2) <{call_target_name = "usual"}> : (tensor<4xf32>) -> tensor<4xf32>
    %6:2 = "stablehlo.custom_call"(%arg2, %arg3) <{api_version = 4 : i32, backend_config = {k = 2 : i64, s = "t"}, call_target_name = "not an identifier", called_computations = [@callee], has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>]}> : (tensor<4xf32>, tensor<2xi32>) -> (tensor<4xf32>, tensor<2xi32>)
    %7 = "stablehlo.custom_call"(%arg2) <{backend_config = "opaque", call_target_name = "aliased", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}> {mhlo.frontend_attributes = {a = "b"}} : (tensor<4xf32>) -> tensor<4xf32>
    %8 = "stablehlo.composite"(%arg2) <{decomposition = @callee, name = "mine.own"}> : (tensor<4xf32>) -> tensor<4xf32>
    %9 = "stablehlo.composite"(%arg2) <{composite_attributes = {n = 1 : i64}, decomposition = @callee, name = "mine.own", version = 2 : i32}> : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4xf32>, !stablehlo.token) -> (), sym_name = "grouped"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: !stablehlo.token):
    %0 = "stablehlo.tuple"(%arg0, %arg1) : (tensor<4xf32>, !stablehlo.token) -> tuple<tensor<4xf32>, !stablehlo.token>
    %1 = "stablehlo.tuple"() {empty} : () -> tuple<>
    %2 = "stablehlo.get_tuple_element"(%0) <{index = 1 : i32}> {tag} : (tuple<tensor<4xf32>, !stablehlo.token>) -> !stablehlo.token
    %3:2 = "stablehlo.optimization_barrier"(%arg0, %2) : (tensor<4xf32>, !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %4 = "stablehlo.optimization_barrier"(%3#0) {tag} : (tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.optimization_barrier"() : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
