"""The area of PEs that take turns: where in it lies what they share.

    | header | memory of the strategy | versions | rows of the PEs | sites | trace |

It is sparse: memory is taken when touched. What the parts are for:

* the *header*: the lock of the area, how many PEs do not run, and what has become of the turns;
* the strategy's *memory*: what it remembers from one choice to the next;
* *versions*: how often something was done to each heap, so that conditions of waits are looked at again;
* a *row* a PE: what it is about to do, what it may do, and its stores that have not arrived yet;
* *sites*: the lines of the program, as text (:mod:`emu.check.races.sites`);
* the *trace*: what was done, in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from emu.check.area import SITE_BYTES, SITES
from emu.comm.layout import LINE, PAGE, round_up

# --- header: int64 words; the first line has the lock alone
H_IDLE, H_STEP, H_FREED, H_ARRIVALS, H_LOOKED_AGAIN = 8, 9, 10, 11, 12
HEADER_WORDS = 16

DEADLOCK, TOO_LONG = 1, 2
"""Why PEs take turns no more: nobody can go on; there were more steps than the trace has room for."""

# --- memory of the strategy: int64 words
M_CURRENT, M_NEXT_SWITCH, M_DEMOTED = 0, 1, 2
M_DEMOTIONS = 8
DEMOTIONS = 2048
M_PASSED = M_DEMOTIONS + 2 * DEMOTIONS

# --- a PE's row: int64 words; of the first, the low half is a futex
R_STEP = 7
R_GRANT, R_ACTION, R_STATE, R_SITE, R_LOOKS, R_OPERATIONS = 0, 8, 9, 10, 11, 12
R_KEY, R_SIZE, R_WATCH, R_SEEN, R_HOLDS, R_ONLY_LOOKS = 13, 14, 15, 16, 17, 18
R_SPANS, R_SPAN = 19, 20
SPANS = 4
R_STORES, R_STORE = 40, 48
STORES = 48
"""Stores of a PE that have not arrived; with one more, the first arrives."""
STORE_WORDS = 8
R_REACHED = 448
COUNTERS = 64
"""Counters of a PE, for what its group does beside it."""
S_NUMBER, S_PE, S_FIRST, S_BEHIND, S_SITE, S_EPOCH = range(6)
ROW_WORDS = PAGE // 8

# --- states of a PE
RUNS, READY, WAITS, MEETS, AWAY, ENDED = range(6)
"""RUNS: at least until its next operation. AWAY: it has run for too long without one."""

# --- what a PE is granted
GO, LOOK, DELIVER, FREE = 1, 2, 3, 4

# --- a step of the trace: int64 words
T_ACTOR, T_SITE, T_DEFAULT, T_COUNT, T_STALLED, T_CANDIDATES = range(6)
T_SPANS = 6
TRACE_SPANS = 2
CANDIDATE_WORDS = 1 + 4 * TRACE_SPANS
T_CANDIDATE = T_SPANS + 4 * TRACE_SPANS
CANDIDATES = 12
"""Candidates of a step that the trace has room for."""
STEP_WORDS = 128
STEPS = 1 << 16


@dataclass(frozen=True)
class Area:
    """Byte offsets of each part for a number of PEs."""

    n_pes: int

    @property
    def memory(self) -> int:
        """The strategy's memory."""
        return HEADER_WORDS * 8 + LINE

    @property
    def memory_words(self) -> int:
        """Words of it."""
        return M_PASSED + self.n_pes

    @property
    def versions(self) -> int:
        """First heap's version."""
        return self.memory + 8 * self.memory_words

    @property
    def rows(self) -> int:
        """First PE's row."""
        return round_up(self.versions + 8 * self.n_pes, PAGE)

    @property
    def sites(self) -> int:
        """First PE's sites."""
        return self.rows + self.n_pes * ROW_WORDS * 8

    @property
    def trace(self) -> int:
        """First step."""
        return self.sites + self.n_pes * SITES * SITE_BYTES

    @property
    def nbytes(self) -> int:
        """Size of the area."""
        return self.trace + STEPS * STEP_WORDS * 8
