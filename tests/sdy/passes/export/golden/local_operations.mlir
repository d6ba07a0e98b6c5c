// CASE concatenating along a dimension that is not cut
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %b: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  %0 = stablehlo.concatenate %a, %b, dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %arg1: tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<2x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    %0 = stablehlo.concatenate %arg0, %arg1, dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
    return %0 : tensor<2x5xf32>
  }
}

// CASE slicing beside dimensions that are cut
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %b: tensor<6xf32>) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, tensor<2xf32>) {
  %0 = stablehlo.slice %a [0:8:2, 1:7:3] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<8x8xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.slice %b [1:3] {note = "kept"} : (tensor<6xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<2xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %arg1: tensor<6xf32>) -> (tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, tensor<2xf32>) {
    %0 = stablehlo.slice %arg0 [0:4:2, 1:7:3] : (tensor<4x8xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.slice %arg1 [1:3] {note = "kept"} : (tensor<6xf32>) -> tensor<2xf32>
    return %0, %1 : tensor<2x2xf32>, tensor<2xf32>
  }
}

// CASE counting along a dimension that is cut, along another, and without cuts
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=3]>
func.func @main() -> (tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {"r"}]>}, tensor<6x4xi8> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}, tensor<5xi32>) {
  %0 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"c"}, {"r"}]>]>} : tensor<6x4xf32>
  %1 = stablehlo.iota dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"c"}, {}]>]>} : tensor<6x4xi8>
  %2 = stablehlo.iota dim = 0 {note = "kept"} : tensor<5xi32>
  return %0, %1, %2 : tensor<6x4xf32>, tensor<6x4xi8>, tensor<5xi32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=3]>
  func.func @main() -> (tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {"r"}]>}, tensor<2x4xi8> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}, tensor<5xi32>) {
    %0 = stablehlo.iota dim = 0 : tensor<2x2xf32>
    %1 = stablehlo.partition_id : tensor<ui32>
    %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[0, 2, 4, 0, 2, 4]> : tensor<6xi64>
    %3 = stablehlo.dynamic_slice %c, %2, sizes = [1] : (tensor<6xi64>, tensor<i64>) -> tensor<1xi64>
    %4 = stablehlo.reshape %3 : (tensor<1xi64>) -> tensor<i64>
    %5 = stablehlo.convert %4 : (tensor<i64>) -> tensor<f32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
    %7 = stablehlo.add %0, %6 : tensor<2x2xf32>
    %8 = stablehlo.iota dim = 1 : tensor<2x4xi8>
    %9 = stablehlo.iota dim = 0 {note = "kept"} : tensor<5xi32>
    return %7, %8, %9 : tensor<2x2xf32>, tensor<2x4xi8>, tensor<5xi32>
  }
}

// CASE padding that is the same on all devices
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %p: tensor<f32>) -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  %0 = stablehlo.pad %a, %p, low = [1, 2], high = [0, 1], interior = [1, 0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %arg1: tensor<f32>) -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    %0 = stablehlo.pad %arg0, %arg1, low = [1, 2], high = [0, 1], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}

// CASE padding that differs between devices
// PASSES sdy-convert-global-to-local{fix-wrong-results=false}
sdy.mesh @grid = <["r"=2, "c"=3], device_ids=[5, 0, 4, 1, 3, 2]>
func.func @main(%a: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}, %p: tensor<f32>) -> (tensor<9x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}) {
  %0 = stablehlo.pad %a, %p, low = [0, 1], high = [3, 0], interior = [0, 0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"c"}, {}]>]>} : (tensor<6x3xf32>, tensor<f32>) -> tensor<9x4xf32>
  return %0 : tensor<9x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=3], device_ids=[5, 0, 4, 1, 3, 2]>
  func.func @main(%arg0: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}, %arg1: tensor<f32>) -> (tensor<3x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}) {
    %0 = stablehlo.pad %arg0, %arg1, low = [0, 1], high = [3, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<5x4xf32>
    %1 = stablehlo.partition_id : tensor<ui32>
    %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[1, 0, 2, 1, 2, 0]> : tensor<6xi64>
    %3 = stablehlo.dynamic_slice %c, %2, sizes = [1] : (tensor<6xi64>, tensor<i64>) -> tensor<1xi64>
    %4 = stablehlo.reshape %3 : (tensor<1xi64>) -> tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %5 = stablehlo.dynamic_slice %0, %4, %c_0, sizes = [3, 4] : (tensor<5x4xf32>, tensor<i64>, tensor<i64>) -> tensor<3x4xf32>
    return %5 : tensor<3x4xf32>
  }
}

// CASE padding that cuts off
// PASSES sdy-convert-global-to-local{fix-wrong-results=false}
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %p: tensor<f32>) -> (tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  %0 = stablehlo.pad %a, %p, low = [-2, 0], high = [0, 0], interior = [0, 0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<8x3xf32>, tensor<f32>) -> tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %arg1: tensor<f32>) -> (tensor<3x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    %0 = stablehlo.pad %arg0, %arg1, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<5x3xf32>
    %1 = stablehlo.partition_id : tensor<ui32>
    %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[2, 2, 1, 1]> : tensor<4xi64>
    %3 = stablehlo.dynamic_slice %c, %2, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %4 = stablehlo.reshape %3 : (tensor<1xi64>) -> tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %5 = stablehlo.dynamic_slice %0, %4, %c_0, sizes = [3, 3] : (tensor<5x3xf32>, tensor<i64>, tensor<i64>) -> tensor<3x3xf32>
    return %5 : tensor<3x3xf32>
  }
}

// CASE windows beside dimensions that are cut
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %i: tensor<f32>) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  %0 = "stablehlo.reduce_window"(%a, %i) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>, padding = dense<[[0, 0], [1, -1]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<2x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}, %arg1: tensor<f32>) -> (tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    %0 = "stablehlo.reduce_window"(%arg0, %arg1) <{padding = dense<[[0, 0], [1, -1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %1 = stablehlo.maximum %arg2, %arg3 : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}

// CASE products that contract what is cut
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x6x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}, {"r"}]>}, %b: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, %v: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}]>}) -> (tensor<4xf32>, tensor<6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [2, 1] x [0, 1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<4x6x8xf32>, tensor<8x6xf32>) -> tensor<4xf32>
  %1 = sdy.all_reduce {"r", "c"} %0 out_sharding=<@grid, [{}]> : tensor<4xf32>
  %2 = stablehlo.dot %v, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"c"}]>]>} : (tensor<8xf32>, tensor<8x6xf32>) -> tensor<6xf32>
  %3 = sdy.all_reduce {"r"} %2 out_sharding=<@grid, [{"c"}]> : tensor<6xf32>
  return %1, %3 : tensor<4xf32>, tensor<6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x3x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}, {"r"}]>}, %arg1: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, %arg2: tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}]>}) -> (tensor<4xf32>, tensor<3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2, 1] x [0, 1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : (tensor<4x3x4xf32>, tensor<4x3xf32>) -> tensor<4xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.dot %arg2, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"c"}]>]>} : (tensor<4xf32>, tensor<4x3xf32>) -> tensor<3xf32>
    %3 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<3xf32>) -> tensor<3xf32>
    return %1, %3 : tensor<4xf32>, tensor<3xf32>
  }
}

// CASE products of what is padded with zeros
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2]>
func.func @main(%a: tensor<3x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"r"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}]>}) -> tensor<4xf32> {
  %z = stablehlo.constant dense<-0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %z, low = [0, 0], high = [1, 0], interior = [0, 0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"r"}]>]>} : (tensor<3x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = stablehlo.dot %0, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
  %2 = sdy.all_reduce {"r"} %1 out_sharding=<@grid, [{}]> : tensor<4xf32>
  return %2 : tensor<4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2]>
  func.func @main(%arg0: tensor<3x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"r"}]>}, %arg1: tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}]>}) -> tensor<4xf32> {
    %cst = stablehlo.constant dense<-0.000000e+00> : tensor<f32>
    %0 = stablehlo.pad %arg0, %cst, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %1 = stablehlo.dot %0, %arg1 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %3 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// CASE a convolution of features that are cut, and one of groups that are
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<2x6x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}, %k: tensor<3x4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}, {}]>}, %g: tensor<3x1x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}, {"c"}]>}) -> (tensor<2x4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {}]>}, tensor<2x4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}) {
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}, {}]>]>} : (tensor<2x6x4xf32>, tensor<3x4x6xf32>) -> tensor<2x4x6xf32>
  %1 = sdy.all_reduce {"c"} %0 out_sharding=<@grid, [{"r"}, {}, {}]> : tensor<2x4x6xf32>
  %2 = stablehlo.convolution(%a, %g) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}, {"c"}]>]>} : (tensor<2x6x4xf32>, tensor<3x1x4xf32>) -> tensor<2x4x4xf32>
  return %1, %2 : tensor<2x4x6xf32>, tensor<2x4x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<1x6x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}, %arg1: tensor<3x2x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}, {}]>}, %arg2: tensor<3x1x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}, {"c"}]>}) -> (tensor<1x4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {}]>}, tensor<1x4x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x6x2xf32>, tensor<3x2x6xf32>) -> tensor<1x4x6xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %3 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
    %2 = stablehlo.convolution(%arg0, %arg2) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x6x2xf32>, tensor<3x1x2xf32>) -> tensor<1x4x2xf32>
    return %1, %2 : tensor<1x4x6xf32>, tensor<1x4x2xf32>
  }
}

// CASE products whose sums are scattered, on which Shardy stops
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c", "r"}]>}, %b: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c", "r"}, {}]>}) -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, tensor<4x6xf32>) {
  %0 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = sdy.reduce_scatter [{"r"}, {"c"}] %0 out_sharding=<@grid, [{"r"}, {"c"}]> : tensor<4x6xf32>
  %2 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %3 = sdy.all_reduce {"r", "c"} %2 out_sharding=<@grid, [{}, {}]> : tensor<4x6xf32>
  return %1, %3 : tensor<4x6xf32>, tensor<4x6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c", "r"}]>}, %arg1: tensor<2x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c", "r"}, {}]>}) -> (tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, tensor<4x6xf32>) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<4x2xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %13 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %13 : tensor<f32>
    }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %2 = stablehlo.partition_id : tensor<ui32>
    %3 = stablehlo.convert %2 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[0, 0, 2, 2]> : tensor<4xi64>
    %4 = stablehlo.dynamic_slice %c, %3, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %5 = stablehlo.reshape %4 : (tensor<1xi64>) -> tensor<i64>
    %6 = stablehlo.partition_id : tensor<ui32>
    %7 = stablehlo.convert %6 : (tensor<ui32>) -> tensor<i64>
    %c_0 = stablehlo.constant dense<[0, 3, 0, 3]> : tensor<4xi64>
    %8 = stablehlo.dynamic_slice %c_0, %7, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %9 = stablehlo.reshape %8 : (tensor<1xi64>) -> tensor<i64>
    %10 = stablehlo.dynamic_slice %1, %5, %9, sizes = [2, 3] : (tensor<4x6xf32>, tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
    %11 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<4x2xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    %12 = "stablehlo.all_reduce"(%11) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %13 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %13 : tensor<f32>
    }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %10, %12 : tensor<2x3xf32>, tensor<4x6xf32>
  }
}
