"""Types of the tile IR: element dtypes, pointers, tiles of static shape, tokens."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

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
    numpy: np.dtype[Any] = field(compare=False, repr=False)

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

    def __str__(self) -> str:
        return self.name


def _dtype(name: str, kind: Kind, bits: int, numpy: Any) -> DType:
    return DType(name, kind, bits, np.dtype(numpy))


I1 = _dtype("i1", Kind.BOOL, 1, np.bool_)
I8 = _dtype("i8", Kind.INT, 8, np.int8)
I16 = _dtype("i16", Kind.INT, 16, np.int16)
I32 = _dtype("i32", Kind.INT, 32, np.int32)
I64 = _dtype("i64", Kind.INT, 64, np.int64)
U8 = _dtype("u8", Kind.UINT, 8, np.uint8)
U16 = _dtype("u16", Kind.UINT, 16, np.uint16)
U32 = _dtype("u32", Kind.UINT, 32, np.uint32)
U64 = _dtype("u64", Kind.UINT, 64, np.uint64)
F8E4M3FN = _dtype("f8e4m3fn", Kind.FLOAT, 8, ml_dtypes.float8_e4m3fn)
F8E5M2 = _dtype("f8e5m2", Kind.FLOAT, 8, ml_dtypes.float8_e5m2)
F16 = _dtype("f16", Kind.FLOAT, 16, np.float16)
BF16 = _dtype("bf16", Kind.FLOAT, 16, ml_dtypes.bfloat16)
F32 = _dtype("f32", Kind.FLOAT, 32, np.float32)
F64 = _dtype("f64", Kind.FLOAT, 64, np.float64)

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (I1, I8, I16, I32, I64, U8, U16, U32, U64, F8E4M3FN, F8E5M2, F16, BF16, F32, F64)
}
"""Every dtype by its name."""

FROM_NUMPY: dict[np.dtype[Any], DType] = {d.numpy: d for d in DTYPES.values()}
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
