// CASE gather
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@grid, [{"x"}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.all_gather [{"y"}, {}] %arg0 out_sharding=<@grid, [{"x"}, {}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// CASE slice
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@grid, [{"x", "y":(1)2}, {"y":(2)2}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.all_slice [{"y":(1)2}, {"y":(2)2}] %arg0 out_sharding=<@grid, [{"x", "y":(1)2}, {"y":(2)2}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// CASE all-to-all
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@grid, [{"x"}, {"y"}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.all_to_all [{"y"}: 0->1] %arg0 out_sharding=<@grid, [{"x"}, {"y"}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// CASE permute
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}]>}) -> tensor<8xf32> {
  %0 = sdy.reshard %a <@grid, [{"y", "x"}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}]>}) -> tensor<8xf32> {
    %0 = sdy.collective_permute %arg0 out_sharding=<@grid, [{"y", "x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// CASE permute, then gather what is left
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@grid, [{"x"}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.collective_permute %arg0 out_sharding=<@grid, [{"x", "y":(2)2}, {}]> : tensor<8x8xf32>
    %1 = sdy.all_gather [{"y":(2)2}, {}] %0 out_sharding=<@grid, [{"x"}, {}]> : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// CASE everything at once
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["a"=2, "b"=2, "c"=2, "d"=2]>
func.func @main(%a: tensor<16x16x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"a", "b"}, {"c"}, {}]>}) -> tensor<16x16x16xf32> {
  %0 = sdy.reshard %a <@grid, [{"c"}, {"d"}, {"a"}]> : tensor<16x16x16xf32>
  return %0 : tensor<16x16x16xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["a"=2, "b"=2, "c"=2, "d"=2]>
  func.func @main(%arg0: tensor<16x16x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"a", "b"}, {"c"}, {}]>}) -> tensor<16x16x16xf32> {
    %0 = sdy.all_slice [{}, {}, {"d"}] %arg0 out_sharding=<@grid, [{"a", "b"}, {"c"}, {"d"}]> : tensor<16x16x16xf32>
    %1 = sdy.collective_permute %0 out_sharding=<@grid, [{"c", "b"}, {"d"}, {"a"}]> : tensor<16x16x16xf32>
    %2 = sdy.all_gather [{"b"}, {}, {}] %1 out_sharding=<@grid, [{"c"}, {"d"}, {"a"}]> : tensor<16x16x16xf32>
    return %2 : tensor<16x16x16xf32>
  }
}

// CASE slices that an all-to-all takes along
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=2, "z"=2, "w"=2]>
func.func @main(%a: tensor<4x8x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"w"}, {"x"}, {}]>}) -> tensor<4x8x32xf32> {
  %0 = sdy.reshard %a <@grid, [{}, {}, {"x", "y", "z", "w"}]> : tensor<4x8x32xf32>
  return %0 : tensor<4x8x32xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=2, "z"=2, "w"=2]>
  func.func @main(%arg0: tensor<4x8x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"w"}, {"x"}, {}]>}) -> tensor<4x8x32xf32> {
    %0 = sdy.all_slice [{}, {"y", "z"}, {}] %arg0 out_sharding=<@grid, [{"w"}, {"x", "y", "z"}, {}]> : tensor<4x8x32xf32>
    %1 = sdy.all_to_all [{"x", "y", "z"}: 1->2] %0 out_sharding=<@grid, [{"w"}, {}, {"x", "y", "z"}]> : tensor<4x8x32xf32>
    %2 = sdy.all_to_all [{"w"}: 0->2] %1 out_sharding=<@grid, [{}, {}, {"x", "y", "z", "w"}]> : tensor<4x8x32xf32>
    return %2 : tensor<4x8x32xf32>
  }
}

// CASE parts of axes
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y":(2)2}, {"x"}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@grid, [{"y"}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y":(2)2}, {"x"}]>}) -> tensor<8x8xf32> {
    %0 = sdy.all_slice [{"y":(1)2}, {}] %arg0 out_sharding=<@grid, [{"y":(2)2, "y":(1)2}, {"x"}]> : tensor<8x8xf32>
    %1 = sdy.collective_permute %0 out_sharding=<@grid, [{"y"}, {"x"}]> : tensor<8x8xf32>
    %2 = sdy.all_gather [{}, {"x"}] %1 out_sharding=<@grid, [{"y"}, {}]> : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// CASE what changes nothing goes
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@grid, [{"x"}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    return %arg0 : tensor<8x8xf32>
  }
}

// CASE or stays, if asked for
// PASSES func.func(sdy-reshard-to-collectives{keep-redundant-reshards=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@grid, [{"x"}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.reshard %arg0 <@grid, [{"x"}, {}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// CASE devices in another order are permuted
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=2]>
sdy.mesh @turned = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  %0 = sdy.reshard %a <@turned, [{"x"}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  sdy.mesh @turned = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.collective_permute %arg0 out_sharding=<@turned, [{"x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// CASE another mesh is left alone
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=2]>
sdy.mesh @other = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
  %0 = sdy.reshard %a <@other, [{"x"}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  sdy.mesh @other = <["x"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.reshard %arg0 <@other, [{"x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// CASE a chain of reshards, through a barrier
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = sdy.reshard %a <@grid, [{"y"}]> : tensor<8xf32>
  %1 = sdy.propagation_barrier %0 allowed_direction=NONE : tensor<8xf32>
  %2 = sdy.reshard %1 <@grid, [{}]> : tensor<8xf32>
  %3 = sdy.reshard %2 <@grid, [{}]> : tensor<8xf32>
  return %3, %1 : tensor<8xf32>, tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = sdy.all_slice [{"y":(1)2}] %arg0 out_sharding=<@grid, [{"x", "y":(1)2}]> : tensor<8xf32>
    %1 = sdy.collective_permute %0 out_sharding=<@grid, [{"y"}]> : tensor<8xf32>
    %2 = sdy.propagation_barrier %1 allowed_direction=NONE : tensor<8xf32>
    %3 = sdy.all_gather [{"y"}] %1 out_sharding=<@grid, [{}]> : tensor<8xf32>
    return %3, %2 : tensor<8xf32>, tensor<8xf32>
  }
}

// CASE without a common measure the order of axes is lost
// PASSES func.func(sdy-reshard-to-collectives)
sdy.mesh @grid = <["a"=3, "b"=2, "c"=5]>
func.func @main(%a: tensor<30x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"b"}, {"a"}]>}) -> tensor<30x12xf32> {
  %0 = sdy.reshard %a <@grid, [{"a", "c"}, {"b"}]> : tensor<30x12xf32>
  return %0 : tensor<30x12xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["a"=3, "b"=2, "c"=5]>
  func.func @main(%arg0: tensor<30x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"b"}, {"a"}]>}) -> tensor<30x12xf32> {
    %0 = sdy.all_slice [{"c"}, {}] %arg0 out_sharding=<@grid, [{"b", "c"}, {"a"}]> : tensor<30x12xf32>
    %1 = sdy.collective_permute %0 out_sharding=<@grid, [{"c", "b"}, {"a"}]> : tensor<30x12xf32>
    %2 = sdy.all_to_all [{"b"}: 0->1] %1 out_sharding=<@grid, [{"c"}, {"a", "b"}]> : tensor<30x12xf32>
    %3 = sdy.collective_permute %2 out_sharding=<@grid, [{"c"}, {"b", "a"}]> : tensor<30x12xf32>
    %4 = sdy.all_to_all [{"a"}: 1->0] %3 out_sharding=<@grid, [{"c", "a"}, {"b"}]> : tensor<30x12xf32>
    return %4 : tensor<30x12xf32>
  }
}
