module {
  sdy.mesh @m = <["x"=2, "one"=1, "y"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}, {name = "one", size = 1 : i64}, {name = "y", size = 2 : i64}]}}
  func.func private @half(%arg0: tensor<8x4xf32>) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>}) {
    %0 = sdy.constant dense<5.000000e-01> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %3 = stablehlo.multiply %arg0, %1 : tensor<8x4xf32>
    %4 = stablehlo.add %3, %2 : tensor<8x4xf32>
    return %4 : tensor<8x4xf32>
  }
  func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {?}]>}, %arg1: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = call @half(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"y"}, {}]>]>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.optimization_barrier %0 : tensor<8x4xf32>
    %2 = sdy.data_flow_edge %1 : tensor<8x4xf32>
    %3 = sdy.sharding_constraint %2 <@m, [{"y"}, {}]> : tensor<8x4xf32>
    sdy.sharding_group %3 group_id=12 : tensor<8x4xf32>
    sdy.sharding_group %arg1 group_id=12 : tensor<8x4xf32>
    %4 = sdy.manual_computation(%2) in_shardings=[<@m, [{"y"}, {}], replicated={"x"}>] out_shardings=[<@m, [{"x", "y"}, {}]>] manual_axes={"x", "y"} (%arg2: tensor<4x4xf32>) {
      %7 = sdy.data_flow_edge %arg2 sharding=<@m, [{}, {}]> : tensor<4x4xf32>
      %8 = stablehlo.slice %7 [0:2, 0:4] : (tensor<4x4xf32>) -> tensor<2x4xf32>
      sdy.return %8 : tensor<2x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = sdy.data_flow_edge %4 sharding=<@m, [{"x", "y"}, {}]> : tensor<8x4xf32>
    %6 = stablehlo.add %3, %5 : tensor<8x4xf32>
    return %6 : tensor<8x4xf32>
  }
}
