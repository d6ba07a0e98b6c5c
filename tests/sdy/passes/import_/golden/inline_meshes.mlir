// sdy-inline-meshes
sdy.mesh @a = <["x"=2, "y"=2]>
sdy.mesh @b = <[], device_ids=[4]>
func.func @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@a, [{"x", "y"}]>, jax.other = 1 : i64}, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {sdy.sharding = #sdy.sharding<@a, [{?}p1], replicated={"y"}>}) {
  %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@a, [{"x"}], unreduced={"y"}>]>} : tensor<4xf32>
  stablehlo.custom_call @sink(%0) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@b, []>]>} : (tensor<4xf32>) -> ()
  return %0, %0 : tensor<4xf32>, tensor<4xf32>
}
