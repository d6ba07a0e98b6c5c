// sdy-add-data-flow-edges,sdy-basic-propagate,func.func(sdy-sink-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %w: tensor<8x8xf32>, %n: tensor<i32>) -> tensor<16x8xf32> {
  %0:2 = stablehlo.while(%i = %n, %v = %a) : tensor<i32>, tensor<16x8xf32>
    cond {
      %c = stablehlo.constant dense<9> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.dot %v, %w : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %3 = sdy.sharding_constraint %2 <@grid, [{?}, {"y", ?}]> : tensor<16x8xf32>
      stablehlo.return %1, %3 : tensor<i32>, tensor<16x8xf32>
    }
  %4 = stablehlo.tanh %0#1 : tensor<16x8xf32>
  return %4 : tensor<16x8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}, %arg2: tensor<i32>) -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) {
    %0:2 = stablehlo.while(%iterArg = %arg2, %iterArg_0 = %arg0) : tensor<i32>, tensor<16x8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@grid, []>, <@grid, [{"x", ?}, {"y", ?}]>]>}
    cond {
      %c = stablehlo.constant dense<9> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %c = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c : tensor<i32>
      %3 = stablehlo.dot %iterArg_0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %4 = sdy.sharding_constraint %3 <@grid, [{"x", ?}, {"y", ?}]> : tensor<16x8xf32>
      stablehlo.return %2, %4 : tensor<i32>, tensor<16x8xf32>
    }
    %1 = stablehlo.tanh %0#1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
}
