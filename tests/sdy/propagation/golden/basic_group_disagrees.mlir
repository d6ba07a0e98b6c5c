// sdy-basic-propagate
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  sdy.sharding_group %a group_id=0 : tensor<8xf32>
  %0 = stablehlo.abs %b {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y", ?}]>]>} : tensor<8xf32>
  sdy.sharding_group %0 group_id=0 : tensor<8xf32>
  %1 = stablehlo.add %a, %0 : tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) {
    %0 = sdy.sharding_constraint %arg0 <@grid, [{"x", ?}]> : tensor<8xf32>
    sdy.sharding_group %0 group_id=0 : tensor<8xf32>
    %1 = stablehlo.abs %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y", ?}]>]>} : tensor<8xf32>
    %2 = sdy.sharding_constraint %1 <@grid, [{"x", ?}]> : tensor<8xf32>
    sdy.sharding_group %2 group_id=0 : tensor<8xf32>
    %3 = stablehlo.add %0, %2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : tensor<8xf32>
    return %3, %2 : tensor<8xf32>, tensor<8xf32>
  }
}
