module {
  func.func @main(%arg0: tensor<4xf32> {jax.other = 1 : i64, sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=2]>, [{"x", "y"}]>}, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=2]>, [{?}p1], replicated={"y"}>}) {
    %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=2]>, [{"x"}], unreduced={"y"}>]>} : tensor<4xf32>
    stablehlo.custom_call @sink(%0) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<mesh<[], device_ids=[4]>, []>]>} : (tensor<4xf32>) -> ()
    return %0, %0 : tensor<4xf32>, tensor<4xf32>
  }
}
