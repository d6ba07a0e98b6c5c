// sdy-add-data-flow-edges,sdy-basic-propagate,func.func(sdy-sink-data-flow-edges)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<16xf32>, %b: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}) -> (tensor<16xf32>, tensor<16xf32>) {
  %0:2 = sdy.named_computation<"swap">(%a, %b) (%p: tensor<16xf32>, %q: tensor<16xf32>) {
    %1 = sdy.sharding_constraint %p <@grid, [{"x"}]> : tensor<16xf32>
    sdy.return %q, %1 : tensor<16xf32>, tensor<16xf32>
  } : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  return %0#0, %0#1 : tensor<16xf32>, tensor<16xf32>
}
// -----
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %arg1: tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}]>}, tensor<16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) {
    %0:2 = sdy.named_computation<"swap">(%arg0, %arg1) in_shardings=[<@grid, [{"x", ?}]>, <@grid, [{"y", ?}]>] out_shardings=[<@grid, [{"y", ?}]>, <@grid, [{"x", ?}]>] (%arg2: tensor<16xf32>, %arg3: tensor<16xf32>) {
      %1 = sdy.sharding_constraint %arg2 <@grid, [{"x"}]> : tensor<16xf32>
      sdy.return %arg3, %1 : tensor<16xf32>, tensor<16xf32>
    } : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
    return %0#0, %0#1 : tensor<16xf32>, tensor<16xf32>
  }
}
