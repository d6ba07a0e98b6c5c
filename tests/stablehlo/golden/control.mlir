module {
  func.func private @callee(tensor<4xf32>) -> tensor<4xf32>
  func.func @loops(%arg0: tensor<i32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<i32>, tensor<4xf32> attributes {trip = 3 : i32}
    cond {
      %c = stablehlo.constant dense<10> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %c = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %iterArg, %c : tensor<i32>
      %2 = stablehlo.while(%iterArg_1 = %iterArg_0) : tensor<4xf32>
      cond {
        %c_2 = stablehlo.constant dense<false> : tensor<i1>
        stablehlo.return %c_2 : tensor<i1>
      } do {
        %3 = stablehlo.add %iterArg_1, %iterArg_0 : tensor<4xf32>
        stablehlo.return %3 : tensor<4xf32>
      }
      stablehlo.return %1, %2 : tensor<i32>, tensor<4xf32>
    }
    stablehlo.while()
    cond {
      %c = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.return 
    }
    return %0#1 : tensor<4xf32>
  }
  func.func @branches(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<4xf32>) {
    %0 = "stablehlo.if"(%arg0) ({
      stablehlo.return %arg2 : tensor<4xf32>
    }, {
      %2 = stablehlo.negate %arg2 : tensor<4xf32>
      stablehlo.return %2 : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %1:2 = "stablehlo.case"(%arg1) ({
      stablehlo.return %arg2, %arg0 : tensor<4xf32>, tensor<i1>
    }, {
      stablehlo.return %0, %arg0 {last} : tensor<4xf32>, tensor<i1>
    }) {tag} : (tensor<i32>) -> (tensor<4xf32>, tensor<i1>)
    "stablehlo.case"(%arg1) ({
      stablehlo.return  {bare}
    }) : (tensor<i32>) -> ()
    return
  }
  func.func @reductions(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xi32>, %arg2: tensor<f32>, %arg3: tensor<i32>) {
    %0 = stablehlo.reduce(%arg0 init: %arg2) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.reduce(%arg1 init: %arg3) applies stablehlo.xor across dimensions = [0, 1] {tag} : (tensor<4x6xi32>, tensor<i32>) -> tensor<i32>
    %2 = stablehlo.reduce(%arg0 init: %arg2) across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
     reducer(%arg4: tensor<f32>, %arg5: tensor<f32>)  {
      %6 = stablehlo.subtract %arg4, %arg5 : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }
    %3 = stablehlo.reduce(%arg0 init: %arg2) across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
     reducer(%arg4: tensor<f32>, %arg5: tensor<f32>)  {
      %6 = stablehlo.add %arg5, %arg4 : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }
    %4:2 = stablehlo.reduce(%arg0 init: %arg2), (%arg1 init: %arg3) across dimensions = [1] {tag} : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%arg4: tensor<f32>, %arg6: tensor<f32>) (%arg5: tensor<i32>, %arg7: tensor<i32>)  {
      %6 = stablehlo.maximum %arg4, %arg6 : tensor<f32>
      %7 = stablehlo.minimum %arg5, %arg7 : tensor<i32>
      stablehlo.return %6, %7 : tensor<f32>, tensor<i32>
    }
    %5 = stablehlo.reduce(%arg0 init: %arg2) across dimensions = [] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
     reducer(%arg4: tensor<f32>, %arg5: tensor<f32>)  {
      stablehlo.return %arg4 : tensor<f32>
    }
    return
  }
  func.func @regions(%arg0: tensor<8x8xf32>, %arg1: tensor<f32>, %arg2: tensor<4x4xf32>) {
    %0 = "stablehlo.map"(%arg0, %arg0) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.multiply %arg3, %arg4 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.compare GT, %arg3, %arg4, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "stablehlo.reduce_window"(%arg0, %arg1) <{padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<8x8xf32>, tensor<f32>) -> tensor<4x5xf32>
    %3 = "stablehlo.select_and_scatter"(%arg0, %arg2, %arg1) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.compare GE, %arg3, %arg4 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    }, {
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<8x8xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<8x8xf32>
    return
  }
  func.func @calls(%arg0: tensor<4xf32>, %arg1: tensor<2xi32>) {
    stablehlo.custom_call @nothing() : () -> ()
    %0 = stablehlo.custom_call @usual(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    %1:2 = stablehlo.custom_call @"not an identifier"(%arg0, %arg1) {api_version = 4 : i32, backend_config = {k = 2 : i64, s = "t"}, called_computations = [@callee], has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>]} : (tensor<4xf32>, tensor<2xi32>) -> (tensor<4xf32>, tensor<2xi32>)
    %2 = stablehlo.custom_call @aliased(%arg0) {backend_config = "opaque", mhlo.frontend_attributes = {a = "b"}, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]} : (tensor<4xf32>) -> tensor<4xf32>
    %3 = stablehlo.composite "mine.own" %arg0 {decomposition = @callee} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = stablehlo.composite "mine.own" %arg0 {composite_attributes = {n = 1 : i64}, decomposition = @callee, version = 2 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
  func.func @grouped(%arg0: tensor<4xf32>, %arg1: !stablehlo.token) {
    %0 = stablehlo.tuple %arg0, %arg1 : tuple<tensor<4xf32>, !stablehlo.token>
    %1 = stablehlo.tuple  {empty} : tuple<>
    %2 = stablehlo.get_tuple_element %0[1] {tag} : (tuple<tensor<4xf32>, !stablehlo.token>) -> !stablehlo.token
    %3:2 = stablehlo.optimization_barrier %arg0, %2 : tensor<4xf32>, !stablehlo.token
    %4 = stablehlo.optimization_barrier {tag} %3#0 : tensor<4xf32>
    stablehlo.optimization_barrier()
    return
  }
}
