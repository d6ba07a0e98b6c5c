"""The replay does what its definition says, tick by tick; and what overlaps, lags or waits shows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_programs import TraceMaker, random_trace
from trace_replay_definition import Definition

from emu.trace.events import Kind, Thread
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.links import Message
from emu.trace.prediction.replay import Replayed, replay
from emu.trace.reading import Trace


@dataclass
class PlainCosts:
    """Costs that are easy to follow."""

    trace: Trace
    launch_latency: int = 3
    launch_issue: int = 2
    factor: int = 1
    bytes_per_ns: int = 4
    latency: int = 5
    host_factor: int = 0

    def host(self, ns: int) -> int:
        return ns * self.host_factor

    def compute(self, event: tuple[int, int], recorded: int) -> int:
        return recorded * self.factor

    def launches(self, event: tuple[int, int]) -> int | None:
        kind = self.trace.events[event[0]]["kind"][event[1]]
        if kind == Kind.OP:  # without counts, or of a number of kernels
            return (None, 0, 1, 3)[event[1] % 4]
        return 1 if kind == Kind.LAUNCH else None

    def message(self, nbytes: int) -> Message:
        return Message(nbytes // self.bytes_per_ns, 2 * nbytes // self.bytes_per_ns, self.latency)

    def copy(self, nbytes: int) -> int:
        return nbytes // 8

    def meeting(self, event: tuple[int, int], members: int) -> int:
        return 2 * members


def times(replayed: Replayed, pe: int) -> list[tuple[int, int]]:
    return list(zip(replayed.begin[pe].tolist(), replayed.end[pe].tolist(), strict=True))


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    n_pes=st.integers(1, 4),
    length=st.integers(1, 30),
    latency=st.integers(0, 6),
    issue=st.integers(0, 4),
    host=st.integers(0, 2),
)
def test_it_does_what_its_definition_does_tick_by_tick(
    seed, n_pes, length, latency, issue, host
) -> None:
    trace = random_trace(seed, n_pes, length)
    costs = PlainCosts(trace, launch_latency=latency, launch_issue=issue, host_factor=host)
    expected = Definition(trace, costs).run()
    replayed = replay(trace, costs)
    found = {(pe, i): times(replayed, pe)[i] for pe, i in expected}
    assert found == expected


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), n_pes=st.integers(1, 4), length=st.integers(1, 40))
def test_events_end_after_they_begin_and_lie_within_what_contained_them(
    seed, n_pes, length
) -> None:
    trace = random_trace(seed, n_pes, length)
    replayed = replay(trace, PlainCosts(trace))
    for pe in range(n_pes):
        assert (replayed.end[pe] >= replayed.begin[pe]).all()
        assert (replayed.waited[pe] >= 0).all()
        events = trace.events[pe]
        program = [i for i in range(len(events)) if events["thread"][i] == Thread.PROGRAM]
        for i in program:
            for j in program:
                start, end = events["start"], events["start"] + events["duration"]
                inside = start[i] < start[j] and end[j] < end[i] and events["kind"][i] == Kind.RANGE
                if inside:
                    assert replayed.begin[pe][i] <= replayed.begin[pe][j]
                    assert replayed.end[pe][j] <= replayed.end[pe][i]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), n_pes=st.integers(1, 4), length=st.integers(1, 40))
def test_members_of_a_meeting_end_together_and_waits_after_their_signal(
    seed, n_pes, length
) -> None:
    trace = random_trace(seed, n_pes, length)
    replayed = replay(trace, PlainCosts(trace))
    ends: dict[int, set[int]] = {}
    signals: dict[int, int] = {}
    for pe, events in enumerate(trace.events):
        for i, row in enumerate(events):
            if row["kind"] in (Kind.BARRIER, Kind.COLLECTIVE):
                ends.setdefault(int(row["flow"]), set()).add(int(replayed.end[pe][i]))
            if row["kind"] == Kind.SIGNAL:
                signals[int(row["flow"])] = int(replayed.end[pe][i])
    assert all(len(each) == 1 for each in ends.values())
    for pe, events in enumerate(trace.events):
        for i, row in enumerate(events):
            if row["kind"] == Kind.WAIT:
                assert replayed.end[pe][i] >= signals[int(row["flow"])]


def test_kernels_follow_each_other_without_the_gaps_of_the_host() -> None:
    maker = TraceMaker(1)
    for _ in range(3):
        maker.then(0, Kind.LAUNCH, 100, gap=1000)
    trace = maker.trace()
    replayed = replay(trace, PlainCosts(trace))
    assert times(replayed, 0) == [(3, 103), (103, 203), (203, 303)]
    kept = replay(trace, PlainCosts(trace, host_factor=1))
    assert times(kept, 0)[1][0] - times(kept, 0)[0][1] > 800


def test_short_kernels_are_bound_by_their_launches() -> None:
    maker = TraceMaker(1)
    for _ in range(4):
        maker.then(0, Kind.LAUNCH, 1)
    trace = maker.trace()
    begins = [
        begin
        for begin, _ in times(replay(trace, PlainCosts(trace, launch_latency=9, launch_issue=5)), 0)
    ]
    assert begins == [9, 14, 19, 24]


def test_a_straggler_delays_those_who_meet_it() -> None:
    maker = TraceMaker(3)
    for pe, duration in enumerate((10, 500, 20)):
        maker.then(pe, Kind.LAUNCH, duration)
    for pe in range(3):
        maker.add(pe, Kind.BARRIER, 600, 10, flow=1)
    trace = maker.trace()
    replayed = replay(trace, PlainCosts(trace))
    assert {int(end[1]) for end in replayed.end} == {3 + 500 + 6}
    assert [int(waited[1]) for waited in replayed.waited] == [490, 0, 480]


def test_what_is_sent_while_a_kernel_runs_is_hidden() -> None:
    maker = TraceMaker(2)
    maker.then(0, Kind.LAUNCH, 1000)
    maker.add(0, Kind.PUT, 1, 900, size=2000, peer=1, thread=Thread.TASKS)
    maker.then(0, Kind.COMPLETE, 5)
    trace = maker.trace()
    replayed = replay(trace, PlainCosts(trace))
    assert (
        replayed.total == 3 + 1000 + 5
        or replayed.total == 3 + 1000 + 1 + 4
        or replayed.total <= 1010
    )
    alone = replay(trace, PlainCosts(trace, factor=0))
    assert alone.total >= 1000  # 2000 bytes at 2 bytes a ns on the path


def test_messages_share_a_port() -> None:
    maker = TraceMaker(3)
    for pe in (1, 2):
        maker.then(pe, Kind.PUT, 5, size=400, peer=0)
    trace = maker.trace()
    replayed = replay(trace, PlainCosts(trace))
    assert times(replayed, 1) == [(0, 200)]  # its path is the slower
    assert times(replayed, 2) == [(0, 300)]  # waits for the port into PE 0, which 100 ns occupy


def test_a_kernel_that_communicates_computes_between() -> None:
    maker = TraceMaker(2)
    maker.add(0, Kind.LAUNCH, 0, 100)
    maker.add(0, Kind.SIGNAL, 30, 10, peer=1, flow=7)
    maker.add(1, Kind.WAIT, 0, 41, flow=7)
    trace = maker.trace()
    replayed = replay(trace, PlainCosts(trace, factor=10))
    # 900 ns in the proportion 30 to 60, the signal after the first third.
    assert times(replayed, 0) == [(3, 903), (303, 303)]
    assert times(replayed, 1) == [(0, 308)]


def test_turns_follow_what_is_computed_of_them_and_come_before_what_needs_them() -> None:
    def turn(pe: int, number: int, start: int, length: int, **how: object) -> None:
        maker.add(pe, Kind.TURN, start, length, details={"turn": number}, **how)  # type: ignore[arg-type]

    maker = TraceMaker(2)
    for pe in range(2):  # computed first, then moved
        turn(pe, 0, 0, 100, name="product 0")
        turn(pe, 0, 100, 10, name="move 0", flow=1, thread=Thread.SERVER)
    for pe in range(2):  # moved first, then computed
        turn(pe, 1, 110, 20, name="move 1", flow=2, thread=Thread.SERVER)
        turn(pe, 1, 130, 50, name="product 1")
    maker.rows[1][0] = (*maker.rows[1][0][:1], 90, *maker.rows[1][0][2:])
    trace = maker.trace()
    for pe in range(2):
        shown = dict(
            zip(
                (trace.sites[pe][s].name for s in trace.events[pe]["site"]),
                times(replay(trace, PlainCosts(trace)), pe),
                strict=True,
            )
        )
        assert shown["product 0"] == (0, (100, 90)[pe])
        assert shown["move 0"] == (
            (100, 90)[pe],
            104,
        )  # both have come at 100, and 4 ns for two members
        assert shown["move 1"] == (104, 108)
        assert shown["product 1"] == (108, 158)


def test_a_wait_without_a_flow_ends_after_what_its_server_did() -> None:
    maker = TraceMaker(2)
    maker.add(0, Kind.LAUNCH, 0, 10)
    maker.add(0, Kind.TURN, 5, 30, size=800, peer=1, thread=Thread.SERVER)
    maker.add(0, Kind.WAIT, 10, 26)
    trace = maker.trace()
    replayed = replay(trace, PlainCosts(trace))
    assert replayed.unmatched == []
    assert replayed.end[0].max() == 3 + 400 + 5


def test_a_wait_of_which_nothing_is_known_takes_no_time_and_is_told() -> None:
    maker = TraceMaker(1)
    maker.then(0, Kind.WAIT, 50, flow=9)
    replayed = replay(maker.trace(), PlainCosts(maker.trace()))
    assert (replayed.total, replayed.unmatched) == (0, [(0, 0)])


def test_a_quiet_waits_for_the_put_that_arrives_last_not_for_the_last_put() -> None:
    maker = TraceMaker(3)
    maker.add(
        0, Kind.PUT, 0, 5, size=400, peer=1, thread=Thread.TASKS
    )  # begins with the kernel, at 3
    maker.then(0, Kind.LAUNCH, 10)
    maker.then(0, Kind.PUT, 5, size=8, peer=2)  # arrives at 112
    maker.then(0, Kind.COMPLETE, 5)
    trace = maker.trace()
    assert int(replay(trace, PlainCosts(trace)).end[0].max()) == 3 + 205


def test_a_turn_takes_its_share_from_each_of_the_others() -> None:
    maker = TraceMaker(4)
    maker.add(0, Kind.TURN, 0, 5, size=34, thread=Thread.SERVER)
    trace = maker.trace()
    # 12 bytes of each: 3 ns of the port into PE 0, 6 of each path.
    assert times(replay(trace, PlainCosts(trace)), 0) == [(0, 3 + 3 + 6 + 5)]


def test_a_signal_that_began_after_a_wait_had_ended_has_not_ended_it() -> None:
    maker = TraceMaker(2)
    maker.then(0, Kind.WAIT, 5, flow=1)
    maker.add(1, Kind.SIGNAL, 50, 5, peer=0, flow=1)
    replayed = replay(maker.trace(), PlainCosts(maker.trace()))
    assert (times(replayed, 0), replayed.unmatched) == ([(0, 0)], [(0, 0)])


def test_an_empty_trace_takes_no_time() -> None:
    trace = TraceMaker(2).trace()
    assert replay(trace, PlainCosts(trace)).total == 0


def test_events_that_wait_for_each_other_are_refused() -> None:
    # Not of a run: each wait comes before the signal that ends the other, at one moment.
    maker = TraceMaker(2)
    for pe in range(2):
        maker.add(pe, Kind.WAIT, 0, 10, flow=1 + pe)
        maker.add(pe, Kind.SIGNAL, 10, 5, peer=1 - pe, flow=2 - pe)
    with pytest.raises(
        PredictionError, match=r"event 0 of PE 0 \(WAIT, thread PROGRAM\) waits for events"
    ):
        replay(maker.trace(), PlainCosts(maker.trace()))


def test_a_test_behind_a_wait_that_was_ended_looks_again_and_is_no_unknown_wait() -> None:
    maker = TraceMaker(2)
    maker.add(0, Kind.SIGNAL, 10, 2, peer=1, flow=7)
    maker.add(1, Kind.WAIT, 0, 12, flow=7, name="wait_until")
    maker.then(1, Kind.WAIT, 1, name="test")
    maker.then(1, Kind.WAIT, 1, name="test_all")
    maker.then(1, Kind.LAUNCH, 4)
    maker.then(1, Kind.WAIT, 1, name="test")
    maker.then(1, Kind.WAIT, 1, name="wait_until")
    trace = maker.trace()
    found = replay(trace, PlainCosts(trace))
    assert found.unmatched == [(1, 4), (1, 5)]
    ends = found.end[1].tolist()
    assert ends[0] == ends[1] == ends[2]
