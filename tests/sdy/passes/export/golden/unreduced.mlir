// CASE partial sums are added up where they are not taken
// PASSES func.func(sdy-insert-explicit-reshards)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}], unreduced={"x", "y"}>}) -> (tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}], unreduced={"x", "y"}>}) {
  %0 = stablehlo.add %a, %a {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}], unreduced={"y"}>]>} : tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1, %a : tensor<8xf32>, tensor<8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}], unreduced={"x", "y"}>}) -> (tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}], unreduced={"x", "y"}>}) {
    %0 = sdy.all_reduce {"x"} %arg0 out_sharding=<@grid, [{}], unreduced={"y"}> : tensor<8xf32>
    %1 = sdy.all_reduce {"x"} %arg0 out_sharding=<@grid, [{}], unreduced={"y"}> : tensor<8xf32>
    %2 = stablehlo.add %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}], unreduced={"y"}>]>} : tensor<8xf32>
    %3 = sdy.all_reduce {"y"} %2 out_sharding=<@grid, [{}]> : tensor<8xf32>
    %4 = stablehlo.negate %3 : tensor<8xf32>
    return %4, %arg0 : tensor<8xf32>, tensor<8xf32>
  }
}

// CASE a reduction leaves unreduced what its sharding says
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x", "y"}]>}, %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}], unreduced={"y"}>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"x", "y"}]>}, %arg1: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}], unreduced={"y"}>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@grid, [{}, {}], unreduced={"y"}> : tensor<8x8xf32>
    %2 = sdy.all_reduce {"y"} %1 out_sharding=<@grid, [{}, {}]> : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// CASE a reshard makes what is sharded and what is replicated unreduced
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}], unreduced={"x", "y"}>}) {
  %0 = sdy.reshard %a <@grid, [{}, {}], unreduced={"x", "y"}> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {}], unreduced={"x", "y"}>}) {
    %0 = sdy.replicated_to_unreduced {"y"} %arg0 out_sharding=<@grid, [{"x"}, {}], unreduced={"y"}> : tensor<8x8xf32>
    %1 = sdy.sharded_to_unreduced [{"x"}, {}] %0 out_sharding=<@grid, [{}, {}], unreduced={"x", "y"}> : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// CASE dimensions that differ are resharded before
// PASSES func.func(sdy-insert-explicit-reshards{enable-full-version=true})
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}], unreduced={"x"}>}) {
  %0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}], unreduced={"x"}>}) {
    %0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}, {}]>]>} : tensor<8x8xf32>
    %1 = sdy.reshard %0 <@grid, [{}, {"y"}]> : tensor<8x8xf32>
    %2 = sdy.replicated_to_unreduced {"x"} %1 out_sharding=<@grid, [{}, {"y"}], unreduced={"x"}> : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
