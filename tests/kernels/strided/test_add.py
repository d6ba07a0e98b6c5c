"""Sums of rows between addresses that advance by strides; tiles are tested with ``emu.kernels.tiles``."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.core.dtypes import KINDS
from emu.kernels.strided.access_plan import Axis
from emu.kernels.strided.add import add_row


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("target_step", [1, 3])
@pytest.mark.parametrize("source_step", [1, 0, -1, 2])
def test_a_row_is_added_where_it_should_and_nowhere_else(dtype, target_step, source_step):
    width = dtype.itemsize
    for count in (1, 15, 16, 17, 130):
        source = (np.arange(400) % 5).astype(dtype)
        target = (np.arange(400) % 3).astype(dtype)
        first = 399 if source_step < 0 else 0
        expected = target.copy()
        addend = source[first + np.arange(count) * source_step]
        expected[: count * target_step : target_step] += (
            addend  # small integers: exact in any dtype
        )
        columns = Axis(count, target_step * width, source_step * width)
        add_row(
            KINDS[dtype], width, target.ctypes.data, source.ctypes.data + first * width, columns
        )
        np.testing.assert_array_equal(target, expected)


def test_a_long_row_is_gathered_in_parts():
    source = np.arange(9000, dtype=np.float32)
    target = np.ones(3000, np.float32)
    kind = KINDS[target.dtype]
    add_row(kind, 4, target.ctypes.data, source.ctypes.data, Axis(3000, 4, 12))
    np.testing.assert_array_equal(target, source[::3] + 1)
