// sdy-basic-propagate
sdy.mesh @grid = <["x"=2]>
func.func private @helper(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> tensor<8xf32> {
  %0 = stablehlo.negate %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, tensor<8xf32>) {
  %0 = stablehlo.abs %a : tensor<8xf32>
  return %0, %a : tensor<8xf32>, tensor<8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2]>
  func.func private @helper(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> tensor<8xf32> {
    %0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}]>}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) {
    %0 = stablehlo.abs %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : tensor<8xf32>
    return %0, %arg0 : tensor<8xf32>, tensor<8xf32>
  }
}
