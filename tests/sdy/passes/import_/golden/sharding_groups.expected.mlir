module {
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<2xf32>, %arg3: tensor<4xf32>, %arg4: tensor<4xf32>) {
    sdy.sharding_group %arg3 group_id=0 : tensor<4xf32>
    sdy.sharding_group %arg0 group_id=1 : tensor<4xf32>
    sdy.sharding_group %arg2 group_id=2 : tensor<2xf32>
    sdy.sharding_group %arg1 group_id=1 : tensor<4xf32>
    sdy.sharding_group %arg4 group_id=1 : tensor<4xf32>
    return
  }
}
