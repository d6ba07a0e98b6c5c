"""Locks: one holder at a time, in the order of asking, with errors for what would wait for ever."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import emu
from emu.comm.errors import ArgumentError, DeadlockError, IndexRangeError, SymmetricMemoryError
from emu.comm.world.world import World

Worlds = Callable[..., list[World]]


def count_under_locks(rounds: int) -> tuple[list[int], list[int]]:
    """Each PE adds to two plain counters of the last PE, each under its lock; one in three tries without waiting."""
    world = emu.world()
    locks, counters = world.alloc(3, np.int64, poison=False), world.alloc(2, np.int64, poison=False)
    last = world.n_pes - 1
    world.barrier()
    for turn in range(rounds):
        which = turn % 2
        if turn % 3:
            world.set_lock(locks, index=which + 1)
        else:
            while not world.test_lock(locks, index=which + 1):
                pass
        seen = int(world.get(counters[which : which + 1], last)[0])
        world.put(counters[which : which + 1], [seen + 1], last)
        world.clear_lock(locks, index=which + 1)
    world.barrier()
    return world.get(counters, last).tolist(), locks.local.tolist()


@pytest.mark.parametrize(("n_pes", "link"), [(2, None), (5, None), (3, emu.Link(latency=1e-5))])
def test_no_count_is_lost_under_a_lock(n_pes: int, link: emu.Link | None) -> None:
    rounds = 300 if link is None else 30
    for counts, locks in emu.launch(
        count_under_locks, n_pes, args=(rounds,), link=link, poison=True
    ):
        assert counts == [n_pes * rounds / 2] * 2
        assert locks == [0, 0, 0]


def take_turns() -> list[int]:
    """PEs queue up one after the other while PE 0 holds the lock; return the order in which they got it."""
    world = emu.world()
    lock, turn, order = (world.alloc(n, np.int64) for n in (1, 1, world.n_pes))
    if world.my_pe == 0:
        world.set_lock(lock)
        for pe in range(world.n_pes - 1, 0, -1):
            tail = (
                int(lock.local[0]) & 0xFFFFFFFF
            )  # the other half changes once more, a moment later
            world.signal_op(turn, 1, pe)
            while int(lock.local[0]) & 0xFFFFFFFF == tail:  # until it has asked
                world.fetch(turn, 0)
    else:
        world.wait_until(turn, emu.Cmp.EQ, 1)
        world.set_lock(lock)
    place = world.fetch_add(turn, 1, 0)
    world.signal_op(order, world.my_pe, 0, index=place)
    world.clear_lock(lock)
    world.barrier()
    return world.get(order, 0).tolist()


def test_pes_get_a_lock_in_the_order_in_which_they_ask() -> None:
    assert emu.launch(take_turns, 4)[0] == [0, 3, 2, 1]


def test_a_lock_is_the_same_one_for_each_group(worlds: Worlds) -> None:
    world, _, other = worlds(3)
    few, theirs = (w.group("few", [2, 0]) for w in (world, other))
    lock, same = few.alloc((2, 2), np.int64), theirs.alloc((2, 2), np.int64)
    assert world.test_lock(lock, index=3)
    assert not theirs.test_lock(same, index=3)
    assert not other.test_lock(same[1:, 1:])
    assert theirs.test_lock(same, index=2)
    few.clear_lock(lock, index=3)
    other.set_lock(same[:, 1:][1:])
    assert not few.test_lock(lock, index=3)
    theirs.clear_lock(same, index=3)
    theirs.clear_lock(same, index=2)
    assert not any(lock.on(pe).any() for pe in (0, 1))


def test_misuse_is_refused(worlds: Worlds) -> None:
    world, other = worlds(2)
    lock, narrow, used = (world.alloc(2, d, name="busy") for d in (np.int64, np.int32, np.int64))
    theirs = other.alloc(2, np.int64, name="busy")
    with pytest.raises(ArgumentError, match=r"PE 0 does not hold busy\[1\]"):
        world.clear_lock(lock, index=1)
    world.set_lock(lock, index=1)
    with pytest.raises(ArgumentError, match=r"PE 0 has taken busy\[1\] already"):
        world.set_lock(lock, index=1)
    assert not world.test_lock(lock, index=1)
    assert not other.test_lock(theirs, index=1)
    with pytest.raises(ArgumentError, match=r"PE 1 does not hold busy\[1\]"):
        other.clear_lock(theirs, index=1)
    for call in (world.set_lock, world.test_lock, world.clear_lock):
        with pytest.raises(ArgumentError, match="lock must be of int64"):
            call(narrow)
        with pytest.raises(ArgumentError, match="lock must be a SymmetricArray"):
            call(3)
        with pytest.raises((ArgumentError, IndexRangeError), match="index must be in"):
            call(lock, index=2)
    world.clear_lock(lock, index=1)
    for value in (7, -1, 1 << 40, 0x7FF8 << 48):
        used.local[0] = value
        for call in (world.set_lock, world.test_lock):
            with pytest.raises(ArgumentError, match="lock must be zeroed"):
                call(used)
        assert used.local[0] == value
    lock.free()
    with pytest.raises(SymmetricMemoryError, match="was freed"):
        world.set_lock(lock)


def keep_or_wait() -> None:
    world = emu.world()
    lock = world.alloc(1, np.int64, name="door")
    if world.my_pe == 0:
        world.set_lock(lock)
    world.barrier()
    if world.my_pe == 0:
        world.barrier()  # the others never come
    world.set_lock(lock)


def test_a_deadlock_report_names_the_lock() -> None:
    with pytest.raises(ExceptionGroup, match=r"set_lock\(door\[0\]\)") as caught:
        emu.launch(keep_or_wait, 2, timeout=0.5)
    assert all(isinstance(error, DeadlockError) for error in caught.value.exceptions)


def fail_or_wait() -> None:
    world = emu.world()
    lock = world.alloc(1, np.int64)
    if world.my_pe == 0:
        world.set_lock(lock)
    world.barrier()
    if world.my_pe == 0:
        raise LookupError("the holder fails")
    world.set_lock(lock)


def test_the_failure_of_the_holder_ends_those_who_wait() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(fail_or_wait, 3)
    (error,) = caught.value.exceptions
    assert isinstance(error, LookupError)


def try_for_ever() -> None:
    world = emu.world()
    lock = world.alloc(1, np.int64)
    if world.my_pe == 0:
        world.set_lock(lock)
    world.barrier()
    while not world.test_lock(lock):
        pass


def test_trying_for_ever_is_a_deadlock() -> None:
    with pytest.raises(ExceptionGroup, match="no progress"):
        emu.launch(try_for_ever, 2, timeout=0.5)
