// CASE equal constants with equal shardings become one
// PASSES func.func(sdy-constant-or-scalar-merger)
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} dense<1.0> : tensor<4xf32>
  %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} dense<1.0> : tensor<4xf32>
  %2 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} dense<1.0> : tensor<4xf32>
  %3 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} dense<2.0> : tensor<4xf32>
  %4 = stablehlo.add %0, %2 : tensor<4xf32>
  %5 = stablehlo.add %1, %3 : tensor<4xf32>
  return %4, %5 : tensor<4xf32>, tensor<4xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} dense<1.000000e+00> : tensor<4xf32>
    %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"y"}]>]>} dense<1.000000e+00> : tensor<4xf32>
    %2 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}]>]>} dense<2.000000e+00> : tensor<4xf32>
    %3 = stablehlo.add %0, %0 : tensor<4xf32>
    %4 = stablehlo.add %1, %2 : tensor<4xf32>
    return %3, %4 : tensor<4xf32>, tensor<4xf32>
  }
}

// CASE only broadcasts of a scalar are merged, and each region keeps its own
// PASSES func.func(sdy-constant-or-scalar-merger)
func.func @main(%a: tensor<f32>, %b: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
  %1 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
  %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %3 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %4 = stablehlo.add %0, %1 : tensor<2x4xf32>
  %5 = stablehlo.add %2, %3 : tensor<2x4xf32>
  %6 = stablehlo.multiply %4, %5 : tensor<2x4xf32>
  %c = stablehlo.constant dense<0.0> : tensor<4xf32>
  %7 = stablehlo.while(%w = %b) : tensor<4xf32>
    cond {
      %c1 = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c1 : tensor<i1>
    } do {
      %c2 = stablehlo.constant dense<0.0> : tensor<4xf32>
      %c3 = stablehlo.constant dense<0.0> : tensor<4xf32>
      %8 = stablehlo.add %c2, %c3 : tensor<4xf32>
      stablehlo.return %8 : tensor<4xf32>
    }
  %9 = stablehlo.add %7, %c : tensor<4xf32>
  return %6, %9 : tensor<2x4xf32>, tensor<4xf32>
}
// GIVES
module {
  func.func @main(%arg0: tensor<f32>, %arg1: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %2 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %3 = stablehlo.add %0, %0 : tensor<2x4xf32>
    %4 = stablehlo.add %1, %2 : tensor<2x4xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<2x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %6 = stablehlo.while(%iterArg = %arg1) : tensor<4xf32>
    cond {
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
      %8 = stablehlo.add %cst_0, %cst_0 : tensor<4xf32>
      stablehlo.return %8 : tensor<4xf32>
    }
    %7 = stablehlo.add %6, %cst : tensor<4xf32>
    return %5, %7 : tensor<2x4xf32>, tensor<4xf32>
  }
}
