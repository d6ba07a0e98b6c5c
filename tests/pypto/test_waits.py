"""Conditions of waits, in a world of one PE."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from emu.comm.ops import Cmp
from emu.pypto.waits import BarrierWait, TileWait

RELATIONS = {
    Cmp.EQ: int.__eq__,
    Cmp.NE: int.__ne__,
    Cmp.GT: int.__gt__,
    Cmp.GE: int.__ge__,
    Cmp.LT: int.__lt__,
    Cmp.LE: int.__le__,
}


@pytest.fixture
def memory(worlds):
    (world,) = worlds(1, heap_bytes=1 << 20)
    return SimpleNamespace(group=world, name="shmem1", n_pes=1, slot_sets={})


def slots_of(memory, values):
    slots = memory.group.alloc((1, len(values)), np.int32)
    slots.local[0] = values
    return slots


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("cmp", list(Cmp))
def test_slots_match_and_are_cleared_by_every_comparison(memory, cmp, clear):
    values = [3, 4, 5]
    slots = slots_of(memory, values)
    wait = TileWait(memory, slots, 0, 3, cmp, 4, clear)
    left = [i for i, value in enumerate(values) if not RELATIONS[cmp](value, 4)]
    assert wait.poll() == (not left)
    assert [index for _, index, _, _ in wait.words()] == left
    expected = [value if i in left or not clear else 0 for i, value in enumerate(values)]
    assert slots.local[0].tolist() == expected


def test_a_tile_that_has_matched_is_not_looked_at_again(memory):
    slots = slots_of(memory, [1, 0])
    wait = TileWait(memory, slots, 0, 2, Cmp.EQ, 1, False)
    assert not wait.poll()
    slots.local[0] = [7, 1]
    assert wait.poll()


def test_a_wait_is_described_by_the_slots_that_are_left(memory):
    slots = slots_of(memory, [2, 0, 0, 0, 0, 0])
    memory.slot_sets[(0, 0), (4, 17), (2, 8)] = (slots, 6)
    wait = TileWait(memory, slots, 0, 6, Cmp.GE, 2, False)
    wait.poll()
    assert wait.describe() == (
        "shmem_wait_until: shmem1 tiles (0, 1), (0, 2), (1, 0), (1, 1) and 1 more of the grid 2 x 3 "
        "of src_pe 0 >= 2"
    )


def test_signals_without_data_are_described_by_their_pe(memory):
    slots = slots_of(memory, [0])
    memory.slot_sets[()] = (slots, 1)
    wait = TileWait(memory, slots, 0, 1, Cmp.EQ, 1, False)
    assert wait.describe() == "shmem_wait_until: shmem1 of src_pe 0 == 1"


def test_a_barrier_takes_off_its_own_arrivals_only(memory):
    memory.n_pes = 3
    word = memory.group.alloc((1,), np.int32)
    wait = BarrierWait(memory, word)
    word.local[0] = 2
    assert not wait.poll()
    word.local[0] = 4  # all three, and one PE at the next barrier already
    assert wait.poll()
    assert word.local[0] == 1
    assert wait.describe() == "shmem_barrier_all on shmem1: 3 arrivals"
