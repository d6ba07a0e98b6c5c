"""Lanes: on which line of a timeline an event is drawn, for the formats of other viewers.

A PE has a lane for its program, one for its communication server, and so on (:class:`emu.trace.events.Thread`); what its program does to
the memory of another PE is on a lane of the link to that PE. Events on one lane lie within each other or apart: one that
would overlap another in part goes to a second lane of that name.

Internal: names may change in any release.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emu.trace.events import TURN_BIT, Kind, Thread
from emu.trace.reading import Trace

NAMES = {
    Thread.PROGRAM: "program",
    Thread.SERVER: "communication server",
    Thread.TASKS: "tasks",
    Thread.BACKWARD: "backward",
}
FIRST_LINK = 16
"""Number of the lane of the link to PE 0; those of threads are below."""

_OF_LINKS = (Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC)


class Lane(NamedTuple):
    """A line of a PE's timeline.

    Attributes:
        number: Orders the lanes of a PE: threads, then links by PE.
        again: 0; or how many lanes of this name come before.
    """

    number: int
    again: int

    @property
    def name(self) -> str:
        """What a viewer shows."""
        of_link = self.number >= FIRST_LINK
        name = f"link to PE {self.number - FIRST_LINK}" if of_link else NAMES[Thread(self.number)]
        return f"{name} ({self.again + 1})" if self.again else name


def lanes_of(trace: Trace, pe: int) -> dict[Lane, npt.NDArray[np.int64]]:
    """Return the events of a PE by lane: their indices, in the order in which they start; of lanes in order.

    Instants are on the lanes of threads; counters are on none.
    """
    events = trace.events[pe]
    numbers = events["thread"].astype(np.int64)
    on_links = np.isin(events["kind"], _OF_LINKS) & (events["peer"] >= 0)
    on_links &= numbers == Thread.PROGRAM
    numbers[on_links] = FIRST_LINK + events["peer"][on_links].astype(np.int64)
    numbers[events["kind"] == Kind.COUNTER] = -1
    found: dict[Lane, list[int]] = {}
    for number in np.unique(numbers[numbers >= 0]).tolist():
        _spread(events, np.flatnonzero(numbers == number), number, found)
    return {lane: np.array(found[lane], np.int64) for lane in sorted(found)}


def _spread(
    events: npt.NDArray[Any],
    indices: npt.NDArray[np.int64],
    number: int,
    found: dict[Lane, list[int]],
) -> None:
    """Spread the events of a thread or a link over as many lanes as they need."""
    starts = events["start"][indices].tolist()
    ends = (events["start"] + events["duration"])[indices].tolist()
    open_ends: list[list[int]] = []  # for each lane the ends of the events that contain each other
    for index, start, end in zip(indices.tolist(), starts, ends, strict=True):
        again = _fitting(open_ends, start, end)
        open_ends[again].append(end)
        found.setdefault(Lane(number, again), []).append(index)


def _fitting(open_ends: list[list[int]], start: int, end: int) -> int:
    """Return the first lane on which an event would overlap none in part; a new one if there is none."""
    for again, stack in enumerate(open_ends):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or stack[-1] >= end:
            return again
    open_ends.append([])
    return len(open_ends) - 1


class Counter(NamedTuple):
    """Values of something over time.

    Attributes:
        name: Its name.
        times: Nanoseconds, ascending.
        values: The value from each time on.
    """

    name: str
    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]


IN_FLIGHT, IN_USE = "bytes in flight", "memory in use"


def counters_of(trace: Trace, pe: int) -> list[Counter]:
    """Return the counters of a PE: what it moves at a time, what it has allocated, and what its program counts."""
    events = trace.events[pe]
    found = []
    moves = events[
        np.isin(events["kind"], _OF_LINKS) & (events["size"] > 0) & (events["peer"] >= 0)
    ]
    if len(moves):
        times = np.concatenate([moves["start"], moves["start"] + moves["duration"]])
        found.append(_summed(IN_FLIGHT, times, np.concatenate([moves["size"], -moves["size"]])))
    memory = events[events["kind"] == Kind.ALLOCATE]
    if len(memory):
        found.append(_summed(IN_USE, memory["start"] + memory["duration"], memory["size"]))
    own = events[events["kind"] == Kind.COUNTER]
    for site in np.unique(own["site"]).tolist():
        of_site = own[own["site"] == site]
        found.append(Counter(trace.sites[pe][site].name, of_site["start"], of_site["size"]))
    return found


def _summed(name: str, times: npt.NDArray[np.int64], changes: npt.NDArray[np.int64]) -> Counter:
    """Return the sum of changes over time, with one value for each time."""
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(changes[order])
    last = np.append(times[1:] != times[:-1], True)
    return Counter(name, times[last], values[last])


class Arrow(NamedTuple):
    """What one event has brought about in another.

    Attributes:
        flow: Its number.
        source: PE, and index among its events.
        target: PE, and index among its events.
    """

    flow: int
    source: tuple[int, int]
    target: tuple[int, int]


def arrows_of(trace: Trace) -> list[Arrow]:
    """Return an arrow for each pair of consecutive events of a flow: from what others wait for to what waits, else by start.

    Barriers, collectives and turns have none: all their members' events are on a par. Nor have counters, which are on no lane.
    """
    parts = []
    for pe, events in enumerate(trace.events):
        is_arrow = (events["flow"] > 0) & (events["flow"] < TURN_BIT)
        with_flow = np.flatnonzero(is_arrow & (events["kind"] != Kind.COUNTER))
        part = np.empty((len(with_flow), 5), np.int64)
        part[:, _FLOW] = events["flow"][with_flow].view(np.int64)
        part[:, _WAITS] = np.isin(events["kind"][with_flow], _WAITING)
        part[:, _START], part[:, _PE] = events["start"][with_flow], pe
        part[:, _INDEX] = with_flow
        parts.append(part)
    rows = np.concatenate([np.empty((0, 5), np.int64), *parts])
    rows = rows[np.lexsort((rows[:, _START], rows[:, _WAITS], rows[:, _FLOW]))]
    first = np.flatnonzero(rows[1:, _FLOW] == rows[:-1, _FLOW])
    sources, targets = rows[first].tolist(), rows[first + 1].tolist()
    return [
        Arrow(source[_FLOW], (source[_PE], source[_INDEX]), (target[_PE], target[_INDEX]))
        for source, target in zip(sources, targets, strict=True)
    ]


_WAITING = (Kind.WAIT, Kind.GET, Kind.LOCK)
_FLOW, _WAITS, _START, _PE, _INDEX = range(5)
"""Columns of the table that arrows are found in."""
