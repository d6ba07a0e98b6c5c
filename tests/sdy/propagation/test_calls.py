"""Calls that lead in a circle."""

from __future__ import annotations

import emu.sdy

TEXT = """\
sdy.mesh @m = <["a"=2]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.negate %x : tensor<8xf32>
  %1 = call @same(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @same(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = stablehlo.negate %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}
func.func private @same(%p: tensor<8xf32>) -> tensor<8xf32> {
  return %p : tensor<8xf32>
}
"""


def test_two_calls_in_a_row_of_a_function_that_returns_its_argument() -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, "sdy-basic-propagate")  # calls as they are, not imported
    assert (
        'stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a", ?}]>'
        in str(module)
    )


def test_the_pipeline_goes_through_both() -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, "sdy-propagation-pipeline")
    assert str(module).count('[<@m, [{"a"}]>]') == 4
