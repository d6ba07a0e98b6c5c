"""Regions that combine values."""

from __future__ import annotations

import pytest

import emu.stablehlo  # noqa: F401  # defines the dialect
from emu.mlir import parse
from emu.mlir.diagnostics import MlirError

HEAD = (
    "func.func @f(%x: tensor<3x5xf32>, %y: tensor<5x3xf32>, %i: tensor<3x5xi32>, "
    "%p: tensor<3x5xi1>, %s: tensor<f32>, %k: tensor<i32>, "
    "%t: tuple<tensor<3x5xf32>, tensor<i32>>, %d: tensor<?x5xf32>) {\n  "
)


X, Y, S, K = "tensor<3x5xf32>", "tensor<5x3xf32>", "tensor<f32>", "tensor<i32>"


def test_a_reducer_of_all_reduce_serves_all_operands() -> None:
    parse(
        f"""{HEAD}%0:2 = "stablehlo.all_reduce"(%x, %y) <{{replica_groups = dense<0> : tensor<1x1xi64>}}> ({{
  ^bb0(%a: {S}, %b: {S}):
    %1 = stablehlo.add %a, %b : {S}
    stablehlo.return %1 : {S}
  }}) : ({X}, {Y}) -> ({X}, {Y})
  return
}}"""
    )


REDUCE = (
    f"%0 = stablehlo.reduce(%x init: %s) across dimensions = [0] : ({X}, {S}) -> tensor<5xf32>\n"
    "   reducer({arguments}) {{\n    stablehlo.return {result}\n  }}"
)


@pytest.mark.parametrize(
    ("arguments", "result", "message"),
    [
        (
            f"%a: {S}, %b: {K}",
            f"%a : {S}",
            (
                "parameter at index 1 is different than the corresponding result type: "
                "'tensor<i32>' vs 'tensor<f32>'"
            ),
        ),
        (f"%a: {S}, %b: {S}", "", "expected to return some value(s)"),
        (f"%a: {S}, %b: {S}", f"%a, %b : {S}, {S}", "must produce 1 tensors, but produces 2"),
        (f"%a: {X}, %b: {X}", f"%a : {X}", "differs from the op's corresponding init-value type"),
        (f"%a: {S}, %b: {S}", f"%t : tuple<{X}, {K}>", "must produce tensor-typed result(s)"),
    ],
)
def test_reducers_are_checked(arguments: str, result: str, message: str) -> None:
    with pytest.raises(MlirError) as caught:
        parse(f"{HEAD}{REDUCE.format(arguments=arguments, result=result)}\n  return\n}}")
    assert message in caught.value.diagnostics[0].message
