// sdy-import-pipeline{dedup-functions-fully=true}
sdy.mesh @m = <["x"=2, "one"=1, "y"=2]>
sdy.mesh @copy = <["x"=2, "one"=1, "y"=2]>
func.func private @unused(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  return %arg0 : tensor<4xf32>
}
func.func private @half(%arg0: tensor<8x4xf32>) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@copy, [{"one", "y"}, {}]>}) {
  %0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
  %2 = stablehlo.multiply %arg0, %1 : tensor<8x4xf32>
  %3 = stablehlo.add %2, %1 : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}
func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", "one"}, {?}]>}, %arg1: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = call @half(%arg0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.optimization_barrier %0 : tensor<8x4xf32>
  %2 = sdy.sharding_constraint %1 <mesh<["x"=2, "one"=1, "y"=2]>, [{"y"}, {"one"}]> : tensor<8x4xf32>
  sdy.sharding_group %2 group_id=12 : tensor<8x4xf32>
  sdy.sharding_group %arg1 group_id=12 : tensor<8x4xf32>
  %3 = sdy.manual_computation(%1) in_shardings=[<@copy, [{"y"}, {}]>] out_shardings=[<@m, [{"x", "y"}, {}]>] manual_axes={"y", "x"} (%arg2: tensor<4x4xf32>) {
    %5 = stablehlo.slice %arg2 [0:2, 0:4] : (tensor<4x4xf32>) -> tensor<2x4xf32>
    sdy.return %5 : tensor<2x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = stablehlo.add %2, %3 : tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}
