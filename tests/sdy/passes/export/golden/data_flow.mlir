// CASE edges of a loop and of a barrier go, their shardings stay
// PASSES func.func(sdy-sink-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0:2 = stablehlo.while(%v = %a, %w = %b) : tensor<8xf32>, tensor<8xf32>
    cond {
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.return %w, %v : tensor<8xf32>, tensor<8xf32>
    }
  %1 = sdy.data_flow_edge %0#0 sharding=<@grid, [{"x", ?}]> : tensor<8xf32>
  %2 = sdy.data_flow_edge %0#1 : tensor<8xf32>
  %3 = stablehlo.optimization_barrier %1 : tensor<8xf32>
  %4 = sdy.data_flow_edge %3 : tensor<8xf32>
  return %4, %2 : tensor<8xf32>, tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<8xf32>, tensor<8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>, <@grid, [{?}]>]>}
    cond {
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.return %iterArg_0, %iterArg : tensor<8xf32>, tensor<8xf32>
    }
    %1 = stablehlo.optimization_barrier %0#0 : tensor<8xf32>
    return %1, %0#1 : tensor<8xf32>, tensor<8xf32>
  }
}

// CASE inside a manual computation shardings have no manual axes
// PASSES func.func(sdy-sink-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"x"}, {?}]>] out_shardings=[<@grid, [{"x"}, {?}]>] manual_axes={"x"} (%m: tensor<4x8xf32>) {
    %1 = sdy.data_flow_edge %m sharding=<@grid, [{}, {"y", ?}]> : tensor<4x8xf32>
    %2 = stablehlo.negate %1 : tensor<4x8xf32>
    sdy.return %2 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = sdy.data_flow_edge %0 sharding=<@grid, [{"x"}, {"y", ?}]> : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@grid, [{"x"}, {"y", ?}]>] out_shardings=[<@grid, [{"x"}, {"y", ?}]>] manual_axes={"x"} (%arg1: tensor<4x8xf32>) {
      %1 = stablehlo.negate %arg1 : tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// CASE what was traced can stay with the operation
// PASSES func.func(sdy-sink-data-flow-edges{sink-debug-sharding-origins=true sink-debug-propagation-edge-sharding=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.named_computation<"f">(%a) (%m: tensor<8xf32>) {
    %1 = sdy.data_flow_edge %m sharding=<@grid, [{"x", ?}]> {sdy.sharding_origins = {x = "input: 0"}, sdy.propagation_edges = #sdy.propagation_edges<[{step-0 = [{"x" = operand-0 -> [result-0]}]}]>} : tensor<8xf32>
    sdy.return %1 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %2 = sdy.data_flow_edge %0 sharding=<@grid, [{"x", ?}]> {sdy.sharding_origins = {x = "input: 0"}} : tensor<8xf32>
  return %2 : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.named_computation<"f">(%arg0) in_shardings=[<@grid, [{"x", ?}]>] out_shardings=[<@grid, [{"x", ?}]>] (%arg1: tensor<8xf32>) {
      sdy.return %arg1 : tensor<8xf32>
    } {sdy.block_arg_propagation_edges = [#sdy.propagation_edges<[{step-0 = [{"x" = operand-0 -> [result-0]}]}]>], sdy.block_arg_sharding_origins = [{x = "input: 0"}], sdy.result_propagation_edges = [], sdy.result_sharding_origins = [{x = "input: 0"}]} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// CASE edges of functions and calls go
// PASSES func.func(sdy-sink-func-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}]>}) -> tensor<8xf32> {
  %0 = sdy.func_data_flow_edge %a {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : tensor<8xf32>
  %1 = call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = sdy.func_data_flow_edge %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y", ?}]>]>} : tensor<8xf32>
  return %2 : tensor<8xf32>
}
func.func private @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  %0 = sdy.func_data_flow_edge %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> tensor<8xf32> {
    %0 = call @f(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y", ?}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @f(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// CASE a constraint becomes a reshard
// PASSES func.func(sdy-sharding-constraint-to-reshard)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.sharding_constraint %a <@grid, [{"x"}]> {note = "one"} : tensor<8xf32>
  %1 = sdy.sharding_constraint %0 <@grid, [{"y", ?}]> : tensor<8xf32>
  %2 = stablehlo.add %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{"x"}]> {note = "one"} : tensor<8xf32>
    %1 = sdy.reshard %0 <@grid, [{"y", ?}]> : tensor<8xf32>
    %2 = stablehlo.add %0, %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
