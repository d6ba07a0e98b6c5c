"""On which line of a timeline events are drawn, what is counted, and what has brought about what."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from made_traces import FLOW, write
from trace_programs import TraceMaker

from emu.trace.events import EVENT, Kind, Site
from emu.trace.lanes import FIRST_LINK, Lane, arrows_of, counters_of, lanes_of
from emu.trace.reading import Trace, read_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read_trace(write(tmp_path / "a.emutrace"))


def names_on(trace: Trace, pe: int) -> dict[str, list[str]]:
    return {
        lane.name: [trace.sites[pe][trace.events[pe]["site"][i]].name for i in indices]
        for lane, indices in lanes_of(trace, pe).items()
    }


def test_threads_and_links_have_lanes(trace: Trace) -> None:
    assert names_on(trace, 0) == {
        "program": ["step", "alloc x", "barrier", "add_kernel", "alloc x"],
        "communication server": ["all_gather"],
        "link to PE 1": ["put", "signal_op"],
    }


def test_what_overlaps_in_part_goes_to_a_second_lane(trace: Trace) -> None:
    assert names_on(trace, 1) == {
        "program": ["wait_until", "barrier", "all_reduce", "race"],
        "tasks": ["relu"],
        "tasks (2)": ["relu"],
    }


def one_thread(rows: list[tuple[int, int]]) -> Trace:
    events = np.zeros(len(rows), EVENT)
    for event, (start, duration) in zip(events, rows, strict=True):
        event["start"], event["duration"] = start, duration
    events["kind"], events["peer"] = Kind.OP, -1
    events = events[np.lexsort((-events["duration"], events["start"]))]
    return Trace({"n_pes": 1}, ((Site("x"),),), (events,), "ok", (0,))


@pytest.mark.parametrize("seed", range(20))
def test_events_of_a_lane_lie_within_each_other_or_apart_and_none_is_missing(seed: int) -> None:
    draw = random.Random(seed)
    trace = one_thread([(draw.randrange(50), draw.randrange(12)) for _ in range(60)])
    lanes = lanes_of(trace, 0)
    assert sorted(np.concatenate(list(lanes.values())).tolist()) == list(range(60))
    ends = trace.events[0]["start"] + trace.events[0]["duration"]
    for indices in lanes.values():
        for i in indices:
            for j in indices:
                a, b, c, d = (
                    trace.events[0]["start"][i],
                    ends[i],
                    trace.events[0]["start"][j],
                    ends[j],
                )
                assert not a < c < b < d, "they cross"


def test_what_nests_has_one_lane() -> None:
    trace = one_thread([(0, 100), (0, 50), (10, 10), (20, 0), (20, 30), (60, 40), (100, 5)])
    assert list(lanes_of(trace, 0)) == [Lane(0, 0)]


def test_counters_are_summed(trace: Trace) -> None:
    counters = {
        counter.name: (counter.times.tolist(), counter.values.tolist())
        for counter in counters_of(trace, 0)
    }
    assert counters == {
        "bytes in flight": ([2000, 2500], [64, 0]),
        "memory in use": ([1000, 9000], [64, 0]),
        "tokens": ([8000], [12]),
    }
    assert counters_of(trace, 1) == []


def test_an_arrow_leads_from_a_signal_to_the_wait_that_it_ended(trace: Trace) -> None:
    (arrow,) = arrows_of(trace)
    names = [
        trace.sites[pe][trace.events[pe]["site"][index]].name
        for pe, index in (arrow.source, arrow.target)
    ]
    assert names == ["signal_op", "wait_until"]
    assert arrow.flow == FLOW


def test_no_arrow_leads_to_a_counter_which_is_on_no_lane() -> None:
    trace = one_thread([(0, 5), (10, 0), (20, 5)])
    trace.events[0]["flow"] = 7
    trace.events[0]["kind"][1] = Kind.COUNTER
    (arrow,) = arrows_of(trace)
    assert (arrow.source, arrow.target) == ((0, 0), (0, 2))


def test_a_link_comes_behind_all_threads() -> None:
    assert Lane(FIRST_LINK, 0).name == "link to PE 0"
    assert Lane(FIRST_LINK + 3, 2).name == "link to PE 3 (3)"


def test_an_event_whose_peer_is_the_largest_number_is_on_a_lane() -> None:
    maker = TraceMaker(1)
    maker.then(0, Kind.PUT, 5, peer=32767, flow=7)
    trace = maker.trace()
    assert [lane.number for lane in lanes_of(trace, 0)] == [FIRST_LINK + 32767]
