"""Programs on which Shardy goes round and round for ever."""

from __future__ import annotations

import pytest

import emu.sdy

TEXT = """\
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y", "x", ?}]>}) -> tensor<8xf32> {
  %r = sdy.manual_computation(%a) in_shardings=[<@m, [{?}]>] out_shardings=[<@m, [{?}]>] manual_axes={"x"} (%b: tensor<8xf32>) {
    %0 = stablehlo.negate %b {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"y", ?}]>]>} : tensor<8xf32>
    %1 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"y", ?}]>]>} %b : tensor<8xf32>
    %2 = stablehlo.add %0, %1 : tensor<8xf32>
    sdy.return %2 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
"""
PASSES = "sdy-add-data-flow-edges,sdy-basic-propagate"


def test_manual_axes_behind_free_ones_are_told() -> None:
    with pytest.raises(emu.sdy.PassFailed, match='manual axes \\("x"\\) come in from outside'):
        emu.sdy.run_passes(emu.sdy.parse(TEXT), PASSES, verify_each=False)


def test_the_pass_that_the_error_names_helps() -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, f"sdy-manual-axes-cleanup,{PASSES}")
    assert 'replicated={"x"}' in str(module)
