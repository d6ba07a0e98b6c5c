// CASE shardings are closed and lose replicated axes, wherever they are
// PASSES sdy-close-shardings
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}], replicated={"y"}>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}p1]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}) {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"x", ?}]>]>} : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <@grid, [{?}, {?}], unreduced={"x"}> : tensor<8x8xf32>
  %2:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>, <@grid, [{?}]>]>} %1, %b : tensor<8x8xf32>, tensor<8xf32>
  %3 = sdy.manual_computation(%2#0) in_shardings=[<@grid, [{"x", ?}, {?}]>] out_shardings=[<@grid, [{"x", ?}, {?}]>] manual_axes={"x"} (%m: tensor<4x8xf32>) {
    sdy.return %m : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}p1]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) {
    %0 = stablehlo.tanh %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : tensor<8x8xf32>
    %1 = sdy.sharding_constraint %0 <@grid, [{}, {}], unreduced={"x"}> : tensor<8x8xf32>
    %2:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>, <@grid, [{}]>]>} %1, %arg1 : tensor<8x8xf32>, tensor<8xf32>
    %3 = sdy.manual_computation(%2#0) in_shardings=[<@grid, [{"x"}, {}]>] out_shardings=[<@grid, [{"x"}, {}]>] manual_axes={"x"} (%arg2: tensor<4x8xf32>) {
      sdy.return %arg2 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  }
}

// CASE groups go, their members stay
// PASSES sdy-remove-sharding-groups
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  sdy.sharding_group %a group_id=3 : tensor<4xf32>
  %0 = stablehlo.negate %a : tensor<4xf32>
  sdy.sharding_group %0 group_id=3 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// GIVES
module {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// CASE a user's rule stays, others go
// PASSES func.func(sdy-drop-sharding-rules)
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=4}>} : tensor<4xf32>
  %1 = stablehlo.custom_call @mine(%0) {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=4}, custom>} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
// GIVES
module {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    %1 = stablehlo.custom_call @mine(%0) {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=4}, custom>} : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// CASE origins and edges of propagation go, also from arguments and results
// PASSES sdy-remove-propagation-debug-info
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>, sdy.sharding_origins = {x = "self"}})
    -> (tensor<4xf32> {sdy.propagation_edges = #sdy.propagation_edges<[{step-1 = [{"x" = operand-0 -> [result-0]}]}]>}) {
  %0 = stablehlo.negate %a {sdy.propagation_edges = #sdy.propagation_edges<[{step-0 = [{"x" = operand-0 -> [result-0]}]}]>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>, sdy.sharding_origins = {x = "input: 0"}} : tensor<4xf32>
  %1 = stablehlo.optimization_barrier {sdy.result_sharding_origins = [{x = "input: 0"}], sdy.result_propagation_edges = []} %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : tensor<4xf32>
    %1 = stablehlo.optimization_barrier %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// CASE meshes and shardings go
// PASSES sdy-drop-sharding-and-mesh
sdy.mesh @grid = <["x"=2, "y"=4]>
sdy.mesh @other = <[], device_ids=[3]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %b: tensor<4xf32> {tf.name = "b"}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}]>}) {
  %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// GIVES
module {
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32> {tf.name = "b"}) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
