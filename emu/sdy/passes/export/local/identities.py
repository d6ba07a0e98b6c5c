"""Identity elements of reductions, as attributes."""

from __future__ import annotations

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.dense import element_bytes
from emu.mlir.floats import FORMATS, bits_of
from emu.mlir.types import ComplexType, FloatType, IntegerType, TensorType, Type


def identity(name: str, element: Type) -> DenseElementsAttr | None:
    """Return the identity element of an operation; None if it is unknown.

    For maximum and minimum it is the least and the greatest finite number;
    unsigned integers are treated as signed ones, as in Shardy.

    Args:
        name: Name of the operation, ``"stablehlo.add"``.
        element: The element type.
    """
    bits = _bits(name, element)
    width = element_bytes(element)
    if bits is None or width is None:
        return None
    return DenseElementsAttr(bits.to_bytes(width, "little"), TensorType((), element), True)


def _bits(name: str, element: Type) -> int | None:
    if name in {"stablehlo.add", "stablehlo.or"}:
        return 0
    if name in {"stablehlo.multiply", "stablehlo.and"}:
        return _one(element)
    if isinstance(element, FloatType):
        least = _least_float(element.name)
        form = FORMATS[element.name]
        sign = 1 << (form.width - 1) if form.signed else 0
        return least if name == "stablehlo.maximum" else least & ~sign
    if isinstance(element, IntegerType):
        least = 1 << (element.width - 1)
        return least if name == "stablehlo.maximum" else least - 1
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
