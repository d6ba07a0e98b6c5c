// sdy-basic-propagate
sdy.mesh @grid = <["x"=2, "y"=2, "z"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y", ?}, {"z", ?}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {?}], replicated={"y"}>}, %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {}], unreduced={"x"}>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.multiply %a, %b : tensor<8x8xf32>
  %1 = stablehlo.maximum %a, %c : tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2, "z"=2]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", "y", ?}, {"z", ?}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"z", ?}], replicated={"y"}>}, %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {}], unreduced={"x"}>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"z", ?}]>}, tensor<8x8xf32>) {
    %0 = stablehlo.multiply %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"z", ?}]>]>} : tensor<8x8xf32>
    %1 = stablehlo.maximum %arg0, %arg2 : tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
