"""The emulated link: transfers take at least the modelled time, and everything else is as without it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.errors import ArgumentError, DeadlockError, PeerFailedError
from emu.comm.sync.link import Link
from emu.comm.world import linked
from emu.comm.world.group import Group
from emu.comm.world.linked import LinkedGroup, LinkedWorld
from emu.comm.world.world import World

MS, S = 1_000_000, 1_000_000_000
SLOW = Link(bandwidth=1e8, latency=0.002)
"""A megabyte takes 10 ms and 2 ms."""


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
    with pytest.raises(ExceptionGroup, match="deadlock: nobody can release") as caught:
        emu.launch(wait_for_nothing, 2, link=Link(latency=1e-3), timeout=60)
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
