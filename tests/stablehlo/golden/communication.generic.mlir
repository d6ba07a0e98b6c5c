"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x8xf32>) -> (), sym_name = "collectives"}> ({
  ^bb0(%arg3: tensor<4x8xf32>):
    %13 = "stablehlo.all_gather"(%arg3) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x8xf32>) -> tensor<4x16xf32>
    %14 = "stablehlo.all_reduce"(%arg3) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
      %23 = "stablehlo.add"(%arg8, %arg9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%23) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %15 = "stablehlo.reduce_scatter"(%arg3) <{replica_groups = dense<0> : tensor<1x1xi64>, scatter_dimension = 0 : i64}> ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %22 = "stablehlo.maximum"(%arg6, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%22) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %16 = "stablehlo.all_to_all"(%arg3) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 0>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %17 = "stablehlo.collective_broadcast"(%arg3) <{replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %18 = "stablehlo.collective_permute"(%arg3) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> {tag} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %19 = "stablehlo.cross-replica-sum"(%arg3) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %20 = "stablehlo.all_reduce"(%arg3) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes=[<name = "x", size = 2>, <name = "y", size = 4>]>, axes = [#stablehlo.axis_ref<name = "x">, #stablehlo.axis_ref<name = "y", sub_axis_info = (1)2>]>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %21 = "stablehlo.add"(%arg4, %arg5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%21) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x8xf32>) -> tensor<4x16xf32>, sym_name = "asynchronous"}> ({
  ^bb0(%arg1: tensor<4x8xf32>):
    %10 = "stablehlo.async_start"(%arg1) ({
    ^bb0(%arg2: tensor<4x8xf32>):
      %12 = "stablehlo.all_gather"(%arg2) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x16xf32>
      "stablehlo.return"(%12) : (tensor<4x16xf32>) -> ()
    }) : (tensor<4x8xf32>) -> !stablehlo.future<tensor<4x16xf32>>
    %11 = "stablehlo.async_done"(%10) : (!stablehlo.future<tensor<4x16xf32>>) -> tensor<4x16xf32>
    "func.return"(%11) : (tensor<4x16xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x8xf32>) -> (), sym_name = "host"}> ({
  ^bb0(%arg0: tensor<4x8xf32>):
    %0 = "stablehlo.create_token"() : () -> !stablehlo.token
    %1 = "stablehlo.after_all"() : () -> !stablehlo.token
    %2 = "stablehlo.after_all"(%0, %1) {tag} : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
    %3 = "stablehlo.partition_id"() : () -> tensor<ui32>
    %4 = "stablehlo.replica_id"() {tag} : () -> tensor<ui32>
    %5:2 = "stablehlo.infeed"(%2) <{infeed_config = "", layout = [[0, 1]]}> : (!stablehlo.token) -> (tensor<4x8xf32>, !stablehlo.token)
    %6 = "stablehlo.outfeed"(%arg0, %5#1) <{outfeed_config = ""}> : (tensor<4x8xf32>, !stablehlo.token) -> !stablehlo.token
    %7 = "stablehlo.outfeed"(%arg0, %6) <{outfeed_config = "c"}> : (tensor<4x8xf32>, !stablehlo.token) -> !stablehlo.token
    %8 = "stablehlo.send"(%arg0, %7) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<4x8xf32>, !stablehlo.token) -> !stablehlo.token
    %9:2 = "stablehlo.recv"(%8) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4x8xf32>, !stablehlo.token)
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
