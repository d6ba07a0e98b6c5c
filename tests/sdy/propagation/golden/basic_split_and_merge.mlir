// sdy-basic-propagate
sdy.mesh @grid = <["x"=8, "y"=2]>
func.func @main(%a: tensor<4x6x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}, {"y", ?}]>}, %b: tensor<24x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(1)4, ?}, {?}]>}) -> (tensor<24x16xf32>, tensor<2x12x16xf32>, tensor<384xf32>) {
  %0 = stablehlo.reshape %a : (tensor<4x6x16xf32>) -> tensor<24x16xf32>
  %1 = stablehlo.reshape %b : (tensor<24x16xf32>) -> tensor<2x12x16xf32>
  %2 = stablehlo.reshape %0 : (tensor<24x16xf32>) -> tensor<384xf32>
  return %0, %1, %2 : tensor<24x16xf32>, tensor<2x12x16xf32>, tensor<384xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=8, "y"=2]>
  func.func @main(%arg0: tensor<4x6x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}, {"y", ?}]>}, %arg1: tensor<24x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(1)4, ?}, {?}]>}) -> (tensor<24x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(1)4, ?}, {"y", ?}]>}, tensor<2x12x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(1)2, ?}, {"x":(2)2, ?}, {?}]>}, tensor<384xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x":(1)4, ?}]>}) {
    %0 = stablehlo.reshape %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x":(1)4, ?}, {"y", ?}]>]>} : (tensor<4x6x16xf32>) -> tensor<24x16xf32>
    %1 = stablehlo.reshape %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x":(1)2, ?}, {"x":(2)2, ?}, {?}]>]>} : (tensor<24x16xf32>) -> tensor<2x12x16xf32>
    %2 = stablehlo.reshape %0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x":(1)4, ?}]>]>} : (tensor<24x16xf32>) -> tensor<384xf32>
    return %0, %1, %2 : tensor<24x16xf32>, tensor<2x12x16xf32>, tensor<384xf32>
  }
}
