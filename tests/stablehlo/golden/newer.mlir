module {
  func.func @newer(%arg0: tensor<4xi32>, %arg1: tensor<4x8xf32>, %arg2: tensor<2xi32>) {
    %0 = chlo.mulhi %arg0, %arg0 : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
    %1:2 = "stablehlo.collective_broadcast"(%arg1, %arg1, %arg2) <{has_dynamic_root, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<2xi32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %2 = "stablehlo.collective_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %3 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return
  }
}
