"""Element types of MLIR as NumPy dtypes, and constants as arrays."""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.dense import element_bytes, shape_and_element
from emu.mlir.types import ComplexType, FloatType, IndexType, IntegerType, TensorType, Type
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array

_FLOATS: dict[str, np.dtype[np.generic]] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
}
_COMPLEX = {"f32": np.dtype(np.complex64), "f64": np.dtype(np.complex128)}
_SIGNED = {
    2: ml_dtypes.int2,
    4: ml_dtypes.int4,
    8: np.int8,
    16: np.int16,
    32: np.int32,
    64: np.int64,
}
_UNSIGNED = {
    2: ml_dtypes.uint2,
    4: ml_dtypes.uint4,
    8: np.uint8,
    16: np.uint16,
    32: np.uint32,
    64: np.uint64,
}


SMALL_INTEGERS = {
    np.dtype(t): np.dtype(np.int8 if "u" not in t.__name__ else np.uint8)
    for t in (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4)
}


# Kinds of dtypes


def is_integer(dtype: np.dtype[np.generic]) -> bool:
    """Return whether a dtype is an integer, those of 2 and 4 bits included; bool is none."""
    return dtype.kind in "iu" or dtype in SMALL_INTEGERS


def is_complex(dtype: np.dtype[np.generic]) -> bool:
    """Return whether a dtype is complex."""
    return dtype.kind == "c"


def is_float(dtype: np.dtype[np.generic]) -> bool:
    """Return whether a dtype is real and has a point, the small formats included."""
    return not (is_integer(dtype) or is_complex(dtype) or dtype.kind == "b")


def bit_width(dtype: np.dtype[np.generic]) -> int:
    """Return the number of bits of an integer dtype."""
    if dtype in SMALL_INTEGERS:
        return int(dtype.name[-1])
    return 8 * dtype.itemsize


def is_signed(dtype: np.dtype[np.generic]) -> bool:
    """Return whether an integer dtype is signed."""
    return dtype.kind == "i" or dtype.name in ("int2", "int4")


def wrap(value: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return integers modulo the width of another integer dtype."""
    if dtype not in SMALL_INTEGERS:
        return value.astype(dtype)
    width = bit_width(dtype)
    low = value.astype(np.uint8) & np.uint8((1 << width) - 1)
    if is_signed(dtype):
        sign = np.uint8(1 << (width - 1))
        return ((low ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype)
    return low.astype(dtype)


# Types of MLIR


@lru_cache(maxsize=256)
def dtype_of(element: Type) -> np.dtype[np.generic]:
    """Return the NumPy dtype of an element type.

    ``i1`` is NumPy's bool; integers without a sign in their name are signed, as StableHLO reads
    them; ``i2`` and ``i4`` take a byte each, as in ml_dtypes.

    Raises:
        EvaluationError: NumPy and ml_dtypes have no such type (``f80``, ``i7``, quantized types).
    """
    found: object = None
    if isinstance(element, FloatType):
        found = _FLOATS.get(element.name)
    elif isinstance(element, IntegerType):
        widths = _UNSIGNED if element.signedness == "u" else _SIGNED
        found = np.bool_ if element.width == 1 else widths.get(element.width)
    elif isinstance(element, ComplexType):
        found = _COMPLEX.get(str(element.element))
    elif isinstance(element, IndexType):
        found = np.int64
    if found is None:
        raise EvaluationError(f"elements of type {element} have no NumPy dtype")
    dtype: np.dtype[np.generic] = np.dtype(found)  # type: ignore[call-overload]  # scalar types of ml_dtypes
    return dtype


def result_dtype(type_: Type) -> np.dtype[np.generic]:
    """Return the dtype of a tensor type's elements."""
    if not isinstance(type_, TensorType):
        raise EvaluationError(f"{type_} is no tensor")
    return dtype_of(type_.element)


def constant_array(value: Attribute) -> Array:
    """Return the array that a dense attribute describes; a splat is a broadcast view of one element.

    Raises:
        EvaluationError: The attribute has no elements in it (``dense_resource``, ``sparse``).
    """
    if not isinstance(value, DenseElementsAttr):
        raise EvaluationError(f"a constant's value must be dense, but is {str(value)[:60]}")
    shape, element = shape_and_element(value.type)
    dtype = dtype_of(element)
    raw = np.frombuffer(value.data, np.uint8)
    if dtype.itemsize != element_bytes(element):
        raise EvaluationError(f"elements of type {element} have no NumPy dtype")
    if isinstance(element, IntegerType) and element.width in (2, 4):
        # The upper bits of the byte are the sign's in some texts and zero in others.
        found = wrap(raw, dtype)
    else:
        found = raw.view(dtype)
    return np.broadcast_to(found[0] if value.splat else found.reshape(shape), shape)
