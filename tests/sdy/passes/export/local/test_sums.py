"""Partial results that cannot be added."""

from __future__ import annotations

import pytest
from sdy_local_programs import CONVERT, CUT, program

import emu.sdy
from emu.mlir import parse


@pytest.mark.parametrize(
    ("by", "start", "message"),
    [
        ("maximum", "0.0", "partial results of stablehlo.reduce by stablehlo.maximum are added"),
        ("add", "1.5", "each partial sum starts from dense<1.500000e+00>"),
        ("add", "-0.0", ""),
    ],
)
def test_sums_that_are_none_are_warned_of(by: str, start: str, message: str) -> None:
    text = program(
        CUT,
        f"  %s = sdy.constant dense<{start}> : tensor<f32>\n"
        f"  %0 = stablehlo.reduce(%a init: %s) applies stablehlo.{by} across dimensions = [0, 1] "
        ": (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>\n"
        '  %1 = sdy.all_reduce {"r"} %0 out_sharding=<@grid, []> : tensor<f32>',
    )
    asked = CONVERT + "{fix-wrong-results=false}"
    emitted = [each.message for each in emu.sdy.run_passes(parse(text), asked)]
    assert [message in each for each in emitted] == ([True] if message else [])
