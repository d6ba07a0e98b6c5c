"""Ends of tiles of pointers: they are those of the lanes' addresses, and a bad lane is found whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import shmem, triton


@triton.jit
def strided(pointer, rows, stride, step, n: tl.constexpr, masked: tl.constexpr):
    """Store a tile whose pointers are sums and multiples of ranges and of what the launch gives."""
    i = (tl.program_id(0) * rows + tl.arange(0, n)).to(tl.int64)
    j = tl.arange(0, 4)
    tile = pointer + 1 + i[:, None] * stride + j[None, :] * step
    mask = (i[:, None] >= 1) & (j[None, :] < 3) if masked else None
    shmem.store(tile, 7, 0, mask=mask)


@triton.jit
def looked_up(pointer, where, n: tl.constexpr):
    """Store to pointers that come from memory: nothing is known of their ends."""
    shmem.store(pointer + tl.load(where + tl.arange(0, n)), 7, 0)


def lanes_of(rows: int, stride: int, step: int, n: int, masked: bool, programs: int) -> list[int]:
    return [
        1 + (p * rows + i) * stride + j * step
        for p in range(programs)
        for i in range(n)
        for j in range(4)
        if not masked or ((p * rows + i) >= 1 and j < 3)
    ]


def stores(cases: list[tuple[Any, ...]]) -> list[str]:
    """Return what each case gives: right, refused, or wrong. A heap of one page makes ends easy to pass."""
    world = emu.world()
    size = world.segment.layout.heap_room // 4
    heap = np.ndarray((size,), np.int32, world.segment.bytes, world.mine - world.segment.address)
    found = []
    for origin, rows, stride, step, n, masked, programs in cases:
        heap[:] = 0
        start = origin if origin >= 0 else size + origin
        lanes = [start + k for k in lanes_of(rows, stride, step, n, masked, programs)]
        fits = all(0 <= k < size for k in lanes)
        try:
            strided[(programs,)](heap[start:], rows, stride, step, n, masked)
            expected = np.zeros(size, np.int32)
            if fits:
                expected[lanes] = 7
            right = fits and np.array_equal(heap, expected)
            found.append("right" if right else "wrong")
        except AssertionError as error:
            named = "pointer must lie in this PE's symmetric heap" in str(error)
            found.append("refused" if named and not fits else "wrong")
    return found


def test_a_tile_is_stored_if_and_only_if_all_its_lanes_lie_in_the_heap() -> None:
    rng = np.random.default_rng(5)
    cases: list[tuple[Any, ...]] = [
        (0, 4, 4, 1, 4, False, 2),
        (0, 4, 4, 1, 4, True, 2),
        (-80, 4, -4, -1, 8, False, 3),
        (-64, 8, 4, 1, 8, False, 2),
        (-32, 0, 4, 1, 8, True, 1),
        (-31, 0, 4, 1, 8, True, 1),
        (2, 0, -4, 1, 2, True, 1),
        (3, 0, -1, -1, 2, True, 1),
    ]
    cases += [
        (
            int(rng.choice([0, 1, 7, 40, -1, -20, -100])),
            int(rng.integers(-3, 9)),
            int(rng.integers(-6, 7)),
            int(rng.integers(-3, 4)),
            int(rng.choice([1, 2, 8])),
            bool(rng.integers(2)),
            int(rng.integers(1, 4)),
        )
        for _ in range(60)
    ]
    (found,) = emu.launch(stores, 1, args=(cases,), heap_size=4096)
    wrong = [case for case, said in zip(cases, found, strict=True) if said == "wrong"]
    assert not wrong
    assert {"right", "refused"} == set(found)


def stores_to_what_was_loaded() -> list[str]:
    world = emu.world()
    heap = world.alloc(16, np.int32, poison=False)
    looked_up[(1,)](heap.local, np.array([3, 0, 9, 1]), 4)
    found = [",".join(map(str, heap.local))]
    with pytest.raises(AssertionError, match="must lie in this PE's symmetric heap") as caught:
        looked_up[(1,)](heap.local, np.array([3, 2**40, 9, 1]), 4)
    return [*found, str(caught.value)]


def test_lanes_whose_ends_are_not_known_are_looked_at_one_by_one() -> None:
    (found,) = emu.launch(stores_to_what_was_loaded, 1)
    assert found[0] == "7,7,0,7,0,0,0,0,0,7,0,0,0,0,0,0"
    assert "lane 1" in found[1]
