"""Ops wait for the tiles that they need, and for no others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import emu
from emu import pypto
from emu.pypto import distributed as dist
from emu.pypto.pieces import MOST_PIECES, blocks_of, overlap

shapes = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=3)


@given(shapes)
def test_pieces_divide_a_rectangle_into_whole_tiles(axes: list[tuple[int, int]]) -> None:
    shape, tile = (tuple(x) for x in zip(*axes, strict=True))
    count = np.zeros(shape, int)
    blocks = blocks_of(shape, tile)
    for low, extent in blocks:
        count[tuple(slice(a, a + n) for a, n in zip(low, extent, strict=True))] += 1
        for a, n, size, step in zip(low, extent, shape, tile, strict=True):
            assert a % step == 0
            assert n % step == 0 or a + n == size
    assert (count == 1).all()
    assert len(blocks) <= MOST_PIECES
    tiles = math.prod(-(-size // step) for size, step in axes)
    if tiles <= MOST_PIECES:
        assert len(blocks) == tiles


def test_rectangles_overlap_where_they_share_an_element() -> None:
    assert overlap((0, 0), (4, 4), (3, 3), (1, 1))
    assert not overlap((0, 0), (4, 4), (4, 0), (2, 4))


ROWS, COLUMNS, TILES = 4, 24, 3


@pypto.frontend.jit
def systolic(x: pypto.Tensor, out: pypto.Tensor, columns: int) -> None:
    """Each tile of PE 0 but the first is made of what PE 1 answers to the tile before it."""
    me = int(dist.my_symbolic_pe("world"))
    shape = [ROWS * TILES, COLUMNS]
    there = dist.create_shmem_tensor("world", 2, pypto.DT_FP32, shape)
    back = dist.create_shmem_tensor("world", 2, pypto.DT_FP32, shape)
    pypto.set_vec_tile_shapes(ROWS, columns)
    if me == 0:
        answered = dist.shmem_wait_until(back, 1, 1)
        mine = pypto.tensor(shape, pypto.DT_FP32)
        mine[0:, :] = x
        for tile in range(1, TILES):
            low = [(tile - 1) * ROWS, 0]
            mine[tile * ROWS :, :] = dist.shmem_get(back, 0, [ROWS, COLUMNS], low, pred=[answered])
        stored = dist.shmem_put(mine, [0, 0], there, 1)
        dist.shmem_signal(there, 0, 1, target_pe=1, pred=[stored])
        out[:, :] = mine
    else:
        arrived = dist.shmem_wait_until(there, 0, 1)
        got = dist.shmem_get(there, 1, pred=[arrived])
        answer = pypto.add(pypto.mul(got, 2.0), 1.0)
        stored = dist.shmem_put(answer, [0, 0], back, 0)
        dist.shmem_signal(back, 1, 1, target_pe=0, pred=[stored])
        out[:, :] = answer


def _systolic(columns: int, schedule: str) -> None:
    world = emu.world()
    pypto.set_schedule(schedule, world.my_pe)
    x = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    out = np.zeros((ROWS * TILES, COLUMNS), np.float32)
    systolic(x, out, columns)
    rows = [x]
    for _ in range(1, TILES):
        rows.append(rows[-1] * 2 + 1)
    expected = np.concatenate(rows)
    np.testing.assert_array_equal(out, expected if world.my_pe == 0 else expected * 2 + 1)


@pytest.mark.parametrize("schedule", ["program", "random"])
@pytest.mark.parametrize("columns", [COLUMNS, 7], ids=["rows", "tiles of two axes"])
def test_tiles_that_wait_for_answers_to_other_tiles(columns: int, schedule: str) -> None:
    emu.launch(_systolic, 2, args=(columns, schedule), timeout=60)
