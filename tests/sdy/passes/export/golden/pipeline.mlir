// CASE as XLA runs it
// PASSES sdy-export-pipeline
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %w1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}, %w2: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>})
    -> (tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) {
  %0 = stablehlo.dot %x, %w1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=16, j=64, k=32} reduction={k}>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  sdy.sharding_group %0 group_id=0 : tensor<16x64xf32>
  %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} dense<0.0> : tensor<16x64xf32>
  %2 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} dense<0.0> : tensor<16x64xf32>
  %3 = stablehlo.maximum %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x64xf32>
  %4 = stablehlo.add %3, %2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x64xf32>
  %5 = sdy.sharding_constraint %4 <@grid, [{"x"}, {"y", ?}]> : tensor<16x64xf32>
  %6 = stablehlo.dot %5, %w2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} : (tensor<16x64xf32>, tensor<64x6xf32>) -> tensor<16x6xf32>
  return %6 : tensor<16x6xf32>
}
// GIVES
module {
  func.func @main(%arg0: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}, {}]>}, %arg1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{}, {"y"}]>}, %arg2: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"y"}, {"x"}]>}) -> (tensor<16x6xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}, {}]>}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
    %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} dense<0.000000e+00> : tensor<16x64xf32>
    %2 = stablehlo.maximum %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : tensor<16x64xf32>
    %3 = stablehlo.add %2, %1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : tensor<16x64xf32>
    %4 = sdy.reshard %3 <mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]> : tensor<16x64xf32>
    %5 = stablehlo.dot %4, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {}]>]>} : (tensor<16x64xf32>, tensor<64x6xf32>) -> tensor<16x6xf32>
    return %5 : tensor<16x6xf32>
  }
}

// CASE with collectives
// PASSES sdy-export-pipeline{enable-insert-explicit-collectives=true}
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %w1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}, %w2: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>})
    -> (tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) {
  %0 = stablehlo.dot %x, %w1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=16, j=64, k=32} reduction={k}>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  sdy.sharding_group %0 group_id=0 : tensor<16x64xf32>
  %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} dense<0.0> : tensor<16x64xf32>
  %2 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} dense<0.0> : tensor<16x64xf32>
  %3 = stablehlo.maximum %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x64xf32>
  %4 = stablehlo.add %3, %2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x64xf32>
  %5 = sdy.sharding_constraint %4 <@grid, [{"x"}, {"y", ?}]> : tensor<16x64xf32>
  %6 = stablehlo.dot %5, %w2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} : (tensor<16x64xf32>, tensor<64x6xf32>) -> tensor<16x6xf32>
  return %6 : tensor<16x6xf32>
}
// GIVES
module {
  func.func @main(%arg0: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}, {}]>}, %arg1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{}, {"y"}]>}, %arg2: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"y"}, {"x"}]>}) -> (tensor<16x6xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}, {}]>}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
    %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} dense<0.000000e+00> : tensor<16x64xf32>
    %2 = stablehlo.maximum %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : tensor<16x64xf32>
    %3 = stablehlo.add %2, %1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : tensor<16x64xf32>
    %4 = sdy.all_gather [{}, {"x"}] %arg2 out_sharding=<mesh<["x"=2, "y"=4]>, [{"y"}, {}]> : tensor<64x6xf32>
    %5 = stablehlo.dot %3, %4 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {}]>]>} : (tensor<16x64xf32>, tensor<64x6xf32>) -> tensor<16x6xf32>
    %6 = sdy.all_reduce {"y"} %5 out_sharding=<mesh<["x"=2, "y"=4]>, [{"x"}, {}]> : tensor<16x6xf32>
    return %6 : tensor<16x6xf32>
  }
}

// CASE ready for another propagation
// PASSES sdy-export-pipeline{avoid-export-for-partitioning=true keep-sharding-rules=true}
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %w1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}, %w2: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>})
    -> (tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) {
  %0 = stablehlo.dot %x, %w1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=16, j=64, k=32} reduction={k}>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  sdy.sharding_group %0 group_id=0 : tensor<16x64xf32>
  %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} dense<0.0> : tensor<16x64xf32>
  %2 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} dense<0.0> : tensor<16x64xf32>
  %3 = stablehlo.maximum %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x64xf32>
  %4 = stablehlo.add %3, %2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x64xf32>
  %5 = sdy.sharding_constraint %4 <@grid, [{"x"}, {"y", ?}]> : tensor<16x64xf32>
  %6 = stablehlo.dot %5, %w2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} : (tensor<16x64xf32>, tensor<64x6xf32>) -> tensor<16x6xf32>
  return %6 : tensor<16x6xf32>
}
// GIVES
module {
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}, %arg1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{}, {"y"}]>}, %arg2: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y"}, {"x"}]>}) -> (tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=16, j=64, k=32} reduction={k}>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
    sdy.sharding_group %0 group_id=0 : tensor<16x64xf32>
    %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} dense<0.000000e+00> : tensor<16x64xf32>
    %2 = stablehlo.maximum %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<16x64xf32>
    %3 = stablehlo.add %2, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {"y"}]>]>} : tensor<16x64xf32>
    %4 = sdy.sharding_constraint %3 <@grid, [{"x"}, {"y"}]> : tensor<16x64xf32>
    %5 = stablehlo.dot %4, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>]>} : (tensor<16x64xf32>, tensor<64x6xf32>) -> tensor<16x6xf32>
    return %5 : tensor<16x6xf32>
  }
}

// CASE with outputs as they came out
// PASSES sdy-export-pipeline{update-non-divisible-input-output-shardings=false}
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {?}]>}, %w1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@grid, [{?}, {"y", ?}]>}, %w2: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"y", ?}, {"x", ?}]>})
    -> (tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}, {"y", ?}]>}) {
  %0 = stablehlo.dot %x, %w1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=16, j=64, k=32} reduction={k}>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  sdy.sharding_group %0 group_id=0 : tensor<16x64xf32>
  %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} dense<0.0> : tensor<16x64xf32>
  %2 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} dense<0.0> : tensor<16x64xf32>
  %3 = stablehlo.maximum %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x64xf32>
  %4 = stablehlo.add %3, %2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {"y", ?}]>]>} : tensor<16x64xf32>
  %5 = sdy.sharding_constraint %4 <@grid, [{"x"}, {"y", ?}]> : tensor<16x64xf32>
  %6 = stablehlo.dot %5, %w2 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"x", ?}, {?}]>]>} : (tensor<16x64xf32>, tensor<64x6xf32>) -> tensor<16x6xf32>
  return %6 : tensor<16x6xf32>
}
// GIVES
module {
  func.func @main(%arg0: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}, {}]>}, %arg1: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{}, {"y"}]>}, %arg2: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"y"}, {"x"}]>}) -> (tensor<16x6xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>}) {
    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
    %1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} dense<0.000000e+00> : tensor<16x64xf32>
    %2 = stablehlo.maximum %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : tensor<16x64xf32>
    %3 = stablehlo.add %2, %1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>]>} : tensor<16x64xf32>
    %4 = sdy.reshard %3 <mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]> : tensor<16x64xf32>
    %5 = stablehlo.dot %4, %arg2 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2, "y"=4]>, [{"x"}, {}]>]>} : (tensor<16x64xf32>, tensor<64x6xf32>) -> tensor<16x6xf32>
    return %5 : tensor<16x6xf32>
  }
}
