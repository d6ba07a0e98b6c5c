"""The emulated link: transfers take at least the modelled time, and everything else is as without it."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import emu
from emu.comm.errors import ArgumentError, DeadlockError, PeerFailedError, StoppedError
from emu.comm.layout import B_WAITS, Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import INTERRUPTED, publish_stop
from emu.comm.sync.clock import clock_ns, sleep_to
from emu.comm.sync.link import Link, reserve, reserve_from, sleep_slice, sleep_until
from emu.comm.world import linked
from emu.comm.world.group import Group
from emu.comm.world.linked import LinkedGroup, LinkedWorld, await_deadline
from emu.comm.world.world import World
from emu.kernels.core.jit import jit

MS, S = 1_000_000, 1_000_000_000
SLOW = Link(bandwidth=1e8, latency=0.002)
"""A megabyte takes 10 ms and 2 ms."""


# --- the dataclass -----------------------------------------------------------------------------


def test_a_link_is_frozen_and_free_by_default():
    link = emu.Link()
    assert (link.bandwidth, link.latency) == (math.inf, 0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        link.latency = 1.0  # type: ignore[misc] # the mistake under test
    assert emu.Link is Link


def test_numbers_of_any_kind_become_floats():
    link = Link(bandwidth=np.int64(25), latency=np.float32(0.5))
    assert (link.bandwidth, link.latency) == (25.0, 0.5)
    assert {type(link.bandwidth), type(link.latency)} == {float}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bandwidth": 0}, r"bandwidth must be more than 0 \(bytes a second\), but got 0.0"),
        ({"bandwidth": -1.5}, "bandwidth must be more than 0 .*, but got -1.5"),
        ({"bandwidth": math.nan}, "bandwidth must be more than 0 .*, but got nan"),
        ({"bandwidth": "25GB/s"}, "bandwidth must be a number, but got '25GB/s'"),
        ({"bandwidth": True}, "bandwidth must be a number, but got True"),
        ({"bandwidth": 10**400}, "bandwidth must fit a float, but got 1000"),
        ({"latency": -1e-9}, r"latency must be in \[0, 3600\] \(seconds\), but got -1e-09"),
        ({"latency": math.inf}, "latency must be in .*, but got inf"),
        ({"latency": math.nan}, "latency must be in .*, but got nan"),
        ({"latency": None}, "latency must be a number, but got None"),
    ],
)
def test_values_out_of_bounds_are_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        Link(**arguments)


@pytest.mark.parametrize(
    ("latency", "nanoseconds"),
    [(0, 0), (2e-6, 2000), (3e-6, 3000), (7e-9, 7), (1.5e-9, 2), (1e-10, 1), (3600, 3600 * S)],
)
def test_a_latency_is_rounded_up_to_nanoseconds(latency, nanoseconds):
    assert Link(latency=latency).latency_ns == nanoseconds


@pytest.mark.parametrize(
    ("text", "bandwidth", "latency"),
    [
        ("25GB/s,2us", 25e9, 2e-6),
        ("25 GB/s , 3 µs", 25e9, 3e-6),
        ("1B/s", 1.0, 0.0),
        ("1.5kB/s,10ms", 1500.0, 0.01),
        ("3MB/s,1.5s", 3e6, 1.5),
        (".5TB/s,700ns", 5e11, 7e-7),
        ("2KiB/s", 2048.0, 0.0),
        ("1MiB/s", 2.0**20, 0.0),
        ("1GiB/s", 2.0**30, 0.0),
        ("1TiB/s", 2.0**40, 0.0),
        ("200Gbit/s", 25e9, 0.0),
        ("200Gb/s", 25e9, 0.0),
        ("8bit/s", 1.0, 0.0),
        ("25e9B/s", 25e9, 0.0),
        ("inf,1us", math.inf, 1e-6),
    ],
)
def test_a_link_is_read_from_text(text, bandwidth, latency):
    assert Link.parse(text) == Link(bandwidth=bandwidth, latency=latency)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bandwidth must be a number with a unit, as in 25GB/s, but got ''"),
        ("fast", "bandwidth must be a number with a unit, as in 25GB/s, but got 'fast'"),
        ("25", "bandwidth must be in one of B/s, kB/s, .*, but got '25'"),
        ("25gb/s", "bandwidth must be in one of .*, but got '25gb/s'"),
        ("25GB", "bandwidth must be in one of .*, but got '25GB'"),
        ("25GB/s,2", "latency must be in one of s, ms, us, ns, but got '2'"),
        ("25GB/s,", "latency must be a number with a unit, as in 2us, but got ''"),
        ("25GB/s,2us,3us", "latency must be in one of .*, but got '2us,3us'"),
        ("0GB/s", "bandwidth must be more than 0"),
        ("1GB/s,-1us", "latency must be in"),
        ("1GB/s,2h", "latency must be in one of"),
    ],
)
def test_text_that_is_no_link_is_refused(text, message):
    with pytest.raises(ArgumentError, match=message):
        Link.parse(text)


def test_launch_refuses_what_is_no_link():
    with pytest.raises(ArgumentError, match=r"link must be an emu\.Link or None, but got 25"):
        emu.launch(print, 1, link=25)  # type: ignore[arg-type] # the mistake under test


# --- reserving ---------------------------------------------------------------------------------


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


# --- sleeping ----------------------------------------------------------------------------------


def test_the_clock_sleeps_until_the_time_and_not_for_the_past():
    deadline = clock_ns() + 3 * MS
    while clock_ns() < deadline:  # a signal may end a sleep
        sleep_to(deadline)
    sleep_to(0)
    assert clock_ns() >= deadline


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


def fail_beside_a_long_transfer() -> None:
    world = emu.world()
    array = world.alloc(1 << 20, np.uint8)
    if world.my_pe == 0:
        try:
            world.put(array, np.zeros(1 << 20, np.uint8), 1)  # for 12 days
        except PeerFailedError as error:
            error.add_note("let go")
            raise
    raise LookupError("the cause")


def test_a_failure_elsewhere_ends_a_transfer():
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(fail_beside_a_long_transfer, 2, link=Link(bandwidth=1))
    (error,) = caught.value.exceptions
    assert isinstance(error, LookupError)
    assert not any("killed" in note for note in error.__notes__)


def transfer_and_signal(nbytes: int) -> None:
    world = emu.world()
    array, word = world.alloc(nbytes, np.uint8), world.alloc(1, np.int32)
    if world.my_pe == 0:
        world.put_signal(array, np.ones(nbytes, np.uint8), 1, word, 1)
    else:
        world.wait_until(word, emu.Cmp.EQ, 1)
        assert array.local.all()


def test_a_transfer_longer_than_the_time_out_is_no_deadlock():
    link = Link(bandwidth=1e5)
    emu.launch(transfer_and_signal, 2, args=(250_000,), link=link, timeout=1.0)


def wait_for_nothing() -> None:
    world = emu.world()
    word = world.alloc(1, np.int32)
    world.signal_op(word, 1, 1 - world.my_pe)
    world.wait_until(word, emu.Cmp.EQ, 2)


def test_a_deadlock_behind_a_link_is_found():
    with pytest.raises(ExceptionGroup, match="no progress") as caught:
        emu.launch(wait_for_nothing, 2, link=Link(latency=1e-3), timeout=0.5)
    assert all(isinstance(error, DeadlockError) for error in caught.value.exceptions)


# --- who has one -------------------------------------------------------------------------------


def test_a_world_without_a_link_is_the_plain_one(worlds):
    world = worlds(2)[0]
    assert world.link is None
    assert type(world) is World
    assert type(world.group("both", [0, 1])) is Group


def test_a_world_with_a_link_and_its_groups_know_it(worlds):
    world = worlds(2, link=SLOW)[0]
    group = world.group("both", [1, 0])
    assert (type(world), type(group)) == (LinkedWorld, LinkedGroup)
    assert world.link == group.link == SLOW
    assert isinstance(world, emu.World)


def link_here() -> Link | None:
    return emu.world().link


@pytest.mark.parametrize("link", [None, Link(), SLOW])
def test_every_pe_has_the_link_of_the_launch(link):
    assert emu.launch(link_here, 2, link=link) == [link, link]


# --- one-sided operations ----------------------------------------------------------------------


class Spy:
    """Stands in for the reservation: writes down who sends what, and lets nobody sleep."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []
        self.earliest: list[int] = []

    def __call__(self, me: int, source: int, target: int, nbytes: int, earliest: int) -> int:
        assert {type(n) for n in (me, source, target, nbytes, earliest)} == {int}
        if source != target and nbytes:
            self.calls.append((source, target, nbytes))
            self.earliest.append(earliest)
        return 0

    def take(self) -> list[tuple[int, int, int]]:
        """Return the calls since the last time, in order of the source."""
        calls, self.calls = sorted(self.calls), []
        return calls


@pytest.fixture
def spy(monkeypatch):
    found = Spy()
    monkeypatch.setattr(linked, "_reserve_from", found)
    return found


def test_a_put_is_charged_for_its_bytes(worlds, spy):
    world, other = worlds(2, link=Link(bandwidth=1e9))
    array = world.alloc((8, 6), np.float32)
    source = np.arange(48, dtype=np.float32).reshape(8, 6)
    cases: list[tuple[Any, dict[str, Any], int]] = [
        (source, {}, 192),
        (source, {"op": emu.AtomicOp.ADD}, 192),
        (source[:, ::2], {"offsets": (0, 1)}, 96),
        (source[:2].T[:, :1], {"offsets": (0, 0)}, 24),
        ([[1.0, 2.0, 3.0]], {"offsets": (2, 2)}, 12),
        (array, {}, 192),
    ]
    for src, how, nbytes in cases:
        world.put(array, src, 1, **how)
        assert spy.take() == [(0, 1, nbytes)]
    world.put(array, source, 0)
    world.put(array, np.zeros((0, 6), np.float32), 1, offsets=(0, 0))
    assert spy.take() == []
    assert (other.get(array, 0) == source).all()


def test_a_get_is_charged_to_the_link_from_the_owner_after_a_request(worlds, spy):
    world, other = worlds(2, link=Link(bandwidth=1e9, latency=0.25))
    array = world.alloc((8, 6), np.float32)
    before = time.monotonic_ns()
    world.get(array, 1)
    assert before + S // 4 <= spy.earliest[-1] <= time.monotonic_ns() + S // 4
    other.get(array, 0, offsets=(1, 2), shape=(3, 4))
    assert spy.calls == [(1, 0, 192), (0, 1, 48)]


def test_groups_use_the_links_of_the_world(worlds, spy):
    groups = {w.my_pe: w.group("odd", [3, 1]) for w in worlds(4, link=SLOW) if w.my_pe in (1, 3)}
    array, _ = (g.alloc(10, np.int64) for g in groups.values())
    groups[1].put(array, np.arange(10), 0)
    groups[1].get(array, 0)
    assert spy.calls == [(1, 3, 80), (3, 1, 80)]


def test_a_refused_operation_takes_no_link(worlds, spy):
    world = worlds(2, link=SLOW)[0]
    array, word = world.alloc(4, np.float32), world.alloc(1, np.int32)
    with pytest.raises(ArgumentError, match="pe must be in"):
        world.put(array, np.zeros(4, np.float32), 2)
    with pytest.raises(ArgumentError, match="dtype"):
        world.put(array, np.zeros(4), 1)
    with pytest.raises(ArgumentError, match="offsets"):
        world.get(array, 1, offsets=(3,), shape=(2,))
    with pytest.raises(ArgumentError, match="value must fit"):
        world.put_signal(array, np.ones(4, np.float32), 1, word, 1 << 40)
    with pytest.raises(ArgumentError, match="value must fit"):
        world.signal_op(word, 1 << 40, 1)
    assert spy.calls == []
    assert not array.on(1).any()


def timed(call: Any) -> int:
    start = time.monotonic_ns()
    call()
    return time.monotonic_ns() - start


def test_no_operation_is_faster_than_its_model(worlds):
    world = worlds(2, link=SLOW)[0]
    array, word = world.alloc(1_000_000, np.uint8), world.alloc(2, np.int64)
    source = np.ones(1_000_000, np.uint8)
    assert timed(lambda: world.put(array, source, 1)) >= 12 * MS
    assert timed(lambda: world.put(array, source, 1, op=emu.AtomicOp.ADD)) >= 12 * MS
    assert timed(lambda: world.get(array, 1)) >= 14 * MS
    assert timed(lambda: world.put_signal(array, source, 1, word, 7)) >= 12 * MS
    assert world.fetch(word, 1) == 7
    assert timed(lambda: world.signal_op(word, 8, 1)) >= 2 * MS
    assert timed(lambda: world.fetch(word, 1)) >= 4 * MS
    assert timed(lambda: world.fetch_add(word, 1, 1)) >= 4 * MS
    assert timed(lambda: world.swap(word, 5, 1)) >= 4 * MS
    assert timed(lambda: world.compare_swap(word, 5, 6, 1)) >= 4 * MS
    assert (array.on(1) == 1).all()
    assert word.on(1)[0] == 6


def test_signals_and_atomics_mean_what_they_mean_without_a_link(worlds):
    world, other = worlds(2, link=Link(latency=1e-6))
    word = world.alloc(3, np.uint64)
    world.signal_op(word, 2**64 - 1, 1, index=2)
    world.signal_op(word, 3, 1, op=emu.AtomicOp.ADD, index=2)
    assert other.wait_until(word, emu.Cmp.EQ, 2, index=2) == 2
    assert world.fetch_add(word, 5, 1, index=1) == 0
    assert world.swap(word, 2**63, 1, index=1) == 5
    assert world.compare_swap(word, 5, 1, 1, index=1) == 2**63
    assert world.fetch(word, 1, index=1) == 2**63
    array = world.alloc(4, np.float32)
    data = np.arange(4, dtype=np.float32)
    for value, op in ((4, emu.AtomicOp.SET), (3, emu.AtomicOp.ADD)):
        world.put_signal(array, data, 1, word, value, op=emu.AtomicOp.ADD, sig_op=op)
    assert word.on(1)[0] == 7
    assert array.on(1).tolist() == [0, 2, 4, 6]


def signal_times(nbytes: int) -> list[int]:
    """When PE 0 began to send, and when PE 1 saw the signal, for a put_signal and a signal_op."""
    world, times = emu.world(), []
    array, word = world.alloc(nbytes, np.uint8), world.alloc(2, np.int32)
    source = np.ones(nbytes, np.uint8)
    for index in range(2):
        world.barrier()
        if world.my_pe:
            world.wait_until(word, emu.Cmp.EQ, 1, index=index)
            times.append(time.monotonic_ns())
            continue
        times.append(time.monotonic_ns())
        if index == 0:
            world.put_signal(array, source, 1, word, 1)
        else:
            world.signal_op(word, 1, 1, index=1)
    return times


def test_a_signal_is_not_seen_before_its_time():
    sent, seen = emu.launch(signal_times, 2, args=(1_000_000,), link=SLOW)
    assert seen[0] - sent[0] >= 12 * MS
    assert seen[1] - sent[1] >= 2 * MS


def barrier_times() -> tuple[int, int]:
    world = emu.world()
    arrived = time.monotonic_ns()
    (world.barrier if world.my_pe % 2 else world.sync)()
    return arrived, time.monotonic_ns()


def test_a_barrier_ends_a_latency_after_the_last_has_come():
    times = emu.launch(barrier_times, 3, link=SLOW)
    assert min(left for _, left in times) - max(came for came, _ in times) >= 2 * MS


# --- collectives -------------------------------------------------------------------------------

VECTOR = 1003  # fp32 elements
COUNTS = [[(p + 2 * q) % 4 for q in range(3)] for p in range(3)]


def calls_of_all(group: Group) -> dict[str, Any]:
    """A call of every collective."""
    n, me = group.n_pes, group.my_pe
    grid = np.random.default_rng(5).standard_normal((n, n, VECTOR)).astype(np.float32)
    mine, rows = grid[me, 0], grid[me]
    counts = COUNTS[me][:n]
    ragged = np.arange(sum(counts) * 7, dtype=np.int64).reshape(-1, 7) + 1000 * me
    large = np.tile(rows, (1, 40))
    return {
        "broadcast": lambda: group.broadcast(mine, 1),
        "scatter": lambda: group.scatter(rows if me == 1 else None, 1),
        "gather": lambda: group.gather(mine, 1),
        "all_gather": lambda: group.all_gather(mine),
        "all_to_all": lambda: group.all_to_all(rows),
        "all_to_all_v": lambda: group.all_to_all_v(ragged, counts),
        "permute": lambda: group.permute(mine, [(0, 1), (1, 0)]),
        "all_reduce": lambda: group.all_reduce(mine),
        "all_reduce large": lambda: group.all_reduce(large, "max"),
        "reduce_scatter": lambda: group.reduce_scatter(rows),
        "empty": lambda: group.all_gather(mine[:0]),
    }


def results(reverse: bool) -> dict[str, Any]:
    world = emu.world()
    group = world.group("turned", [2, 0, 1]) if reverse else world
    return {name: call() for name, call in calls_of_all(group).items()}


@pytest.mark.parametrize("reverse", [False, True])
def test_collectives_give_the_same_with_a_link(reverse):
    plain = emu.launch(results, 3, args=(reverse,))
    over_link = emu.launch(results, 3, args=(reverse,), link=Link(bandwidth=1e10, latency=1e-5))
    for here, there in zip(plain, over_link, strict=True):
        assert here.keys() == there.keys()
        for name in here:
            np.testing.assert_equal(there[name], here[name], name)


def charges(reverse: bool) -> dict[str, Any]:
    """What each collective reserves on this PE."""
    world = emu.world()
    group = world.group("turned", [2, 0, 1]) if reverse else world
    spy = Spy()
    linked._reserve_from = spy
    found = {}
    for name, call in calls_of_all(group).items():
        call()
        found[name] = spy.take()
    return found


@pytest.mark.parametrize("reverse", [False, True])
def test_collectives_are_charged_for_what_comes_from_each_other_member(reverse):
    order = [2, 0, 1] if reverse else [0, 1, 2]
    found = emu.launch(charges, 3, args=(reverse,), link=SLOW)
    row = 4 * VECTOR
    part, large_part = -(-row // 3), -(-40 * 3 * row // 3)
    for me, world_pe in enumerate(order):

        def blocks(sizes: dict[int, int], here: int = world_pe) -> list[tuple[int, int, int]]:
            return sorted((order[source], here, n) for source, n in sizes.items() if n)

        others = [pe for pe in range(3) if pe != me]
        each = blocks(dict.fromkeys(others, row))
        from_root = blocks({1: row}) if me != 1 else []
        assert found[world_pe] == {
            "broadcast": from_root,
            "scatter": from_root,
            "gather": each if me == 1 else [],
            "all_gather": each,
            "all_to_all": each,
            "all_to_all_v": blocks({pe: 56 * COUNTS[pe][me] for pe in others}),
            "permute": blocks({1 - me: row}) if me < 2 else [],
            "all_reduce": sorted(2 * blocks(dict.fromkeys(others, part))),
            "all_reduce large": sorted(2 * blocks(dict.fromkeys(others, large_part))),
            "reduce_scatter": each,
            "empty": [],
        }


def collective_times(nbytes: int) -> dict[str, tuple[int, int]]:
    """(begin, end) of a few collectives of ``nbytes`` a block."""
    world, found = emu.world(), {}
    array = np.ones(nbytes, np.uint8)
    calls: dict[str, Any] = {
        "all_gather": lambda: world.all_gather(array),
        "all_reduce": lambda: world.all_reduce(array),
        "reduce_scatter": lambda: world.reduce_scatter(np.ones((world.n_pes, nbytes), np.uint8)),
    }
    for name, call in calls.items():
        world.barrier()
        begin = time.monotonic_ns()
        call()
        found[name] = begin, time.monotonic_ns()
    return found


def test_no_collective_is_faster_than_its_model():
    found = emu.launch(collective_times, 2, args=(1_000_000,), link=SLOW)
    for name, least in (("all_gather", 12), ("all_reduce", 14), ("reduce_scatter", 12)):
        last_came = max(times[name][0] for times in found)
        assert all(times[name][1] - last_came >= least * MS for times in found), name
