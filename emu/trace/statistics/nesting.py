"""The innermost event of each thread at each moment, and with it self times.

One pass over a PE's events, which come by start and the longer one first. Each thread has a stack of the events that have begun: the
last that came lies on top, and is the innermost one until it ends. An event that ends before a later one does can be dropped when that
one comes: it will not be the innermost one again.

Internal: names may change in any release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.kernels.core.jit import jit
from emu.trace.events import Thread
from emu.trace.statistics.columns import Columns, Ints

N_THREADS = max(Thread) + 1
TASKS = int(Thread.TASKS)
NOTHING = -1


@dataclass(frozen=True)
class Nesting:
    """What is innermost.

    Attributes:
        self_time: ns of each event.
        depth: How many events each lies within; on TASKS the lane in which nothing else of the thread is at that time.
        first: Where the stretches of thread ``pe * N_THREADS + thread`` begin, and after them one that begins where its last event
            ends; at the end the number of all.
        count: Number of stretches of each thread, without that last one.
        begin: When each stretch begins; it lasts until the next one does.
        event: The innermost event in it (its number among all); -1: none.
    """

    self_time: Ints
    depth: Ints
    first: Ints
    count: Ints
    begin: Ints
    event: Ints


def nest(columns: Columns) -> Nesting:
    """Find what is innermost."""
    n, n_pes = len(columns.start), columns.n_pes
    room = np.ones((n_pes, N_THREADS), np.int64)
    for pe in range(n_pes):
        threads = columns.thread[int(columns.first[pe]) : int(columns.first[pe + 1])]
        room[pe] += 2 * np.bincount(threads, minlength=N_THREADS)
    room[:, TASKS] = 1
    first = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    found = Nesting(
        self_time=np.zeros(n, np.int64),
        depth=np.zeros(n, np.int32),
        first=first,
        count=np.zeros(n_pes * N_THREADS, np.int64),
        begin=np.empty(first[-1], np.int64),
        event=np.empty(first[-1], np.int64),
    )
    below = np.empty(n, np.int64)
    for pe in range(n_pes):
        low, high = int(columns.first[pe]), int(columns.first[pe + 1])
        here = slice(pe * N_THREADS, (pe + 1) * N_THREADS)
        _nest(
            (columns.start, columns.end, columns.thread),
            (low, high),
            below,
            (found.self_time, found.depth),
            (first[here], found.count[here], found.begin, found.event),
        )
        _stack_lanes((columns.start, columns.end, columns.thread), (low, high), found.depth)
    return found


@jit()
def _nest(
    columns: tuple[Ints, Ints, Ints],
    bounds: tuple[int, int],
    below: Ints,
    of_events: tuple[Ints, Ints],
    stretches: tuple[Ints, Ints, Ints, Ints],
) -> None:
    """Find the stretches of one PE's threads; ``below`` is room for the event under each one in its stack."""
    start, end, thread = columns
    self_time, depth = of_events
    first, count, begin, event = stretches
    top = np.full(N_THREADS, NOTHING)
    now = np.zeros(N_THREADS, np.int64)  # up to where the stretches of a thread are known
    began = np.zeros(N_THREADS, np.bool_)
    for i in range(bounds[0], bounds[1]):
        lane = thread[i]
        if lane == TASKS:
            self_time[i] = end[i] - start[i]
            continue
        if not began[lane]:
            began[lane] = True
            now[lane] = start[i]
        over = top[lane]
        while over >= 0 and end[over] <= start[i]:
            _advance(lane, over, end[over], now, self_time, stretches)
            over = below[over]
        _advance(lane, over, start[i], now, self_time, stretches)
        while over >= 0 and end[over] < end[i]:
            over = below[over]
        below[i] = over
        depth[i] = 0 if over < 0 else depth[over] + 1
        top[lane] = i
    for lane in range(N_THREADS):
        over = top[lane]
        while over >= 0:
            _advance(lane, over, end[over], now, self_time, stretches)
            over = below[over]
        begin[first[lane] + count[lane]] = now[lane]
        event[first[lane] + count[lane]] = NOTHING


@jit()
def _advance(
    lane: int, inner: Any, until: Any, now: Ints, self_time: Ints, stretches: tuple[Ints, ...]
) -> None:
    """Say that a thread was within an event, or none, until a moment."""
    first, count, begin, event = stretches
    if until > now[lane]:
        at = first[lane] + count[lane]
        begin[at] = now[lane]
        event[at] = inner
        count[lane] += 1
        if inner >= 0:
            self_time[inner] += until - now[lane]
        now[lane] = until


LANES = 64
"""Of operations side by side; more than that share the last one."""


@jit()
def _stack_lanes(columns: tuple[Ints, Ints, Ints], bounds: tuple[int, int], depth: Ints) -> None:
    """Give operations that go on side by side the first lane that is free."""
    start, end, thread = columns
    free = np.zeros(LANES, np.int64)  # when the last event of each lane ends
    used = 0
    for i in range(bounds[0], bounds[1]):
        if thread[i] != TASKS:
            continue
        lane = 0
        while lane < used and free[lane] > start[i]:
            lane += 1
        if lane == LANES:
            lane = LANES - 1
        elif lane == used:
            used += 1
        free[lane] = end[i]
        depth[i] = lane
