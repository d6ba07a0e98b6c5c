"""A run is recorded: what each PE did, when, where in the program, and who woke whom."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import emu
import emu.trace
from emu.comm.world import recording
from emu.comm.world.group import Group
from emu.comm.world.world import World
from emu.trace.events import MEETING_BIT, Kind
from emu.trace.reading import Trace, read_trace


def program() -> str:
    """Do one of each."""
    world = emu.world()
    me, n = world.my_pe, world.n_pes
    data = world.alloc((4, 8), np.float32, name="data")
    flags = world.alloc(4, np.int64, poison=False)
    lock = world.alloc(1, np.int64, poison=False)
    world.barrier()
    with emu.trace.range("talk"):
        if me == 0:
            world.put(data, np.ones((4, 8), np.float32), 1)
            world.signal_op(flags, 1, 1)
            world.put_signal(data, np.ones((4, 8), np.float32), 2, flags, 5, index=2)
        elif me == 1:
            world.wait_until(flags, emu.Cmp.EQ, 1)
        else:
            world.wait_for([(flags, 2, emu.Cmp.GE, 5), (flags, 3, emu.Cmp.GE, 5)])
    world.barrier()
    if me == 2:
        world.get(data, 1)
    world.fetch_add(flags, 1, (me + 1) % n, index=3)
    if me == 0:
        world.set_lock(lock)
    world.sync()
    if me == 1:
        world.set_lock(lock)
        world.clear_lock(lock)
    elif me == 0:
        while int(lock.local[0]) & 0xFFFFFFFF != 2:  # PE 1 has not asked for it yet
            time.sleep(0.001)
        world.clear_lock(lock)
    pair = world.group("pair", [0, 2]) if me != 1 else None
    if pair is not None:
        pair.all_reduce(np.arange(6, dtype=np.int32))
    world.put_nbi(data, np.zeros((4, 8), np.float32), me)
    world.quiet()
    emu.trace.instant("here", "with a text")
    emu.trace.counter("items", 7, "pieces")
    data.free()
    return type(world).__name__


N = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of one recorded run."""
    folder = tmp_path_factory.mktemp("run")
    names = emu.launch(program, N, trace=[folder / "a.emutrace", folder / "a.json"])
    assert names == ["RecordedWorld"] * N
    return folder


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    """The run."""
    return read_trace(folder / "a.emutrace")


def named(trace: Trace, pe: int, name: str) -> np.ndarray:
    """The events of a PE that have a name, by start."""
    numbers = [i for i, site in enumerate(trace.sites[pe]) if site.name == name]
    return trace.events[pe][np.isin(trace.events[pe]["site"], numbers)]


def line_of(text: str) -> int:
    """The line of this file that has a text."""
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def end_of(event: np.void) -> int:
    return int(event["start"] + event["duration"])


def test_the_run_is_described(trace: Trace) -> None:
    assert (trace.n_pes, trace.status, trace.lost) == (N, "ok", (0,) * N)
    assert trace.meta["pes_per_host"] == N
    assert trace.meta["command"] == sys.argv
    assert trace.meta["link"] is None


@pytest.mark.parametrize(
    ("name", "kind", "text", "size", "pe"),
    [
        ("put", Kind.PUT, "world.put(data, np.ones", 128, 0),
        ("signal_op", Kind.SIGNAL, "world.signal_op(flags, 1, 1)", 0, 0),
        ("put_signal", Kind.SIGNAL, "world.put_signal(data", 128, 0),
        ("wait_until", Kind.WAIT, "world.wait_until(flags", 0, 1),
        ("wait_for", Kind.WAIT, "world.wait_for([", 0, 2),
        ("get", Kind.GET, "world.get(data, 1)", 128, 2),
        ("fetch_add", Kind.ATOMIC, "world.fetch_add(flags", 8, 1),
        ("all_reduce", Kind.COLLECTIVE, "pair.all_reduce(", 24, 2),
        ("put_nbi", Kind.PUT, "world.put_nbi(data", 128, 1),
        ("quiet", Kind.COMPLETE, "world.quiet()", 0, 1),
        ("alloc data", Kind.ALLOCATE, 'name="data")', 128, 1),
        ("free data", Kind.ALLOCATE, "data.free()", -128, 1),
        ("here", Kind.INSTANT, 'emu.trace.instant("here"', 0, 0),
        ("talk", Kind.RANGE, 'emu.trace.range("talk")', 0, 0),
    ],
)
def test_an_operation_is_recorded_with_its_line(
    trace: Trace, name: str, kind: Kind, text: str, size: int, pe: int
) -> None:
    (event,) = named(trace, pe, name)
    site = trace.sites[pe][event["site"]]
    assert (event["kind"], event["size"], event["thread"]) == (kind, size, 0)
    assert (Path(site.file), site.line) == (Path(__file__), line_of(text))
    assert trace.meta["clock"] <= event["start"] <= end_of(event) <= time.monotonic_ns()


def test_details_stand_beside_the_name(trace: Trace) -> None:
    details = {site.name: site.details for site in trace.sites[2]}
    assert details["all_reduce"] == {
        "members": [0, 2],
        "group": "pair",
        "dtype": "int32",
        "shape": [6],
    }
    assert details["here"] == {"text": "with a text"}
    assert details["items"] == {"unit": "pieces"}
    (count,) = named(trace, 2, "items")
    assert (count["kind"], count["size"], count["duration"]) == (Kind.COUNTER, 7, 0)


@pytest.mark.parametrize(
    ("ender", "pe", "wait"), [("signal_op", 1, "wait_until"), ("put_signal", 2, "wait_for")]
)
def test_a_wait_knows_who_ended_it(trace: Trace, ender: str, pe: int, wait: str) -> None:
    (ended,), (waited,) = named(trace, 0, ender), named(trace, pe, wait)
    assert ended["peer"] == pe
    assert waited["peer"] == 0
    assert 0 < waited["flow"] == ended["flow"] < MEETING_BIT
    assert end_of(waited) >= ended["start"]


def test_a_get_knows_who_has_put_what_it_reads(trace: Trace) -> None:
    (put,), (got,) = named(trace, 0, "put"), named(trace, 2, "get")
    assert (put["peer"], got["peer"]) == (1, 1)
    assert put["flow"] == got["flow"] != 0


def test_a_lock_knows_who_has_released_it(trace: Trace) -> None:
    (free,), (had_to_wait,) = named(trace, 0, "set_lock"), named(trace, 1, "set_lock")
    (released,) = named(trace, 0, "clear_lock")
    assert (free["flow"], free["peer"]) == (0, -1)
    assert had_to_wait["flow"] == released["flow"] != 0
    assert had_to_wait["peer"] == 0
    assert end_of(had_to_wait) >= released["start"]


def test_barriers_and_collectives_have_one_flow_at_all_members(trace: Trace) -> None:
    barriers = [named(trace, pe, "barrier") for pe in range(N)]
    assert {len(each) for each in barriers} == {3}  # sync is one
    for together in zip(*barriers, strict=True):
        assert len({int(event["flow"]) for event in together}) == 1
        assert max(event["start"] for event in together) <= min(map(end_of, together))
    (one,), (other,) = named(trace, 0, "all_reduce"), named(trace, 2, "all_reduce")
    assert one["flow"] == other["flow"] >= MEETING_BIT
    assert one["flow"] not in {int(flow) for each in barriers for flow in each["flow"]}


def test_events_of_a_thread_lie_within_each_other(trace: Trace) -> None:
    for pe in range(N):
        events = trace.events[pe]
        open_ends: list[int] = []
        for event in events[events["thread"] == 0]:
            while open_ends and open_ends[-1] <= event["start"]:
                open_ends.pop()
            assert not open_ends or end_of(event) <= open_ends[-1]
            open_ends.append(end_of(event))
    (talk,), (put,) = named(trace, 0, "talk"), named(trace, 0, "put")
    assert talk["start"] <= put["start"]
    assert end_of(put) <= end_of(talk)


# --- runs that do not end well ----------------------------------------------------------------


def one_is_killed() -> None:
    world = emu.world()
    world.barrier()
    if world.my_pe == 1:
        with emu.trace.range("before"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    world.barrier()


def nobody_signals() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int64, poison=False)
    world.wait_until(flags, emu.Cmp.EQ, 1)


def one_raises() -> None:
    world = emu.world()
    world.barrier()
    if world.my_pe == 0:
        raise ValueError("of the program")
    world.barrier()


def run(tmp_path: Path, function: object, n_pes: int = 2) -> Trace:
    path = tmp_path / "run.emutrace"
    with pytest.raises(ExceptionGroup):
        emu.launch(function, n_pes, trace=path)
    return read_trace(path)


def test_a_pe_that_is_killed_leaves_its_events(tmp_path: Path) -> None:
    trace = run(tmp_path, one_is_killed)
    assert trace.status is not None
    assert "PE 1" in trace.status
    assert len(named(trace, 1, "before")) == 1
    (ending,) = named(trace, 0, "end")
    assert trace.sites[0][ending["site"]].details == {"text": trace.status}
    last = named(trace, 0, "barrier")[-1]  # it did not end: the world was stopped
    assert trace.sites[0][last["site"]].details == {"text": "the world was stopped"}


def test_a_deadlock_leaves_the_waits_that_never_ended(tmp_path: Path) -> None:
    trace = run(tmp_path, nobody_signals)
    for pe in range(2):
        (wait,) = named(trace, pe, "wait_until")
        assert trace.sites[pe][wait["site"]].details == {"text": "the world was stopped"}
        assert wait["peer"] == -1


def test_an_error_of_the_program_is_what_ended_the_run(tmp_path: Path) -> None:
    assert "of the program" in (run(tmp_path, one_raises).status or "")


def many(count: int) -> None:
    for _ in range(count):
        with emu.trace.range("one"):
            pass


def test_events_without_room_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_TRACE_RING", "64")
    path = tmp_path / "run.emutrace"
    emu.launch(many, 1, args=(20_000,), trace=path)
    trace = read_trace(path)
    there = len(named(trace, 0, "one"))
    assert there >= 64
    assert trace.lost[0] > 0
    assert there + trace.lost[0] == 20_000


@pytest.mark.parametrize("text", ["0", "63", "many", str(1 << 25)])
def test_a_ring_of_another_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("EMU_TRACE_RING", text)
    with pytest.raises(emu.CommError, match="EMU_TRACE_RING must"):
        emu.launch(many, 1, args=(1,), trace=tmp_path / "run.emutrace")


# --- arguments, and worlds that are not recorded ----------------------------------------------


@pytest.mark.parametrize("value", [3, [3], "run.txt", ["a.json", "b"], "", b"a.json", None, {}])
def test_what_is_no_file_of_a_trace_is_refused(value: object) -> None:
    with pytest.raises(emu.CommError, match="trace must be"):
        emu.launch(many, 1, args=(1,), trace=value)


def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(emu.trace.TraceFileError, match="cannot be written"):
        emu.launch(many, 1, args=(1,), trace=tmp_path / "no" / "a.emutrace")


def plain() -> list[str]:
    world = emu.world()
    group = world.group("all", range(world.n_pes))
    with emu.trace.range("nothing"):
        emu.trace.instant("nothing")
        emu.trace.counter("nothing", 1)
    assert recording.active is None
    return [f"{type(each).__module__}.{type(each).__name__}" for each in (world, group)]


def test_nothing_of_it_is_there_without_a_trace() -> None:
    names = [f"{kind.__module__}.{kind.__name__}" for kind in (World, Group)]
    assert emu.launch(plain, 1) == [names]


WRONG: list[Callable[[], object]] = [
    lambda: emu.trace.range(3),
    lambda: emu.trace.instant(None),
    lambda: emu.trace.instant("a", 3),
    lambda: emu.trace.counter("a", 1.5),
    lambda: emu.trace.counter("a", 1 << 63),
    lambda: emu.trace.counter(b"a", 1),
    lambda: emu.trace.counter("a", 1, unit=None),
]


def test_wrong_arguments_are_named() -> None:
    for call in WRONG:
        with pytest.raises(emu.trace.TraceError, match="must be"):
            call()
