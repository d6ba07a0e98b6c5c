"""Symmetric allocation: agreement, reuse, poison, lack of room; groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import emu
from emu.comm.errors import ArgumentError, SymmetricMemoryError
from emu.comm.memory.heap import poison_value
from emu.comm.world.world import World
from emu.kernels.core import shadows
from emu.kernels.core.dtypes import DTYPES

Worlds = Callable[..., list[World]]


def test_same_offset_on_every_pe_and_clear(worlds: Worlds) -> None:
    a, b, c = worlds(3)
    x = [w.alloc((3, 5), np.float32, name="x") for w in (a, b, c)]
    y = [w.alloc(7, np.int8) for w in (b, c, a)]
    assert len({array.offset for array in x}) == 1
    assert len({array.offset for array in y}) == 1
    for array in (*x, *y):
        assert array.offset % 64 == 0
        assert array.local.ctypes.data % 64 == 0
        assert not array.local.any()
    x[0].on(2)[...] = 4
    assert (x[2].local == 4).all()
    assert not x[1].local.any()


def test_memory_returns_when_all_have_freed_and_is_clear_again(worlds: Worlds) -> None:
    a, b = worlds(2, heap_bytes=1 << 16)
    for _ in range(20):  # would not fit 20 times
        mine, theirs = a.alloc(3 << 12, np.int32), b.alloc(3 << 12, np.int32)
        assert not mine.local.any()
        assert not theirs.local.any()
        mine.local[...] = -1
        a.put(mine, mine, 1)
        mine.free()
        assert (theirs.local == -1).all()
        theirs.free()


def test_an_address_is_in_one_allocation_or_in_none(worlds: Worlds) -> None:
    a, b = worlds(2, heap_bytes=1 << 16)
    first, second = a.alloc(10, np.int32), a.alloc(3, np.float64)
    b.alloc(10, np.int32), b.alloc(3, np.float64)
    for array, nbytes in ((first, 40), (second, 24)):
        for memory in (array.local, array.on(1)):
            start = memory.ctypes.data
            for address in (start, start + nbytes - 1):
                assert a.heap.find_span(address) == (start, start + nbytes)
            behind = start + nbytes
            assert a.heap.find_span(behind) == (behind, behind)  # a gap
    assert a.heap.find_span(np.zeros(4).ctypes.data) is None


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3)), max_size=40))
def test_live_arrays_never_overlap(worlds: Worlds, plan: list[tuple[int, int]]) -> None:
    (me,) = worlds(1, heap_bytes=1 << 20)
    live: list[emu.SymmetricArray] = []
    for number, (size, drop) in enumerate(plan):
        array = me.alloc(size, np.uint8)
        assert not array.local.any()
        array.local[...] = number % 255 + 1
        live.append(array)
        if drop == 0 and live:
            live.pop(number % len(live)).free()
        for one in live:
            assert np.unique(one.local).size <= 1
    spans = sorted((one.offset, one.offset + one.nbytes) for one in live if one.nbytes)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.fixture
def no_shadows() -> Iterator[None]:
    """Without shadows, which a kernel of an earlier test that was checked for unwritten memory has had kept since."""
    kept = shadows.are_kept()
    shadows.keep(False)
    yield
    shadows.keep(kept)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_poison(worlds: Worlds, no_shadows: None, dtype: np.dtype) -> None:
    a, b = worlds(2, poison=True)
    array, other = a.alloc((4, 4), dtype), b.alloc((4, 4), dtype)
    expected = np.full((4, 4), poison_value(dtype), dtype)
    assert array.local.tobytes() == expected.tobytes()
    assert other.local.tobytes() == expected.tobytes()
    if dtype.kind == "f" or dtype == ml_dtypes.bfloat16:
        assert np.isnan(array.local).all()


@pytest.fixture
def kept_shadows() -> Iterator[None]:
    shadows.keep()
    yield
    shadows.keep(False)


@pytest.mark.parametrize("count", [1, 7, 8, 1000])
def test_poisoned_memory_is_unwritten_where_shadows_are_kept(
    worlds: Worlds, kept_shadows: None, count: int
) -> None:
    a, b = worlds(2, poison=True)
    array, zeros = a.alloc(count, np.int8), a.alloc(count, np.int8, poison=False)
    start = array.local.ctypes.data
    shadow = shadows.find(start, start + count)
    assert shadow is not None
    assert shadow.is_shared
    assert shadow.site.rpartition(":")[0] == __file__
    assert shadow.refresh()
    assert shadow.states[:count].all()
    assert shadows.find(zeros.local.ctypes.data, zeros.local.ctypes.data + count) is None
    there = b.alloc(count, np.int8)
    there.on(0)[...] = 3
    assert not shadow.refresh()
    late = shadows.find(there.local.ctypes.data, there.local.ctypes.data + count)
    assert late is not None
    assert late.states[:count].all()
    array.free()
    assert shadows.find(start, start + count) is None


def test_memory_that_a_peer_wrote_before_is_written(worlds: Worlds, kept_shadows: None) -> None:
    a, b = worlds(2, poison=True)
    array = a.alloc(100, np.int32)
    array.on(1)[:60] = 5
    there = b.alloc(100, np.int32)
    start = there.local.ctypes.data
    shadow = shadows.find(start, start + 400)
    assert shadow is not None
    assert not shadow.states[:240].any()
    assert shadow.states[240:400].all()


def test_memory_that_is_zeroed_is_written(worlds: Worlds, kept_shadows: None) -> None:
    (a,) = worlds(1)
    array = a.alloc(100, np.int32)
    assert shadows.find(array.local.ctypes.data, array.local.ctypes.data + 400) is None
    assert not array.local.any()


def test_disagreement_names_both(worlds: Worlds) -> None:
    a, b = worlds(2)
    a.alloc((2, 3), np.float32, name="weights")
    with pytest.raises(
        SymmetricMemoryError,
        match=r"'weights'.*PE 0 asked for shape \(2, 3\) float32 and PE 1 for shape \(2, 4\) float32",
    ):
        b.alloc((2, 4), np.float32, name="weights")
    a.alloc(3, np.int32)
    with pytest.raises(SymmetricMemoryError, match="int32 and PE 1 for shape \\(3,\\) int64"):
        b.alloc(3, np.int64)


def test_keys_match_whatever_the_order(worlds: Worlds) -> None:
    a, b = worlds(2)
    a1, a2 = a.alloc(2, np.int32, key="one"), a.alloc(2, np.int32, key="two")
    b2, b1 = b.alloc(2, np.int32, key="two"), b.alloc(2, np.int32, key="one")
    assert (a1.offset, a2.offset) == (b1.offset, b2.offset)
    assert a.alloc(2, np.int32, key="one") is a1
    with pytest.raises(SymmetricMemoryError, match="key 'one' names"):
        a.alloc(3, np.int32, key="one")
    a.alloc(1, np.int8, key="only a/x")
    assert [f.nbytes for f in b.find_allocs("only a/")] == [1]
    assert b.find_allocs("nothing") == []


def test_no_room(worlds: Worlds) -> None:
    (me,) = worlds(1, heap_bytes=1 << 20)
    me.alloc(1 << 19, np.uint8)
    with pytest.raises(SymmetricMemoryError, match=r"no 524289 bytes left.*heap_size is 1048576"):
        me.alloc((1 << 19) + 1, np.uint8)
    me.alloc(1 << 19, np.uint8)


def test_more_than_shared_memory_holds_is_an_error_not_a_sigbus(worlds: Worlds) -> None:
    (me,) = worlds(1, heap_bytes=1 << 42)
    with pytest.raises(SymmetricMemoryError, match="must fit in shared memory"):
        me.alloc(1 << 41, np.uint8)
    assert not me.alloc(10, np.uint8).local.any()


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((2, -1), np.int32, "shape must not be negative"),
        ((1,) * 9, np.int32, "at most 8 axes"),
        (3, np.complex64, "dtype must be one of bool, int8"),
        (3, "no such", "dtype must be a NumPy dtype"),
    ],
)
def test_alloc_refuses(worlds: Worlds, shape: object, dtype: object, message: str) -> None:
    (me,) = worlds(1)
    with pytest.raises(ArgumentError, match=message):
        me.alloc(shape, dtype)  # type: ignore[arg-type] # the mistake under test


def test_views_by_anything_but_slices_are_refused(worlds: Worlds) -> None:
    (me,) = worlds(1)
    with pytest.raises(ArgumentError, match="integers and slices"):
        me.alloc((3, 3), np.int32)[[0, 2]]
    with pytest.raises(IndexError):
        me.alloc((3, 3), np.int32)[3]


def test_groups(worlds: Worlds) -> None:
    w = worlds(4)
    even = [w[0].group("even", [2, 0]), w[2].group("even", [2, 0])]
    assert [g.my_pe for g in even] == [1, 0]
    assert even[0].members == (2, 0)
    assert w[0].group("even") is even[0]
    assert w[1].group("world") is w[1]
    arrays = [g.alloc(3, np.int32) for g in even]
    even[0].put(arrays[0], np.array([1, 2, 3], np.int32), 0)  # member 0 is world PE 2
    assert arrays[1].local.tolist() == [1, 2, 3]
    w[1].put(w[1].alloc(1, np.int8), [1], 0)
    with pytest.raises(ArgumentError, match=r"world PE 1.*is not a member"):
        w[0].put(arrays[0], np.zeros(3, np.int32), 1)


def test_groups_refuse(worlds: Worlds) -> None:
    w = worlds(3)
    w[0].group("pair", [0, 1])
    with pytest.raises(ArgumentError, match=r"has \[0, 1\] and PE 1 gave \[1, 0\]"):
        w[1].group("pair", [1, 0])
    with pytest.raises(ArgumentError, match="must contain this PE 2"):
        w[2].group("pair")
    with pytest.raises(ArgumentError, match="'other' is not known; make it on each of its members"):
        w[0].group("other")
    for bad in ([], [0, 0], [0, 3], [1, 2]):
        with pytest.raises(ArgumentError, match="pes must"):
            w[0].group("bad", bad)
    for name in ("", "x" * 129):
        with pytest.raises(ArgumentError, match="1 to 128 characters"):
            w[0].group(name, [0])
    assert w[0].group("é" * 128, [0]).n_pes == 1


def test_an_array_of_the_room_fits_and_a_page_more_does_not(worlds: Worlds) -> None:
    a, b = worlds(2, heap_bytes=1 << 18)
    for _ in range(3):
        room = a.heap.room()
        assert room == b.heap.room() > 0
        a.alloc(room // 2, np.int8), b.alloc(room // 2, np.int8)
    room = a.heap.room()
    for world in (a, b):
        with pytest.raises(SymmetricMemoryError, match=r"no \d+ bytes left"):
            world.alloc(room + 4096, np.int8)
    a.alloc(room, np.int8), b.alloc(room, np.int8)
    assert a.heap.room() == 0
