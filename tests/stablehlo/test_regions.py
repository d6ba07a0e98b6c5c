"""Values that regions take from around them, and regions of one operation."""

from __future__ import annotations

import pytest

import emu.sdy
from emu.mlir.ir import Operation
from emu.stablehlo.regions import captured, only_operation


def reduction(body: str) -> Operation:
    """Return a reduction whose region has a body of ``%p`` and ``%q``; ``%zero`` is outside of it."""
    module = emu.sdy.parse(f"""func.func @main(%x: tensor<4xf32>, %zero: tensor<f32>) -> tensor<f32> {{
      %0 = "stablehlo.reduce"(%x, %zero) <{{dimensions = array<i64: 0>}}> ({{
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        {body}
      }}) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }}""")
    return next(op for op in module.walk() if op.name == "stablehlo.reduce")


@pytest.mark.parametrize("operands", ["%p, %q", "%q, %p"])
def test_one_operation_of_both_parameters_in_any_order(operands) -> None:
    op = reduction(
        f"%r = stablehlo.maximum {operands} : tensor<f32>\nstablehlo.return %r : tensor<f32>"
    )
    only = only_operation(op.regions[0])
    assert only is not None
    assert only.name == "stablehlo.maximum"
    assert not captured(op)


@pytest.mark.parametrize(
    "body",
    [
        "stablehlo.return %q : tensor<f32>",
        "%r = stablehlo.add %p, %p : tensor<f32>\nstablehlo.return %r : tensor<f32>",
        "%r = stablehlo.add %p, %q : tensor<f32>\nstablehlo.return %p : tensor<f32>",
        """%r = stablehlo.add %p, %q : tensor<f32>
        %s = stablehlo.abs %r : tensor<f32>
        stablehlo.return %s : tensor<f32>""",
        "%r = stablehlo.add %p, %zero : tensor<f32>\nstablehlo.return %r : tensor<f32>",
    ],
)
def test_regions_that_are_more_or_less(body) -> None:
    op = reduction(body)
    assert only_operation(op.regions[0]) is None
    assert captured(op) == ([op.operands[1]] if "%zero" in body else [])
