"""Records of accesses: who, when on which line, from which line of the program; and whether one is known to be over.

A record has a *serial* number; its *id* is ``(PE + 1) << 44 | serial``. Each PE keeps the last ``RECORDS`` of its records in
a ring. An id whose record has made room for another is taken for ordered: so nothing is reported that is not known.

The put of a put_signal is over for whoever has seen its signal, but tells nothing of other puts. So such a record has *notes*:
(line, time) of observers; what comes after one of them comes after the access. With more observers than there is room for
it is taken for ordered for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.check.area import RECORD_WORDS, RECORDS
from emu.check.races.clocks import (
    S_LAST_KEY,
    S_LAST_TARGET,
    S_LAST_TIME,
    S_LINE,
    S_PE,
    S_RECORD_BYTES,
    S_RECORDS,
    S_SERIAL,
    atomic_line,
    current_clock,
    known_clock,
    nonblocking_line,
    ordered_clock,
    put_line,
    state_of,
    words_at,
)
from emu.kernels.core.jit import jit

R_SERIAL, R_LINE, R_TIME, R_KIND, R_SITE, R_TARGET, R_LOW, R_HIGH = range(8)
R_NOTES, R_NEXT, R_ISSUED = 8, 11, 12
NOTES = 3
NOTE_BITS = 48
OPEN = 1 << 62
"""In the place of the time of an access that goes on: nobody else knows that it is over."""

EVERYBODY = -1
"""In the first note: taken for ordered for all."""

SERIAL_BITS = 44

WRITES, ATOMIC = 1, 2
CLASS_SHIFT = 2
"""A kind: whether it writes, whether it is atomic, and the class of what it is atomic with."""

PROGRAM, NONBLOCKING, ATOMICS, PUTS = range(4)
"""Lines of a PE by what they do; ``PUTS`` needs a target."""


@jit()
def record_at(state: int, identity: int) -> Any:
    """Return the words where the record with an id is, or was."""
    words = state_of(state)
    pe = (identity >> SERIAL_BITS) - 1
    place = (identity & ((1 << SERIAL_BITS) - 1)) % RECORDS
    return words_at(
        words[S_RECORDS] + pe * words[S_RECORD_BYTES] + place * 8 * RECORD_WORDS, RECORD_WORDS
    )


@jit()
def line_of(state: int, purpose: int, target: int) -> Any:
    """Return the line of the PE's work of a kind."""
    words = state_of(state)
    if purpose == PROGRAM:
        return np.int64(words[S_LINE])
    if purpose == NONBLOCKING:
        return np.int64(nonblocking_line(state))
    if purpose == ATOMICS:
        return np.int64(atomic_line(state))
    return np.int64(put_line(state, target))


@jit()
def time_of(state: int, line: int) -> Any:
    """Return the current time of one of the PE's own lines."""
    if line == state_of(state)[S_LINE]:
        return known_clock(state)[line]
    return current_clock(state)[line]


@jit()
def new_record(
    state: int, purpose: int, target: int, kind: int, site: int, low: int, high: int
) -> Any:
    """Return the id of a new access of ``low`` to before ``high`` of a heap.

    Accesses that nothing can tell apart share one: of the program's own, those from one line between two releases;
    of puts, if they are of different memory too.
    """
    words = state_of(state)
    line = line_of(state, purpose, target)
    time = time_of(state, line)
    key = (site << 16 | kind) << 24 | line
    serial = words[S_SERIAL]
    if serial and words[S_LAST_KEY] == key and words[S_LAST_TIME] == time:
        last = (words[S_PE] + 1) << SERIAL_BITS | serial
        record = record_at(state, last)
        apart = high <= record[R_LOW] or low >= record[R_HIGH]
        if words[S_LAST_TARGET] == target and (purpose == PROGRAM or apart):
            record[R_LOW] = min(record[R_LOW], low)
            record[R_HIGH] = max(record[R_HIGH], high)
            return last
    identity = separate_record(state, line, target, kind, site, low, high)
    words[S_LAST_KEY], words[S_LAST_TIME], words[S_LAST_TARGET] = key, time, target
    return identity


@jit()
def separate_record(
    state: int, line: int, target: int, kind: int, site: int, low: int, high: int
) -> Any:
    """Return the id of an access that shares no record."""
    words = state_of(state)
    serial = words[S_SERIAL] + 1
    words[S_SERIAL] = serial
    words[S_LAST_KEY] = -1
    identity = (words[S_PE] + 1) << SERIAL_BITS | serial
    record = record_at(state, identity)
    record[:] = 0
    record[R_SERIAL] = serial
    record[R_LINE] = line
    record[R_TIME] = time_of(state, line)
    record[R_KIND] = kind
    record[R_SITE] = site
    record[R_ISSUED] = known_clock(state)[words[S_LINE]]
    record[R_TARGET] = target
    record[R_LOW] = low
    record[R_HIGH] = high
    return identity


@jit()
def is_over(state: int, identity: int, sends: int) -> bool:
    """Return whether an access is known to happen before what the PE does now.

    Args:
        state: The PE.
        identity: The access.
        sends: Whether what it does now is sent: then its fences count.
    """
    record = record_at(state, identity)
    if record[R_SERIAL] != identity & ((1 << SERIAL_BITS) - 1):
        return True
    known = known_clock(state)
    line, time = record[R_LINE], record[R_TIME]
    if known[line] >= time or (sends and ordered_clock(state)[line] >= time):
        return True
    for number in range(NOTES):
        note = record[R_NOTES + number]
        if note == 0:
            return False
        if note == EVERYBODY or known[note >> NOTE_BITS] >= note & ((1 << NOTE_BITS) - 1):
            return True
    return False


@jit()
def note_seen(state: int, head: int) -> None:
    """Note that the PE has seen the signals of a chain of put_signals, the newest first."""
    line = state_of(state)[S_LINE]
    now = known_clock(state)[line]
    identity = head
    while identity:
        record = record_at(state, identity)
        if record[R_SERIAL] != identity & ((1 << SERIAL_BITS) - 1):
            return
        free = -1
        for number in range(NOTES - 1, -1, -1):
            note = record[R_NOTES + number]
            if note == EVERYBODY:
                return
            if note == 0:
                free = number
            elif note >> NOTE_BITS == line:
                return  # and so it has those before
        if free < 0:
            record[R_NOTES] = EVERYBODY
        else:
            record[R_NOTES + free] = line << NOTE_BITS | now
        identity = record[R_NEXT]
