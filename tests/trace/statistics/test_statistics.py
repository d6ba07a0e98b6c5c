"""Figures of random traces are those of the slow definition, and those of a known trace are what one expects."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import trace_definition as definition
from hypothesis import given, settings
from traces import SITES, Row, busy_traces, random_traces, repeated, trace_of, training_loop

from emu.trace.errors import TraceFileError
from emu.trace.events import Kind, Site, Thread
from emu.trace.reading import Trace
from emu.trace.statistics.summary import statistics_of


def compare(trace: Trace) -> None:
    found = statistics_of(trace)
    events = definition.events_of(trace)
    assert found.nesting.self_time.tolist() == definition.self_times(events)
    assert found.causes.tolist() == definition.causes(events)
    assert [asdict(each) for each in found.activities] == definition.activities(trace)
    sizes, calls, elsewhere = definition.moved(trace)
    assert (found.moved.bytes.tolist(), found.moved.calls.tolist()) == (sizes, calls)
    assert found.moved.elsewhere == elsewhere
    path = found.path
    steps = [
        tuple(map(int, step))
        for step in zip(path.start, path.end, path.event, path.pe, strict=True)
    ]
    assert steps == definition.path(trace)
    assert sum(end - start for start, end, *_ in steps) == found.elapsed
    compare_totals(trace, found)


def compare_totals(trace: Trace, found) -> None:
    """The sums by kind and by line are those of the events."""
    events = definition.events_of(trace)
    own = definition.self_times(events)
    kinds = {row.name: row for row in found.by_kind()}
    assert {e.kind.name for e in events} == set(kinds)
    for name, row in kinds.items():
        of_kind = [e for e in events if e.kind.name == name]
        assert row.count == len(of_kind)
        assert row.total == sum(e.end - e.start for e in of_kind)
        assert row.self_time == sum(own[e.number] for e in of_kind)
        assert row.longest == max(e.end - e.start for e in of_kind)
        assert row.pes == len({e.pe for e in of_kind})
        moves = of_kind[0].kind in definition.WORK["communicate"]
        assert row.bytes == (sum(e.size for e in of_kind) if moves else 0)
    for rows in (found.by_kind(), found.by_line()):
        assert sum(row.count for row in rows) == len(events)
        assert sum(row.self_time for row in rows) == sum(own)
    launched = [e for e in events if e.kind == Kind.LAUNCH]
    assert sum(row.count for row in found.by_kernel()) == len(launched)
    assert sum(row.time for row in found.path_rows) == found.elapsed


@settings(deadline=None)
@given(random_traces())
def test_figures_of_senseless_traces_are_those_of_the_definition(trace: Trace) -> None:
    compare(trace)


@settings(deadline=None)
@given(busy_traces())
def test_figures_of_pes_that_wait_for_each_other_are_those_of_the_definition(trace: Trace) -> None:
    compare(trace)


def test_figures_of_a_training_loop_are_those_of_the_definition() -> None:
    compare(training_loop(3, 2))


def test_a_trace_without_events_has_figures() -> None:
    found = statistics_of(trace_of([[], []], [[], []]))
    assert (found.elapsed, found.imbalance, found.by_kind(), found.path_rows) == (0, None, [], [])
    assert found.to_json()["bytes"] == [[0, 0], [0, 0]]


def row(start: int, end: int, kind: Kind, **more: int) -> Row:
    return (
        *(start, end - start, more.get("size", 0), more.get("flow", 0), more.get("site", 0)),
        *(int(kind), more.get("thread", 0), more.get("peer", -1)),
    )


def test_what_lies_within_an_event_is_not_its_own_time() -> None:
    inner = [row(0, 100, Kind.OP), row(10, 30, Kind.PUT, size=5, peer=0), row(12, 20, Kind.WAIT)]
    found = statistics_of(trace_of([inner], [SITES]))
    assert found.nesting.self_time.tolist() == [80, 12, 8]
    assert found.nesting.depth.tolist() == [0, 1, 2]
    (pe,) = found.activities
    assert (pe.compute, pe.communicate, pe.wait, pe.overlap) == (80, 12, 8, 0)


def test_overlap_and_bubbles_are_seen_across_threads() -> None:
    tasks = [
        row(0, 40, Kind.PUT, thread=Thread.TASKS, size=1 << 20, peer=1),
        row(10, 30, Kind.LAUNCH),
        row(35, 60, Kind.WAIT),
        row(80, 90, Kind.RANGE),
    ]
    found = statistics_of(trace_of([tasks, [row(0, 100, Kind.LAUNCH)]], [SITES] * 2))
    pe = found.activities[0]
    assert (pe.overlap, pe.busy, pe.bubble, pe.unrecorded) == (20, 40, 20, 40)
    assert found.imbalance == pytest.approx(100 / 70)


def test_a_collective_waits_until_its_last_member_has_come() -> None:
    rows = [[row(0, 50, Kind.COLLECTIVE, flow=9)], [row(30, 50, Kind.COLLECTIVE, flow=9)]]
    first, last = statistics_of(trace_of(rows, [SITES] * 2)).activities
    assert (first.bubble, first.communicate) == (30, 20)
    assert (last.bubble, last.communicate) == (0, 20)


def test_the_critical_path_goes_to_who_was_waited_for() -> None:
    rows = [
        [
            row(0, 10, Kind.LAUNCH),
            row(10, 62, Kind.WAIT, flow=1, site=3),
            row(62, 100, Kind.LAUNCH),
        ],
        [row(5, 50, Kind.LAUNCH, site=1), row(52, 60, Kind.SIGNAL, flow=1, site=2, peer=0)],
    ]
    found = statistics_of(trace_of(rows, [SITES] * 2))
    steps = [(step.pe, step.name, step.time) for step in found.path_rows]
    assert steps == [
        *(
            (1, "softmax", 45),
            (0, "matmul", 38),
            (1, "put_signal", 8),
            (1, "program, before its first event", 5),
        ),
        (0, "wait_until", 2),
        (1, "program, between events", 2),
    ]


def test_a_wait_of_autograd_for_the_range_that_it_runs_under_ends_the_walk() -> None:
    rows = [
        row(0, 3, Kind.WAIT, flow=1, thread=Thread.BACKWARD),
        row(2, 4, Kind.RANGE, flow=1),
        row(6, 12, Kind.WAIT),
    ]
    trace = trace_of([rows], [SITES])
    compare(trace)
    path = statistics_of(trace).path
    assert (path.start.tolist(), path.event.tolist()) == ([0, 2, 4, 6], [0, 1, -1, 2])


def test_the_critical_path_of_a_barrier_leads_to_the_last_that_came() -> None:
    rows = [
        [row(0, 20, Kind.LAUNCH), row(20, 82, Kind.BARRIER, flow=7, site=4)],
        [row(0, 80, Kind.LAUNCH, site=1), row(80, 81, Kind.BARRIER, flow=7, site=4)],
    ]
    found = statistics_of(trace_of(rows, [SITES] * 2))
    assert [(step.pe, step.name, step.time) for step in found.path_rows] == [
        (1, "softmax", 80),
        (0, "step", 2),
    ]


def test_flows_with_many_events_are_not_slow() -> None:
    many = [row(t, t + 1, Kind.WAIT if t % 2 else Kind.SIGNAL, flow=1) for t in range(20_000)]
    found = statistics_of(trace_of([many], [SITES]))
    assert found.elapsed == 20_000
    assert len(found.causes) == 20_000


def test_places_of_pes_are_joined_by_name_and_line() -> None:
    sites = [[Site("a", "x.py", 1), Site("b", "x.py", 2)], [Site("b", "x.py", 2)]]
    rows = [[row(0, 3, Kind.LAUNCH), row(3, 5, Kind.LAUNCH, site=1)], [row(0, 4, Kind.LAUNCH)]]
    found = statistics_of(trace_of(rows, sites))
    assert [(each.name, each.place, each.total, each.pes) for each in found.by_kernel()] == [
        ("b", "x.py:2", 6, 2),
        ("a", "x.py:1", 3, 1),
    ]
    assert [each.name for each in found.by_line()] == ["x.py:2", "x.py:1"]


def test_a_repeated_trace_has_the_same_shares() -> None:
    once, often = training_loop(4, 3), repeated(training_loop(4, 3), 5)
    a, b = statistics_of(once), statistics_of(often)
    assert len(b.columns.start) == 5 * len(a.columns.start)
    assert b.moved.bytes.tolist() == (5 * a.moved.bytes).tolist()
    assert [each.compute * 5 for each in a.activities] == [each.compute for each in b.activities]


@pytest.mark.parametrize(
    ("field", "value"), [("start", 1 << 62), ("duration", 1 << 62), ("start", -(1 << 62))]
)
def test_a_clock_that_no_machine_has_is_refused(field: str, value: int) -> None:
    trace = trace_of([[row(0, 1, Kind.OP)]], [SITES])
    trace.events[0][field] = value
    with pytest.raises(TraceFileError, match=f"{field} must be in .* but got {value}"):
        statistics_of(trace)


def test_a_peer_that_is_no_pe_is_nobody() -> None:
    trace = trace_of([[row(0, 1, Kind.PUT, size=4, peer=7)]], [SITES])
    found = statistics_of(trace).moved
    assert (int(np.sum(found.bytes)), found.elsewhere) == (0, 4)
