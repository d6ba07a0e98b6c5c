"""Vector clocks of PEs, for compiled code.

A PE does its own work in order, but what it sends is on its way on its own. So each PE has several *lines* of work, and a
clock has a time for each line of each PE:

* its **program**: what it loads and stores itself, and what is over when a call returns;
* its **non-blocking** reads: sources of ``put_nbi``, all of ``get_nbi``; over after quiet;
* its **atomic** operations that fetch nothing: in order with its other atomic operations;
* its **puts** to each PE: over after quiet, in order with later ones after fence;
* its **tasks**, for front ends whose programs are graphs: each is a program of its own, which knows what it depends on. It
  lies on one of the PE's *chains*, the line of a task that is over and that it comes after (see ``tasks``).

The time of a PE's program advances whenever it publishes what it knows; that of its other lines at fence and quiet. An
access on a line at a time happens before what a PE does next if that PE's clock has that time of the line. The clock of PE
p has three parts, one after the other: what p *knows* to be over; what p's fences have put in *order* before what it sends
next; the *current* time of p's own lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.check.area import EXACT_PES, STATE_WORDS
from emu.comm.layout import PAGE
from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, jit

(
    S_ME,
    S_PE,
    S_N_PES,
    S_LINES,
    S_LOCKS,
    S_RECORDS,
    S_RECORD_BYTES,
    S_WORDS,
    S_WORDS_BYTES,
    S_WORD_WORDS,
    S_ENTRIES,
    S_ENTRIES_BYTES,
    S_ENTRIES_MOST,
    S_SHADOW,
    S_SHADOW_BYTES,
    S_SERIAL,
    S_LAST_KEY,
    S_LAST_TIME,
    S_LAST_TARGET,
    S_FOUND,
    S_LOST,
    S_UNSEEN,
    S_LINE,
    S_BASE_LINES,
    S_CHAINS,
) = range(25)
"""Words of a PE's state. ``S_FOUND`` counts the findings behind it, ``S_LOST`` says that entries ran out, ``S_UNSEEN`` that code
of some PE may signal others unseen. ``S_LINE`` is the line of the program, or of the task that runs; ``S_LINES`` how long a clock
can get, ``S_CHAINS`` the address of the word that says how long clocks are."""

S_FINDINGS = 26
FINDINGS = 8
"""Findings that an operation can leave: (the other's id, its own, heap and granule, mask)."""


@jit()
def words_at(address: int, count: int) -> Any:
    """Return ``count`` words at an address as an array."""
    return carray(as_pointer(address), (count,), np.int64)


@jit()
def state_of(state: int) -> Any:
    """Return the words of a PE's state."""
    return carray(as_pointer(state), (STATE_WORDS,), np.int64)


@jit()
def known_clock(state: int) -> Any:
    """Return what the PE, or the task that runs, knows to be over; without the chains that no PE has used yet."""
    words = state_of(state)
    chains = words_at(words[S_CHAINS], 1)[0]
    return words_at(state + 8 * STATE_WORDS, words[S_BASE_LINES] + words[S_N_PES] * chains)


@jit()
def ordered_clock(state: int) -> Any:
    """Return what its fences have put in order."""
    words = state_of(state)
    return words_at(state + 8 * (STATE_WORDS + words[S_LINES]), words[S_BASE_LINES])


@jit()
def current_clock(state: int) -> Any:
    """Return the current times of its own lines."""
    words = state_of(state)
    return words_at(state + 8 * (STATE_WORDS + 2 * words[S_LINES]), words[S_BASE_LINES])


@jit()
def row_bytes(state: int) -> Any:
    """Return the bytes of a member's row of a meeting."""
    return 8 * (1 + state_of(state)[S_LINES])


@jit()
def nonblocking_line(state: int) -> Any:
    """Return the line of the PE's non-blocking reads."""
    words = state_of(state)
    return words[S_N_PES] + words[S_PE]


@jit()
def atomic_line(state: int) -> Any:
    """Return the line of the PE's atomic operations."""
    words = state_of(state)
    return 2 * words[S_N_PES] + words[S_PE]


@jit()
def put_line(state: int, target: int) -> Any:
    """Return the line of the PE's puts to another."""
    words = state_of(state)
    n, pe = words[S_N_PES], words[S_PE]
    if n > EXACT_PES:
        return 3 * n + pe
    return 3 * n + pe * n + target


@jit()
def begin(state: int) -> None:
    """Start the clocks of a PE."""
    pe = state_of(state)[S_PE]
    known, current = known_clock(state), current_clock(state)
    known[pe] = 1
    current[:] = 1


@jit()
def tick(state: int) -> None:
    """Advance the time of the PE's program, or its task: it has published what it knows."""
    known_clock(state)[state_of(state)[S_LINE]] += 1


@jit()
def fence(state: int) -> None:
    """Put what the PE has sent to each PE before what it sends there next."""
    n = state_of(state)[S_N_PES]
    ordered, current = ordered_clock(state), current_clock(state)
    for target in range(n if n <= EXACT_PES else 1):
        line = put_line(state, target)
        ordered[line] = current[line]
        current[line] += 1
    line = atomic_line(state)
    ordered[line] = current[line]
    current[line] += 1


@jit()
def quiet(state: int) -> None:
    """Complete all that the PE has sent."""
    fence(state)
    n = state_of(state)[S_N_PES]
    known, ordered, current = known_clock(state), ordered_clock(state), current_clock(state)
    for target in range(n if n <= EXACT_PES else 1):
        line = put_line(state, target)
        known[line] = ordered[line]
    line = atomic_line(state)
    known[line] = ordered[line]
    line = nonblocking_line(state)
    known[line] = current[line]
    current[line] += 1


@jit()
def join(state: int, other: int) -> None:
    """Let what the PE does next come after what the clock at an address knows."""
    known = known_clock(state)
    clock = words_at(other, known.size)
    for line in range(known.size):
        known[line] = max(known[line], clock[line])


@jit()
def _state_of_pe(state: int, pe: int) -> Any:
    """Return the state of another PE."""
    words = state_of(state)
    size = (8 * (STATE_WORDS + 3 * words[S_LINES]) + PAGE - 1) // PAGE * PAGE
    return state + (pe - words[S_PE]) * size


@jit()
def mark_unseen(state: int) -> None:
    """Note, for all PEs, that code of this one may signal others unseen."""
    for pe in range(state_of(state)[S_N_PES]):
        state_of(_state_of_pe(state, pe))[S_UNSEEN] = 1


@jit()
def join_all(state: int) -> None:
    """Let what the PE does next come after all that others have done: it may have waited for that unseen."""
    n, me = state_of(state)[S_N_PES], state_of(state)[S_PE]
    known = known_clock(state)
    for pe in range(n):
        other = _state_of_pe(state, pe)
        if pe == me or state_of(other)[S_ME] == 0:  # that has not begun
            continue
        join(state, other + 8 * STATE_WORDS)
        current = current_clock(other)
        for target in range(n if n <= EXACT_PES else 1):
            line = put_line(other, target)
            known[line] = max(known[line], current[line])
        for line in (atomic_line(other), nonblocking_line(other)):
            known[line] = max(known[line], current[line])


@jit()
def publish_row(state: int, row: int, meeting: int) -> None:
    """Write what the PE knows as the row of a meeting, and go on."""
    known = known_clock(state)
    out = words_at(row, 1 + known.size)
    out[1:] = known
    out[0] = meeting
    tick(state)


@jit()
def join_rows(state: int, rows: int, member: int, meeting: int) -> bool:
    """Join what a member knew when it came to a meeting; return whether its row was there."""
    size = row_bytes(state)
    for half in range(2):
        row = rows + (2 * member + half) * size
        if words_at(row, 1)[0] == meeting:
            join(state, row + 8)
            return True
    return False
