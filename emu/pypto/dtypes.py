"""Data types of tensors and what they are in NumPy."""

from __future__ import annotations

import enum
from typing import Any

import ml_dtypes
import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto.errors import DTypeError

Array = np.ndarray[Any, np.dtype[Any]]


class DataType(enum.Enum):
    """Data type of a tensor; the value is the NumPy dtype that holds it."""

    DT_BOOL = np.dtype(np.bool_)
    DT_UINT8 = np.dtype(np.uint8)
    DT_INT8 = np.dtype(np.int8)
    DT_INT16 = np.dtype(np.int16)
    DT_INT32 = np.dtype(np.int32)
    DT_INT64 = np.dtype(np.int64)
    DT_FP16 = np.dtype(np.float16)
    DT_BF16 = np.dtype(ml_dtypes.bfloat16)
    DT_FP32 = np.dtype(np.float32)
    DT_FP64 = np.dtype(np.float64)

    @property
    def np_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        dtype: np.dtype[Any] = self.value
        return dtype

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return self.np_dtype.itemsize

    def __repr__(self) -> str:
        return self.name


DT_BOOL = DataType.DT_BOOL
DT_UINT8 = DataType.DT_UINT8
DT_INT8 = DataType.DT_INT8
DT_INT16 = DataType.DT_INT16
DT_INT32 = DataType.DT_INT32
DT_INT64 = DataType.DT_INT64
DT_FP16 = DataType.DT_FP16
DT_BF16 = DataType.DT_BF16
DT_FP32 = DataType.DT_FP32
DT_FP64 = DataType.DT_FP64

FP32 = np.dtype(np.float32)
FLOATS = frozenset({DT_FP16, DT_BF16, DT_FP32, DT_FP64})
HALVES = frozenset({DT_FP16, DT_BF16})
INTEGERS = frozenset({DT_UINT8, DT_INT8, DT_INT16, DT_INT32, DT_INT64})
SHMEM_DTYPES = frozenset({DT_INT32, DT_FP16, DT_FP32, DT_BF16})

_BY_NUMPY = {dtype.value: dtype for dtype in DataType}


def as_dtype(dtype: Any, argument: str = "dtype") -> DataType:
    """Return ``dtype`` as a :class:`DataType`; NumPy dtypes are accepted too.

    Raises:
        DTypeError: If there is no such data type.
    """
    if isinstance(dtype, DataType):
        return dtype
    try:
        if isinstance(dtype, np.dtype | type | str):
            return _BY_NUMPY[np.dtype(dtype)]
    except Exception:  # noqa: BLE001 - NumPy parses strings, and refuses them in many ways
        raise _unknown(dtype, argument) from None
    raise _unknown(dtype, argument)


def _unknown(dtype: Any, argument: str) -> DTypeError:
    known = ", ".join(d.name for d in DataType)
    return DTypeError(f"{argument} must be one of {known}, but got {shown(dtype)}")


def convert(array: Array, dtype: DataType) -> Array:
    """Convert as ``cast`` does: nearest-even between floats, truncation (saturating) to integers."""
    target = dtype.np_dtype
    if array.dtype == target:
        return array
    floating = array.dtype.kind not in "biu"
    if floating and dtype in INTEGERS:
        wide = np.trunc(array.astype(np.float64))
        limits = np.iinfo(target)
        result = np.clip(wide, float(limits.min), float(limits.max))
        # float(2**63 - 1) rounds up to 2**63, which int64 has not: mend the top after the cast.
        cast: Array = np.asarray(np.nan_to_num(result)).astype(target)
        cast[result >= float(limits.max)] = limits.max
        return cast
    if array.dtype.kind == "f" and array.dtype.itemsize == 8 and dtype is DT_BF16:
        return _double_to_bfloat16(array)
    if array.dtype.kind in "iu" and array.dtype.itemsize >= 4 and dtype in HALVES:
        # By way of double, which holds every int32, so that one rounding remains.
        return convert(array.astype(np.float64), dtype)
    converted: Array = array.astype(target)
    return converted


def _double_to_bfloat16(array: Array) -> Array:
    """Round double to bfloat16 once (by way of float rounded to odd)."""
    single = array.astype(np.float32)
    bits = np.atleast_1d(single).view(np.uint32).copy()
    wide, near = np.atleast_1d(array), np.atleast_1d(single).astype(np.float64)
    inexact = (near != wide) & np.isfinite(near)
    away = inexact & (np.abs(near) > np.abs(wide))
    bits[away] -= 1
    bits[inexact] |= 1
    result: Array = bits.view(np.float32).astype(DT_BF16.np_dtype).reshape(array.shape)
    return result
