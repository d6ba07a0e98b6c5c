"""What is drawn of a trace: boxes in lanes, joined where they are too short to be seen; and arrows between them.

A *lane* is one line of the timeline: the events of a PE's thread that lie within equally many others. Where a trace has more events than a
page can hold, those that are shorter than a threshold, and start in the same stretch of that length in the same lane, are joined to one box.

Internal: names may change in any release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.kernels.core.jit import jit
from emu.trace.events import Kind
from emu.trace.statistics.causes import MEETS, ROLE
from emu.trace.statistics.columns import N_KINDS, Ints
from emu.trace.statistics.nesting import N_THREADS
from emu.trace.statistics.summary import Statistics

_MOST_DEPTH = 1 << 16
_FINEST = 1 << 24
"""The first threshold that is tried is this part of the trace's time."""


@dataclass(frozen=True)
class Boxes:
    """What is drawn, lane by lane, each from left to right.

    Attributes:
        lanes: PE, thread and depth of each lane.
        first: Where each lane's boxes begin, and the number of all.
        start: ns since the first start of the trace.
        end: ns, likewise.
        event: Number of the event; of a joined box that of the longest one.
        count: Number of events that were joined; 1: it is that event.
        shorter: What is shorter than this was joined, ns; 0: nothing was.
    """

    lanes: list[tuple[int, int, int]]
    first: Ints
    start: Ints
    end: Ints
    event: Ints
    count: Ints
    shorter: int


def boxes_of(statistics: Statistics, most: int) -> Boxes:
    """Return what is drawn: at most about so many boxes, and at least one a lane.

    Counters are not drawn.
    """
    columns, depth = statistics.columns, statistics.nesting.depth
    drawn = np.flatnonzero(columns.kind != Kind.COUNTER)
    row = columns.pe[drawn].astype(np.int64) * N_THREADS + columns.thread[drawn]
    key = row * _MOST_DEPTH + np.minimum(depth[drawn], _MOST_DEPTH - 1)
    order = np.argsort(key, kind="stable")
    events = drawn[order]
    keys, first = np.unique(key[order], return_index=True)
    first = np.append(first, len(events)).astype(np.int64)
    times = (columns.start[events] - columns.origin, columns.end[events] - columns.origin)
    shorter = 0
    count = len(events)
    while count > most and shorter <= statistics.elapsed:
        shorter = 2 * shorter or max(1, statistics.elapsed // _FINEST)
        count = _join(times, first, shorter, np.empty((0, 4), np.int64), np.empty_like(first))
    found = np.empty((count, 4), np.int64)
    starts = np.zeros_like(first)
    if shorter:
        _join(times, first, shorter, found, starts)
        found[:, 2] = events[found[:, 2]]
    else:
        found = np.stack([*times, events, np.ones(len(events), np.int64)], axis=1)
        starts = first
    lanes = [
        (*divmod(int(each) // _MOST_DEPTH, N_THREADS), int(each) % _MOST_DEPTH) for each in keys
    ]
    start, end, event, joined = found.T
    return Boxes(lanes, starts, start, end, event, joined, shorter)


@jit()
def _join(times: tuple[Ints, Ints], first: Ints, shorter: int, found: Ints, starts: Ints) -> int:
    """Join what is shorter; without room in ``found`` only count the boxes."""
    start, end = times
    writes = len(found) > 0
    n = -1
    for lane in range(len(first) - 1):
        starts[lane] = n + 1
        stretch = np.int64(-1)  # of the box that is being joined; -1: none is
        longest = np.int64(-1)
        for i in range(first[lane], first[lane + 1]):
            length = end[i] - start[i]
            here = start[i] // shorter if length < shorter else np.int64(-1)
            if here < 0 or here != stretch:
                n += 1
                longest = np.int64(-1)
                if writes:
                    found[n, 0], found[n, 1], found[n, 2], found[n, 3] = start[i], end[i], i, 0
            stretch = here
            if writes:
                found[n, 1] = max(found[n, 1], end[i])
                found[n, 3] += 1
                if length > longest:
                    found[n, 2], longest = i, length
    starts[len(first) - 1] = n + 1
    return n + 1


@dataclass(frozen=True)
class Arrows:
    """From what happened to what went on by it: times in ns since the first start, and events.

    Attributes:
        start: When it happened.
        end: When that went on.
        source: Number of the event that caused it.
        target: Number of the event that went on.
        left_out: How many were not taken, of those that were waited for the shortest time.
    """

    start: Ints
    end: Ints
    source: Ints
    target: Ints
    left_out: int


def arrows_of(statistics: Statistics, most: int) -> Arrows:
    """Return an arrow for each event that waited for another one, at most so many, by the start."""
    columns, causes = statistics.columns, statistics.causes
    target = np.flatnonzero(causes >= 0)
    left_out = max(0, len(target) - most)
    if left_out:
        waited = columns.end[target] - columns.start[target]
        target = np.sort(target[np.argpartition(-waited, most)[:most]])
    source = causes[target]
    meets = ROLE[columns.kind[target]] == MEETS
    start = np.where(meets, columns.start[source], columns.end[source])
    end = np.where(start <= columns.start[target], columns.start[target], columns.end[target])
    start = np.minimum(start, end)
    order = np.argsort(start, kind="stable")
    origin = columns.origin
    return Arrows(
        start[order] - origin, end[order] - origin, source[order], target[order], left_out
    )


KIND_NAMES = [Kind(kind).name if kind in list(Kind) else "" for kind in range(N_KINDS)]
