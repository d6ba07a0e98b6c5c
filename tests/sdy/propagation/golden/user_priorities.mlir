// sdy-user-priority-propagate
sdy.mesh @grid = <["x"=2, "y"=2, "z"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}p1, {"y", ?}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"z", ?}p2, {?}], replicated={"x"}>}, %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}p0]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {?}p3]>}, tensor<8x8xf32>) {
  %0 = stablehlo.add %a, %b : tensor<8x8xf32>
  %1 = stablehlo.dot %0, %c : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2, "z"=2]>
  func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {"y", ?}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"z", ?}, {"y", ?}], replicated={"x"}>}, %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"x", ?}]>}) {
    %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<8x8xf32>
    %1 = stablehlo.dot %0, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{?}, {"x", ?}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
