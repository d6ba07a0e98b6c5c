"""The fast path of tiles: what it reads of array objects, and the layouts that it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from variants import thorough

from emu.kernels.strided.access_plan import copy_plan
from emu.kernels.strided.fastpath import layout_is_known, ranges_meet
from emu.kernels.tiles import add_tile, set_tile


def test_array_objects_are_laid_out_as_the_kernels_read_them() -> None:
    assert layout_is_known()


@pytest.mark.parametrize("distance", range(-60, 60, 4))
def test_ranges_meet_where_the_bytes_between_their_ends_overlap(distance: int) -> None:
    target, source = np.zeros((2, 3), np.int32), np.zeros((3, 2), np.int32).T[:, ::-1]
    plan = copy_plan(target.shape, target.strides, source.strides, 4)
    first = 1000
    low = first + distance - 16  # the source runs backwards by two of its rows
    expected = max(first, low) < min(first + 24, low + 24)
    assert ranges_meet(first, first + distance, plan.address) == expected


@pytest.mark.parametrize("operation", thorough([set_tile, add_tile], set_tile))
def test_more_layouts_than_are_kept(operation: Any) -> None:
    """Each comes twice, with all others in between."""
    whole = np.zeros((40, 40), np.int16)
    for turn in (1, 2):
        for rows in range(1, 40):
            for columns in range(1, 40):
                operation(whole[:rows, :columns], np.ones((columns, rows), np.int16).T)
        if operation is set_tile:
            assert whole.sum() == 39 * 39
        else:
            counts = np.arange(39, 0, -1)
            np.testing.assert_array_equal(whole[:39, :39], turn * np.outer(counts, counts))
