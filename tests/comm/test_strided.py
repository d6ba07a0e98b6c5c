"""Strided tiles under the locks: several PEs at once, rows cut at regions, counters in between."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.world.world import World

Worlds = Callable[..., list[World]]
ADD = emu.AtomicOp.ADD
ROWS, COLUMNS = 120, 700  # with 4 bytes six regions of 64 KiB, and no row ends with one


def at_once(work: Callable[[int], None], n: int) -> None:
    """Run ``work(pe)`` in n threads; the kernels of each release the GIL."""
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(work, range(n)))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16, np.int8], ids=str)
def test_strided_adds_of_several_pes_lose_nothing(worlds: Worlds, dtype: Any) -> None:
    pes = worlds(3, heap_bytes=1 << 22)
    arrays = [pe.alloc((ROWS, COLUMNS), dtype) for pe in pes]
    rounds = 6
    one = np.ones((ROWS, COLUMNS), dtype)
    turned = np.ones((COLUMNS, ROWS), dtype).T

    def work(me: int) -> None:
        mine, world = arrays[me], pes[me]
        for _ in range(rounds):
            world.put(mine[:, 1::2], one[:, 1::2], 1, op=ADD)
            world.put(mine, turned, 1, op=ADD)
            world.put(mine[3:, :3], turned[3:, 5:8], 1, op=ADD)
            world.put(mine, one[::-1, ::-1], 1, op=ADD)
            world.put(mine[::7], np.broadcast_to(one[0], mine[::7].shape), 1, op=ADD)

    at_once(work, 3)
    each = np.full((ROWS, COLUMNS), 2)
    each[:, 1::2] += 1
    each[3:, :3] += 1
    each[::7] += 1
    np.testing.assert_array_equal(arrays[0].on(1), 3 * rounds * each)
    assert not arrays[0].on(0).any()


@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=str)
def test_strided_adds_and_counters_lose_nothing(worlds: Worlds, dtype: Any) -> None:
    pes = worlds(2, heap_bytes=1 << 22)
    arrays = [pe.alloc((ROWS, COLUMNS), dtype) for pe in pes]
    one = np.ones((COLUMNS, ROWS), dtype).T
    spot = 7 * COLUMNS + 4
    pes[1].fetch_add(arrays[1], 0, 0, index=spot)  # from here on that region adds by instructions

    def work(me: int) -> None:
        if me == 0:
            for _ in range(60):
                pes[0].put(arrays[0][:, ::2], one[:, ::2], 0, op=ADD)
        else:
            for _ in range(20_000):
                pes[1].fetch_add(arrays[1], 3, 0, index=spot)

    at_once(work, 2)
    expected = np.zeros((ROWS, COLUMNS), dtype)
    expected[:, ::2] = 60
    expected.ravel()[spot] += 60_000
    np.testing.assert_array_equal(arrays[0].on(0), expected)


def test_a_source_that_overlaps_its_target_is_read_first(worlds: Worlds) -> None:
    (world,) = worlds(1, heap_bytes=1 << 22)
    array = world.alloc((64, 64), np.float32)
    before = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    for source, expected in (
        (lambda: array.local.T, before.T),
        (lambda: array.local[::-1], before[::-1]),
        (lambda: array.local[:, ::-1], before[:, ::-1]),
    ):
        array.local[...] = before
        world.put(array, source(), 0)
        np.testing.assert_array_equal(array.local, expected)
        array.local[...] = before
        world.put(array, source(), 0, op=ADD)
        np.testing.assert_array_equal(array.local, before + expected)


def test_get_into_any_strides(worlds: Worlds) -> None:
    world, other = worlds(2, heap_bytes=1 << 22)
    array, theirs = (pe.alloc((40, 50), np.int16) for pe in (world, other))
    theirs.local[...] = np.arange(2000).reshape(40, 50)
    whole = np.zeros((100, 90), np.int16)
    for out in (
        whole[:80:2, 3:53],
        whole[39::-1, 49::-1],
        whole[:50, :40].T,
        whole[:50, 40:0:-1].T,
    ):
        whole[...] = -1
        world.get(array, 1, out=out)
        np.testing.assert_array_equal(out, theirs.local)
        assert (whole == -1).sum() == whole.size - 2000
