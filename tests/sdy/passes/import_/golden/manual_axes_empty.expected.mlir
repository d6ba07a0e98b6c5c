module {
  sdy.mesh @m = <["a"=2, "b"=2]>
  sdy.mesh @nothing = <[]>
  func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> tensor<8xf32> {
    sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={} () {
      sdy.return
    } : () -> ()
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@m, [{}], replicated={"a", "b"}>, <@m, [{}], replicated={"a", "b"}>] out_shardings=[<@m, [{?}], replicated={"a", "b"}>] manual_axes={"a", "b"} (%arg2: tensor<8xf32>, %arg3: tensor<8xf32>) {
      sdy.return %arg2 : tensor<8xf32>
    } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
