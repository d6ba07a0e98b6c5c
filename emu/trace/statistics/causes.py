"""Which event each event had to wait for, by their flows.

Of the events with the same flow, in the order of their starts:

* a BARRIER, COLLECTIVE or TURN waited for the one of these that started last (of several the first in the order of PEs); it goes on when
  that starts;
* a WAIT or LOCK waited for the last other event that started before the wait ended; it goes on when that ends;
* a PUT, GET, SIGNAL, ATOMIC or RANGE waited for nothing: its flow says where its data go, or come from;
* any other event waited for the one, neither WAIT nor LOCK, that started before it; it goes on when that ends.

Internal: names may change in any release.
"""

from __future__ import annotations

import numpy as np

from emu.kernels.core.jit import jit
from emu.trace.events import Kind
from emu.trace.statistics.columns import N_KINDS, Columns, Ints

NONE = -1
MEETINGS = (Kind.BARRIER, Kind.COLLECTIVE, Kind.TURN)
OTHER, MEETS, WAITS, MOVES, RANGE = 0, 1, 2, 3, 4
ROLE = np.zeros(N_KINDS, np.uint8)
"""How each kind waits: see above."""
ROLE[list(MEETINGS)] = MEETS
ROLE[[Kind.WAIT, Kind.LOCK]] = WAITS
ROLE[[Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC]] = MOVES
ROLE[Kind.RANGE] = RANGE


def causes_of(columns: Columns) -> Ints:
    """Return the number of the event that each event waited for; -1: none is known."""
    cause = np.full(len(columns.start), NONE, np.int64)
    there = np.flatnonzero(columns.flow)
    if len(there):
        flows = columns.flow[there]
        order = np.lexsort((columns.start[there], flows))
        role = ROLE[columns.kind]
        _find(flows[order], there[order], (columns.start, columns.end, role), cause)
    return cause


@jit()
def _find(flows: Ints, events: Ints, columns: tuple[Ints, Ints, Ints], cause: Ints) -> None:
    start, _, role = columns
    low = 0
    while low < len(flows):
        high = low + 1
        meeting = role[events[low]] == MEETS
        while high < len(flows) and flows[high] == flows[low]:
            meeting = meeting or role[events[high]] == MEETS
            high += 1
        if high - low > 1:
            members = events[low:high]
            if meeting:
                _find_last(members, start, role, cause)
            else:
                _find_earlier(members, columns, cause)
        low = high


@jit()
def _find_last(members: Ints, start: Ints, role: Ints, cause: Ints) -> None:
    last = NONE
    for i in members:
        if role[i] == MEETS and (last < 0 or start[i] > start[last]):
            last = i
    for i in members:
        if role[i] == MEETS and i != last:
            cause[i] = last


@jit()
def _find_earlier(members: Ints, columns: tuple[Ints, Ints, Ints], cause: Ints) -> None:
    start, end, role = columns
    waited = np.empty(
        len(members) + 1, np.int64
    )  # the last that can be waited for, of the first so many
    waited[0] = NONE
    for k in range(len(members)):
        waited[k + 1] = waited[k] if role[members[k]] == WAITS else members[k]
    for k in range(len(members)):
        i = members[k]
        if role[i] == WAITS:
            low, high = 0, len(members)  # how many have started before it ended
            while low < high:
                middle = (low + high) // 2
                if start[members[middle]] < end[i]:
                    low = middle + 1
                else:
                    high = middle
            cause[i] = waited[low]
        elif role[i] == OTHER:
            cause[i] = waited[k]
