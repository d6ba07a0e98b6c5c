"""Types of the tile IR: element dtypes, pointers, tiles of static shape, tokens."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from emu.kernels.core import dtype_table

__all__ = [
    "BF16",
    "DTYPES",
    "F8E4M3FN",
    "F8E5M2",
    "F16",
    "F32",
    "F64",
    "FROM_NUMPY",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "U8",
    "U16",
    "U32",
    "U64",
    "DType",
    "Kind",
    "Pointer",
    "ScalarType",
    "Tile",
    "Token",
    "Type",
    "dtype_of",
    "element_of",
    "shape_of",
    "with_element",
    "with_shape",
]


class Kind(enum.IntEnum):
    """Kind of an element; the order is that of promotion."""

    BOOL = 0
    INT = 1
    UINT = 2
    FLOAT = 3


@dataclass(frozen=True, slots=True)
class DType:
    """Dtype of elements.

    Attributes:
        name: Name in the text of the IR: ``i32``, ``u8``, ``bf16``.
        kind: Boolean, signed, unsigned or floating.
        bits: Width; 1 for ``i1``, whose elements take a byte in memory.
        numpy: The dtype of the same elements in NumPy (ml_dtypes for bf16 and fp8).
    """

    name: str
    kind: Kind
    bits: int
    # Not compared: it follows from the name, and dtypes are compared and hashed all the time.
    numpy: np.dtype[np.generic] = field(compare=False, repr=False)

    @property
    def bytes(self) -> int:
        """Bytes of an element in memory."""
        return max(self.bits // 8, 1)

    @property
    def is_float(self) -> bool:
        """Whether the dtype is a floating-point dtype."""
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        """Whether the dtype is a signed or unsigned integer; ``i1`` is neither."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_signed(self) -> bool:
        """Whether the dtype is a signed integer."""
        return self.kind is Kind.INT

    @property
    def is_narrow(self) -> bool:
        """Whether arithmetic is that of f32, rounded after each operation: f16, bf16 and fp8."""
        return self.is_float and self.bits < 32

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest value of an integer, or of ``i1``."""
        bits = self.bits - self.is_signed
        return -(1 << bits) if self.is_signed else 0, (1 << bits) - 1

    def as_signed(self) -> DType:
        """Return the signed integer that takes as many bytes."""
        return DTYPES[f"i{8 * self.bytes}"]

    def as_unsigned(self) -> DType:
        """Return the unsigned integer that takes as many bytes."""
        return DTYPES[f"u{8 * self.bytes}"]

    def __str__(self) -> str:
        return self.name


def _view(entry: dtype_table.DType) -> DType:
    """Return a dtype of the package as one of the IR, whose names have no underscore and whose bool has one bit."""
    if entry.kind == dtype_table.BOOL:
        return DType("i1", Kind.BOOL, 1, entry.numpy)
    kind = Kind.UINT if entry.numpy.kind == "u" else Kind.INT
    name = entry.short.replace("_", "")
    return DType(name, Kind.FLOAT if entry.is_float else kind, entry.bits, entry.numpy)


DTYPES: dict[str, DType] = {
    d.name: d for d in sorted(map(_view, dtype_table.ALL), key=lambda d: (d.kind, d.bits))
}
"""Every dtype by its name: a view of the package's table, by kind and width."""

I1 = DTYPES["i1"]
I8, I16, I32, I64 = (DTYPES[f"i{bits}"] for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (DTYPES[f"u{bits}"] for bits in (8, 16, 32, 64))
F8E4M3FN, F8E5M2 = DTYPES["f8e4m3fn"], DTYPES["f8e5m2"]
F16, BF16, F32, F64 = DTYPES["f16"], DTYPES["bf16"], DTYPES["f32"], DTYPES["f64"]

FROM_NUMPY: dict[np.dtype[np.generic], DType] = {d.numpy: d for d in DTYPES.values()}
"""Every dtype by NumPy's."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """Address of elements in memory; stored in memory itself, it takes eight bytes.

    Attributes:
        element: Type of the elements: a dtype, or another pointer.
    """

    element: DType | Pointer

    @property
    def bytes(self) -> int:
        """Bytes of a pointer that lies in memory itself."""
        return 8

    def __str__(self) -> str:
        return f"ptr<{self.element}>"


ScalarType: TypeAlias = DType | Pointer


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of elements whose shape is known when the program is compiled.

    Attributes:
        shape: At least one extent, each at least 1. Any extents: powers of two are Triton's rule.
        element: A dtype or a pointer.
    """

    shape: tuple[int, ...]
    element: ScalarType

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"tile<{'x'.join(map(str, self.shape))}x{self.element}>"


@dataclass(frozen=True, slots=True)
class Token:
    """Value that orders operations and holds no data."""

    def __str__(self) -> str:
        return "token"


Type: TypeAlias = DType | Pointer | Tile | Token


def element_of(type_: Type) -> ScalarType:
    """Return the type of an element: of a tile's, or the scalar type itself.

    Raises:
        TypeError: ``type_`` is a token.
    """
    if isinstance(type_, Tile):
        return type_.element
    if isinstance(type_, Token):
        raise TypeError("a token has no elements")
    return type_


def dtype_of(type_: Type) -> DType:
    """Return the dtype of a scalar or of a tile's elements.

    Raises:
        TypeError: ``type_`` is a pointer, a tile of pointers or a token.
    """
    element = element_of(type_)
    if not isinstance(element, DType):
        raise TypeError(f"{type_} has no dtype")
    return element


def shape_of(type_: Type) -> tuple[int, ...]:
    """Return the shape of a tile, ``()`` for a scalar."""
    return type_.shape if isinstance(type_, Tile) else ()


def with_element(type_: Type, element: ScalarType) -> Type:
    """Return the type of the same shape with other elements."""
    return Tile(type_.shape, element) if isinstance(type_, Tile) else element


def with_shape(shape: tuple[int, ...], element: ScalarType) -> Type:
    """Return the tile type of that shape, or the scalar type where the shape is ``()``."""
    return Tile(tuple(shape), element) if shape else element
