// CASE functions, returns and other dialects
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, %t: !stablehlo.token) -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, !stablehlo.token) {
  %0 = stablehlo.tanh %a {note = "kept", sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} : tensor<4x6xf32>
  %1 = "mine.scale"(%0) {by = 2 : i32, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return {note = "lost"} %1, %t : tensor<4x6xf32>, !stablehlo.token
}
func.func private @same(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @same(%a) {note = "lost"} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, %arg1: !stablehlo.token) -> (tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, !stablehlo.token) {
    %0 = stablehlo.tanh %arg0 {note = "kept", sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} : tensor<2x3xf32>
    %1 = "mine.scale"(%0) {by = 2 : i32, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %1, %arg1 : tensor<2x3xf32>, !stablehlo.token
  }
  func.func private @same(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = call @same(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}

// CASE reducing within shards
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}]>}) {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%a init: %0) applies stablehlo.add across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}]>]>} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = sdy.all_reduce {"c"} %1 out_sharding=<@grid, [{"r"}]> : tensor<4xf32>
  return %2 : tensor<4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}]>]>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}

// CASE constants
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main() -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, tensor<2x2xi32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"r"}]>}, tensor<2xi32>, tensor<complex<f32>>) {
  %0 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} dense<1.5> : tensor<4x6xf32>
  %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {"r"}]>]>} dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %2 = sdy.constant dense<[1, 2]> : tensor<2xi32>
  %3 = stablehlo.constant {note = "kept"} dense<(1.0, 2.0)> : tensor<complex<f32>>
  return %0, %1, %2, %3 : tensor<4x6xf32>, tensor<2x2xi32>, tensor<2xi32>, tensor<complex<f32>>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main() -> (tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}, tensor<2x1xi32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"r"}]>}, tensor<2xi32>, tensor<complex<f32>>) {
    %cst = stablehlo.constant dense<1.500000e+00> : tensor<2x3xf32>
    %c = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>
    %c_1 = stablehlo.constant dense<[0, 0, 1, 1]> : tensor<4xi64>
    %2 = stablehlo.dynamic_slice %c_1, %1, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %3 = stablehlo.reshape %2 : (tensor<1xi64>) -> tensor<i64>
    %4 = stablehlo.dynamic_slice %c, %c_0, %3, sizes = [2, 1] : (tensor<2x2xi32>, tensor<i64>, tensor<i64>) -> tensor<2x1xi32>
    %c_2 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
    %cst_3 = stablehlo.constant {note = "kept"} dense<(1.000000e+00,2.000000e+00)> : tensor<complex<f32>>
    return %cst, %4, %c_2, %cst_3 : tensor<2x3xf32>, tensor<2x1xi32>, tensor<2xi32>, tensor<complex<f32>>
  }
}

// CASE a manual computation goes
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r", "c"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
  %0 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"r", "c"}, {}]>] out_shardings=[<@grid, [{"r"}, {"c"}]>] manual_axes={"r"} (%m: tensor<4x4xf32>) {
    %1 = "stablehlo.collective_permute"(%m) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"c"}, {}]>]>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = sdy.all_to_all [{"c"}: 0->1] %1 out_sharding=<@grid, [{}, {"c"}]> : tensor<4x4xf32>
    sdy.return %2 : tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r", "c"}, {}]>}) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
    %0 = "stablehlo.collective_permute"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"c"}, {}]>]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = "stablehlo.all_to_all"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<2x4xf32>) -> tensor<4x2xf32>
    return %1 : tensor<4x2xf32>
  }
}

// CASE a manual computation in another, of which one gives what it gets
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
  %0:2 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"r"}, {"c"}]>] out_shardings=[<@grid, [{"r"}, {"c"}]>, <@grid, [{"r"}, {"c"}]>] manual_axes={"r"} (%m: tensor<4x4xf32>) {
    %1 = sdy.manual_computation(%m) in_shardings=[<@grid, [{}, {"c"}]>] out_shardings=[<@grid, [{}, {"c"}]>] manual_axes={"c"} (%n: tensor<4x2xf32>) {
      %2 = stablehlo.negate %n : tensor<4x2xf32>
      sdy.return %2 : tensor<4x2xf32>
    } : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %m, %1 : tensor<4x4xf32>, tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  %3 = stablehlo.add %0#0, %0#1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
    %0 = stablehlo.negate %arg0 : tensor<4x2xf32>
    %1 = stablehlo.add %arg0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {"c"}]>]>} : tensor<4x2xf32>
    return %1 : tensor<4x2xf32>
  }
}

// CASE a named computation
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
  %0 = sdy.named_computation<"twice">(%a) in_shardings=[<@grid, [{"r"}, {}]>] out_shardings=[<@grid, [{"r"}, {"c"}]>] (%m: tensor<8x4xf32>) {
    %1 = stablehlo.add %m, %m {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : tensor<8x4xf32>
    %2 = sdy.all_slice [{}, {"c"}] %1 out_sharding=<@grid, [{"r"}, {"c"}]> : tensor<8x4xf32>
    sdy.return %2 : tensor<8x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {"c"}]>}) {
    %0 = sdy.named_computation<"twice">(%arg0) in_shardings=[<@grid, [{"r"}, {}]>] out_shardings=[<@grid, [{"r"}, {"c"}]>] (%arg1: tensor<4x4xf32>) {
      %1 = stablehlo.add %arg1, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : tensor<4x4xf32>
      %c = stablehlo.constant dense<0> : tensor<i64>
      %2 = stablehlo.partition_id : tensor<ui32>
      %3 = stablehlo.convert %2 : (tensor<ui32>) -> tensor<i64>
      %c_0 = stablehlo.constant dense<[0, 2, 0, 2]> : tensor<4xi64>
      %4 = stablehlo.dynamic_slice %c_0, %3, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
      %5 = stablehlo.reshape %4 : (tensor<1xi64>) -> tensor<i64>
      %6 = stablehlo.dynamic_slice %1, %c, %5, sizes = [4, 2] : (tensor<4x4xf32>, tensor<i64>, tensor<i64>) -> tensor<4x2xf32>
      sdy.return %6 : tensor<4x2xf32>
    } : (tensor<4x4xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}

// CASE branches of a case
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%i: tensor<i32>, %a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  %0 = "stablehlo.case"(%i) ({
    stablehlo.return %a : tensor<8x4xf32>
  }, {
    %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} dense<2.0> : tensor<8x4xf32>
    stablehlo.return %1 : tensor<8x4xf32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<i32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<i32>, %arg1: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    %0 = "stablehlo.case"(%arg0) ({
      stablehlo.return %arg1 : tensor<4x4xf32>
    }, {
      %cst = stablehlo.constant dense<2.000000e+00> : tensor<4x4xf32>
      stablehlo.return %cst : tensor<4x4xf32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<i32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}

// CASE a reshard that is missing leaves a cast
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}) {
  %0 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"r"}, {}]>] out_shardings=[<@grid, [{"r"}, {}]>] manual_axes={"r"} (%m: tensor<4x4xf32>) {
    %1 = stablehlo.negate %m : tensor<4x4xf32>
    %2 = stablehlo.add %m, %1 : tensor<4x4xf32>
    sdy.return %2 : tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %3 = sdy.collective_permute %0 out_sharding=<@grid, [{"c"}, {}]> : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}, {}]>}) {
    %0 = builtin.unrealized_conversion_cast %arg0 : tensor<8x4xf32> to tensor<4x4xf32>
    %1 = stablehlo.negate %0 : tensor<4x4xf32>
    %2 = stablehlo.add %0, %1 : tensor<4x4xf32>
    %3 = "stablehlo.collective_permute"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 0], [1, 2], [2, 1], [3, 3]]> : tensor<4x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %3 : tensor<4x4xf32>
  }
}

// CASE calls of functions with local shapes
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  %0 = call @f(%a) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"r"}, {}]>]>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func private @f(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  return %a : tensor<8x4xf32>
}
func.func private @declared(tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}]>})
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    %0 = call @f(%arg0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
  func.func private @f(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    return %arg0 : tensor<4x4xf32>
  }
  func.func private @declared(tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}]>})
}

// CASE a loop that carries shards
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
  %n = stablehlo.constant dense<3> : tensor<i32>
  %0:2 = stablehlo.while(%i = %n, %x = %a) : tensor<i32>, tensor<8x4xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@grid, []>, <@grid, [{"r"}, {}]>]>}
  cond {
    %1 = stablehlo.compare NE, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = sdy.all_gather [{"r"}, {}] %x out_sharding=<@grid, [{}, {}]> : tensor<8x4xf32>
    %2 = sdy.all_slice [{"r"}, {}] %1 out_sharding=<@grid, [{"r"}, {}]> : tensor<8x4xf32>
    stablehlo.return %i, %2 : tensor<i32>, tensor<8x4xf32>
  }
  return %0#1 : tensor<8x4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"r"}, {}]>}) {
    %c = stablehlo.constant dense<3> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<4x4xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@grid, []>, <@grid, [{"r"}, {}]>]>}
    cond {
      %1 = stablehlo.compare NE, %iterArg, %iterArg : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = "stablehlo.all_gather"(%iterArg_0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x4xf32>) -> tensor<8x4xf32>
      %2 = stablehlo.partition_id : tensor<ui32>
      %3 = stablehlo.convert %2 : (tensor<ui32>) -> tensor<i64>
      %c_1 = stablehlo.constant dense<[0, 0, 4, 4]> : tensor<4xi64>
      %4 = stablehlo.dynamic_slice %c_1, %3, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
      %5 = stablehlo.reshape %4 : (tensor<1xi64>) -> tensor<i64>
      %c_2 = stablehlo.constant dense<0> : tensor<i64>
      %6 = stablehlo.dynamic_slice %1, %5, %c_2, sizes = [4, 4] : (tensor<8x4xf32>, tensor<i64>, tensor<i64>) -> tensor<4x4xf32>
      stablehlo.return %iterArg, %6 : tensor<i32>, tensor<4x4xf32>
    }
    return %0#1 : tensor<4x4xf32>
  }
}

// CASE constants of StableHLO that are cut
// PASSES sdy-convert-global-to-local
sdy.mesh @grid = <["r"=2, "c"=2]>
func.func @main() -> (tensor<4xi32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}]>}) {
  %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"c"}]>]>} dense<[1, 2, 3, 4]> : tensor<4xi32>
  return %0 : tensor<4xi32>
}
// GIVES
module {
  sdy.mesh @grid = <["r"=2, "c"=2]>
  func.func @main() -> (tensor<2xi32> {sdy.sharding = #sdy.sharding<@grid, [{"c"}]>}) {
    %c = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>
    %c_0 = stablehlo.constant dense<[0, 2, 0, 2]> : tensor<4xi64>
    %2 = stablehlo.dynamic_slice %c_0, %1, sizes = [1] : (tensor<4xi64>, tensor<i64>) -> tensor<1xi64>
    %3 = stablehlo.reshape %2 : (tensor<1xi64>) -> tensor<i64>
    %4 = stablehlo.dynamic_slice %c, %3, sizes = [2] : (tensor<4xi32>, tensor<i64>) -> tensor<2xi32>
    return %4 : tensor<2xi32>
  }
}
