// CASE a gather before a dot goes, and the scatter behind it stays
// PASSES func.func(sdy-remove-all-gather-reduce-scatter-for-cmv1)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.all_gather [{"x"}, {}] %a out_sharding=<@grid, [{}, {}]> : tensor<8x8xf32>
  %1 = stablehlo.dot %0, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = sdy.reduce_scatter [{"y"}, {}] %1 out_sharding=<@grid, [{"y"}, {}]> : tensor<8x8xf32>
  %3 = stablehlo.dot_general %a, %2, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = sdy.reduce_scatter [{"x"}, {}] %3 out_sharding=<@grid, [{"x"}, {}]> : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = sdy.reduce_scatter [{"y"}, {}] %0 out_sharding=<@grid, [{"y"}, {}]> : tensor<8x8xf32>
    %2 = stablehlo.dot_general %arg0, %1, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// CASE a gather that others use stays
// PASSES func.func(sdy-remove-all-gather-reduce-scatter-for-cmv1)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.all_gather [{"x"}, {}] %a out_sharding=<@grid, [{}, {}]> : tensor<8x8xf32>
  %1 = stablehlo.dot %0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.all_gather [{"x"}, {}] %arg0 out_sharding=<@grid, [{}, {}]> : tensor<8x8xf32>
    %1 = stablehlo.dot %0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}, {}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
