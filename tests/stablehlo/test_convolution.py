"""Shapes of convolutions."""

from __future__ import annotations

import pytest

import emu.stablehlo  # noqa: F401  # defines the dialect
from emu.mlir import parse
from emu.mlir.ir import Operation
from emu.stablehlo.type_inference import implied_types

HEAD = (
    "func.func @f(%x: tensor<4x6xf32>, %s: tensor<f32>, %i: tensor<3x1xi32>, %c: tensor<6xf32>, "
    "%q: tensor<4x4xf32>, %n: tensor<2x9x8x4xf32>, %w: tensor<3x3x2x6xf32>, "
    "%d: tensor<?x6xf32>, %u: tensor<3x6xf32>) {\n  "
)


def convolution(
    result: str,
    numbers: str = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
    more: str = "",
    groups: int = 2,
) -> str:
    return (
        f"%0 = stablehlo.convolution(%n, %w) dim_numbers = {numbers}, window = {{{more}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : "
        f"(tensor<2x9x8x4xf32>, tensor<3x3x2x6xf32>) -> {result}"
    )


def operation(text: str) -> Operation:
    module = parse(f"{HEAD}{text}\n  return\n}}")
    return next(op for op in module.walk() if op.name.startswith("stablehlo."))


@pytest.mark.parametrize(
    "text",
    [
        convolution("tensor<2x7x6x6xf32>"),
        convolution(
            "tensor<2x4x8x6xf32>", more="stride = [2, 1], pad = [[0, 0], [1, 1]], reverse = [1, 0]"
        ),
        convolution("tensor<2x15x4x6xf32>", more="lhs_dilate = [2, 1], rhs_dilate = [1, 2]"),
    ],
)
def test_convolutions(text: str) -> None:
    assert implied_types(operation(text)) is None
