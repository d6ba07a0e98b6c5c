"""How long each PE computes, communicates, prepares, waits, and does several of these at once.

Internal: names may change in any release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.kernels.core.jit import jit
from emu.trace.statistics.causes import MEETS, ROLE
from emu.trace.statistics.columns import (
    BIT_OF_KIND,
    BUSY,
    COMMUNICATE,
    COMPUTE,
    PREPARE,
    WAITING,
    Columns,
    Ints,
)
from emu.trace.statistics.nesting import N_THREADS, TASKS, Nesting

N_SETS = 16


@dataclass(frozen=True)
class Activity:
    """Times of a PE in ns; ``busy``, ``bubble`` and ``unrecorded`` add up to the time of the trace."""

    compute: int
    communicate: int
    prepare: int
    wait: int
    overlap: int
    busy: int
    bubble: int
    unrecorded: int


def activities_of(columns: Columns, nesting: Nesting, causes: Ints) -> list[Activity]:
    """Return how long each PE did what."""
    # Room for one PE after the other: to have the pages anew for each would take longer than the work.
    counts = nesting.count.reshape(columns.n_pes, N_THREADS).max(axis=0, initial=0)
    rooms = [_room(2 * int(count) + 1) for count in counts]
    found = []
    for pe in range(columns.n_pes):
        steps = [
            _of_tasks(columns, pe)
            if thread == TASKS
            else _of_thread(columns, nesting, causes, pe * N_THREADS + thread, rooms[thread])
            for thread in range(N_THREADS)
        ]
        time = _together(tuple(times for times, _ in steps), tuple(masks for _, masks in steps))
        found.append(_summed(time, columns.elapsed))
    return found


def _room(n: int) -> tuple[Ints, Ints]:
    return np.empty(n, np.int64), np.empty(n, np.uint8)


def _summed(time: Ints, elapsed: int) -> Activity:
    sets = np.arange(N_SETS)

    def having(bits: int) -> int:
        return int(time[(sets & bits) != 0].sum())

    both = COMPUTE | COMMUNICATE
    busy, any_of = having(BUSY), having(BUSY | WAITING)
    return Activity(
        compute=having(COMPUTE),
        communicate=having(COMMUNICATE),
        prepare=having(PREPARE),
        wait=having(WAITING),
        overlap=int(time[(sets & both) == both].sum()),
        busy=busy,
        bubble=any_of - busy,
        unrecorded=elapsed - any_of,
    )


def _of_thread(
    columns: Columns, nesting: Nesting, causes: Ints, thread: int, room: tuple[Ints, Ints]
) -> tuple[Ints, Ints]:
    """Return when the activity of a nested thread changes, and to what."""
    count, first = int(nesting.count[thread]), int(nesting.first[thread])
    here = slice(first, first + count + 1)
    of_events = (columns.start, columns.kind, ROLE, causes)
    n = _change(nesting.begin[here], nesting.event[here], of_events, BIT_OF_KIND, room)
    return room[0][:n], room[1][:n]


@jit()
def _change(
    begin: Ints,
    event: Ints,
    of_events: tuple[Ints, Ints, Ints, Ints],
    bit_of_kind: Ints,
    found: tuple[Ints, Ints],
) -> int:
    start, kind, role, causes = of_events
    times, masks = found
    n = 0
    for k in range(len(begin)):
        i = event[k]
        bit = np.uint8(0) if i < 0 else bit_of_kind[kind[i]]
        if i >= 0 and role[kind[i]] == MEETS and causes[i] >= 0:
            together = start[causes[i]]  # when the last member came
            if begin[k] < together:
                times[n], masks[n] = begin[k], np.uint8(WAITING)
                n += 1
                if together < begin[k + 1]:
                    times[n], masks[n] = together, bit
                    n += 1
                continue
        times[n], masks[n] = begin[k], bit
        n += 1
    return n


def _of_tasks(columns: Columns, pe: int) -> tuple[Ints, Ints]:
    """Return when the activities of the operations that go on side by side change, and to what."""
    here = slice(int(columns.first[pe]), int(columns.first[pe + 1]))
    tasks = np.flatnonzero(columns.thread[here] == TASKS) + here.start
    bits = BIT_OF_KIND[columns.kind[tasks]]
    tasks, bits = tasks[bits != 0], bits[bits != 0]
    end = columns.end[tasks]
    by_end = np.argsort(end, kind="stable")
    times, masks = _room(2 * len(tasks))
    _count_tasks(columns.start[tasks], bits, end[by_end], bits[by_end], (times, masks))
    return times, masks


@jit()
def _count_tasks(
    start: Ints, bit_of_start: Ints, end: Ints, bit_of_end: Ints, found: tuple[Ints, Ints]
) -> None:
    times, masks = found
    there = np.zeros(N_SETS, np.int64)  # operations that go on, by their bit
    i = j = 0
    mask = 0
    while j < len(end):
        if i < len(start) and start[i] <= end[j]:
            times[i + j], bit = start[i], bit_of_start[i]
            there[bit] += 1
            mask |= bit
            masks[i + j] = mask
            i += 1
        else:
            times[i + j], bit = end[j], bit_of_end[j]
            there[bit] -= 1
            if there[bit] == 0:
                mask ^= bit
            masks[i + j] = mask
            j += 1


@jit()
def _together(times: tuple[Ints, ...], masks: tuple[Ints, ...]) -> Ints:
    """Return the time of each set of activities of a PE's threads."""
    found = np.zeros(N_SETS, np.int64)
    at = np.zeros(N_THREADS, np.int64)
    now = np.zeros(N_THREADS, np.uint8)
    until = np.int64(0)
    while True:
        lane = -1
        time = until
        for k in range(N_THREADS):
            if at[k] < len(times[k]) and (lane < 0 or times[k][at[k]] < time):
                lane, time = k, times[k][at[k]]
        if lane < 0:
            return found
        mask = 0
        for k in range(N_THREADS):
            mask |= now[k]
        if mask:
            found[mask] += time - until
        until = time
        now[lane] = masks[lane][at[lane]]
        at[lane] += 1
