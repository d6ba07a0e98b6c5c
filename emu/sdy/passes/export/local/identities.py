"""Identity elements of reductions, as attributes."""

from __future__ import annotations

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.dense import element_bytes
from emu.mlir.floats import FORMATS, bits_of
from emu.mlir.types import ComplexType, FloatType, IntegerType, TensorType, Type


def identity(name: str, element: Type, *, exact: bool = True) -> DenseElementsAttr | None:
    """Return the identity element of an operation; None if it is unknown.

    Args:
        name: Name of the operation, ``"stablehlo.add"``.
        element: The element type.
        exact: Whether it changes no number at all. False gives Shardy's: for maximum
            and minimum the least and the greatest finite number, unsigned integers
            treated as signed ones, and 1 for ``and``.
    """
    bits = (_exact_bits if exact else _bits)(name.removeprefix("stablehlo."), element)
    width = element_bytes(element)
    if bits is None or width is None:
        return None
    return DenseElementsAttr(bits.to_bytes(width, "little"), TensorType((), element), True)


def _exact_bits(name: str, element: Type) -> int | None:
    if name in {"add", "or", "xor"}:
        return 0
    if name == "multiply":
        return _one(element)
    if isinstance(element, FloatType) and name in {"maximum", "minimum"}:
        return _infinity(element.name, negative=name == "maximum")
    if isinstance(element, IntegerType):
        ones = (1 << element.width) - 1
        is_unsigned = element.signedness == "u" or element.width == 1
        least, greatest = (0, ones) if is_unsigned else (ones // 2 + 1, ones // 2)
        return {"and": ones, "maximum": least, "minimum": greatest}.get(name)
    return None


def _infinity(name: str, *, negative: bool) -> int | None:
    """Return the bits of infinity, or of the largest number of a type that has none."""
    form = FORMATS[name]
    if not form.signed:
        return None
    bits = _least_float(name)
    if form.special == "ieee":
        bits += 1
    sign = 1 << (form.width - 1)
    return bits | sign if negative else bits & ~sign


def _bits(name: str, element: Type) -> int | None:
    if name in {"add", "or"}:
        return 0
    if name in {"multiply", "and"}:
        return _one(element)
    if name not in {"maximum", "minimum"}:
        return None
    if isinstance(element, FloatType):
        least = _least_float(element.name)
        form = FORMATS[element.name]
        sign = 1 << (form.width - 1) if form.signed else 0
        return least if name == "maximum" else least & ~sign
    if isinstance(element, IntegerType):
        least = 1 << (element.width - 1)
        return least if name == "maximum" else least - 1
    return None


def _one(element: Type) -> int | None:
    if isinstance(element, FloatType):
        return bits_of(1.0, element.name)
    if isinstance(element, ComplexType):
        return _one(element.element)
    return 1


def _least_float(name: str) -> int:
    """Return the bits of the negative number of the largest magnitude."""
    form = FORMATS[name]
    magnitude = (1 << (form.exponent + form.mantissa)) - 1
    if form.special == "ieee":
        # The largest exponent is reserved for infinities.
        top = ((1 << form.exponent) - 2) << form.mantissa
        magnitude = top | ((1 << form.mantissa) - 1)
    elif form.special == "fn":
        magnitude -= 1
    return (1 << (form.width - 1) if form.signed else 0) | magnitude
