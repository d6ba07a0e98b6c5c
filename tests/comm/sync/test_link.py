"""Reservations of the emulated link, and sleeps until they are over."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu
from emu.comm.errors import StoppedError
from emu.comm.layout import B_WAITS, Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import INTERRUPTED, publish_stop
from emu.comm.sync.link import Link, reserve, reserve_from, sleep_slice, sleep_until
from emu.comm.world.linked import await_deadline
from emu.kernels.core.jit import jit

MS, S = 1_000_000, 1_000_000_000
SLOW = Link(bandwidth=1e8, latency=0.002)
"""A megabyte takes 10 ms and 2 ms."""


def test_one_pair_takes_turns_and_other_pairs_run_at_the_same_time(worlds):
    me = worlds(3, link=Link(bandwidth=1e9, latency=5e-6))[0].me
    assert reserve_from(me, 0, 1, 1000, 70) == 70 + 1000 + 5000
    assert reserve_from(me, 0, 1, 500, 70) == 70 + 1500 + 5000  # behind the first
    assert reserve_from(me, 1, 0, 500, 70) == 70 + 500 + 5000  # the other way is another link
    assert reserve_from(me, 0, 2, 500, 70) == 70 + 500 + 5000
    assert reserve_from(me, 0, 1, 1, 9000) == 9000 + 1 + 5000  # idle since 1570


def test_every_pe_sees_the_same_links(worlds):
    first, second = (w.me for w in worlds(2, link=Link(bandwidth=1e9)))
    assert reserve_from(first, 0, 1, 1000, 0) == 1000
    assert reserve_from(second, 0, 1, 1000, 0) == 2000


def test_what_costs_nothing_has_no_deadline(worlds):
    me = worlds(2, link=SLOW)[0].me
    assert reserve(me, 1, 1, 1 << 20) == 0
    assert reserve(me, 0, 1, 0) == 0
    without = worlds(2)[0].me
    assert reserve(without, 0, 1, 1 << 20) == 0


def test_a_link_of_infinite_bandwidth_is_never_busy(worlds):
    me = worlds(2, link=Link(latency=1e-6))[0].me
    assert [reserve_from(me, 0, 1, 1 << 40, 50) for _ in range(3)] == [1050] * 3


def test_times_too_long_for_the_clock_do_not_wrap(worlds):
    me = worlds(2, link=Link(bandwidth=1e-300, latency=3600))[0].me
    deadlines = [reserve(me, 0, 1, 1 << 40) for _ in range(5)]
    assert all(2**60 < d < 2**62 for d in deadlines)
    assert deadlines == sorted(deadlines)


def test_a_reservation_now_is_at_least_the_modelled_time_away(worlds):
    me = worlds(2, link=SLOW)[0].me
    before = time.monotonic_ns()
    assert reserve(me, 0, 1, 1_000_000) >= before + 12 * MS


@settings(deadline=None)  # the first example may load or compile the kernel
@given(
    st.floats(1e3, 1e12),
    st.floats(0, 1e-3),
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 2),
            st.integers(0, 1 << 30),
            st.integers(0, 1 << 40),
        )
    ),
)
def test_deadlines_follow_the_definition(bandwidth, latency, transfers):
    link = Link(bandwidth=bandwidth, latency=latency)
    segment = Segment.create(Layout(n_pes=3, heap_bytes=1 << 16), link=link)
    try:
        blocks = [register(segment, pe, 1) for pe in range(3)]
        busy = dict.fromkeys(((s, t) for s in range(3) for t in range(3)), 0)
        for turn, (source, target, nbytes, now) in enumerate(transfers):
            got = reserve_from(blocks[turn % 3], source, target, nbytes, now)
            if source == target or nbytes == 0:
                assert got == 0
                continue
            start = max(now, busy[source, target])
            busy[source, target] = start + math.ceil(nbytes * 1e9 / bandwidth)
            assert got == busy[source, target] + link.latency_ns
    finally:
        segment.close()


@jit()
def reserve_in_a_row(me: int, ends: Any) -> None:
    for turn in range(ends.size):
        ends[turn] = reserve_from(me, 0, 1, 1000, S)


def reserve_many(times: int) -> np.ndarray:
    world = emu.world()
    reserve_in_a_row(world.me, np.zeros(0, np.int64))  # compile
    ends = np.zeros(times, np.int64)
    world.barrier()
    reserve_in_a_row(world.me, ends)
    return ends


def test_reservations_of_many_processes_never_overlap():
    times = 100_000
    found = emu.launch(reserve_many, 4, args=(times,), link=Link(bandwidth=1e9))
    ends = np.sort(np.concatenate(found))
    assert (ends == S + 1000 * np.arange(1, 4 * times + 1)).all()


@pytest.mark.parametrize("ahead", [0, 1000, 19_000, 21_000, 3 * MS, 120 * MS])
def test_a_sleep_is_never_short(worlds, ahead):
    world = worlds(1, link=SLOW)[0]
    for sleep in (lambda d: sleep_until(world.me, d), lambda d: await_deadline(world, d)):
        deadline = time.monotonic_ns() + ahead
        sleep(deadline)
        assert time.monotonic_ns() >= deadline


def test_no_deadline_is_no_sleep(worlds):
    world = worlds(1, link=SLOW)[0]
    assert sleep_slice(world.me, 0) == 1
    sleep_until(world.me, 0)
    assert world.segment.block(0)[B_WAITS] == 0


def test_every_slice_of_a_sleep_is_progress(worlds):
    world = worlds(1, link=SLOW)[0]
    waits = world.segment.block(0)
    deadline = time.monotonic_ns() + 3600 * S
    assert [sleep_slice(world.me, deadline) for _ in range(3)] == [0, 0, 0]
    assert waits[B_WAITS] == 3


def test_a_stopped_world_does_not_sleep_on(worlds):
    # So slow that the transfer is not over before a first call has been compiled.
    world, _ = worlds(2, link=Link(bandwidth=1e4, latency=0.002))
    array = world.alloc(1 << 20, np.uint8)
    publish_stop(world.segment, INTERRUPTED, "enough")
    deadline = time.monotonic_ns() + 3600 * S
    sleep_until(world.me, deadline)
    with pytest.raises(StoppedError, match="enough"):
        await_deadline(world, deadline)
    with pytest.raises(StoppedError, match="enough"):
        world.put(array, np.zeros(1 << 20, np.uint8), 1)
    assert time.monotonic_ns() < deadline
