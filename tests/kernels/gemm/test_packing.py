"""Packed operands of products: rows of A and panels of B, from any layout, with nothing beside them touched."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.core.dtypes import KINDS
from emu.kernels.gemm.microkernel import COLUMNS_32, COLUMNS_64
from emu.kernels.gemm.packing import pack_panels, pack_rows

DTYPES = [np.dtype(d) for d in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
LAYOUTS = {
    "rows": lambda a: a.copy(),
    "columns": lambda a: a.T.copy().T,
    "spread": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def matrix(rows, columns, dtype, layout):
    values = np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype)
    return LAYOUTS[layout](values)


def wide(dtype):
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


@each_dtype
@each_layout
@pytest.mark.parametrize(("rows", "count"), [(1, 1), (8, 8), (7, 30), (17, 9), (24, 40)])
def test_rows_are_contiguous_along_k(dtype, layout, rows, count):
    a = matrix(rows, count, dtype, layout)
    packed = np.full((rows, count + 5), -1, wide(dtype))
    pack_rows(
        KINDS[dtype], packed.ctypes.data, packed.strides[0], a.ctypes.data, *a.strides, rows, count
    )
    np.testing.assert_array_equal(packed[:, :count], a.astype(wide(dtype)))
    assert (packed[:, count:] == -1).all()


@each_dtype
@each_layout
@pytest.mark.parametrize("columns", [-1, 0, 9, 70])
def test_panels_are_filled_with_zeros_beside_the_last_column(dtype, layout, columns):
    width = COLUMNS_64 if dtype == np.float64 else COLUMNS_32
    count, depth, columns = 13, 20, 2 * width + columns
    b = matrix(count, columns, dtype, layout)
    panels = -(-columns // width)
    packed = np.full((panels, depth, width), -1, wide(dtype))
    room = np.empty(packed.nbytes + 64, np.uint8)  # panels lie at whole cache lines
    start = -room.ctypes.data % 64
    place = room[start : start + packed.nbytes].view(packed.dtype).reshape(packed.shape)
    place[...] = packed
    pack_panels(KINDS[dtype], place.ctypes.data, b.ctypes.data, *b.strides, count, columns, depth)
    expected = np.zeros((count, panels * width), wide(dtype))
    expected[:, :columns] = b
    for panel in range(panels):
        part = expected[:, panel * width : (panel + 1) * width]
        np.testing.assert_array_equal(place[panel, :count], part)
        assert (place[panel, count:] == -1).all()
