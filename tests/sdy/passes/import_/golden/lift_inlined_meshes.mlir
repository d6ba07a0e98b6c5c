// sdy-lift-inlined-meshes
sdy.mesh @grid = <["row"=2, "col"=3]>
sdy.mesh @twin = <["row"=2, "col"=3]>
sdy.mesh @mesh = <["k"=4], device_ids=[3, 2, 1, 0]>
func.func @values(%arg0: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<mesh<["row"=2, "col"=3]>, [{"col"}, {}]>}, %arg1: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@twin, [{"row"}, {?}]>}) -> (tensor<6x6xf32> {sdy.sharding = #sdy.sharding<mesh<["new"=2]>, [{"new"}, {}]>}) {
  %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["new"=2]>, [{}, {"new"}]>]>} : (tensor<6x8xf32>, tensor<8x6xf32>) -> tensor<6x6xf32>
  %1 = sdy.sharding_constraint %0 <mesh<["k"=4], device_ids=[0, 2, 1, 3]>, [{}, {}]> : tensor<6x6xf32>
  %2 = sdy.propagation_barrier %1 allowed_direction=NONE : tensor<6x6xf32>
  stablehlo.custom_call @on_seven(%2) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<mesh<[], device_ids=[7]>, []>]>} : (tensor<6x6xf32>) -> ()
  %3 = stablehlo.custom_call @nowhere(%2) {sdy.sharding = #sdy.sharding_per_value<[<mesh<[]>, [{}, {}]>]>} : (tensor<6x6xf32>) -> tensor<6x6xf32>
  return %3 : tensor<6x6xf32>
}
func.func @regions(%arg0: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<mesh<["row"=2, "col"=3]>, [{"row"}, {}]>] out_shardings=[<@twin, [{"row"}, {}]>] manual_axes={"row"} (%arg1: tensor<3x8xf32>) {
    %4 = stablehlo.negate %arg1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["row"=2, "col"=3]>, [{"col"}, {}]>]>} : tensor<3x8xf32>
    sdy.return %4 : tensor<3x8xf32>
  } : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %1:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<mesh<["other"=5]>, [{}, {}]>, <@grid, [{}, {}]>]>} %0, %arg0 : tensor<6x8xf32>, tensor<6x8xf32>
  %2 = sdy.named_computation<"inner">(%1#0) in_shardings=[<mesh<["other"=5]>, [{}, {?}]>] out_shardings=[<@mesh, [{}, {"k"}]>] (%arg1: tensor<6x8xf32>) {
    sdy.return %arg1 : tensor<6x8xf32>
  } : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %3 = "stablehlo.all_reduce"(%2) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "k", size = 4>]>, axes = [#stablehlo.axis_ref<name = "k">]>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %4 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %5 = "stablehlo.all_gather"(%3) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @twin, axes = [#stablehlo.axis_ref<name = "row">]>}> : (tensor<6x8xf32>) -> tensor<12x8xf32>
  %6 = stablehlo.slice %5 [0:6, 0:8] : (tensor<12x8xf32>) -> tensor<6x8xf32>
  return %6 : tensor<6x8xf32>
}
