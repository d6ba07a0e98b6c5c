"""Atomics, signals, waits, tests and barriers."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from variants import thorough

import emu
from emu.comm.errors import ArgumentError
from emu.comm.world.world import World

Worlds = Callable[..., list[World]]
INTS = [np.int32, np.int64, np.uint32, np.uint64]
Cmp = emu.Cmp


@pytest.mark.parametrize("dtype", INTS)
def test_atomics(worlds: Worlds, dtype: type) -> None:
    me, _ = worlds(2)
    info = np.iinfo(dtype)
    a = me.alloc((2, 3), dtype)
    assert me.fetch_add(a, 5, 1, index=4) == 0
    assert me.fetch_add(a, 2, 1, index=4) == 5
    assert a.on(1)[1, 1] == 7
    assert me.swap(a, info.max, 1, index=4) == 7
    assert me.fetch_add(a, 1, 1, index=4) == info.max
    assert me.fetch(a, 1, index=4) == info.min  # it wraps
    assert me.compare_swap(a, info.min, 3, 1, index=4) == info.min
    assert me.compare_swap(a, info.min, 9, 1, index=4) == 3
    assert a.on(1)[1, 1] == 3
    me.signal_op(a[1, 2], info.max, 1)
    assert me.fetch(a[1], 1, index=2) == info.max
    me.signal_op(a, 1, 1, op=emu.AtomicOp.ADD, index=5)
    assert a.on(1)[1, 2] == info.min
    assert np.count_nonzero(a.on(0)) == 0
    for value in (info.max + 1, info.min - 1):
        with pytest.raises(ArgumentError, match=f"value must fit {np.dtype(dtype)}"):
            me.fetch_add(a, value, 1)
    with pytest.raises(ArgumentError, match="value must be an integer"):
        me.fetch_add(a, 1.5, 1)  # type: ignore[arg-type] # the mistake under test
    for index in (6, -1):
        with pytest.raises(ArgumentError, match=r"index must be in \[0, 6\)"):
            me.fetch_add(a, 1, 1, index=index)


def test_atomics_refuse_other_dtypes(worlds: Worlds) -> None:
    (me,) = worlds(1)
    for dtype in (np.int16, np.float32, np.bool_):
        with pytest.raises(ArgumentError, match="need int32, int64, uint32 or uint64"):
            me.fetch_add(me.alloc(1, dtype), 1, 0)


CASES = {Cmp.EQ: "=", Cmp.NE: "!", Cmp.GT: ">", Cmp.GE: "g", Cmp.LT: "<", Cmp.LE: "l"}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("cmp", list(Cmp))
def test_every_comparison(worlds: Worlds, dtype: type, cmp: Cmp) -> None:
    (me,) = worlds(1)
    info = np.iinfo(dtype)
    word = me.alloc(1, dtype)
    meaning = {
        Cmp.EQ: int.__eq__,
        Cmp.NE: int.__ne__,
        Cmp.GT: int.__gt__,
        Cmp.GE: int.__ge__,
        Cmp.LT: int.__lt__,
        Cmp.LE: int.__le__,
    }[cmp]
    samples = [int(info.min), int(info.max), int(info.max) // 2 + 1, 0, 1]
    for there in samples:
        me.signal_op(word, there, 0)
        for value in samples:
            expected = meaning(there, value)
            assert me.test(word, cmp, value) == expected
            if expected:
                assert me.wait_until(word, cmp, value) == there


def test_vectors(worlds: Worlds) -> None:
    (me,) = worlds(1)
    words = me.alloc(5, np.int32)
    words.local[:] = [0, 3, 0, 3, 1]
    assert me.wait_until_any(words, Cmp.EQ, 3) == 1
    assert me.wait_until_some(words, Cmp.EQ, 3) == [1, 3]
    assert me.test_some(words, Cmp.GT, 0, indices=[4, 3, 0]) == [4, 3]
    assert me.test_any(words, Cmp.EQ, 9) is None
    assert me.test_any(words, Cmp.EQ, [9, 9, 9, 9, 1]) == 4
    assert not me.test_all(words, Cmp.EQ, 3)
    assert me.test_all(words, Cmp.EQ, [0, 3, 0, 3, 1])
    me.wait_until_all(words, Cmp.EQ, [3, 3], indices=[1, 3])
    me.wait_until_all(words, Cmp.EQ, 3, indices=[])
    assert me.test_all(words, Cmp.EQ, 3, indices=[])
    assert me.test_some(words, Cmp.EQ, 3, indices=[]) == []
    with pytest.raises(ArgumentError, match="words must not be empty"):
        me.wait_until_any(words, Cmp.EQ, 3, indices=[])
    with pytest.raises(ArgumentError, match="values must be one integer or 2"):
        me.wait_until_all(words, Cmp.EQ, [1, 2, 3], indices=[0, 1])
    mixed = me.alloc(1, np.uint64)
    assert me.wait_for([(words, 0, Cmp.EQ, 1), (mixed, 0, Cmp.EQ, 0), (words, 4, Cmp.LT, 2)]) == [
        1,
        2,
    ]


def ring(rounds: int) -> list[int]:
    world = emu.world()
    token = world.alloc(1, np.int64, name="token")
    seen = []
    after = (world.my_pe + 1) % world.n_pes
    for turn in range(1, rounds + 1):
        if world.my_pe == 0:
            world.signal_op(token, turn, after)
        seen.append(world.wait_until(token, Cmp.GE, turn))
        if world.my_pe != 0:
            world.signal_op(token, turn, after)
    return seen


@pytest.mark.parametrize("n_pes", [2, 8])
def test_a_token_round_a_ring(n_pes: int) -> None:
    assert emu.launch(ring, n_pes, args=(40,)) == [list(range(1, 41))] * n_pes


def slow_sender() -> tuple[int, list[int], bool, float]:
    world = emu.world()
    words = world.alloc(4, np.int32)
    data = world.alloc(1000, np.float64)
    if world.my_pe == 0:
        for index in (2, 0, 3, 1):
            time.sleep(0.12)  # longer than a slice, so that the other really sleeps
            world.fence()  # the data of the turn before come first
            world.put_signal(
                data, np.full(1000, float(index)), 1, words, 1, index=index, sig_op=emu.AtomicOp.ADD
            )
        return 0, [], True, 0.0
    first = world.wait_until_any(words, Cmp.NE, 0)
    used = time.process_time()
    some = world.wait_until_some(words, Cmp.EQ, 1, indices=[0, 1])
    world.wait_until_all(words, Cmp.EQ, 1)
    return first, some, bool((data.local == 1.0).all()), time.process_time() - used


def test_sleepers_wake_and_see_the_data() -> None:
    _, (first, some, whole, used) = emu.launch(slow_sender, 2)
    assert (first, some, whole) == (2, [0], True)
    assert used < 0.2  # 0.36 s of waiting must not be 0.36 s of spinning


def barriers(rounds: int) -> bool:
    world = emu.world()
    counts = world.alloc(world.n_pes, np.int64)
    right = True
    for turn in range(1, rounds + 1):
        for pe in range(world.n_pes):
            world.fetch_add(counts, 1, pe, index=world.my_pe)
        world.barrier()
        right &= bool((counts.local == turn).all())
        world.sync()
    return right


@pytest.mark.parametrize(
    ("n_pes", "rounds"), thorough([(1, 3), (2, 200), (5, 100), (64, 3)], (2, 200), (5, 100))
)
def test_barriers(n_pes: int, rounds: int) -> None:
    assert emu.launch(barriers, n_pes, args=(rounds,), prefix_output=False) == [True] * n_pes


def two_groups(rounds: int) -> tuple[int, int]:
    world = emu.world()
    half = world.group(f"half {world.my_pe % 2}", list(range(world.my_pe % 2, world.n_pes, 2)))
    overlap = None
    if world.my_pe in (0, 1, 2):
        overlap = world.group("first three", [2, 1, 0])
    total = half.alloc(1, np.int64)
    for _ in range(rounds):
        half.fetch_add(total, 1, 0)
        half.barrier()
        if overlap is not None:
            overlap.barrier()
    return half.fetch(total, 0), half.my_pe


def test_groups_of_several_sizes_at_once() -> None:
    results = emu.launch(two_groups, 5, args=(30,))
    assert results == [(90, 0), (60, 0), (90, 1), (60, 1), (90, 2)]


def overtake() -> int:
    """put SET as the signal: a plain put wakes a waiter too."""
    world = emu.world()
    flag = world.alloc(1, np.int32)
    if world.my_pe == 0:
        time.sleep(0.15)
        world.put(flag, np.array([42], np.int32), 1)
        return 42
    return world.wait_until(flag, Cmp.EQ, 42)


def test_a_put_wakes_a_waiter() -> None:
    assert emu.launch(overtake, 2) == [42, 42]


def test_an_unknown_operation_is_refused(worlds: Worlds) -> None:
    (me,) = worlds(1)
    word = me.alloc(1, np.int32)
    for use in (
        lambda: me.signal_op(word, 1, 0, op=7),  # type: ignore[arg-type] # the mistake under test
        lambda: me.put(word, [1], 0, op=7),  # type: ignore[arg-type] # the mistake under test
        lambda: me.test(word, 9, 0),  # type: ignore[arg-type] # the mistake under test
    ):
        with pytest.raises(
            ValueError, match=r"(op|cmp) must be one of (AtomicOp|Cmp)'s .*, but got [79]"
        ):
            use()
    me.signal_op(word, 2, 0, op=1)  # type: ignore[arg-type] # the mistake under test
    me.signal_op(word, 3, 0, op=1)  # type: ignore[arg-type] # the mistake under test
    assert word.local[0] == 5


def test_fences_exist(worlds: Worlds) -> None:
    (me,) = worlds(1)
    me.fence()
    me.quiet()
