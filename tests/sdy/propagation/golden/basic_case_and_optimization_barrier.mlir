// sdy-add-data-flow-edges,sdy-basic-propagate,func.func(sdy-sink-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%which: tensor<i32>, %a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %b: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = "stablehlo.case"(%which) ({
    %1 = stablehlo.negate %a : tensor<16xf32>
    stablehlo.return %1 : tensor<16xf32>
  }, {
    stablehlo.return %b : tensor<16xf32>
  }) : (tensor<i32>) -> tensor<16xf32>
  %2:2 = stablehlo.optimization_barrier %0, %b : tensor<16xf32>, tensor<16xf32>
  return %2#0, %2#1 : tensor<16xf32>, tensor<16xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<i32>, %arg1: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %arg2: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) {
    %0 = "stablehlo.case"(%arg0) ({
      %2 = stablehlo.negate %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : tensor<16xf32>
      stablehlo.return %2 : tensor<16xf32>
    }, {
      stablehlo.return %arg2 : tensor<16xf32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : (tensor<i32>) -> tensor<16xf32>
    %1:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>, <@grid, [{"x", ?}]>]>} %0, %arg2 : tensor<16xf32>, tensor<16xf32>
    return %1#0, %1#1 : tensor<16xf32>, tensor<16xf32>
  }
}
