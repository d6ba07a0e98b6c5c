module {
  sdy.mesh @grid = <["row"=2, "col"=3]> {stablehlo.mesh = {axes = [{name = "row", size = 2 : i64}, {name = "col", size = 3 : i64}]}}
  sdy.mesh @mesh = <["k"=4], device_ids=[3, 2, 1, 0]> {stablehlo.mesh = {axes = [{name = "k", size = 4 : i64}], device_ids = dense<[3, 2, 1, 0]> : tensor<4xi64>}}
  sdy.mesh @mesh_0 = <["new"=2]> {stablehlo.mesh = {axes = [{name = "new", size = 2 : i64}]}}
  sdy.mesh @mesh_1 = <["k"=4], device_ids=[0, 2, 1, 3]> {stablehlo.mesh = {axes = [{name = "k", size = 4 : i64}], device_ids = dense<[0, 2, 1, 3]> : tensor<4xi64>}}
  sdy.mesh @maximal_mesh_7 = <[], device_ids=[7]> {stablehlo.mesh = {axes = [], device_ids = dense<7> : tensor<1xi64>}}
  sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
  sdy.mesh @mesh_2 = <["other"=5]> {stablehlo.mesh = {axes = [{name = "other", size = 5 : i64}]}}
  sdy.mesh @mesh_3 = <["k"=4]> {stablehlo.mesh = {axes = [{name = "k", size = 4 : i64}]}}
  func.func @values(%arg0: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"col"}, {}]>}, %arg1: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"row"}, {?}]>}) -> (tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@mesh_0, [{"new"}, {}]>}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh_0, [{}, {"new"}]>]>} : (tensor<6x8xf32>, tensor<8x6xf32>) -> tensor<6x6xf32>
    %1 = sdy.sharding_constraint %0 <@mesh_1, [{}, {}]> : tensor<6x6xf32>
    %2 = sdy.propagation_barrier %1 allowed_direction=NONE : tensor<6x6xf32>
    stablehlo.custom_call @on_seven(%2) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_7, []>]>} : (tensor<6x6xf32>) -> ()
    %3 = stablehlo.custom_call @nowhere(%2) {sdy.sharding = #sdy.sharding_per_value<[<@empty_mesh, [{}, {}]>]>} : (tensor<6x6xf32>) -> tensor<6x6xf32>
    return %3 : tensor<6x6xf32>
  }
  func.func @regions(%arg0: tensor<6x8xf32>) -> tensor<6x8xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@grid, [{"row"}, {}]>] out_shardings=[<@grid, [{"row"}, {}]>] manual_axes={"row"} (%arg1: tensor<3x8xf32>) {
      %6 = stablehlo.negate %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"col"}, {}]>]>} : tensor<3x8xf32>
      sdy.return %6 : tensor<3x8xf32>
    } : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %1:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh_2, [{}, {}]>, <@grid, [{}, {}]>]>} %0, %arg0 : tensor<6x8xf32>, tensor<6x8xf32>
    %2 = sdy.named_computation<"inner">(%1#0) in_shardings=[<@mesh_2, [{}, {?}]>] out_shardings=[<@mesh, [{}, {"k"}]>] (%arg1: tensor<6x8xf32>) {
      sdy.return %arg1 : tensor<6x8xf32>
    } : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %3 = "stablehlo.all_reduce"(%2) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh_3, axes = [#stablehlo.axis_ref<name = "k">]>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %6 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %4 = "stablehlo.all_gather"(%3) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @grid, axes = [#stablehlo.axis_ref<name = "row">]>}> : (tensor<6x8xf32>) -> tensor<12x8xf32>
    %5 = stablehlo.slice %4 [0:6, 0:8] : (tensor<12x8xf32>) -> tensor<6x8xf32>
    return %5 : tensor<6x8xf32>
  }
}
