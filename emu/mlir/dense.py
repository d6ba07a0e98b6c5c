"""Elements of dense attributes: from bytes to numbers and text.

Elements are little endian and each takes whole bytes (see ``DenseElementsAttr``).
``text.dense_parser`` goes the other way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Protocol

from emu.mlir.floats import byte_width, float_text
from emu.mlir.types import (
    ComplexType,
    FloatType,
    IndexType,
    IntegerType,
    TensorType,
    Type,
    scalar_type,
)

_VECTOR = re.compile(r"vector<((?:[0-9]+x)*)([a-z][A-Za-z0-9]*)>")
# MLIR writes longer lists as one hexadecimal string.
_HEX_LIMIT = 100


class DenseData(Protocol):
    """Fields of a ``DenseElementsAttr``, which stands above this module."""

    @property
    def data(self) -> bytes:
        """Elements, or the only one of a splat."""

    @property
    def type(self) -> Type:
        """Tensor or vector type."""

    @property
    def splat(self) -> bool:
        """Whether all elements equal the one in ``data``."""


class DenseError(ValueError):
    """The literal does not fit the type.

    Attributes:
        offset: Where in the text between the brackets; None for all of it.
        notes: Notes to add to the error.
    """

    def __init__(
        self, message: str, offset: int | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.notes = notes


def shape_and_element(type_: Type) -> tuple[tuple[int, ...], Type]:
    """Return the shape and the element type of a static tensor or vector type.

    Raises:
        DenseError: It is another type.
    """
    if isinstance(type_, TensorType):
        if not type_.is_static:
            raise DenseError("elements literal type must have static shape")
        return type_.static_shape, type_.element
    match = _VECTOR.fullmatch(str(type_))
    element = scalar_type(match[2]) if match else None
    if match is None or element is None:
        raise DenseError("elements literal must be a ranked tensor or vector type")
    return tuple(int(d) for d in match[1].split("x")[:-1]), element


def element_bytes(element: Type) -> int | None:
    """Return the bytes of an element in dense data; None for types without numbers."""
    if isinstance(element, ComplexType):
        part = element_bytes(element.element)
        return None if part is None else 2 * part
    if isinstance(element, FloatType):
        return byte_width(element.name)
    if isinstance(element, IntegerType):
        return (element.width + 7) // 8
    return 8 if isinstance(element, IndexType) else None


def element_values(attribute: DenseData) -> Iterator[int]:
    """Iterate over the bits of the elements as unsigned integers.

    A complex number gives two, a splat gives one element.
    """
    _, element = shape_and_element(attribute.type)
    part = element.element if isinstance(element, ComplexType) else element
    width = element_bytes(part) or 1
    data = attribute.data
    for start in range(0, len(data), width):
        yield int.from_bytes(data[start : start + width], "little")


def integer_values(attribute: DenseData) -> tuple[int, ...]:
    """Return the elements, row-major, as signed integers; a splat is repeated."""
    shape, element = shape_and_element(attribute.type)
    width, data = element_bytes(element) or 1, attribute.data
    starts = range(0, len(data), width)
    values = tuple(int.from_bytes(data[i : i + width], "little", signed=True) for i in starts)
    return values * math.prod(shape) if attribute.splat else values


def _element_texts(attribute: DenseData, element: Type) -> list[str]:
    if isinstance(element, ComplexType):
        parts = [_element_text(bits, element.element) for bits in element_values(attribute)]
        return [f"({a},{b})" for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return [_element_text(bits, element) for bits in element_values(attribute)]


def _element_text(bits: int, element: Type) -> str:
    if isinstance(element, FloatType):
        return float_text(bits, element.name)
    width = element.width if isinstance(element, IntegerType) else 64
    if isinstance(element, IntegerType):
        if width == 1:
            return "true" if bits else "false"
        if element.signedness == "u":
            return str(bits)
    return str(bits - (1 << width) if bits >> (width - 1) else bits)


def dense_text(attribute: DenseData) -> str:
    """Return ``dense<[1, 2]>``, without the type."""
    shape, element = shape_and_element(attribute.type)
    count = math.prod(shape)
    if not attribute.splat and count > _HEX_LIMIT:
        return f'dense<"0x{attribute.data.hex().upper()}">'
    if not attribute.data or (not attribute.splat and not count):
        return "dense<>"
    texts = _element_texts(attribute, element)
    if attribute.splat or not shape:
        return f"dense<{texts[0]}>"
    for size in reversed(shape):
        texts = ["[" + ", ".join(texts[i : i + size]) + "]" for i in range(0, len(texts), size)]
    return f"dense<{texts[0]}>"
