"""The critical path: the chain of events, backwards from the last end of a run, that explains when it ended.

Walk backwards, at first from the end of the event that ends last (of several the one of the lowest PE, then the first of its PE), on its
thread. At a moment ``t`` on a thread of a PE, let ``e`` be the innermost event just before ``t``, begun as the innermost one at ``low``, and
let ``c`` be what ``e`` waited for, as :mod:`emu.trace.statistics.causes` says, and ``r`` when ``e`` could go on.

* There is ``c``, and ``max(low, start of e) <= r < t``, and ``r`` is after the start of ``e``: the time from ``r`` to ``t`` is that of ``e``; go on
  at ``r`` where ``c`` is. (``e`` really waited, and what made it wait decides.)
* ``e`` is a WAIT or LOCK, and ``c`` had begun but not returned at ``t``: the time from the start of ``c`` to ``t`` is that of ``c``; go on there.
* Otherwise the time from ``low`` to ``t`` is that of ``e``; go on at ``low``.
* There is no ``e``: the time back to the end of what came before is the program's own ("between events"), on the thread PROGRAM; on other
  threads, which were idle, go on at ``t`` on PROGRAM.
* On PROGRAM, while there is no ``e`` or it is a RANGE, autograd may be at work: if BACKWARD has an event at that time, go on there; if its
  last one ended after ``low``, the time back to that end is that of ``e``, or the program's.
* An operation of the thread TASKS that is reached, or what a WAIT or LOCK still waited for, is looked at as a whole: ``low`` is its start, and
  BACKWARD does not matter (its wait may be what led here, and would lead here again, without end). What lies before an operation of TASKS is
  sought on PROGRAM, whose call it was.

The walk ends at the first start of any event. So the times of the path add up to ``elapsed``.

Internal: names may change in any release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.kernels.core.jit import jit
from emu.trace.events import Thread
from emu.trace.statistics.causes import MEETS, RANGE, ROLE, WAITS
from emu.trace.statistics.columns import LONGEST, Columns, Ints
from emu.trace.statistics.nesting import N_THREADS, TASKS, Nesting

BACKWARD = int(Thread.BACKWARD)
PROGRAM = -1
"""In place of an event: the program's own time."""


@dataclass(frozen=True)
class CriticalPath:
    """The path, from the beginning of the run to its end.

    Attributes:
        start: When each step begins; it ends where the next one begins.
        end: When it ends.
        event: Number of the event among all; -1: the program itself, between events.
        pe: On which PE it is.
    """

    start: Ints
    end: Ints
    event: Ints
    pe: Ints


def critical_path(columns: Columns, nesting: Nesting, causes: Ints) -> CriticalPath:
    """Find the critical path."""
    if not len(columns.start):
        empty = np.empty(0, np.int64)
        return CriticalPath(empty, empty, empty, empty)
    found = _walk(
        (columns.start, columns.end, ROLE[columns.kind], columns.thread, columns.pe, causes),
        (nesting.first, nesting.count, nesting.begin, nesting.event),
        int(columns.end.argmax()),
        columns.origin,
    )
    start, end, event, pe = (each[::-1].copy() for each in found)
    return CriticalPath(start, end, event, pe)


@jit()
def _walk(
    of_events: tuple[Ints, ...], stretches: tuple[Ints, ...], last: int, origin: int
) -> tuple[Ints, Ints, Ints, Ints]:
    start, end, role, thread, pe_of, causes = of_events
    _first, count, _begin, _event = stretches
    steps = np.empty((4, 1024), np.int64)
    n = 0
    at = count.copy()  # the stretch of each thread that is looked at: times only fall
    pe: Any
    lane: Any
    pe, lane, t = np.int64(pe_of[last]), np.int64(thread[last]), end[last]
    taken = last if lane == TASKS else -1  # an event that is looked at, whatever is innermost
    while t > origin:
        if n + 1 >= steps.shape[1]:
            steps = _doubled(steps)
        whole = taken >= 0
        if whole:
            i, low = taken, start[taken]
            taken = -1
        else:
            i, low = _innermost(pe * N_THREADS + lane, t, stretches, at)
            low = max(low, origin)
        if not whole and lane == 0 and (i < 0 or role[i] == RANGE):
            j, ended = _innermost(pe * N_THREADS + BACKWARD, t, stretches, at)
            if j >= 0:
                lane = np.int64(BACKWARD)
                continue
            if ended > low:
                n = _note(steps, n, ended, t, i, pe)
                t = ended
                continue
        if i < 0:
            if lane == 0:
                n = _note(steps, n, low, t, PROGRAM, pe)
                t = low
            lane = np.int64(0)
            continue
        c = causes[i]
        if c >= 0:
            meets = role[i] == MEETS
            r = start[c] if meets else end[c]
            waited = start[i] < r and low <= r < t
            if waited:
                n = _note(steps, n, r, t, i, pe)
                t = r
            if waited or (role[i] == WAITS and start[c] < t <= r):
                pe, lane = np.int64(pe_of[c]), np.int64(thread[c])
                if not meets and (not waited or lane == TASKS):
                    taken = c
                lane = np.int64(0) if lane == TASKS else lane
                continue
        n = _note(steps, n, low, t, i, pe)
        t = low
        lane = np.int64(0) if thread[i] == TASKS else np.int64(thread[i])
    return steps[0, :n], steps[1, :n], steps[2, :n], steps[3, :n]


@jit()
def _innermost(row: int, t: Any, stretches: tuple[Ints, ...], at: Ints) -> tuple[Any, Any]:
    """Return the innermost event of a thread just before a moment, and since when it has been; -1: none."""
    first, count, begin, event = stretches
    k = at[row]
    while k >= 0 and begin[first[row] + k] >= t:
        k -= 1
    at[row] = k
    if k < 0:
        return np.int64(-1), np.int64(-LONGEST)
    return (event[first[row] + k] if k < count[row] else np.int64(-1)), begin[first[row] + k]


@jit()
def _note(steps: Ints, n: int, low: Any, high: Any, event: int, pe: int) -> int:
    """Note a step, joined with the one before it, which is later, where that is the same event's."""
    if low == high:
        return n
    if n > 0 and steps[2, n - 1] == event and steps[3, n - 1] == pe and steps[0, n - 1] == high:
        steps[0, n - 1] = low
        return n
    steps[0, n], steps[1, n], steps[2, n], steps[3, n] = low, high, event, pe
    return n + 1


@jit()
def _doubled(steps: Ints) -> Ints:
    wider = np.empty((4, 2 * steps.shape[1]), np.int64)
    wider[:, : steps.shape[1]] = steps
    return wider
