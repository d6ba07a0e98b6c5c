"""Packed int8 operands: groups of neighbouring values of k in 32 bits, as this CPU's dot product takes them."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.gemm.microkernel import COLUMNS_32, GROUP
from emu.kernels.gemm.packing_int8 import SHIFTED, pack_panels_int8, pack_rows_int8

LAYOUTS = {
    "rows": lambda a: a.copy(),
    "columns": lambda a: a.T.copy().T,
    "spread": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def grouped(values, *, flip):
    """Groups along the last axis, padded with zeros; ``flip`` adds 128 to each byte."""
    padded = np.zeros((len(values), -(-values.shape[1] // GROUP) * GROUP), np.int8)
    padded[:, : values.shape[1]] = values
    if flip:
        padded ^= np.int8(-128)
    lane = {4: np.int8, 2: np.int16, 1: np.int32}[GROUP]
    return padded.astype(lane).view(np.int32)


def matrix(rows, columns, layout):
    return LAYOUTS[layout](
        np.random.default_rng(rows).integers(-128, 128, (rows, columns), np.int8)
    )


@each_layout
@pytest.mark.parametrize("shift", {0, int(SHIFTED)})
@pytest.mark.parametrize(("rows", "count"), [(1, 1), (8, 32), (9, 33), (17, 70)])
def test_rows_of_the_left_matrix(layout, shift, rows, count):
    a = matrix(rows, count, layout)
    expected = grouped(a, flip=shift)
    packed = np.full((rows, expected.shape[1] + 3), -1, np.int32)
    target = packed.ctypes.data, packed.strides[0]
    pack_rows_int8(*target, a.ctypes.data, *a.strides, rows, count, shift)
    np.testing.assert_array_equal(packed[:, : expected.shape[1]], expected)
    assert (packed[:, expected.shape[1] :] == -1).all()


@each_layout
@pytest.mark.parametrize(("count", "columns"), [(1, 1), (32, COLUMNS_32), (70, 2 * COLUMNS_32 + 9)])
def test_panels_of_the_right_matrix(layout, count, columns):
    b = matrix(count, columns, layout)
    groups = grouped(b.T, flip=False).T
    panels, depth = -(-columns // COLUMNS_32), len(groups) + 2
    packed = np.full((panels, depth, COLUMNS_32), -1, np.int32)
    pack_panels_int8(packed.ctypes.data, b.ctypes.data, *b.strides, count, columns, depth)
    expected = np.zeros((len(groups), panels * COLUMNS_32), np.int32)
    expected[:, :columns] = groups
    for panel in range(panels):
        part = expected[:, panel * COLUMNS_32 : (panel + 1) * COLUMNS_32]
        np.testing.assert_array_equal(packed[panel, : len(groups)], part)
        assert (packed[panel, len(groups) :] == -1).all()
