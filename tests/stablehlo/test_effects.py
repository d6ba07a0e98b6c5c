"""Which StableHLO operations may go when nothing uses them."""

from __future__ import annotations

import pytest

import emu.stablehlo  # noqa: F401  # defines the dialect
from emu.mlir import parse
from emu.mlir.effects import is_trivially_dead
from emu.mlir.registry import definition

FUNC = """
func.func private @callee(tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>, %s: tensor<f32>, %i: tensor<i32>) {{
  {op}
  return
}}
"""
REDUCE = """%0 = stablehlo.reduce(%x init: %s) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%a: tensor<f32>, %b: tensor<f32>) {{
    {inner}
    stablehlo.return %1 : tensor<f32>
  }}"""


@pytest.mark.parametrize(
    ("op", "dead"),
    [
        ("%0 = stablehlo.tanh %x : tensor<4xf32>", True),
        ("%0 = stablehlo.custom_call @t(%x) : (tensor<4xf32>) -> tensor<4xf32>", True),
        (
            "%0 = stablehlo.custom_call @t(%x) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>",
            False,
        ),
        (
            '%0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>',
            False,
        ),
        (REDUCE.format(inner="%1 = stablehlo.add %a, %b : tensor<f32>"), True),
        (
            REDUCE.format(
                inner="%1 = stablehlo.custom_call @t(%a, %b) {has_side_effect = true} : (tensor<f32>, tensor<f32>) -> tensor<f32>"
            ),
            False,
        ),
        ("%0 = call @callee(%x) : (tensor<4xf32>) -> tensor<4xf32>", False),
        (
            '%0 = "stablehlo.case"(%i) ({\n stablehlo.return %x : tensor<4xf32>\n}) : (tensor<i32>) -> tensor<4xf32>',
            True,
        ),
    ],
)
def test_dead_operations(op: str, dead: bool) -> None:
    function = parse(FUNC.format(op=op)).body().last
    assert function is not None
    first = function.body().first
    assert first is not None
    assert is_trivially_dead(first) is dead


def test_constants_and_returns_are_known() -> None:
    assert definition("stablehlo.constant").constant
    assert definition("stablehlo.return").terminator
    assert definition("stablehlo.select").elementwise
    assert not definition("stablehlo.reshape").elementwise
