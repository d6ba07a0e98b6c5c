"""Copies of rows between addresses that advance by strides; tiles are tested with ``emu.kernels.tiles``."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.strided.copy import copy_row

COUNTS = (1, 2, 7, 31, 32, 33, 100)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("source_step", [0, 1, -1, 2, 3, -2])
@pytest.mark.parametrize("target_step", [1, -1, 2])
def test_a_row_lands_where_it_should_and_nowhere_else(width, source_step, target_step):
    rng = np.random.default_rng(width)
    dtype = np.dtype(f"u{width}")
    source = rng.integers(0, np.iinfo(dtype).max, 400, dtype)
    for count in COUNTS:
        target = np.zeros(400, dtype)
        first, to = (399 if step < 0 else 0 for step in (source_step, target_step))
        copy_row(
            width,
            target.ctypes.data + to * width,
            source.ctypes.data + first * width,
            count,
            target_step * width,
            source_step * width,
        )
        expected = np.zeros(400, dtype)
        expected[to + np.arange(count) * target_step] = source[
            first + np.arange(count) * source_step
        ]
        np.testing.assert_array_equal(target, expected)
