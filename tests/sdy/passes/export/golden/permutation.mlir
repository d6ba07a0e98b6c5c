// CASE a reverse of even shards: only the mesh turns
// PASSES sdy-resolve-permutation-factors
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {"x"}]>}) -> tensor<8x12xf32> {
  %0 = stablehlo.reverse %a, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : tensor<8x12xf32>
  %1 = stablehlo.reverse %0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}
// GIVES
module {
  sdy.mesh @grid_reversed = <["x"=2, "y"=4], device_ids=[3, 2, 1, 0, 7, 6, 5, 4]>
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {"x"}]>}) -> tensor<8x12xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid_reversed, [{"y"}, {"x"}]>]>} : tensor<8x12xf32>
    %1 = sdy.reshard %0 <@grid, [{"y"}, {"x"}]> : tensor<8x12xf32>
    %2 = stablehlo.reverse %1, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid_reversed, [{"y"}, {"x"}]>]>} : tensor<8x12xf32>
    %3 = sdy.reshard %2 <@grid, [{"y"}, {"x"}]> : tensor<8x12xf32>
    return %3 : tensor<8x12xf32>
  }
}

// CASE without halo exchange it is made whole
// PASSES sdy-resolve-permutation-factors{enable-halo-exchange=false}
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {"x"}]>}) -> tensor<8x12xf32> {
  %0 = stablehlo.reverse %a, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {"x"}]>}) -> tensor<8x12xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{}, {"x"}]> : tensor<8x12xf32>
    %1 = stablehlo.reverse %0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : tensor<8x12xf32>
    %2 = sdy.reshard %1 <@grid, [{"y"}, {"x"}]> : tensor<8x12xf32>
    return %2 : tensor<8x12xf32>
  }
}

// CASE padding moves to the front over sub-axes
// PASSES sdy-resolve-permutation-factors
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y":(1)2}, {}]>}) -> tensor<8x12xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.slice %a [0:7, 0:12] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y":(1)2}, {}]>]>} : (tensor<8x12xf32>) -> tensor<7x12xf32>
  %1 = stablehlo.reverse %0, dims = [0, 1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y":(1)2}, {}]>]>} : tensor<7x12xf32>
  %2 = stablehlo.pad %1, %c, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<7x12xf32>, tensor<f32>) -> tensor<8x12xf32>
  return %2 : tensor<8x12xf32>
}
// GIVES
module {
  sdy.mesh @grid_reversed = <["x"=2, "y"=4], device_ids=[6, 7, 4, 5, 2, 3, 0, 1]>
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y":(1)2}, {}]>}) -> tensor<8x12xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.slice %arg0 [0:7, 0:12] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y":(1)2}, {}]>]>} : (tensor<8x12xf32>) -> tensor<7x12xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.pad %0, %cst_0, low = [0, 0], high = [1, 0], interior = [0, 0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y":(1)2}, {}]>]>} : (tensor<7x12xf32>, tensor<f32>) -> tensor<8x12xf32>
    %2 = sdy.manual_computation(%1) in_shardings=[<@grid, [{"x", "y":(1)2}, {}]>] out_shardings=[<@grid, [{"x", "y":(1)2}, {}]>] manual_axes={"x", "y"} (%arg1: tensor<2x12xf32>) {
      %8 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 2], [1, 3], [2, 4], [3, 5], [4, 6], [5, 7]]> : tensor<6x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<2x12xf32>) -> tensor<2x12xf32>
      %9 = stablehlo.slice %8 [1:2, 0:12] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<2x12xf32>) -> tensor<1x12xf32>
      %10 = stablehlo.slice %arg1 [0:1, 0:12] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<2x12xf32>) -> tensor<1x12xf32>
      %11 = stablehlo.concatenate %9, %10, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<1x12xf32>, tensor<1x12xf32>) -> tensor<2x12xf32>
      sdy.return %11 : tensor<2x12xf32>
    } : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %3 = stablehlo.reverse %2, dims = [0, 1] {sdy.sharding = #sdy.sharding_per_value<[<@grid_reversed, [{"x", "y":(1)2}, {}]>]>} : tensor<8x12xf32>
    %4 = sdy.reshard %3 <@grid, [{"x", "y":(1)2}, {}]> : tensor<8x12xf32>
    %5 = stablehlo.slice %4 [0:7, 0:12] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", "y":(1)2}, {}]>]>} : (tensor<8x12xf32>) -> tensor<7x12xf32>
    %6 = sdy.reshard %5 <@grid, [{}, {}]> : tensor<7x12xf32>
    %7 = stablehlo.pad %6, %cst, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<7x12xf32>, tensor<f32>) -> tensor<8x12xf32>
    return %7 : tensor<8x12xf32>
  }
}

// CASE a whole shard of padding
// PASSES sdy-resolve-permutation-factors
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<6xi32> {
  %0 = stablehlo.slice %a [0:6] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<8xi32>) -> tensor<6xi32>
  %1 = stablehlo.reverse %0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : tensor<6xi32>
  %2 = sdy.all_gather [{"y"}] %1 out_sharding=<@grid, [{}]> : tensor<6xi32>
  return %2 : tensor<6xi32>
}
// GIVES
module {
  sdy.mesh @grid_reversed = <["x"=2, "y"=4], device_ids=[3, 2, 1, 0, 7, 6, 5, 4]>
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xi32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<6xi32> {
    %0 = stablehlo.slice %arg0 [0:6] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<8xi32>) -> tensor<6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.pad %0, %c, low = [0], high = [2], interior = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<6xi32>, tensor<i32>) -> tensor<8xi32>
    %2 = sdy.manual_computation(%1) in_shardings=[<@grid, [{"y"}]>] out_shardings=[<@grid, [{"y"}]>] manual_axes={"y"} (%arg1: tensor<2xi32>) {
      %7 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]> : tensor<6x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<2xi32>) -> tensor<2xi32>
      %8 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<2xi32>) -> tensor<2xi32>
      %9 = stablehlo.slice %8 [2:2] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<2xi32>) -> tensor<0xi32>
      %10 = stablehlo.slice %7 [0:2] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<2xi32>) -> tensor<2xi32>
      %11 = stablehlo.concatenate %9, %10, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<0xi32>, tensor<2xi32>) -> tensor<2xi32>
      sdy.return %11 : tensor<2xi32>
    } : (tensor<8xi32>) -> tensor<8xi32>
    %3 = stablehlo.reverse %2, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid_reversed, [{"y"}]>]>} : tensor<8xi32>
    %4 = sdy.reshard %3 <@grid, [{"y"}]> : tensor<8xi32>
    %5 = stablehlo.slice %4 [0:6] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<8xi32>) -> tensor<6xi32>
    %6 = sdy.all_gather [{"y"}] %5 out_sharding=<@grid, [{}]> : tensor<6xi32>
    return %6 : tensor<6xi32>
  }
}

// CASE more padding than a shard: it is made whole
// PASSES sdy-resolve-permutation-factors
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<5xi32> {
  %0 = stablehlo.slice %a [0:5] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<8xi32>) -> tensor<5xi32>
  %1 = stablehlo.reverse %0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : tensor<5xi32>
  %2 = sdy.all_gather [{"y"}] %1 out_sharding=<@grid, [{}]> : tensor<5xi32>
  return %2 : tensor<5xi32>
}
// GIVES
module {
  sdy.mesh @grid_reversed = <["x"=2, "y"=4], device_ids=[3, 2, 1, 0, 7, 6, 5, 4]>
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xi32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}) -> tensor<5xi32> {
    %0 = stablehlo.slice %arg0 [0:5] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<8xi32>) -> tensor<5xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.pad %0, %c, low = [0], high = [3], interior = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<5xi32>, tensor<i32>) -> tensor<8xi32>
    %2 = sdy.manual_computation(%1) in_shardings=[<@grid, [{"y"}]>] out_shardings=[<@grid, [{"y"}]>] manual_axes={"y"} (%arg1: tensor<2xi32>) {
      %7 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]> : tensor<6x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<2xi32>) -> tensor<2xi32>
      %8 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<2xi32>) -> tensor<2xi32>
      %9 = stablehlo.slice %8 [1:2] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<2xi32>) -> tensor<1xi32>
      %10 = stablehlo.slice %7 [0:1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<2xi32>) -> tensor<1xi32>
      %11 = stablehlo.concatenate %9, %10, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      sdy.return %11 : tensor<2xi32>
    } : (tensor<8xi32>) -> tensor<8xi32>
    %3 = stablehlo.reverse %2, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid_reversed, [{"y"}]>]>} : tensor<8xi32>
    %4 = sdy.reshard %3 <@grid, [{"y"}]> : tensor<8xi32>
    %5 = stablehlo.slice %4 [0:5] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} : (tensor<8xi32>) -> tensor<5xi32>
    %6 = sdy.all_gather [{"y"}] %5 out_sharding=<@grid, [{}]> : tensor<5xi32>
    return %6 : tensor<5xi32>
  }
}

// CASE a mesh in the opposite order is found, and its reverse is the first
// PASSES sdy-resolve-permutation-factors
sdy.mesh @line = <["x"=3]>
sdy.mesh @enil = <["x"=3], device_ids=[2, 1, 0]>
func.func @main(%a: tensor<9xf32> {sdy.sharding = #sdy.sharding<@line, [{"x"}]>}, %b: tensor<9xf32> {sdy.sharding = #sdy.sharding<@enil, [{"x"}]>}) -> (tensor<9xf32>, tensor<9xf32>) {
  %0 = stablehlo.reverse %a, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@line, [{"x"}]>]>} : tensor<9xf32>
  %1 = stablehlo.reverse %b, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@enil, [{"x"}]>]>} : tensor<9xf32>
  return %0, %1 : tensor<9xf32>, tensor<9xf32>
}
// GIVES
module {
  sdy.mesh @line = <["x"=3]>
  sdy.mesh @enil = <["x"=3], device_ids=[2, 1, 0]>
  func.func @main(%arg0: tensor<9xf32> {sdy.sharding = #sdy.sharding<@line, [{"x"}]>}, %arg1: tensor<9xf32> {sdy.sharding = #sdy.sharding<@enil, [{"x"}]>}) -> (tensor<9xf32>, tensor<9xf32>) {
    %0 = stablehlo.reverse %arg0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@enil, [{"x"}]>]>} : tensor<9xf32>
    %1 = sdy.reshard %0 <@line, [{"x"}]> : tensor<9xf32>
    %2 = stablehlo.reverse %arg1, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@line, [{"x"}]>]>} : tensor<9xf32>
    %3 = sdy.reshard %2 <@enil, [{"x"}]> : tensor<9xf32>
    return %1, %3 : tensor<9xf32>, tensor<9xf32>
  }
}

// CASE windows reach over borders
// PASSES sdy-resolve-permutation-factors
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {"x"}]>}) -> tensor<14x8xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = "stablehlo.reduce_window"(%a, %0) ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %2 = stablehlo.maximum %l, %r : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) {window_dimensions = array<i64: 3, 1>, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {"x"}]>]>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<14x8xf32>
  return %1 : tensor<14x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {"x"}]>}) -> tensor<14x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = sdy.reshard %arg0 <@grid, [{}, {"x"}]> : tensor<16x8xf32>
    %1 = "stablehlo.reduce_window"(%0, %cst) <{window_dimensions = array<i64: 3, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %3 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"x"}]>]>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<14x8xf32>
    %2 = sdy.reshard %1 <@grid, [{"y"}, {"x"}]> : tensor<14x8xf32>
    return %2 : tensor<14x8xf32>
  }
}

// CASE slices that stay on their device, and one that does not
// PASSES sdy-resolve-permutation-factors
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> (tensor<7x7xf32>, tensor<8x4xf32>) {
  %0 = stablehlo.slice %a [0:7, 0:7] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<7x7xf32>
  %1 = stablehlo.slice %a [0:8, 0:8:2] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<7x7xf32>, tensor<8x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y"}]>}) -> (tensor<7x7xf32>, tensor<8x4xf32>) {
    %0 = stablehlo.slice %arg0 [0:7, 0:7] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<7x7xf32>
    %1 = sdy.reshard %arg0 <@grid, [{"x"}, {}]> : tensor<8x8xf32>
    %2 = stablehlo.slice %1 [0:8, 0:8:2] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<8x8xf32>) -> tensor<8x4xf32>
    %3 = sdy.reshard %2 <@grid, [{"x"}, {"y"}]> : tensor<8x4xf32>
    return %0, %3 : tensor<7x7xf32>, tensor<8x4xf32>
  }
}

// CASE nothing to do: not cut, maximal, without shardings, custom rules
// PASSES sdy-resolve-permutation-factors
sdy.mesh @grid = <["x"=2, "y"=4]>
sdy.mesh @one = <[], device_ids=[3]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.reverse %a, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : tensor<8xf32>
  %1 = stablehlo.slice %b [0:4] : (tensor<8xf32>) -> tensor<4xf32>
  %2 = stablehlo.reverse %b, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : tensor<8xf32>
  %3 = stablehlo.custom_call @mine(%2) {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8} permutation={i}, custom>} : (tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  sdy.mesh @one = <[], device_ids=[3]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}]>}, %arg1: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : tensor<8xf32>
    %1 = stablehlo.slice %arg1 [0:4] : (tensor<8xf32>) -> tensor<4xf32>
    %2 = stablehlo.reverse %arg1, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : tensor<8xf32>
    %3 = stablehlo.custom_call @mine(%2) {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8} permutation={i}, custom>} : (tensor<8xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
