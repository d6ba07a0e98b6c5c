"""Packed bf16 operands: pairs of neighbouring values of k in 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.gemm.microkernel import COLUMNS_32
from emu.kernels.gemm.packing_pairs import pack_panels_pairs, pack_rows_pairs

LAYOUTS = {
    "rows": lambda a: a.copy(),
    "columns": lambda a: a.T.copy().T,
    "spread": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def paired(values):
    """Pairs along the last axis; an odd count ends with a zero."""
    padded = np.zeros((len(values), -(-values.shape[1] // 2) * 2), np.uint16)
    padded[:, : values.shape[1]] = values
    return padded.view(np.uint32)


def matrix(rows, columns, layout):
    return LAYOUTS[layout](
        np.random.default_rng(rows).integers(0, 1 << 16, (rows, columns), np.uint16)
    )


@each_layout
@pytest.mark.parametrize(("rows", "count"), [(1, 1), (8, 32), (9, 33), (17, 70)])
def test_rows_of_the_left_matrix(layout, rows, count):
    a = matrix(rows, count, layout)
    expected = paired(a)
    packed = np.full((rows, expected.shape[1] + 3), 7, np.uint32)
    pack_rows_pairs(packed.ctypes.data, packed.strides[0], a.ctypes.data, *a.strides, rows, count)
    np.testing.assert_array_equal(packed[:, : expected.shape[1]], expected)
    assert (packed[:, expected.shape[1] :] == 7).all()


@each_layout
@pytest.mark.parametrize(
    ("count", "columns"), [(1, 1), (32, COLUMNS_32), (33, COLUMNS_32), (71, 2 * COLUMNS_32 + 9)]
)
def test_panels_of_the_right_matrix(layout, count, columns):
    b = matrix(count, columns, layout)
    pairs = paired(b.T).T
    panels, depth = -(-columns // COLUMNS_32), len(pairs) + 2
    packed = np.full((panels, depth, COLUMNS_32), 7, np.uint32)
    pack_panels_pairs(packed.ctypes.data, b.ctypes.data, *b.strides, count, columns, depth)
    expected = np.zeros((len(pairs), panels * COLUMNS_32), np.uint32)
    expected[:, :columns] = pairs
    for panel in range(panels):
        part = expected[:, panel * COLUMNS_32 : (panel + 1) * COLUMNS_32]
        np.testing.assert_array_equal(packed[panel, : len(pairs)], part)
        assert (packed[panel, len(pairs) :] == 7).all()
