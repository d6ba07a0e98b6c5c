// CASE gathering along one dimension
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=3, "c"=2], device_ids=[5, 4, 3, 2, 1, 0]>
func.func @main(%a: tensor<6x8xbf16> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<6x8xbf16> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}]>}) {
  %0 = sdy.all_gather [{"r"}, {}] %a out_sharding=<@grid, [{}, {"c"}]> : tensor<6x8xbf16>
  return %0 : tensor<6x8xbf16>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=3, "c"=2], device_ids=[5, 4, 3, 2, 1, 0]>
  func.func @main(%arg0: tensor<2x4xbf16> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<6x4xbf16> {sdy.sharding = #sdy.sharding<@grid, [{}, {"c"}]>}) {
    %0 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[5, 3, 1], [4, 2, 0]]> : tensor<2x3xi64>, use_global_device_ids}> : (tensor<2x4xbf16>) -> tensor<6x4xbf16>
    return %0 : tensor<6x4xbf16>
  }
}

// CASE gathering along several dimensions at once
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2, "d"=2]>
func.func @main(%a: tensor<4x3x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}, {"d", "r"}]>}) -> tensor<4x3x8xf32> {
  %0 = sdy.all_gather [{"c"}, {}, {"d", "r"}] %a out_sharding=<@grid, [{}, {}, {}]> : tensor<4x3x8xf32>
  return %0 : tensor<4x3x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2, "d"=2]>
  func.func @main(%arg0: tensor<2x3x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}, {"d", "r"}]>}) -> tensor<4x3x8xf32> {
    %0 = stablehlo.reshape %arg0 : (tensor<2x3x2xf32>) -> tensor<1x2x3x2xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4, 1, 5, 2, 6, 3, 7]]> : tensor<1x8xi64>, use_global_device_ids}> : (tensor<1x2x3x2xf32>) -> tensor<8x2x3x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<8x2x3x2xf32>) -> tensor<2x4x2x3x2xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 3, 1, 4] : (tensor<2x4x2x3x2xf32>) -> tensor<2x2x3x4x2xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x2x3x4x2xf32>) -> tensor<4x3x8xf32>
    return %4 : tensor<4x3x8xf32>
  }
}

// CASE gathering along one dimension after the other, groups as axes
// PASSES sdy-convert-global-to-local{per-dim-all-gather=true enable-rgv3=true}
sdy.mesh @grid = <["r"=2, "c"=4]>
func.func @main(%a: tensor<4x3x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c":(1)2}, {}, {"r"}]>}, %b: tensor<4xf32> {sdy.sharding = #sdy.sharding<mesh<["k"=2]>, [{"k"}]>}) -> (tensor<4x3x8xf32>, tensor<4xf32>) {
  %0 = sdy.all_gather [{"c":(1)2}, {}, {"r"}] %a out_sharding=<@grid, [{}, {}, {}]> : tensor<4x3x8xf32>
  %1 = sdy.all_gather [{"k"}] %b out_sharding=<mesh<["k"=2]>, [{}]> : tensor<4xf32>
  return %0, %1 : tensor<4x3x8xf32>, tensor<4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=4]>
  func.func @main(%arg0: tensor<2x3x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c":(1)2}, {}, {"r"}]>}, %arg1: tensor<2xf32> {sdy.sharding = #sdy.sharding<mesh<["k"=2]>, [{"k"}]>}) -> (tensor<4x3x8xf32>, tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 2 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @grid, axes = [#stablehlo.axis_ref<name = "r">]>, use_global_device_ids}> : (tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>, use_global_device_ids}> : (tensor<2x3x8xf32>) -> tensor<4x3x8xf32>
    %2 = "stablehlo.all_gather"(%arg1) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #sdy.mesh<["k"=2]>, axes = [#stablehlo.axis_ref<name = "k">]>, use_global_device_ids}> : (tensor<2xf32>) -> tensor<4xf32>
    return %1, %2 : tensor<4x3x8xf32>, tensor<4xf32>
  }
}

// CASE slicing along two dimensions
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=3], device_ids=[1, 0, 3, 2, 5, 4]>
func.func @main(%a: tensor<6x5x4xf32>) -> (tensor<6x5x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}, {"r"}]>}) {
  %0 = sdy.all_slice [{"c"}, {}, {"r"}] %a out_sharding=<@grid, [{"c"}, {}, {"r"}]> : tensor<6x5x4xf32>
  return %0 : tensor<6x5x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=3], device_ids=[1, 0, 3, 2, 5, 4]>
  func.func @main(%arg0: tensor<6x5x4xf32>) -> (tensor<2x5x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}, {"r"}]>}) {
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[2, 0, 0, 4, 4, 2]> : tensor<6xi64>
    %2 = stablehlo.dynamic_slice %c, %1, sizes = [1] : (tensor<6xi64>, tensor<i64>) -> tensor<1xi64>
    %3 = stablehlo.reshape %2 : (tensor<1xi64>) -> tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %4 = stablehlo.partition_id : tensor<ui32>
    %5 = stablehlo.convert %4 : (tensor<ui32>) -> tensor<i64>
    %c_1 = stablehlo.constant dense<[0, 0, 2, 0, 2, 2]> : tensor<6xi64>
    %6 = stablehlo.dynamic_slice %c_1, %5, sizes = [1] : (tensor<6xi64>, tensor<i64>) -> tensor<1xi64>
    %7 = stablehlo.reshape %6 : (tensor<1xi64>) -> tensor<i64>
    %8 = stablehlo.dynamic_slice %arg0, %3, %c_0, %7, sizes = [2, 5, 2] : (tensor<6x5x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2x5x2xf32>
    return %8 : tensor<2x5x2xf32>
  }
}

// CASE slicing along sub-axes counts their digits as Shardy did until July 2026
// PASSES sdy-convert-global-to-local{fix-sub-axis-offsets=false}
sdy.mesh @line = <["r"=8]>
func.func @main(%a: tensor<4xi8>) -> (tensor<4xi8> {sdy.sharding = #sdy.sharding<@line, [{"r":(2)4}]>}) {
  %0 = sdy.all_slice [{"r":(2)4}] %a out_sharding=<@line, [{"r":(2)4}]> : tensor<4xi8>
  return %0 : tensor<4xi8>
}
// GIVES
module {
  sdy.mesh @line = <["r"=8]>
  func.func @main(%arg0: tensor<4xi8>) -> (tensor<1xi8> {sdy.sharding = #sdy.sharding<@line, [{"r":(2)4}]>}) {
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[0, 0, 1, 1, 2, 2, 3, 3]> : tensor<8xi64>
    %2 = stablehlo.dynamic_slice %c, %1, sizes = [1] : (tensor<8xi64>, tensor<i64>) -> tensor<1xi64>
    %3 = stablehlo.reshape %2 : (tensor<1xi64>) -> tensor<i64>
    %4 = stablehlo.dynamic_slice %arg0, %3, sizes = [1] : (tensor<4xi8>, tensor<i64>) -> tensor<1xi8>
    return %4 : tensor<1xi8>
  }
}

// CASE exchanging between two dimensions
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=3]>
func.func @main(%a: tensor<6x6x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {"r"}, {}]>}) -> (tensor<6x6x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"r", "c"}, {}]>}) {
  %0 = sdy.all_to_all [{"c"}: 0->1] %a out_sharding=<@grid, [{}, {"r", "c"}, {}]> : tensor<6x6x5xf32>
  return %0 : tensor<6x6x5xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=3]>
  func.func @main(%arg0: tensor<2x3x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {"r"}, {}]>}) -> (tensor<6x1x5xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"r", "c"}, {}]>}) {
    %0 = "stablehlo.all_to_all"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>, split_count = 3 : i64, split_dimension = 1 : i64}> : (tensor<2x3x5xf32>) -> tensor<6x1x5xf32>
    return %0 : tensor<6x1x5xf32>
  }
}

// CASE exchanging between two pairs of dimensions
// PASSES sdy-convert-global-to-local{enable-rgv3=true}
sdy.mesh @grid = <["r"=2, "c"=3]>
func.func @main(%a: tensor<6x4x3x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {"r"}, {}, {}]>}) -> (tensor<6x4x3x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}, {"c"}, {"r"}]>}) {
  %0 = sdy.all_to_all [{"c"}: 0->2, {"r"}: 1->3] %a out_sharding=<@grid, [{}, {}, {"c"}, {"r"}]> : tensor<6x4x3x6xf32>
  return %0 : tensor<6x4x3x6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=3]>
  func.func @main(%arg0: tensor<2x2x3x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {"r"}, {}, {}]>}) -> (tensor<6x4x1x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}, {"c"}, {"r"}]>}) {
    %0 = stablehlo.reshape %arg0 : (tensor<2x2x3x6xf32>) -> tensor<2x2x3x1x2x3xf32>
    %1 = stablehlo.transpose %0, dims = [2, 4, 0, 1, 3, 5] : (tensor<2x2x3x1x2x3xf32>) -> tensor<3x2x2x2x1x3xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x2x2x2x1x3xf32>) -> tensor<6x2x2x1x3xf32>
    %3 = "stablehlo.all_to_all"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @grid, axes = [#stablehlo.axis_ref<name = "c">, #stablehlo.axis_ref<name = "r">]>, split_count = 6 : i64, split_dimension = 0 : i64}> : (tensor<6x2x2x1x3xf32>) -> tensor<6x2x2x1x3xf32>
    %4 = stablehlo.reshape %3 : (tensor<6x2x2x1x3xf32>) -> tensor<3x2x2x2x1x3xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1, 3, 4, 5] : (tensor<3x2x2x2x1x3xf32>) -> tensor<3x2x2x2x1x3xf32>
    %6 = stablehlo.reshape %5 : (tensor<3x2x2x2x1x3xf32>) -> tensor<6x4x1x3xf32>
    return %6 : tensor<6x4x1x3xf32>
  }
}

// CASE permuting shards between dimensions
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2, "d"=2]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"d"}, {"r"}]>}) {
  %0 = sdy.collective_permute %a out_sharding=<@grid, [{"d"}, {"r"}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2, "d"=2]>
  func.func @main(%arg0: tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"d"}, {"r"}]>}) {
    %0 = "stablehlo.collective_permute"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 0], [1, 2], [2, 4], [3, 6], [4, 1], [5, 3], [6, 5], [7, 7]]> : tensor<8x2xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}

// CASE permuting devices of a mesh
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
sdy.mesh @turned = <["r"=2, "c"=2], device_ids=[2, 0, 3, 1]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@turned, [{"r"}, {"c"}]>}) {
  %0 = sdy.collective_permute %a out_sharding=<@turned, [{"r"}, {"c"}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  sdy.mesh @turned = <["r"=2, "c"=2], device_ids=[2, 0, 3, 1]>
  func.func @main(%arg0: tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@turned, [{"r"}, {"c"}]>}) {
    %0 = "stablehlo.collective_permute"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 2], [1, 0], [2, 3], [3, 1]]> : tensor<4x2xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}

// CASE reducing takes the channel behind those that are taken
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=4]>
func.func @main(%a: tensor<4x4xi32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x4xi32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<4x4xi32>) -> tensor<4x4xi32>
  %1 = sdy.all_reduce {"c":(2)2} %0 out_sharding=<@grid, [{"r"}, {}]> : tensor<4x4xi32>
  return %1 : tensor<4x4xi32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=4]>
  func.func @main(%arg0: tensor<2x4xi32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<2x4xi32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    %0 = "stablehlo.collective_permute"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<2x4xi32>) -> tensor<2x4xi32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<i32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<i32>
      stablehlo.return %2 : tensor<i32>
    }) : (tensor<2x4xi32>) -> tensor<2x4xi32>
    return %1 : tensor<2x4xi32>
  }
}

// CASE reducing and scattering along one dimension
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
  %0 = sdy.reduce_scatter [{}, {"c"}] %a out_sharding=<@grid, [{"r"}, {"c"}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
    %0 = "stablehlo.reduce_scatter"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %1 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<2x4xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}

// CASE reducing and scattering along two dimensions
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
  %0 = sdy.reduce_scatter [{"r"}, {"c"}] %a out_sharding=<@grid, [{"r"}, {"c"}]> : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}]>}) -> (tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
    %0 = "stablehlo.all_reduce"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %10 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %10 : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.partition_id : tensor<ui32>
    %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[0, 0, 2, 2]> : tensor<4xi64>
    %3 = stablehlo.dynamic_slice %c, %2, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %4 = stablehlo.reshape %3 : (tensor<1xi64>) -> tensor<i64>
    %5 = stablehlo.partition_id : tensor<ui32>
    %6 = stablehlo.convert %5 : (tensor<ui32>) -> tensor<i64>
    %c_0 = stablehlo.constant dense<[0, 2, 0, 2]> : tensor<4xi64>
    %7 = stablehlo.dynamic_slice %c_0, %6, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %8 = stablehlo.reshape %7 : (tensor<1xi64>) -> tensor<i64>
    %9 = stablehlo.dynamic_slice %0, %4, %8, sizes = [2, 2] : (tensor<4x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x2xf32>
    return %9 : tensor<2x2xf32>
  }
}

// CASE reducing and scattering along two dimensions at once
// PASSES sdy-convert-global-to-local{combine-multi-dimension-reduce-scatter=true}
sdy.mesh @grid = <["r"=2, "c"=3]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}]>}) -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
  %0 = sdy.reduce_scatter [{"r"}, {"c"}] %a out_sharding=<@grid, [{"r"}, {"c"}]> : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=3]>
  func.func @main(%arg0: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}]>}) -> (tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
    %0 = stablehlo.reshape %arg0 : (tensor<4x6xf32>) -> tensor<2x2x3x2xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<2x2x3x2xf32>) -> tensor<2x3x2x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x3x2x2xf32>) -> tensor<6x2x2xf32>
    %3 = "stablehlo.reduce_scatter"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5]]> : tensor<1x6xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %5 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) : (tensor<6x2x2xf32>) -> tensor<1x2x2xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
    return %4 : tensor<2x2xf32>
  }
}

// CASE slicing along sub-axes counts their digits right
// PASSES sdy-convert-global-to-local
sdy.mesh @line = <["r"=8]>
func.func @main(%a: tensor<4xi8>) -> (tensor<4xi8> {sdy.sharding = #sdy.sharding<@line, [{"r":(2)4}]>}, tensor<4xi8> {sdy.sharding = #sdy.sharding<@line, [{"r":(2)2}]>}) {
  %0 = sdy.all_slice [{"r":(2)4}] %a out_sharding=<@line, [{"r":(2)4}]> : tensor<4xi8>
  %1 = sdy.all_slice [{"r":(2)2}] %a out_sharding=<@line, [{"r":(2)2}]> : tensor<4xi8>
  return %0, %1 : tensor<4xi8>, tensor<4xi8>
}
// GIVES
module {
  sdy.mesh @line = <["r"=8]>
  func.func @main(%arg0: tensor<4xi8>) -> (tensor<1xi8> {sdy.sharding = #sdy.sharding<@line, [{"r":(2)4}]>}, tensor<2xi8> {sdy.sharding = #sdy.sharding<@line, [{"r":(2)2}]>}) {
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>
    %c = stablehlo.constant dense<[0, 1, 2, 3, 0, 1, 2, 3]> : tensor<8xi64>
    %2 = stablehlo.dynamic_slice %c, %1, sizes = [1] : (tensor<8xi64>, tensor<i64>) -> tensor<1xi64>
    %3 = stablehlo.reshape %2 : (tensor<1xi64>) -> tensor<i64>
    %4 = stablehlo.dynamic_slice %arg0, %3, sizes = [1] : (tensor<4xi8>, tensor<i64>) -> tensor<1xi8>
    %5 = stablehlo.partition_id : tensor<ui32>
    %6 = stablehlo.convert %5 : (tensor<ui32>) -> tensor<i64>
    %c_0 = stablehlo.constant dense<[0, 0, 2, 2, 0, 0, 2, 2]> : tensor<8xi64>
    %7 = stablehlo.dynamic_slice %c_0, %6, sizes = [1] : (tensor<8xi64>, tensor<i64>) -> tensor<1xi64>
    %8 = stablehlo.reshape %7 : (tensor<1xi64>) -> tensor<i64>
    %9 = stablehlo.dynamic_slice %arg0, %8, sizes = [2] : (tensor<4xi8>, tensor<i64>) -> tensor<2xi8>
    return %4, %9 : tensor<1xi8>, tensor<2xi8>
  }
}

// CASE reducing and scattering at once along two of three dimensions
// PASSES sdy-convert-global-to-local{combine-multi-dimension-reduce-scatter=true}
sdy.mesh @grid = <["r"=2, "c"=3]>
func.func @main(%a: tensor<4x5x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}, {}]>}) -> (tensor<4x5x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}) {
  %0 = sdy.reduce_scatter [{"r"}, {}, {"c"}] %a out_sharding=<@grid, [{"r"}, {}, {"c"}]> : tensor<4x5x6xf32>
  return %0 : tensor<4x5x6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=3]>
  func.func @main(%arg0: tensor<4x5x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}, {}]>}) -> (tensor<2x5x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}, {"c"}]>}) {
    %0 = stablehlo.reshape %arg0 : (tensor<4x5x6xf32>) -> tensor<2x2x5x3x2xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 1, 2, 4] : (tensor<2x2x5x3x2xf32>) -> tensor<2x3x2x5x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x3x2x5x2xf32>) -> tensor<6x2x5x2xf32>
    %3 = "stablehlo.reduce_scatter"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5]]> : tensor<1x6xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %5 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) : (tensor<6x2x5x2xf32>) -> tensor<1x2x5x2xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x2x5x2xf32>) -> tensor<2x5x2xf32>
    return %4 : tensor<2x5x2xf32>
  }
}
