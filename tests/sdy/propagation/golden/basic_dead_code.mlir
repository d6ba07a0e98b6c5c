// sdy-basic-propagate
sdy.mesh @grid = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8xf32>
  %1 = stablehlo.tanh %0 : tensor<8xf32>
  %2 = stablehlo.multiply %1, %0 : tensor<8xf32>
  %3 = stablehlo.custom_call @keep(%0) {has_side_effect = true} : (tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) {
    %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : tensor<8xf32>
    %1 = stablehlo.custom_call @keep(%0) {has_side_effect = true} : (tensor<8xf32>) -> tensor<8xf32>
    return %arg1 : tensor<8xf32>
  }
}
