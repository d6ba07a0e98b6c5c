"""Element types that operations take and give."""

from __future__ import annotations

import pytest

import emu.stablehlo  # noqa: F401  # defines the dialect
from emu.mlir import parse
from emu.mlir.diagnostics import MlirError


def values(names: str) -> str:
    return f"op operand #0 must be ranked tensor of {names} values, but got '"


FLOAT, INTEGER = "4/6/8/16/32/64-bit float", "2/4/8/16/32/64-bit integer"


COMPLEX = "complex type with 32/64-bit float elements"


@pytest.mark.parametrize(
    ("name", "element", "names"),
    [
        ("tanh", "i32", f"{FLOAT} or {COMPLEX} or per-tensor integer quantized"),
        ("floor", "complex<f32>", f"{FLOAT} or per-tensor integer quantized"),
        ("not", "f32", f"bool or {INTEGER}"),
        ("popcnt", "i1", INTEGER),
        ("negate", "i1", f"{INTEGER} or {FLOAT} or {COMPLEX} or per-tensor integer quantized"),
        (
            "sign",
            "ui8",
            (
                f"2/4/8/16/32/64-bit signless integer or {FLOAT} or {COMPLEX} "
                "or per-tensor integer quantized"
            ),
        ),
        ("convert", "tf32", f"{FLOAT} or bool or {INTEGER} or {COMPLEX}"),
    ],
)
def test_element_types_are_checked(name: str, element: str, names: str) -> None:
    type_ = f"tensor<2x{element}>"
    text = f"func.func @f(%x: {type_}) {{\n  %0 = stablehlo.{name} %x : {type_}\n  return\n}}"
    with pytest.raises(MlirError) as caught:
        parse(text)
    assert values(names) in caught.value.diagnostics[0].message
