"""Which events of a trace end only after others.

* Members of a barrier, a collective or a turn (one flow) end after all of them have begun.
* A wait, or a wait for a lock, ends after what has ended it: the other events of its flow. Without a flow: after what another lane of its PE ended last while
  it waited.
* A test that held, directly behind a wait of which it is known what ended it, looks at the same words again: it ends after nothing else.
* Any other event ends after those of its flow that had begun before it, and ended before it.
* A turn of a server begins after what its PE has computed for that turn, and what is computed of a turn begins after it has come.
* What is not on the lane of the program begins after the last event that the program had begun by then.

Each edge leads from an earlier moment of the recorded run to a later one, so that no circle can be.

Internal: names may change in any release.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from emu.trace.events import Kind, Thread
from emu.trace.prediction.steps import Do, PeSteps, Step
from emu.trace.reading import Trace

Event = tuple[int, int]
"""PE, and index among its events."""

_WAITS = (Kind.WAIT, Kind.LOCK)
_MEETINGS = (Kind.BARRIER, Kind.COLLECTIVE, Kind.TURN)


@dataclass
class Dependencies:
    """Edges.

    Attributes:
        ends_after: For an event, those whose effect it ends after.
        begins_after: For an event, the one that must have begun.
        begins_when: For an event, the one whose effect it begins after.
        meetings: For a member of a barrier, a collective or a turn, the events of all members.
        unmatched: Waits of which nothing is known that ended them.
    """

    ends_after: dict[Event, list[Event]] = field(default_factory=dict)
    begins_after: dict[Event, Event] = field(default_factory=dict)
    begins_when: dict[Event, Event] = field(default_factory=dict)
    meetings: dict[Event, tuple[Event, ...]] = field(default_factory=dict)
    unmatched: list[Event] = field(default_factory=list)


def dependencies_of(trace: Trace, steps: Sequence[PeSteps]) -> Dependencies:
    """Return the edges between the events that are steps."""
    found = Dependencies()
    flows: dict[int, list[Event]] = {}
    without: list[Event] = []
    for pe, of_pe in enumerate(steps):
        flow, kind = trace.events[pe]["flow"].tolist(), trace.events[pe]["kind"].tolist()
        for lane in of_pe.lanes:
            is_known = (
                False  # whether the event before is a wait of which it is known what ended it
            )
            for step in lane.steps:
                if step.do not in (Do.EVENT, Do.OPEN):
                    continue
                was_known, is_known = is_known, False
                if kind[step.event] in _WAITS and step.do is Do.EVENT:
                    is_test = _is_test(trace, pe, step.event)
                    is_known = bool(flow[step.event]) or (is_test and was_known)
                    if is_known and not flow[step.event]:
                        continue
                if flow[step.event] and not (kind[step.event] == Kind.TURN and step.do is Do.OPEN):
                    flows.setdefault(flow[step.event], []).append((pe, step.event))
                elif kind[step.event] in _WAITS and step.do is Do.EVENT:
                    without.append((pe, step.event))
        _begins(trace, pe, of_pe, found)
        _turns(trace, pe, of_pe, found)
    for events in flows.values():
        _flow(trace, events, found)
    _by_time(trace, without, steps, found)
    return found


def _is_test(trace: Trace, pe: int, event: int) -> bool:
    """Return whether an event is a test that held, which waits for nothing."""
    return trace.sites[pe][int(trace.events[pe]["site"][event])].name.startswith("test")


def _flow(trace: Trace, events: list[Event], found: Dependencies) -> None:
    kinds = {event: int(trace.events[event[0]]["kind"][event[1]]) for event in events}
    if any(kind in _MEETINGS for kind in kinds.values()):
        members = tuple(event for event in events if kinds[event] in _MEETINGS)
        found.meetings |= dict.fromkeys(members, members)
        return
    spans = {event: _span(trace, event) for event in events}
    others = sorted((e for e in events if kinds[e] not in _WAITS), key=lambda e: (spans[e], e))
    waits = [event for event in events if kinds[event] in _WAITS]
    if not others:
        others, waits = sorted(waits, key=lambda e: (spans[e], e)), []
        if kinds[others[0]] == Kind.WAIT:
            found.unmatched.append(others[0])
    for earlier, later in pairwise(others):
        if spans[earlier][1] <= spans[later][1]:
            found.ends_after.setdefault(later, []).append(earlier)
    for wait in waits:
        causes = [event for event in others if spans[event][0] <= spans[wait][1]]
        if causes:
            found.ends_after[wait] = causes
        else:
            found.unmatched.append(wait)


def _by_time(
    trace: Trace, waits: Sequence[Event], steps: Sequence[PeSteps], found: Dependencies
) -> None:
    """Let waits without a flow end after what another lane of their PE ended last while they waited."""
    ended: dict[int, list[tuple[int, int, int]]] = {}
    for pe, index in waits:
        if pe not in ended:
            ended[pe] = sorted(
                (_span(trace, (pe, step.event))[1], step.event, lane.thread)
                for lane in steps[pe].lanes
                for step in lane.steps
                if step.do is Do.EVENT
            )
        begin, end = _span(trace, (pe, index))
        thread = trace.events[pe]["thread"][index]
        place = bisect.bisect_right(ended[pe], (end, len(trace.events[pe]), 0))
        while place and ended[pe][place - 1][0] > begin:
            place -= 1
            if ended[pe][place][2] != thread:
                found.ends_after[pe, index] = [(pe, ended[pe][place][1])]
                break
        else:
            found.unmatched.append((pe, index))


def _begins(trace: Trace, pe: int, steps: PeSteps, found: Dependencies) -> None:
    start = trace.events[pe]["start"].tolist()
    program = sorted(_begun(steps.lanes[0].steps, start))
    for lane in steps.lanes[1:]:
        for step in lane.steps:
            if step.do in (Do.EVENT, Do.OPEN):
                place = bisect.bisect_right(program, (start[step.event], len(start)))
                if place:
                    found.begins_after[pe, step.event] = (pe, program[place - 1][1])


def _turns(trace: Trace, pe: int, steps: PeSteps, found: Dependencies) -> None:
    """Let turns of the server and what the program computes of them follow each other as they did."""
    events = trace.events[pe]
    ended: dict[tuple[bool, int], list[tuple[int, int]]] = {}
    turns: list[tuple[int, int, bool, int]] = []
    for lane in steps.lanes:
        for step in lane.steps:
            if step.do is not Do.EVENT or events["kind"][step.event] != Kind.TURN:
                continue
            number = (trace.sites[pe][int(events["site"][step.event])].details or {}).get("turn")
            if isinstance(number, int):
                begin, end = _span(trace, (pe, step.event))
                is_server = lane.thread is Thread.SERVER
                ended.setdefault((is_server, number), []).append((end, step.event))
                turns.append((begin, step.event, is_server, number))
    for each in ended.values():
        each.sort()
    for begin, event, is_server, number in turns:
        others = ended.get((not is_server, number), [])
        place = bisect.bisect_right(others, (begin, len(events)))
        if place:
            found.begins_when[pe, event] = (pe, others[place - 1][1])


def _begun(steps: Sequence[Step], start: list[int]) -> Iterator[tuple[int, int]]:
    for step in steps:
        if step.do in (Do.EVENT, Do.OPEN):
            yield start[step.event], step.event


def _span(trace: Trace, event: Event) -> tuple[int, int]:
    row = trace.events[event[0]][event[1]]
    return int(row["start"]), int(row["start"]) + int(row["duration"])
