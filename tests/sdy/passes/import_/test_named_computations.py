"""A user's named computations beside each other, and beside calls."""

from __future__ import annotations

import numpy as np

import emu.sdy

TEXT = """
sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) -> tensor<8xf32> {
  %0 = sdy.named_computation<"f">(%x) (%y: tensor<8xf32>) {
    %5 = func.call @f(%y) : (tensor<8xf32>) -> tensor<8xf32>
    %6 = stablehlo.add %5, %5 : tensor<8xf32>
    sdy.return %6 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.named_computation<"g">(%0) (%y: tensor<8xf32>) {
    %5 = stablehlo.negate %y : tensor<8xf32>
    sdy.return %5 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %2 = sdy.named_computation<"g">(%1) (%y: tensor<8xf32>) {
    %5 = stablehlo.abs %y : tensor<8xf32>
    sdy.return %5 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %3 = func.call @f(%2) : (tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<8xf32>
  %0 = stablehlo.add %x, %c : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def test_computations_of_one_name_stay_apart() -> None:
    x = np.arange(8, dtype=np.float32) - 4
    (found,) = emu.sdy.run(emu.sdy.parse(TEXT), x, check="unsharded")
    np.testing.assert_array_equal(found, np.abs(2 * (x + 1)) + 1)


def test_names_get_numbers() -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, "emu-rename-named-computations")
    names = [op.properties["name"] for op in module.walk() if op.name == "sdy.named_computation"]
    assert [str(name) for name in names] == ['"f_0"', '"g"', '"g_0"']


def test_each_owner_has_one_edge() -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, "sdy-import-pipeline,sdy-flatten-call-graph,sdy-import-func-calls")
    for op in module.walk():
        if op.name == "sdy.data_flow_edge":
            owner = op.operands[0].defining_op
            assert owner is None or owner.name != op.name
