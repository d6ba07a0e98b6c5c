// sdy-aggressive-propagate
sdy.mesh @grid = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, %arg1: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>]>} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
