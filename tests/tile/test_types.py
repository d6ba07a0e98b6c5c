"""Dtypes of the tile IR are those of the package, with the limits that NumPy gives them."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.core import dtype_table
from emu.tile.types import DTYPES, FROM_NUMPY, I1, DType, Kind

each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)


def test_every_dtype_of_the_package_is_there_in_the_order_of_promotion() -> None:
    assert {d.numpy for d in DTYPES.values()} == {d.numpy for d in dtype_table.ALL}
    order = [(d.kind, d.bits) for d in DTYPES.values()]
    assert order == sorted(order)
    assert all(FROM_NUMPY[d.numpy] is d and DTYPES[d.name] is d for d in DTYPES.values())


@each_dtype
def test_kinds_and_widths_are_those_of_numpy(dtype: DType) -> None:
    assert dtype.bytes == dtype.numpy.itemsize
    assert dtype.bits == (1 if dtype == I1 else 8 * dtype.bytes)
    found = {"b": Kind.BOOL, "i": Kind.INT, "u": Kind.UINT, "f": Kind.FLOAT, "V": Kind.FLOAT}
    assert dtype.kind is found[dtype.numpy.kind]
    assert dtype.is_narrow == (dtype.is_float and dtype.bytes < 4)


@each_dtype
def test_limits_are_those_of_numpy(dtype: DType) -> None:
    if dtype.is_float:
        return
    found = (0, 1) if dtype == I1 else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
    assert dtype.limits == found


@each_dtype
def test_integers_of_the_same_width_have_as_many_bytes(dtype: DType) -> None:
    signed, unsigned = dtype.as_signed(), dtype.as_unsigned()
    assert (signed.bytes, unsigned.bytes) == (dtype.bytes, dtype.bytes)
    assert (signed.kind, unsigned.kind) == (Kind.INT, Kind.UINT)
