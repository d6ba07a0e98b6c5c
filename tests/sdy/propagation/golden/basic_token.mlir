// sdy-add-data-flow-edges,sdy-basic-propagate
sdy.mesh @grid = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %t: !stablehlo.token) -> (tensor<8xf32>, !stablehlo.token) {
  %0:2 = stablehlo.optimization_barrier %a, %t : tensor<8xf32>, !stablehlo.token
  return %0#0, %0#1 : tensor<8xf32>, !stablehlo.token
}
// -----
module {
  sdy.mesh @grid = <["x"=2]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, %arg1: !stablehlo.token) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}, !stablehlo.token) {
    %0:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<8xf32>, !stablehlo.token
    %1 = sdy.data_flow_edge %0#0 sharding=<@grid, [{"x", ?}]> : tensor<8xf32>
    return %1, %0#1 : tensor<8xf32>, !stablehlo.token
  }
}
