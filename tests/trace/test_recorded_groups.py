"""Groups that are recorded do what others do, wrong arguments included."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import emu
from emu.comm.layout import Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.world import recording
from emu.comm.world.world import World
from emu.trace import room
from emu.trace.draining import EventDrain
from emu.trace.events import Kind
from emu.trace.reading import Trace, read_trace


class Recorded(NamedTuple):
    """A recorded World of one PE in this process, and what ends it."""

    world: World
    finish: Callable[[], Trace]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    layout = Layout(n_pes=1, heap_bytes=1 << 20)
    layout = replace(layout, trace_bytes=room.area_bytes(layout, []))
    segment = Segment.create(layout)
    path = tmp_path / "a.emutrace"
    drain = EventDrain(segment, room._area_of(layout), [path])
    room.start(segment, 0)

    def finish() -> Trace:
        drain.finish("ok")
        return read_trace(path)

    try:
        kind = recording.class_of(World, True)
        yield Recorded(kind(segment, register(segment, 0, 1), 0, poison=False), finish)
    finally:
        recording.active = None
        drain.finish("ok")


@pytest.fixture
def plain() -> World:
    segment = Segment.create(Layout(n_pes=1, heap_bytes=1 << 20))
    return World(segment, register(segment, 0, 1), 0, poison=False)


X = np.ones((2, 3), np.float32)
WRONG: list[Callable[[World, Any, Any], object]] = [
    lambda w, a, s: w.put(a, X, 1),
    lambda w, a, s: w.put(a, X, slice(0, 1)),
    lambda w, a, s: w.put(a, X, None),
    lambda w, a, s: w.put(None, X, 0),
    lambda w, a, s: w.put(a, X[0], 0),
    lambda w, a, s: w.put(a, X, 0, offsets=(1 << 80, 0)),
    lambda w, a, s: w.put(a, X, 0, offsets=(-9, 0)),
    lambda w, a, s: w.put(a, X, 0, offsets=7),
    lambda w, a, s: w.put_nbi(a, "x", 0),
    lambda w, a, s: w.get(a, -3),
    lambda w, a, s: w.get(a, 0, offsets=("a", 0)),
    lambda w, a, s: w.get_nbi(a, 0, None),
    lambda w, a, s: w.put_signal(a, X, 0, s, 1, index=99),
    lambda w, a, s: w.put_signal_nbi(a, X, 0, a, 1),
    lambda w, a, s: w.signal_op(s, "1", 0),
    lambda w, a, s: w.signal_op(s, 1, 0, index=1 << 70),
    lambda w, a, s: w.signal_op(s, 1 << 70, 0),
    lambda w, a, s: w.fetch_add(s, 1, [0]),
    lambda w, a, s: w.compare_swap(s, 0, 1, 0, index=-1),
    lambda w, a, s: w.swap_nbi(X, s, 1, 0),
    lambda w, a, s: w.fetch(None, 0),
    lambda w, a, s: w.wait_until(s, "EQ", 0),
    lambda w, a, s: w.wait_for([]),
    lambda w, a, s: w.wait_for([1]),
    lambda w, a, s: w.wait_for(3),
    lambda w, a, s: w.test(a, emu.Cmp.EQ, 0),
    lambda w, a, s: w.test_all(s, emu.Cmp.EQ, 0, indices=3),
    lambda w, a, s: w.test_some(s, emu.Cmp.EQ, [0]),
    lambda w, a, s: w.set_lock(a),
    lambda w, a, s: w.test_lock(s, index=9),
    lambda w, a, s: w.clear_lock(s),
    lambda w, a, s: w.all_reduce("x"),
    lambda w, a, s: w.all_reduce(X, "no"),
    lambda w, a, s: w.broadcast(X, 4),
    lambda w, a, s: w.all_to_all_v(X, [9]),
    lambda w, a, s: w.permute(X, [(0, 5)]),
    lambda w, a, s: w.alloc(-1, np.float32),
    lambda w, a, s: w.alloc(1, "nonsense"),
    lambda w, a, s: w.release(a),
]


def outcome(call: Callable[[World, Any, Any], object], world: World) -> tuple[str, str]:
    x = world.alloc((2, 3), np.float32, name="x")
    signals = world.alloc(4, np.int64, name="signals")
    with pytest.raises(emu.CommError) as caught:
        call(world, x, signals)
    return type(caught.value).__name__, str(caught.value)


def test_wrong_arguments_end_in_the_same_errors(recorded: Recorded, plain: World) -> None:
    for call in WRONG:
        assert outcome(call, recorded.world) == outcome(call, plain)


def test_results_are_the_same(recorded: Recorded) -> None:
    world = recorded.world
    a, s = world.alloc((2, 3), np.float32), world.alloc(4, np.int64)
    world.put(a, X, 0)
    assert np.array_equal(world.get(a, 0), X)
    assert world.fetch_add(s, 5, 0) == 0
    assert world.swap(s, 7, 0) == 5
    assert world.compare_swap(s, 7, 1, 0) == 7
    assert world.wait_until(s, emu.Cmp.EQ, 1) == 1
    assert world.wait_until_all(s, emu.Cmp.GE, 0) is None
    assert world.test_some(s, emu.Cmp.EQ, 1) == [0]
    assert not world.test(s, emu.Cmp.EQ, 3)
    assert np.array_equal(world.all_reduce(X), X)
    assert np.array_equal(world.all_gather(X), X[None])
    taken = recorded.finish()
    kinds = taken.events[0]["kind"].tolist()
    assert kinds.count(Kind.ATOMIC) == 3
    assert kinds.count(Kind.WAIT) == 3  # a test that failed is none
    assert kinds.count(Kind.COLLECTIVE) == 2


def test_a_fork_writes_nothing(recorded: Recorded) -> None:
    world = recorded.world
    s = world.alloc(4, np.int64)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert recording.active is None
            for _ in range(10):
                world.signal_op(s, 1, 0)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    world.signal_op(s, 2, 0)
    taken = recorded.finish()
    assert taken.events[0]["kind"].tolist().count(Kind.SIGNAL) == 1
    assert taken.lost == (0,)


def test_arrays_that_a_program_numbers_have_one_site_a_line(recorded: Recorded) -> None:
    world = recorded.world
    for number in range(50):
        array = world.alloc(4, np.int64, name=f"buffer{number}.words")
        array.free()
    taken = recorded.finish()
    names = [site.name for site in taken.sites[0] if site.name.startswith(("alloc", "free"))]
    assert names == ["alloc buffer*.words", "free buffer*.words"]
    assert len(taken.events[0]) == 100


def test_what_a_wild_kernel_has_overwritten_is_counted_as_lost(recorded: Recorded) -> None:
    world = recorded.world
    s = world.alloc(4, np.int64)
    for _ in range(20):
        world.signal_op(s, 1, 0)
    layout = world.segment.layout
    memory, area = world.segment.map_trace(), room._area_of(layout)
    ring = memory[area.ring(0) : area.ring(0) + 20 * 40]
    ring[3 * 40 + 32 : 3 * 40 + 40] = 0xFF  # a site and a kind that there are not
    sites = area.sites(0)
    memory[sites + 5 : sites + 9] = 0
    taken = recorded.finish()
    assert taken.lost == (1,)
    assert len(taken.events[0]) == 20  # an alloc and 19
