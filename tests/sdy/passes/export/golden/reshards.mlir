// CASE nothing where all agree
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) {
  %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) {
    %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// CASE axes that are not in conflict all stay
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) {
  %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) {
    %0 = sdy.reshard %arg0 <@grid, [{"x"}, {"y"}]> : tensor<8x8xf32>
    %1 = sdy.reshard %arg1 <@grid, [{"x"}, {"y"}]> : tensor<8x8xf32>
    %2 = stablehlo.add %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<8x8xf32>
    %3 = sdy.reshard %2 <@grid, [{"x"}, {}]> : tensor<8x8xf32>
    %4 = sdy.reshard %3 <@grid, [{"y"}, {}]> : tensor<8x8xf32>
    return %4 : tensor<8x8xf32>
  }
}

// CASE of two tensors the larger one stays
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<8x8x2xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {}, {"x"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8x2xf32>
  return %0 : tensor<8x8x2xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<8x8x2xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{"y"}, {}]> : tensor<8x8xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {}, {"x"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8x2xf32>
    %2 = sdy.reshard %1 <@grid, [{}, {}, {}]> : tensor<8x8x2xf32>
    return %2 : tensor<8x8x2xf32>
  }
}

// CASE a contracted dimension that is cut is added up
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}, %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) {
  %0 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}, %arg1: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %1 = sdy.all_reduce {"y"} %0 out_sharding=<@grid, [{"x"}, {}]> : tensor<8x8xf32>
    %2 = sdy.reshard %1 <@grid, [{"x"}, {"y"}]> : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// CASE a sorted dimension is whole, and another takes its axes
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) {
  %0 = "stablehlo.sort"(%a) <{dimension = 1 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) {
    %0 = sdy.reshard %arg0 <@grid, [{"y"}, {}]> : tensor<8x8xf32>
    %1 = "stablehlo.sort"(%0) <{dimension = 1 : i64}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %3 = stablehlo.compare LT, %arg1, %arg2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = sdy.reshard %1 <@grid, [{}, {"y"}]> : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// CASE a dimension of several factors is cut from its major end
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> tensor<32xf32> {
  %0 = stablehlo.reshape %a {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y"}]>]>} : (tensor<4x8xf32>) -> tensor<32xf32>
  return %0 : tensor<32xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> tensor<32xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{"x", "y":(1)2}, {"y":(2)2}]> : tensor<4x8xf32>
    %1 = stablehlo.reshape %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y"}]>]>} : (tensor<4x8xf32>) -> tensor<32xf32>
    %2 = sdy.reshard %1 <@grid, [{}]> : tensor<32xf32>
    return %2 : tensor<32xf32>
  }
}

// CASE axes of a reshape that divide no factor are handed out anew
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=3]>
func.func @main(%a: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> tensor<2x3x4xf32> {
  %0 = stablehlo.reshape %a {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}, {"x"}]>]>} : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=3]>
  func.func @main(%arg0: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> tensor<2x3x4xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{"x", "y"}, {}]> : tensor<6x4xf32>
    %1 = stablehlo.reshape %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
    %2 = sdy.reshard %1 <@grid, [{}, {"y"}, {"x"}]> : tensor<2x3x4xf32>
    %3 = sdy.reshard %2 <@grid, [{}, {}, {}]> : tensor<2x3x4xf32>
    return %3 : tensor<2x3x4xf32>
  }
}

// CASE values that flow into a loop are as it carries them
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %n: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) {
  %0:2 = stablehlo.while(%v = %a, %w = %n) : tensor<8xf32>, tensor<8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>, <@grid, [{}]>]>}
    cond {
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %1 = stablehlo.negate %v {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : tensor<8xf32>
      stablehlo.return %1, %v : tensor<8xf32>, tensor<8xf32>
    }
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %arg1: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) {
    %0 = sdy.reshard %arg0 <@grid, [{"y"}]> : tensor<8xf32>
    %1:2 = stablehlo.while(%iterArg = %0, %iterArg_0 = %arg1) : tensor<8xf32>, tensor<8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>, <@grid, [{}]>]>}
    cond {
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %4 = sdy.reshard %iterArg <@grid, [{}]> : tensor<8xf32>
      %5 = stablehlo.negate %iterArg {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : tensor<8xf32>
      %6 = sdy.reshard %5 <@grid, [{"x"}]> : tensor<8xf32>
      %7 = sdy.reshard %6 <@grid, [{"y"}]> : tensor<8xf32>
      stablehlo.return %7, %4 : tensor<8xf32>, tensor<8xf32>
    }
    %2 = sdy.reshard %1#0 <@grid, [{}]> : tensor<8xf32>
    %3 = sdy.reshard %1#1 <@grid, [{"y"}]> : tensor<8xf32>
    return %2, %3 : tensor<8xf32>, tensor<8xf32>
  }
}

// CASE operands of a manual computation are as it takes them
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"x", "y"}, {}]>] out_shardings=[<@grid, [{"x"}, {"y"}]>] manual_axes={"x"} (%m: tensor<4x8xf32>) {
    %1 = stablehlo.negate %m {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {}]>]>} : tensor<4x8xf32>
    sdy.return %1 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{"x", "y"}, {}]> : tensor<8x8xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@grid, [{"x", "y"}, {}]>] out_shardings=[<@grid, [{"x"}, {"y"}]>] manual_axes={"x"} (%arg1: tensor<4x8xf32>) {
      %3 = stablehlo.negate %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {}]>]>} : tensor<4x8xf32>
      %4 = sdy.reshard %3 <@grid, [{}, {"y"}]> : tensor<4x8xf32>
      sdy.return %4 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = sdy.reshard %1 <@grid, [{}, {}]> : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// CASE calls bring operands also without the option
// PASSES func.func(sdy-insert-explicit-reshards)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  %0 = call @f(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = call @g(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.add %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
func.func private @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
  return %b : tensor<8xf32>
}
func.func private @g(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{}]> : tensor<8xf32>
    %1 = sdy.reshard %arg1 <@grid, [{?}]> : tensor<8xf32>
    %2 = sdy.reshard %arg0 <@grid, [{"y"}]> : tensor<8xf32>
    %3 = call @f(%2, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %4 = call @g(%0) : (tensor<8xf32>) -> tensor<8xf32>
    %5 = stablehlo.add %3, %4 : tensor<8xf32>
    return %5 : tensor<8xf32>
  }
  func.func private @f(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}, %arg1: tensor<8xf32>) -> tensor<8xf32> {
    return %arg1 : tensor<8xf32>
  }
  func.func private @g(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// CASE a dot gives what its operands ask for
// PASSES func.func(sdy-insert-explicit-reshards)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x"}]>}, %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.negate %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x"}]>}, %arg1: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"y"}]>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %1 = sdy.reshard %0 <@grid, [{}, {"x"}]> : tensor<8x8xf32>
    %2 = stablehlo.negate %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// CASE a dot that is too large for that stays as it is
// PASSES func.func(sdy-insert-explicit-reshards)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x"}]>}, %b: tensor<2x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x"}]>}, %arg1: tensor<2x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// CASE a concatenation is resharded where its tensors differ
// PASSES func.func(sdy-insert-explicit-reshards)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.concatenate %a, %b, dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.concatenate %a, %a, dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.add %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %arg1: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}) -> tensor<8x8xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{"x", "y"}, {}]> : tensor<8x4xf32>
    %1 = sdy.reshard %arg1 <@grid, [{"x", "y"}, {}]> : tensor<8x4xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y"}, {}]>]>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    %3 = sdy.reshard %2 <@grid, [{"x"}, {"y"}]> : tensor<8x8xf32>
    %4 = stablehlo.concatenate %arg0, %arg0, dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    %5 = stablehlo.add %3, %4 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : tensor<8x8xf32>
    return %5 : tensor<8x8xf32>
  }
}

// CASE devices in another order
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
sdy.mesh @turned = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@turned, [{"x"}]>}, %c: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : tensor<8xf32>
  %1 = stablehlo.add %0, %c {sdy.sharding = #sdy.sharding_per_value<[<@turned, [{"x"}]>]>} : tensor<8xf32>
  return %1 : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  sdy.mesh @turned = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@turned, [{"x"}]>}, %arg2: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.reshard %arg1 <@grid, [{"x"}]> : tensor<8xf32>
    %1 = stablehlo.add %arg0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : tensor<8xf32>
    %2 = stablehlo.add %1, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : tensor<8xf32>
    %3 = sdy.reshard %2 <@turned, [{"x"}]> : tensor<8xf32>
    %4 = sdy.reshard %3 <@turned, [{}]> : tensor<8xf32>
    return %4 : tensor<8xf32>
  }
}
