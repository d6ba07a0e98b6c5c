// sdy-basic-propagate
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %b: tensor<8xf32>, %c: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}) {
  %0 = sdy.propagation_barrier %a allowed_direction=FORWARD : tensor<8xf32>
  %1 = sdy.propagation_barrier %b allowed_direction=BACKWARD : tensor<8xf32>
  %2 = sdy.propagation_barrier %c allowed_direction=NONE : tensor<8xf32>
  %3 = stablehlo.negate %0 : tensor<8xf32>
  %4 = stablehlo.negate %2 : tensor<8xf32>
  return %3, %4, %1 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}, %arg2: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}) {
    %0 = sdy.propagation_barrier %arg0 allowed_direction=FORWARD {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : tensor<8xf32>
    %1 = sdy.propagation_barrier %arg1 allowed_direction=BACKWARD {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y", ?}]>]>} : tensor<8xf32>
    %2 = sdy.propagation_barrier %arg2 allowed_direction=NONE : tensor<8xf32>
    %3 = stablehlo.negate %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}]>]>} : tensor<8xf32>
    %4 = stablehlo.negate %2 : tensor<8xf32>
    return %3, %4, %1 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}
