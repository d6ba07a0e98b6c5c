"""Values that change no result of a reduction."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from emu.mlir.floats import FORMATS, value_of
from emu.mlir.types import ComplexType, FloatType, IntegerType
from emu.sdy.passes.export.local.identities import identity


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_least_and_greatest_floats(name: str) -> None:
    """Beyond them in the same direction there is no finite number."""
    if not FORMATS[name].signed:
        return
    width = FORMATS[name].width
    finite = []
    for kind, sign in (("maximum", -1), ("minimum", 1)):
        found = identity(f"stablehlo.{kind}", FloatType(name), exact=False)
        assert found is not None
        bits = int.from_bytes(found.data, "little")
        value = value_of(bits, name)
        assert isinstance(value, Fraction)
        assert value * sign > 0
        beyond = value_of(bits + 1, name) if (bits + 1) & ((1 << (width - 1)) - 1) else math.inf
        assert not isinstance(beyond, Fraction) or abs(beyond) < abs(value)
        finite.append(value)
    assert finite[0] == -finite[1]


def test_identities() -> None:
    def bits(name: str, element: FloatType | IntegerType | ComplexType) -> int:
        found = identity(f"stablehlo.{name}", element)
        assert found is not None
        return int.from_bytes(found.data, "little")

    assert bits("add", FloatType("f32")) == 0
    assert bits("multiply", FloatType("bf16")) == 0x3F80
    assert bits("multiply", ComplexType(FloatType("f32"))) == 0x3F800000
    assert bits("and", IntegerType(1)) == 1
    assert bits("or", IntegerType(1)) == 0
    assert bits("maximum", IntegerType(8)) == 0x80
    assert bits("minimum", IntegerType(16)) == 0x7FFF
    assert identity("stablehlo.maximum", ComplexType(FloatType("f32"))) is None
    assert bits("maximum", IntegerType(8, "u")) == 0
    assert bits("minimum", IntegerType(8, "u")) == 0xFF
    assert bits("and", IntegerType(16)) == 0xFFFF
    assert bits("xor", IntegerType(16)) == 0
    assert identity("stablehlo.divide", FloatType("f32")) is None


def test_identities_of_shardy_are_no_identities() -> None:
    def bits(name: str, element: IntegerType) -> int:
        found = identity(f"stablehlo.{name}", element, exact=False)
        assert found is not None
        return int.from_bytes(found.data, "little")

    assert bits("maximum", IntegerType(8, "u")) == 0x80
    assert bits("and", IntegerType(16)) == 1


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "f64", "f8E5M2"])
def test_infinity_is_the_least_of_all(name: str) -> None:
    for kind, expected in (("maximum", -math.inf), ("minimum", math.inf)):
        found = identity(f"stablehlo.{kind}", FloatType(name))
        assert found is not None
        assert value_of(int.from_bytes(found.data, "little"), name) == expected


def test_formats_without_infinity_have_their_least_number() -> None:
    found = identity("stablehlo.maximum", FloatType("f8E4M3FN"))
    assert found is not None
    assert value_of(int.from_bytes(found.data, "little"), "f8E4M3FN") == -448
