"""Operations that record themselves in one compiled call leave the records of those that are recorded around."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.world.group import Group
from emu.comm.world.world import World
from emu.trace.events import MEETING_BIT, Kind
from emu.trace.reading import Trace, read_trace

X = np.ones((2, 3), np.float32)
ROWS = np.zeros((1, 3), np.float32)
BIG = np.ones(1 << 16, np.float32)  # more than is put with the GIL held

Operation = Callable[[Any, Any, Any, Any, Any], Any]
OPERATIONS: dict[str, Operation] = {
    "put": lambda w, a, b, s, u: w.put(a, X, 0),
    "put much": lambda w, a, b, s, u: w.put(b, BIG, 0),
    "put_nbi": lambda w, a, b, s, u: w.put_nbi(a, X, 0),
    "put added": lambda w, a, b, s, u: w.put(a, X, 0, op=emu.AtomicOp.ADD),
    "put a part": lambda w, a, b, s, u: w.put(a, X[:1], 0, offsets=(1, 0)),
    "put rows": lambda w, a, b, s, u: w._store_rows(a.offset, X[1:], 0),
    "put many rows": lambda w, a, b, s, u: w._store_rows(b.offset, BIG, 0),
    "get rows": lambda w, a, b, s, u: (w._load_rows(a.offset, ROWS, 0), ROWS.tolist()),
    "get": lambda w, a, b, s, u: w.get(a, 0),
    "get much": lambda w, a, b, s, u: w.get(b, 0),
    "signal_op": lambda w, a, b, s, u: w.signal_op(s, 4, 0, index=2),
    "signal added": lambda w, a, b, s, u: w.signal_op(s, 1, 0, op=emu.AtomicOp.ADD),
    "signal unsigned": lambda w, a, b, s, u: w.signal_op(u, (1 << 32) - 1, 0),
    "put_signal": lambda w, a, b, s, u: w.put_signal(a, X, 0, s, 7, index=1),
    "put_signal much": lambda w, a, b, s, u: w.put_signal(b, BIG, 0, s, 7),
    "put_signal_nbi": lambda w, a, b, s, u: w.put_signal_nbi(a, X, 0, s, 7),
    "fetch_add": lambda w, a, b, s, u: w.fetch_add(s, 3, 0, index=1),
    "fetch_add unsigned": lambda w, a, b, s, u: w.fetch_add(u, 3, 0),
    "swap": lambda w, a, b, s, u: w.swap(s, -9, 0),
    "compare_swap": lambda w, a, b, s, u: w.compare_swap(s, 0, 1, 0, index=3),
    "wait_until": lambda w, a, b, s, u: (
        w.signal_op(s, 5, 0, index=1),
        w.wait_until(s, emu.Cmp.NE, 99, index=1),
    ),
    "wait_until least": lambda w, a, b, s, u: (
        w.signal_op(s, -(1 << 63), 0),
        w.wait_until(s, emu.Cmp.LT, 0),
    ),
    "wait_until unsigned": lambda w, a, b, s, u: (
        w.signal_op(u, 1 << 31, 0),
        w.wait_until(u, emu.Cmp.NE, 99),
    ),
    "test": lambda w, a, b, s, u: (
        w.swap(s, 5, 0, index=1),
        w.test(s, emu.Cmp.NE, 99, index=1),
    ),
    "test that fails": lambda w, a, b, s, u: w.test(s, emu.Cmp.EQ, 99),
    "fence": lambda w, a, b, s, u: w.fence(),
    "quiet": lambda w, a, b, s, u: w.quiet(),
    "barrier": lambda w, a, b, s, u: w.barrier(),
    "sync": lambda w, a, b, s, u: w.sync(),
    "all_reduce": lambda w, a, b, s, u: w.all_reduce(X),
    "all_reduce into": lambda w, a, b, s, u: w.all_reduce(X, out=np.empty((2, 3), np.float32)),
    "all_reduce of the heap": lambda w, a, b, s, u: w.all_reduce(a),
    "all_reduce with steps": lambda w, a, b, s, u: w.all_reduce(X[:, ::2], "max"),
    "reduce_scatter": lambda w, a, b, s, u: w.reduce_scatter(X[:1]),
    "all_gather": lambda w, a, b, s, u: w.all_gather(X),
    "all_to_all": lambda w, a, b, s, u: w.all_to_all(X[:1]),
    "broadcast": lambda w, a, b, s, u: w.broadcast(X, 0),
}


def repeat(count: int) -> list[tuple[str, list[str]]]:
    """Do each operation at one line, and return what it has returned each time."""
    world = emu.world()
    a, b = world.alloc((2, 3), np.float32), world.alloc(BIG.size, np.float32)
    s, u = world.alloc(4, np.int64, poison=False), world.alloc(1, np.uint32, poison=False)
    given = []
    for name, operation in OPERATIONS.items():
        for array in (a, b, s, u):
            array.local[...] = 0
        with emu.trace.range(name):
            given.append((name, [repr(operation(world, a, b, s, u)) for _ in range(count)]))
    return given


class Shape(tuple[Any, ...]):
    """An event without its times."""


def shapes(trace: Trace, pe: int = 0) -> dict[str, list[Shape]]:
    """What lies in each range, in order."""
    events, sites = trace.events[pe], trace.sites[pe]
    found: dict[str, list[Shape]] = {}
    for span in events[events["kind"] == Kind.RANGE]:
        begin, end = span["start"], span["start"] + span["duration"]
        within = (events["start"] >= begin) & (events["start"] <= end)
        within &= events["kind"] != Kind.RANGE
        within &= ~np.isin(events["kind"], [Kind.COMPILE, Kind.ALLOCATE])
        rows = np.sort(events[within], order="start", kind="stable")
        found[sites[span["site"]].name] = [
            Shape(
                (
                    sites[row["site"]].name,
                    sites[row["site"]].line,
                    sites[row["site"]].details,
                    *(int(row[key]) for key in ("kind", "thread", "size", "peer")),
                    bool(row["flow"] & MEETING_BIT),
                    int(row["flow"] > 0),
                )
            )
            for row in rows
        ]
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Trace]:
    """What a recorded run has returned, and its trace."""
    path = tmp_path_factory.mktemp("run") / "a.emutrace"
    (given,) = emu.launch(repeat, 1, args=(4,), trace=path)
    return given, read_trace(path)


def test_results_are_those_of_a_run_that_is_not_recorded(run: tuple[Any, Trace]) -> None:
    assert run[0] == emu.launch(repeat, 1, args=(4,))[0]


def test_what_is_repeated_leaves_equal_records(run: tuple[Any, Trace]) -> None:
    """The first operation at a line is recorded around, the others are by the compiled call."""
    found = shapes(run[1])
    assert list(found) == list(OPERATIONS)
    for name, events in found.items():
        assert len(events) % 4 == 0, name
        assert bool(events) != (name == "test that fails"), name
        step = len(events) // 4
        for place, event in enumerate(events[step:]):
            assert event == events[place % step], name


def test_flows_are_numbered_apart(run: tuple[Any, Trace]) -> None:
    events = run[1].events[0]
    begun = events[np.isin(events["kind"], [Kind.PUT, Kind.SIGNAL])]["flow"]
    assert len(begun) > 40
    assert len(set(begun.tolist())) == len(begun)
    meetings = events[np.isin(events["kind"], [Kind.BARRIER, Kind.COLLECTIVE])]["flow"]
    assert len(set(meetings.tolist())) == len(meetings)


def test_a_wait_follows_the_signal_before_it(run: tuple[Any, Trace]) -> None:
    trace = run[1]
    events, sites = trace.events[0], trace.sites[0]
    (span,) = (
        e for e in events if e["kind"] == Kind.RANGE and sites[e["site"]].name == "wait_until least"
    )
    inside = events[(events["start"] > span["start"]) & (events["kind"] != Kind.RANGE)]
    rows = inside[inside["start"] < span["start"] + span["duration"]]
    for signal, wait in zip(
        rows[rows["kind"] == Kind.SIGNAL], rows[rows["kind"] == Kind.WAIT], strict=True
    ):
        assert wait["flow"] == signal["flow"] != 0
        assert wait["peer"] == 0


def test_wrong_arguments_at_a_line_that_is_known(tmp_path: Path) -> None:
    emu.launch(_wrong_at_known_lines, 1, trace=tmp_path / "a.emutrace")


def _wrong_at_known_lines() -> None:
    world = emu.world()
    a, s = world.alloc((2, 3), np.float32), world.alloc(4, np.int64, poison=False)
    calls: list[tuple[str, tuple[Any, ...], list[tuple[Any, ...]]]] = [
        ("put", (a, X, 0), [(a, X, 1), (a, X, -1), (a, X[0], 0), (None, X, 0), (a, X, "0")]),
        ("get", (a, 0), [(a, 1), (a, None), (X, 0)]),
        ("signal_op", (s, 1, 0), [(s, 1, 4), (s, 1 << 63, 0), (s, "1", 0), (a, 1, 0)]),
        ("put_signal", (a, X, 0, s, 1), [(a, X, 0, s, 1 << 63), (a, X, 9, s, 1), (a, X, 0, a, 1)]),
        ("fetch_add", (s, 1, 0), [(s, 1 << 63, 0), (s, 1, 2), (s, 1.5, 0), (a, 1, 0)]),
        ("compare_swap", (s, 0, 1, 0), [(s, 1 << 63, 1, 0), (s, 0, None, 0)]),
        (
            "wait_until",
            (s, emu.Cmp.NE, 77),
            [(s, "NE", 1), (s, emu.Cmp.NE, 1 << 63), (a, emu.Cmp.NE, 1)],
        ),
        ("test", (s, emu.Cmp.NE, 77), [(s, "NE", 1), (s, emu.Cmp.NE, 1 << 63)]),
        ("all_reduce", (X,), [(X, "no"), ("x",), (X, [])]),
        ("broadcast", (X, 0), [(X, 5), (X, "0")]),
    ]
    for name, right, wrongs in calls:
        for wrong in wrongs:
            said = []
            for method in (getattr(world, name), getattr(Group, name).__get__(world)):
                for given in (right, right, wrong):
                    try:
                        method(*given)
                    except emu.CommError as error:
                        assert given is wrong
                        said.append(str(error))
            assert len(said) == 2, (name, wrong)
            assert said[0] == said[1]


def _late(world: World, flags: Any) -> int:
    """Wait for what comes late, at one line, and be counted late at barriers and collectives."""
    seen = 0
    for step in range(1, 4):
        if world.my_pe == 0:
            time.sleep(0.15)  # more than two slices of a sleep
            world.signal_op(flags, step, 1)
        else:
            seen = world.wait_until(flags, emu.Cmp.EQ, step)
        if world.my_pe == 0:
            time.sleep(0.15)
        world.barrier()
        if world.my_pe == 0:
            time.sleep(0.15)
        world.all_reduce(X)
    return seen


def _late_and_apart() -> Any:
    world = emu.world()
    flags = world.alloc(1, np.int64, poison=False)
    seen = _late(world, flags)
    sums = []
    for step in range(6):  # from the third on PE 1's is not prepared, while PE 0's is
        given = X if world.my_pe == 0 or step < 3 else np.ones((3, 2), np.float32).T
        sums.append(world.all_reduce(given).tolist())
    return seen, sums


def test_what_takes_long_is_one_event_and_members_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    results = emu.launch(_late_and_apart, 2, trace=path)
    assert results[1][0] == 3
    assert results[0][1] == results[1][1] == [[[2.0] * 3] * 2] * 6
    trace = read_trace(path)
    meetings = []
    for pe in range(2):
        events = trace.events[pe]
        found = events[np.isin(events["kind"], [Kind.BARRIER, Kind.COLLECTIVE])]
        assert len(found) >= 12
        meetings.append(found["flow"].tolist())
        assert len(set(meetings[-1])) == len(meetings[-1])
    assert meetings[0] == meetings[1]
    waits = trace.events[1][trace.events[1]["kind"] == Kind.WAIT]
    signals = trace.events[0][trace.events[0]["kind"] == Kind.SIGNAL]
    assert waits["flow"].tolist() == signals["flow"].tolist()
    assert (
        waits["duration"] > 100_000_000
    ).sum() >= 2  # those whose first slice was over count from their begin


def test_other_threads_of_the_program_are_recorded_around(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    emu.launch(_in_a_thread, 1, trace=path)
    trace = read_trace(path)
    puts = trace.events[0][trace.events[0]["kind"] == Kind.PUT]
    assert len(puts) == 6
    assert len(set(puts["thread"].tolist())) == 2


def _in_a_thread() -> None:
    world = emu.world()
    a = world.alloc((2, 3), np.float32)

    def put() -> None:
        for _ in range(3):
            world.put(a, X, 0)

    put()
    thread = threading.Thread(target=put)
    thread.start()
    thread.join()


def _file_of_put() -> str:
    method: Any = type(emu.world()).put
    return Path(method.__code__.co_filename).name


def test_only_plain_groups_have_these_methods(tmp_path: Path) -> None:
    plain = emu.launch(_file_of_put, 1, trace=tmp_path / "a.emutrace")
    link = emu.Link(latency=1e-6, bandwidth=1e9)
    linked = emu.launch(_file_of_put, 1, trace=tmp_path / "b.emutrace", link=link)
    assert plain == ["fused_operations.py"]
    assert linked == ["operations.py"]
