// sdy-basic-propagate
sdy.mesh @grid = <["x"=2]>
sdy.mesh @line = <["x"=4]>
sdy.mesh @one = <[], device_ids=[0]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@line, [{"x", ?}]>}, %c: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<f32>) {
  %0 = stablehlo.add %a, %b : tensor<8xf32>
  %1 = stablehlo.add %b, %c : tensor<8xf32>
  %2 = stablehlo.custom_call @place() {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : () -> tensor<f32>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<f32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2]>
  sdy.mesh @line = <["x"=4]>
  sdy.mesh @one = <[], device_ids=[0]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@line, [{"x", ?}]>}, %arg2: tensor<8xf32> {sdy.sharding = #sdy.sharding<@line, [{"x", ?}]>}) -> (tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@line, [{"x", ?}]>}, tensor<f32>) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<8xf32>
    %1 = stablehlo.add %arg1, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@line, [{"x", ?}]>]>} : tensor<8xf32>
    %2 = stablehlo.custom_call @place() {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : () -> tensor<f32>
    return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<f32>
  }
}
