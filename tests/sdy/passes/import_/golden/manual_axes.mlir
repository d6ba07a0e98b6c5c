// sdy-manual-axes-cleanup
sdy.mesh @m = <["a"=2, "b"=2, "c"=4]>
sdy.mesh @nothing = <[]>
func.func @main(%arg0: tensor<8x8xf32>, %arg1: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %0:2 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@m, [{"c"}, {?}]>, <@m, [{"a", "c":(2)2}], replicated={"b"}>] out_shardings=[<@m, [{"b", "a", "c"}, {}]>, <@m, [{"a"}], replicated={"c":(1)2}>] manual_axes={"b", "a"} (%arg2: tensor<8x8xf32>, %arg3: tensor<4xf32>) {
    %1 = stablehlo.slice %arg2 [0:2, 0:8] : (tensor<8x8xf32>) -> tensor<2x8xf32>
    sdy.return %1, %arg3 : tensor<2x8xf32>, tensor<4xf32>
  } : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8x8xf32>, tensor<8xf32>
}
