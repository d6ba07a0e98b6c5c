// sdy-remove-size-one-axes
sdy.mesh @m = <["one"=1, "x"=4, "uno"=1]>
sdy.mesh @n = <["z"=2]>
func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"one", "x"}, {"uno", ?}p2]>}, %arg1: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"one"}p1, {}], replicated={"x", "uno"}>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x":(2)2}], unreduced={"one"}>}) {
  %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@n, [{"z"}, {}]>]>} : tensor<8x4xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@m, [{"one", "x"}, {}]>] out_shardings=[<@m, [{"x"}, {}], replicated={"one"}>] manual_axes={"one", "x"} (%arg2: tensor<2x4xf32>) {
    %2 = sdy.sharding_constraint %arg2 <@m, [{"uno"}, {?}]> : tensor<2x4xf32>
    sdy.return %2 : tensor<2x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
