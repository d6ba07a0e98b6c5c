// CASE inputs and outputs are cut evenly
// PASSES sdy-update-non-divisible-input-output-shardings
sdy.mesh @grid = <["x"=4, "y"=6]>
func.func @main(%a: tensor<6x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}, %b: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}p1, {"y", ?}p2]>}, %c: tensor<?xf32>)
    -> (tensor<6x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x", "y"}]>}) {
  %0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<6x12xf32>
  %1 = call @f(%0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : (tensor<6x12xf32>) -> tensor<6x12xf32>
  return %1 : tensor<6x12xf32>
}
func.func private @f(%a: tensor<6x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(2)2}, {}]>}) -> tensor<6x12xf32> {
  return %a : tensor<6x12xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=4, "y"=6]>
  func.func @main(%arg0: tensor<6x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(1)2}, {"y"}]>}, %arg1: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}p1, {?}]>}, %arg2: tensor<?xf32>) -> (tensor<6x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x", "y":(1)3}]>}) {
    %0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<6x12xf32>
    %1 = call @f(%0) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : (tensor<6x12xf32>) -> tensor<6x12xf32>
    return %1 : tensor<6x12xf32>
  }
  func.func private @f(%arg0: tensor<6x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(2)2}, {}]>}) -> tensor<6x12xf32> {
    return %arg0 : tensor<6x12xf32>
  }
}

// CASE so are those of a manual computation, not those of a loop
// PASSES sdy-update-non-divisible-input-output-shardings
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"x"}, {"y"}]>] out_shardings=[<@grid, [{"x", "y"}, {}]>] manual_axes={"x"} (%m: tensor<2x6xf32>) {
    sdy.return %m : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}]>]>} %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@grid, [{"x"}, {"y":(1)2}]>] out_shardings=[<@grid, [{"x", "y":(1)2}, {}]>] manual_axes={"x"} (%arg1: tensor<2x6xf32>) {
      sdy.return %arg1 : tensor<2x6xf32>
    } : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %1 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}]>]>} %0 : tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}

// CASE open dimensions of the main function have whole axes
// PASSES sdy-remove-sub-axes-in-input-output-shardings
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y":(1)2, "x", ?}, {?}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y":(2)2, ?}, {"y":(1)2}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x", "y":(1)2, ?}]>}) {
  %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y":(1)2, ?}, {?}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y":(1)2, ?}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {?}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y":(1)2}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x", ?}]>}) {
    %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y":(1)2, ?}, {?}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @f(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y":(1)2, ?}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// CASE functions give what their bodies return
// PASSES sdy-propagate-to-func-results
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
func.func private @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>, tf.name = "b"}) {
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
  func.func private @f(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %arg1: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, tensor<8xf32> {tf.name = "b"}) {
    return %arg0, %arg1 : tensor<8xf32>, tensor<8xf32>
  }
}
