"""What the figures of a trace mean, in plain Python: slow, and what the compiled ones are compared with."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

from emu.trace.events import Kind, Thread
from emu.trace.reading import Trace

WORK = {
    "compute": {Kind.LAUNCH, Kind.OP},
    "communicate": {
        *(Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC, Kind.COLLECTIVE, Kind.TURN),
    },
    "prepare": {Kind.COMPILE, Kind.TUNE, Kind.ALLOCATE},
    "wait": {Kind.WAIT, Kind.COMPLETE, Kind.BARRIER, Kind.LOCK},
}
MEETINGS = (Kind.BARRIER, Kind.COLLECTIVE, Kind.TURN)
WAITS = (Kind.WAIT, Kind.LOCK)
MOVES = (Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC, Kind.RANGE)


@dataclass(eq=False)
class Event:
    """An event, with its number among those of all PEs."""

    number: int
    pe: int
    start: int
    end: int
    size: int
    flow: int
    site: int
    kind: Kind
    thread: Thread
    peer: int


def events_of(trace: Trace) -> list[Event]:
    """Return the events of all PEs, one PE after the other."""
    found: list[Event] = []
    for pe, events in enumerate(trace.events):
        for each in events.tolist():
            start, duration, size, flow, site, kind, thread, peer = each
            found.append(
                Event(
                    *(len(found), pe, start, start + duration, size, flow, site),
                    *(Kind(kind), Thread(thread), peer),
                )
            )
    return found


def innermost(events: list[Event], pe: int, thread: Thread, time: float) -> Event | None:
    """Return the last event, in the order of a trace, that goes on at a time."""
    found = None
    for event in events:
        if event.pe == pe and event.thread == thread and event.start <= time < event.end:
            found = event
    return found


def moments(events: list[Event]) -> list[tuple[int, int]]:
    """Return the stretches between any two starts or ends that follow each other."""
    times = sorted({time for event in events for time in (event.start, event.end)})
    return list(itertools.pairwise(times))


def self_times(events: list[Event]) -> list[int]:
    """Return the self time of each event."""
    found = [0] * len(events)
    for event in events:
        if event.thread == Thread.TASKS:
            found[event.number] = event.end - event.start
    for pe in {event.pe for event in events}:
        own = [event for event in events if event.pe == pe]
        for low, high in moments(own):
            for thread in set(Thread) - {Thread.TASKS}:
                inner = innermost(own, pe, thread, low)
                if inner is not None:
                    found[inner.number] += high - low
    return found


def causes(events: list[Event]) -> list[int]:
    """Return the number of the event that each one waited for; -1: none."""
    groups = defaultdict(list)
    for event in events:
        if event.flow:
            groups[event.flow].append(event)
    found = [-1] * len(events)
    for group in groups.values():
        meeting = [event for event in group if event.kind in MEETINGS]
        if meeting:
            last = max(meeting, key=lambda event: (event.start, -event.number))
            for event in meeting:
                if event is not last:
                    found[event.number] = last.number
            continue
        ordered = sorted(group, key=lambda event: (event.start, event.number))
        for at, event in enumerate(ordered):
            if event.kind in MOVES:
                continue
            if event.kind in WAITS:
                others = [each for each in ordered if each.start < event.end]
            else:
                others = ordered[:at]
            others = [each for each in others if each.kind not in WAITS]
            if others:
                found[event.number] = others[-1].number
    return found


def activities(trace: Trace) -> list[dict[str, int]]:
    """Return the times of each PE."""
    events = events_of(trace)
    if not events:
        return [
            dict.fromkeys((*WORK, "overlap", "busy", "bubble", "unrecorded"), 0)
            for _ in trace.events
        ]
    cause = causes(events)
    elapsed = max(e.end for e in events) - min(e.start for e in events)
    found = []
    for pe in range(trace.n_pes):
        own = [event for event in events if event.pe == pe]
        times = dict.fromkeys((*WORK, "overlap", "busy", "bubble"), 0)
        # When a collective's last member comes divides stretches, too.
        cuts = sorted({t for e in events for t in (e.start, e.end)})
        for low, high in itertools.pairwise(cuts):
            does = _does(own, events, cause, pe, low)
            for what in does:
                times[what] += high - low
            busy = does - {"wait"}
            times["overlap"] += (high - low) * ({"compute", "communicate"} <= does)
            times["busy"] += (high - low) * bool(busy)
            times["bubble"] += (high - low) * (does == {"wait"})
        times["unrecorded"] = elapsed - times["busy"] - times["bubble"]
        found.append(times)
    return found


def _does(own: list[Event], events: list[Event], cause: list[int], pe: int, time: int) -> set[str]:
    active = [innermost(own, pe, thread, time) for thread in set(Thread) - {Thread.TASKS}]
    active += [e for e in own if e.thread == Thread.TASKS and e.start <= time < e.end]
    found = set()
    for event in active:
        if event is None:
            continue
        last = cause[event.number]
        nested = event.thread != Thread.TASKS
        if event.kind in MEETINGS and nested and last >= 0 and time < events[last].start:
            found.add("wait")
        else:
            found |= {what for what, kinds in WORK.items() if event.kind in kinds}
    return found


def moved(trace: Trace) -> tuple[list[list[int]], list[list[int]], int]:
    """Return the bytes and the calls from each PE to each PE, and the bytes that name no peer."""
    sizes = [[0] * trace.n_pes for _ in range(trace.n_pes)]
    calls = [[0] * trace.n_pes for _ in range(trace.n_pes)]
    elsewhere = 0
    for event in events_of(trace):
        known = 0 <= event.peer < trace.n_pes
        if event.kind in (Kind.PUT, Kind.SIGNAL, Kind.ATOMIC, Kind.GET) and known:
            way = (event.pe, event.peer)
            source, target = way if event.kind != Kind.GET else way[::-1]
            sizes[source][target] += event.size
            calls[source][target] += 1
        elif event.kind in WORK["communicate"]:
            elsewhere += event.size
    return sizes, calls, elsewhere


def path(trace: Trace) -> list[tuple[int, int, int, int]]:
    """Return the steps of the critical path, from the beginning: start, end, event or -1, PE."""
    events = events_of(trace)
    if not events:
        return []
    cause = causes(events)
    origin = min(e.start for e in events)
    last = max(events, key=lambda e: (e.end, -e.number))
    pe, thread, t = last.pe, last.thread, last.end
    taken = last if last.thread == Thread.TASKS else None
    steps: list[tuple[int, int, int, int]] = []

    def note(low: int, event: int, of_pe: int) -> None:
        if low < t:
            steps.append((low, t, event, of_pe))

    while t > origin:
        whole = taken is not None
        if taken is not None:
            event, low, taken = taken, taken.start, None
        else:
            event, low = _before(events, pe, thread, t, origin)
        if not whole and thread == Thread.PROGRAM and (event is None or event.kind == Kind.RANGE):
            behind, ended = _before(events, pe, Thread.BACKWARD, t, origin)
            if behind is not None:
                thread = Thread.BACKWARD
                continue
            if ended > low:
                note(ended, -1 if event is None else event.number, pe)
                t = ended
                continue
        if event is None:
            if thread == Thread.PROGRAM:
                note(low, -1, pe)
                t = low
            thread = Thread.PROGRAM
            continue
        if cause[event.number] >= 0:
            c = events[cause[event.number]]
            meets = event.kind in MEETINGS
            r = c.start if meets else c.end
            waited = event.start < r and low <= r < t
            if waited:
                note(r, event.number, event.pe)
                t = r
            if waited or (event.kind in WAITS and c.start < t <= r):
                pe, thread = c.pe, c.thread
                if not meets and (not waited or thread == Thread.TASKS):
                    taken = c
                if thread == Thread.TASKS:
                    thread = Thread.PROGRAM
                continue
        note(low, event.number, event.pe)
        t = low
        thread = Thread.PROGRAM if event.thread == Thread.TASKS else event.thread
    return _joined(steps[::-1])


def _before(
    events: list[Event], pe: int, thread: Thread, t: int, origin: int
) -> tuple[Event | None, int]:
    """Return what is innermost on a thread just before a time, and since when it has been."""
    own = [event for event in events if event.pe == pe and event.thread == thread]
    inner = innermost(own, pe, thread, t - 0.5)
    low = t
    times = sorted({time for event in own for time in (event.start, event.end) if time < t})
    while times and innermost(own, pe, thread, times[-1]) is inner:
        low = times.pop()
    if inner is None and not times:
        low = origin
    return inner, low


def _joined(steps: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Join steps of the same event that follow each other."""
    found: list[tuple[int, int, int, int]] = []
    for start, end, event, pe in steps:
        if found and found[-1][2:] == (event, pe) and found[-1][1] == start:
            found[-1] = (found[-1][0], end, event, pe)
        else:
            found.append((start, end, event, pe))
    return found
