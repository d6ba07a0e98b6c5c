// CASE named computations become functions under names that are free
// PASSES sdy-export-named-computations
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  %0 = sdy.named_computation<"layer">(%a) in_shardings=[<@grid, [{"x"}]>] out_shardings=[<@grid, [{"y"}]>] (%m: tensor<8xf32>) {
    %2 = stablehlo.negate %m : tensor<8xf32>
    sdy.return %2 : tensor<8xf32>
  } {execution_thread = "side", note = 1 : i32} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.named_computation<"layer">(%0) (%m: tensor<8xf32>) {
    %3 = sdy.data_flow_edge %m sharding=<@grid, [{"y", ?}]> : tensor<8xf32>
    %4 = sdy.named_computation<"inner">(%3) (%n: tensor<8xf32>) {
      sdy.return %n : tensor<8xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    sdy.return %4 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %5 = sdy.data_flow_edge %1 sharding=<@grid, [{"x", ?}]> : tensor<8xf32>
  return %5 : tensor<8xf32>
}
func.func private @inner(%a: tensor<2xf32>) -> tensor<2xf32> {
  return %a : tensor<2xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    %0 = call @layer(%arg0) {note = 1 : i32, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @layer_1(%0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @inner(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    return %arg0 : tensor<2xf32>
  }
  func.func private @layer(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> attributes {execution_thread = "side", sdy.original_func_name = "layer"} {
    %0 = stablehlo.negate %arg0 : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @inner_0(%arg0: tensor<8xf32>) -> tensor<8xf32> attributes {sdy.original_func_name = "inner"} {
    return %arg0 : tensor<8xf32>
  }
  func.func private @layer_1(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}) -> tensor<8xf32> attributes {sdy.original_func_name = "layer"} {
    %0 = call @inner_0(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// CASE copies with equal shardings are one function
// PASSES sdy-unflatten-call-graph
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @f_0(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @f_1(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = call @g(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
func.func private @f_0(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<8xf32> attributes {sdy.original_func_name = "f"} {
  return %a : tensor<8xf32>
}
func.func private @f_1(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> attributes {sdy.original_func_name = "f"} {
  return %a : tensor<8xf32>
}
func.func private @g(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> attributes {sdy.func_manual_axes = #sdy<manual_axes{"x"}>, sdy.original_func_name = "f"} {
  return %a : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = call @f(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @f_0(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = call @f(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    %3 = call @g(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func private @f(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
  func.func private @f_0(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
  func.func private @f_1(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
  func.func private @g(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// CASE in full, the copy with most calls is the one
// PASSES sdy-unflatten-call-graph{dedup-functions-fully=true}
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @f_0(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @f_1(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
func.func private @f_0(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<8xf32> attributes {sdy.original_func_name = "f"} {
  return %a : tensor<8xf32>
}
func.func private @f_1(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<8xf32> attributes {sdy.original_func_name = "f"} {
  return %a : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = call @f_1(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @f_1(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = call @f_1(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func private @f(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
  func.func private @f_0(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
  func.func private @f_1(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// CASE calls give what their function gives, and are resharded
// PASSES sdy-insert-func-call-reshards
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0:3 = call @f(%a) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>, <@grid, [{}]>, <@grid, [{"x", ?}]>]>} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %1:3 = call @f(%a) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %2 = stablehlo.add %0#0, %1#0 : tensor<8xf32>
  %3 = call @g(%a) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %2, %0#1, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @f(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) {
  return %a, %a, %a : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @g(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0:3 = call @f(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>, <@grid, [{?}]>, <@grid, [{"x"}]>]>} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    %1 = sdy.reshard %0#0 <@grid, [{"y"}]> : tensor<8xf32>
    %2:3 = call @f(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>, <@grid, [{?}]>, <@grid, [{"x"}]>]>} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    %3 = sdy.reshard %2#2 <@grid, [{}]> : tensor<8xf32>
    %4 = sdy.reshard %2#0 <@grid, [{}]> : tensor<8xf32>
    %5 = stablehlo.add %1, %4 : tensor<8xf32>
    %6 = call @g(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
    %7 = sdy.reshard %6 <@grid, [{"y"}]> : tensor<8xf32>
    return %5, %0#1, %7 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func private @f(%arg0: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) {
    return %arg0, %arg0, %arg0 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func private @g(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}
