"""Data types of tensors, their NumPy dtypes, and conversion between them."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.kernels.core.dtypes import BY_NAME
from emu.kernels.core.messages import shown
from emu.pypto.errors import DTypeError

Array = np.ndarray[Any, np.dtype[Any]]


class DataType(enum.Enum):
    """Data type of a tensor; the value is the NumPy dtype that holds it."""

    DT_BOOL = BY_NAME["bool"].numpy
    DT_UINT8 = BY_NAME["uint8"].numpy
    DT_INT8 = BY_NAME["int8"].numpy
    DT_INT16 = BY_NAME["int16"].numpy
    DT_INT32 = BY_NAME["int32"].numpy
    DT_INT64 = BY_NAME["int64"].numpy
    DT_FP16 = BY_NAME["float16"].numpy
    DT_BF16 = BY_NAME["bfloat16"].numpy
    DT_FP32 = BY_NAME["float32"].numpy
    DT_FP64 = BY_NAME["float64"].numpy

    # Of the object: the hash of an enum is a function in Python, and each op looks a data type up.
    __hash__ = object.__hash__

    def __init__(self, np_dtype: np.dtype[Any]) -> None:
        self.np_dtype = np_dtype
        """The NumPy dtype."""
        self.itemsize: int = np_dtype.itemsize
        """Size of an element in bytes."""

    def __repr__(self) -> str:
        return self.name


DTypeLike = DataType | npt.DTypeLike
"""Anything that :func:`as_dtype` accepts."""

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

FP32 = DT_FP32.np_dtype
FLOATS = frozenset(dtype for dtype in DataType if BY_NAME[dtype.np_dtype.name].is_float)
HALVES = frozenset(dtype for dtype in FLOATS if dtype.itemsize == 2)
INTEGERS = frozenset(DataType) - FLOATS - {DT_BOOL}
SHMEM_DTYPES = frozenset({DT_INT32, DT_FP16, DT_FP32, DT_BF16})

_BY_NUMPY = {dtype.value: dtype for dtype in DataType}


def data_type_of(array: Array) -> DataType | None:
    """Return the data type of an array's elements; None if there is none."""
    return _BY_NUMPY.get(array.dtype)


def as_dtype(dtype: object, argument: str = "dtype") -> DataType:
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


def _unknown(dtype: object, argument: str) -> DTypeError:
    known = ", ".join(d.name for d in DataType)
    return DTypeError(f"{argument} must be one of {known}, but got {shown(dtype)}")


def convert(array: Array, dtype: DataType) -> Array:
    """Return an array as ``cast`` converts it; the array itself where its data type stays.

    Between floats each element is rounded once, to nearest, ties to even, with the bits of
    :func:`emu.kernels.cast.cast`. Floats become integers by truncation, and saturate.
    """
    target = dtype.np_dtype
    if array.dtype == target:
        return array
    source = _BY_NUMPY[array.dtype]
    if source in FLOATS and dtype in FLOATS:
        from emu.kernels.cast import cast  # 30 ms, which programs without casts need not spend

        # The kernel refuses unaligned elements, which a user's array may have.
        return cast(array if array.flags.aligned else array.copy(), target)
    if source in FLOATS and dtype in INTEGERS:
        wide = np.trunc(array.astype(np.float64))
        limits = np.iinfo(target)
        result = np.clip(wide, float(limits.min), float(limits.max))
        # float(2**63 - 1) rounds up to 2**63, which int64 has not: mend the top after the cast.
        whole: Array = np.asarray(np.nan_to_num(result)).astype(target)
        whole[result >= float(limits.max)] = limits.max
        return whole
    if source in INTEGERS and source.itemsize >= 4 and dtype in HALVES:
        # By way of double, which holds every int32, so that one rounding remains.
        return convert(array.astype(np.float64), dtype)
    converted: Array = array.astype(target)
    return converted
