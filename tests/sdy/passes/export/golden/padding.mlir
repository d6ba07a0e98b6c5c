// CASE padding comes with a cut and goes with a gather
// PASSES func.func(sdy-pad-for-divisibility)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<5x6xbf16>) -> tensor<5x6xbf16> {
  %0 = sdy.all_slice [{"x"}, {"y"}] %a out_sharding=<@grid, [{"x"}, {"y"}]> : tensor<5x6xbf16>
  %1 = stablehlo.tanh %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<5x6xbf16>
  %2 = sdy.all_gather [{}, {"y"}] %1 out_sharding=<@grid, [{"x"}, {}]> : tensor<5x6xbf16>
  %3 = stablehlo.add %2, %2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<5x6xbf16>
  %4 = sdy.all_gather [{"x"}, {}] %3 out_sharding=<@grid, [{}, {}]> : tensor<5x6xbf16>
  return %4 : tensor<5x6xbf16>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<5x6xbf16>) -> tensor<5x6xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.pad %arg0, %cst, low = [0, 0], high = [1, 2], interior = [0, 0] : (tensor<5x6xbf16>, tensor<bf16>) -> tensor<6x8xbf16>
    %1 = sdy.all_slice [{"x"}, {"y"}] %0 out_sharding=<@grid, [{"x"}, {"y"}]> : tensor<6x8xbf16>
    %2 = stablehlo.tanh %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<6x8xbf16>
    %3 = sdy.all_gather [{}, {"y"}] %2 out_sharding=<@grid, [{"x"}, {}]> : tensor<6x8xbf16>
    %4 = stablehlo.slice %3 [0:6, 0:6] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<6x8xbf16>) -> tensor<6x6xbf16>
    %5 = stablehlo.add %4, %4 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<6x6xbf16>
    %6 = sdy.all_gather [{"x"}, {}] %5 out_sharding=<@grid, [{}, {}]> : tensor<6x6xbf16>
    %7 = stablehlo.slice %6 [0:5, 0:6] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<6x6xbf16>) -> tensor<5x6xbf16>
    return %7 : tensor<5x6xbf16>
  }
}

// CASE a gather of one of two axes pads again
// PASSES func.func(sdy-pad-for-divisibility)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<7xf32>) -> tensor<7xf32> {
  %0 = sdy.all_slice [{"x", "y"}] %a out_sharding=<@grid, [{"x", "y"}]> : tensor<7xf32>
  %1 = sdy.all_gather [{"y"}] %0 out_sharding=<@grid, [{"x"}]> : tensor<7xf32>
  %2 = stablehlo.negate %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : tensor<7xf32>
  %3 = sdy.all_slice [{"y"}] %2 out_sharding=<@grid, [{"x", "y"}]> : tensor<7xf32>
  %4 = sdy.all_gather [{"x", "y"}] %3 out_sharding=<@grid, [{}]> : tensor<7xf32>
  return %4 : tensor<7xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<7xf32>) -> tensor<7xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.pad %arg0, %cst, low = [0], high = [1], interior = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = sdy.all_slice [{"x", "y"}] %0 out_sharding=<@grid, [{"x", "y"}]> : tensor<8xf32>
    %2 = sdy.all_gather [{"y"}] %1 out_sharding=<@grid, [{"x"}]> : tensor<8xf32>
    %3 = stablehlo.slice %2 [0:8] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
    %4 = stablehlo.negate %3 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : tensor<8xf32>
    %5 = sdy.all_slice [{"y"}] %4 out_sharding=<@grid, [{"x", "y"}]> : tensor<8xf32>
    %6 = sdy.all_gather [{"x", "y"}] %5 out_sharding=<@grid, [{}]> : tensor<8xf32>
    %7 = stablehlo.slice %6 [0:7] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<8xf32>) -> tensor<7xf32>
    return %7 : tensor<7xf32>
  }
}

// CASE contracted padding is zero: known on one side, made on the other
// PASSES func.func(sdy-pad-for-divisibility)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<4x6xf32>, %b: tensor<6x7xf32>) -> tensor<4x7xf32> {
  %0 = sdy.all_slice [{}, {"y"}] %a out_sharding=<@grid, [{}, {"y"}]> : tensor<4x6xf32>
  %1 = sdy.all_slice [{"y"}, {"x"}] %b out_sharding=<@grid, [{"y"}, {"x"}]> : tensor<6x7xf32>
  %2 = stablehlo.exponential %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : tensor<6x7xf32>
  %3 = stablehlo.dot_general %0, %2, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : (tensor<4x6xf32>, tensor<6x7xf32>) -> tensor<4x7xf32>
  %5 = stablehlo.negate %3 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : tensor<4x7xf32>
  %6 = sdy.all_gather [{}, {"x"}] %5 out_sharding=<@grid, [{}, {}]> : tensor<4x7xf32>
  return %6 : tensor<4x7xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<4x6xf32>, %arg1: tensor<6x7xf32>) -> tensor<4x7xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.pad %arg0, %cst, low = [0, 0], high = [0, 2], interior = [0, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x8xf32>
    %1 = sdy.all_slice [{}, {"y"}] %0 out_sharding=<@grid, [{}, {"y"}]> : tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.pad %arg1, %cst_0, low = [0, 0], high = [2, 1], interior = [0, 0] : (tensor<6x7xf32>, tensor<f32>) -> tensor<8x8xf32>
    %3 = sdy.all_slice [{"y"}, {"x"}] %2 out_sharding=<@grid, [{"y"}, {"x"}]> : tensor<8x8xf32>
    %4 = stablehlo.exponential %3 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : tensor<8x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : tensor<8x8xi32>
    %c = stablehlo.constant dense<6> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : (tensor<i32>) -> tensor<8x8xi32>
    %7 = stablehlo.compare LT, %5, %6 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : (tensor<f32>) -> tensor<8x8xf32>
    %9 = stablehlo.select %7, %4, %8 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : tensor<8x8xi1>, tensor<8x8xf32>
    %10 = stablehlo.dot_general %1, %9, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %11 = stablehlo.negate %10 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : tensor<4x8xf32>
    %12 = sdy.all_gather [{}, {"x"}] %11 out_sharding=<@grid, [{}, {}]> : tensor<4x8xf32>
    %13 = stablehlo.slice %12 [0:4, 0:7] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<4x8xf32>) -> tensor<4x7xf32>
    return %13 : tensor<4x7xf32>
  }
}

// CASE two contracted dimensions
// PASSES func.func(sdy-pad-for-divisibility)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<5x6x2xf32>, %b: tensor<2x5x6xf32>) -> tensor<2x2xf32> {
  %0 = sdy.all_slice [{"x"}, {"y"}, {}] %a out_sharding=<@grid, [{"x"}, {"y"}, {}]> : tensor<5x6x2xf32>
  %1 = stablehlo.cosine %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : tensor<5x6x2xf32>
  %2 = sdy.all_slice [{}, {"x"}, {"y"}] %b out_sharding=<@grid, [{}, {"x"}, {"y"}]> : tensor<2x5x6xf32>
  %3 = stablehlo.dot_general %1, %2, contracting_dims = [0, 1] x [1, 2] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<5x6x2xf32>, tensor<2x5x6xf32>) -> tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<5x6x2xf32>, %arg1: tensor<2x5x6xf32>) -> tensor<2x2xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.pad %arg0, %cst, low = [0, 0, 0], high = [1, 2, 0], interior = [0, 0, 0] : (tensor<5x6x2xf32>, tensor<f32>) -> tensor<6x8x2xf32>
    %1 = sdy.all_slice [{"x"}, {"y"}, {}] %0 out_sharding=<@grid, [{"x"}, {"y"}, {}]> : tensor<6x8x2xf32>
    %2 = stablehlo.cosine %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : tensor<6x8x2xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.pad %arg1, %cst_0, low = [0, 0, 0], high = [0, 1, 2], interior = [0, 0, 0] : (tensor<2x5x6xf32>, tensor<f32>) -> tensor<2x6x8xf32>
    %4 = sdy.all_slice [{}, {"x"}, {"y"}] %3 out_sharding=<@grid, [{}, {"x"}, {"y"}]> : tensor<2x6x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : tensor<6x8x2xi32>
    %c = stablehlo.constant dense<5> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : (tensor<i32>) -> tensor<6x8x2xi32>
    %7 = stablehlo.compare LT, %5, %6 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : (tensor<6x8x2xi32>, tensor<6x8x2xi32>) -> tensor<6x8x2xi1>
    %8 = stablehlo.iota dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : tensor<6x8x2xi32>
    %c_2 = stablehlo.constant dense<6> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_2, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : (tensor<i32>) -> tensor<6x8x2xi32>
    %10 = stablehlo.compare LT, %8, %9 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : (tensor<6x8x2xi32>, tensor<6x8x2xi32>) -> tensor<6x8x2xi1>
    %11 = stablehlo.and %7, %10 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : tensor<6x8x2xi1>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : (tensor<f32>) -> tensor<6x8x2xf32>
    %13 = stablehlo.select %11, %2, %12 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}, {}]>]>} : tensor<6x8x2xi1>, tensor<6x8x2xf32>
    %14 = stablehlo.dot_general %13, %4, contracting_dims = [0, 1] x [1, 2] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<6x8x2xf32>, tensor<2x6x8xf32>) -> tensor<2x2xf32>
    return %14 : tensor<2x2xf32>
  }
}

// CASE regions move to the new operation
// PASSES func.func(sdy-pad-for-divisibility)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<4x5xf32>) -> tensor<5xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = sdy.all_slice [{}, {"x"}] %a out_sharding=<@grid, [{}, {"x"}]> : tensor<4x5xf32>
  %2 = stablehlo.reduce(%1 init: %0) applies stablehlo.add across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : (tensor<4x5xf32>, tensor<f32>) -> tensor<5xf32>
  %3 = "stablehlo.sort"(%2) ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %5 = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %5 : tensor<i1>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : (tensor<5xf32>) -> tensor<5xf32>
  %4 = sdy.all_gather [{"x"}] %3 out_sharding=<@grid, [{}]> : tensor<5xf32>
  return %4 : tensor<5xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<4x5xf32>) -> tensor<5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.pad %arg0, %cst_0, low = [0, 0], high = [0, 1], interior = [0, 0] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x6xf32>
    %1 = sdy.all_slice [{}, {"x"}] %0 out_sharding=<@grid, [{}, {"x"}]> : tensor<4x6xf32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %3 = "stablehlo.sort"(%2) ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %6 = stablehlo.compare LT, %arg1, %arg2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} : (tensor<6xf32>) -> tensor<6xf32>
    %4 = sdy.all_gather [{"x"}] %3 out_sharding=<@grid, [{}]> : tensor<6xf32>
    %5 = stablehlo.slice %4 [0:5] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<6xf32>) -> tensor<5xf32>
    return %5 : tensor<5xf32>
  }
}

// CASE types follow operands: iota, concatenate, transpose, window, select
// PASSES func.func(sdy-pad-for-divisibility{fix-wrong-results=false})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<7x3xf32>) -> tensor<3x14xf32> {
  %0 = sdy.all_slice [{"x"}, {}] %a out_sharding=<@grid, [{"x"}, {}]> : tensor<7x3xf32>
  %1 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<7x3xf32>
  %2 = stablehlo.compare GT, %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xi1>
  %3 = stablehlo.select %2, %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<7x3xi1>, tensor<7x3xf32>
  %4 = stablehlo.concatenate %3, %1, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<14x3xf32>
  %5 = stablehlo.transpose %4, dims = [1, 0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : (tensor<14x3xf32>) -> tensor<3x14xf32>
  %6 = sdy.all_gather [{}, {"x"}] %5 out_sharding=<@grid, [{}, {}]> : tensor<3x14xf32>
  return %6 : tensor<3x14xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<7x3xf32>) -> tensor<3x14xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.pad %arg0, %cst, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<7x3xf32>, tensor<f32>) -> tensor<8x3xf32>
    %1 = sdy.all_slice [{"x"}, {}] %0 out_sharding=<@grid, [{"x"}, {}]> : tensor<8x3xf32>
    %2 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<8x3xf32>
    %3 = stablehlo.compare GT, %1, %2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xi1>
    %4 = stablehlo.select %3, %1, %2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<8x3xi1>, tensor<8x3xf32>
    %5 = stablehlo.concatenate %4, %2, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<16x3xf32>
    %6 = builtin.unrealized_conversion_cast %5 : tensor<16x3xf32> to tensor<14x3xf32>
    %7 = stablehlo.transpose %6, dims = [1, 0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : (tensor<14x3xf32>) -> tensor<3x14xf32>
    %8 = sdy.all_gather [{}, {"x"}] %7 out_sharding=<@grid, [{}, {}]> : tensor<3x14xf32>
    return %8 : tensor<3x14xf32>
  }
}

// CASE a slice keeps the padding that its result has to have
// PASSES func.func(sdy-pad-for-divisibility)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<7x8xf32> {
  %0 = stablehlo.slice %a [0:7, 0:8] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<7x8xf32>
  %1 = sdy.all_gather [{"x"}, {"y"}] %0 out_sharding=<@grid, [{}, {}]> : tensor<7x8xf32>
  return %1 : tensor<7x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<7x8xf32> {
    %0 = stablehlo.slice %arg0 [0:8, 0:8] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = sdy.all_gather [{"x"}, {"y"}] %0 out_sharding=<@grid, [{}, {}]> : tensor<8x8xf32>
    %2 = stablehlo.slice %1 [0:7, 0:8] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<8x8xf32>) -> tensor<7x8xf32>
    return %2 : tensor<7x8xf32>
  }
}

// CASE a computation on other shards gets casts
// PASSES func.func(sdy-pad-for-divisibility)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %0 = sdy.all_slice [{"x"}, {}] %a out_sharding=<@grid, [{"x"}, {}]> : tensor<5x4xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@grid, [{"x"}, {"y"}]>] out_shardings=[<@grid, [{"x"}, {"y"}]>] manual_axes={"y"} (%s: tensor<5x1xf32>) {
    %4 = stablehlo.tanh %s {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<5x1xf32>
    sdy.return %4 : tensor<5x1xf32>
  } : (tensor<5x4xf32>) -> tensor<5x4xf32>
  %2 = stablehlo.sine %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<5x4xf32>
  %3 = sdy.all_gather [{"x"}, {"y"}] %2 out_sharding=<@grid, [{}, {}]> : tensor<5x4xf32>
  return %3 : tensor<5x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<5x4xf32>) -> tensor<5x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.pad %arg0, %cst, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<5x4xf32>, tensor<f32>) -> tensor<6x4xf32>
    %1 = sdy.all_slice [{"x"}, {}] %0 out_sharding=<@grid, [{"x"}, {}]> : tensor<6x4xf32>
    %2 = builtin.unrealized_conversion_cast %1 : tensor<6x4xf32> to tensor<5x4xf32>
    %3 = sdy.manual_computation(%2) in_shardings=[<@grid, [{"x"}, {"y"}]>] out_shardings=[<@grid, [{"x"}, {"y"}]>] manual_axes={"y"} (%arg1: tensor<5x1xf32>) {
      %8 = builtin.unrealized_conversion_cast %arg1 : tensor<5x1xf32> to tensor<6x1xf32>
      %9 = stablehlo.tanh %8 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : tensor<6x1xf32>
      %10 = builtin.unrealized_conversion_cast %9 : tensor<6x1xf32> to tensor<5x1xf32>
      sdy.return %10 : tensor<5x1xf32>
    } : (tensor<5x4xf32>) -> tensor<5x4xf32>
    %4 = builtin.unrealized_conversion_cast %3 : tensor<5x4xf32> to tensor<6x4xf32>
    %5 = stablehlo.sine %4 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<6x4xf32>
    %6 = sdy.all_gather [{"x"}, {"y"}] %5 out_sharding=<@grid, [{}, {}]> : tensor<6x4xf32>
    %7 = stablehlo.slice %6 [0:5, 0:4] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<6x4xf32>) -> tensor<5x4xf32>
    return %7 : tensor<5x4xf32>
  }
}

// CASE even shards stay as they are
// PASSES func.func(sdy-pad-for-divisibility)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<8x4xf32> {
  %0 = stablehlo.abs %a {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func private @declared(tensor<8xf32>)
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> tensor<8x4xf32> {
    %0 = stablehlo.abs %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
  func.func private @declared(tensor<8xf32>)
}
