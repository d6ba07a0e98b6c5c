// sdy-op-priority-propagate
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %i: tensor<i32>, %u: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}) -> (tensor<8x4xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [8, 4] : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
  %1 = stablehlo.dynamic_update_slice %a, %u, %i, %i : (tensor<8x16xf32>, tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
  %2 = stablehlo.custom_call @MoveToHost(%1) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0, %1, %2 : tensor<8x4xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %arg1: tensor<i32>, %arg2: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}) {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %arg1, sizes = [8, 4] {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %arg2, %arg1, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} : (tensor<8x16xf32>, tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
    %2 = stablehlo.custom_call @MoveToHost(%1) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0, %1, %2 : tensor<8x4xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  }
}
