"""``stablehlo.if`` partitions: it becomes a ``stablehlo.case``."""

from __future__ import annotations

import numpy as np
import pytest

import emu.sdy

TEXT = """
sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%p: tensor<i1>, %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>})
    -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>}) {
  %0 = "stablehlo.if"(%p) ({
    %1 = sdy.named_computation<"double">(%x) (%y: tensor<8x4xf32>) {
      %2 = func.call @double(%y) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      sdy.return %2 : tensor<8x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    stablehlo.return %1 : tensor<8x4xf32>
  }, {
    %1 = stablehlo.negate %x : tensor<8x4xf32>
    stablehlo.return %1 : tensor<8x4xf32>
  }) : (tensor<i1>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func private @double(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.add %x, %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""


@pytest.mark.parametrize("predicate", [True, False])
def test_the_branch_of_the_predicate_is_taken(predicate: bool) -> None:
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    (found,) = emu.sdy.run(emu.sdy.parse(TEXT), np.array(predicate), x, check="unsharded")
    np.testing.assert_array_equal(found, 2 * x if predicate else -x)


def test_a_case_takes_its_place() -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, "emu-convert-if-to-case")
    assert "stablehlo.if" not in str(module)
    assert '"stablehlo.case"' in str(module)
