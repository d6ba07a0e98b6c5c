"""The listeners' area: where in it lies what the PEs' race checkers share.

    | locks | chains | PE states | freed | group rows | sites | findings | tasks | records | words | entries | shadow |

It is sparse: address space is generous, memory is taken when touched. What the parts are for:

* a *lock* a heap: whoever looks at, or changes, what is known of a heap holds it;
* *chains*: how many chains of tasks any PE has used (see ``tasks``): clocks are as long as that asks for;
* the *state* of a PE: words for its kernels, its clocks (see ``clocks``);
* the clock of what was *freed*;
* *group rows*: the clocks with which members came to a barrier or a collective, two a member, used in turn;
* *sites*: the lines of the program from which a PE has done something, as text;
* *findings*: what a PE found, as text, for the launcher;
* *tasks*: the last tasks of a PE, with their clocks, from which reports say which edge is missing;
* *records*: the accesses of a PE (see ``records``);
* *words*: integers of a heap that were signalled, with the clock of each value;
* *entries*: what the shadow of a heap has no room for;
* *shadow*: two numbers for each 64 bytes of a heap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from emu.comm.layout import GROUPS, LINE, PAGE, Layout, round_up

GRANULE_BITS = 6
GRANULE = 1 << GRANULE_BITS
"""Bytes of a heap that the shadow has two numbers for."""

EXACT_PES = 16
"""With more PEs there is one line for all puts of a PE, not one for each target: a fence then counts as a quiet."""

MOST_CHAINS, LEAST_CHAINS, ALL_CHAINS = 64, 4, 1024
"""Chains of tasks of a PE: at most and at least, and how many those of all PEs may be."""

TASKS = 4096
"""Tasks of a PE that reports can tell of."""

TASK_WORDS = 8
"""Words of a task before its clock."""

T_SERIAL, T_SITE, T_LINE, T_FIRST, T_LAST = range(5)
"""These words: its number among the PE's, from 1; its line of the program; its line of work, and its first and last time there."""

STATE_WORDS = 72
RECORD_WORDS = 13
RECORDS = 1 << 20
"""Accesses of a PE that are remembered; what is older is taken for ordered."""

ENTRY_WORDS = 5
VERSIONS = 4
"""Values of a signal word whose clocks are remembered."""

VERSION_WORDS = 5
"""Words of a value before its clock."""

BUCKETS = 1 << 20
WORDS = 1 << 20
"""Signal words of a heap."""

SITE_BYTES = 1024
SITES = 1 << 14
FINDINGS_BYTES = 4 << 20


@dataclass(frozen=True)
class Area:
    """Byte offsets of each part for a segment's layout."""

    n_pes: int
    heap: int

    @classmethod
    def of(cls, layout: Layout) -> Area:
        """Return the area of a segment."""
        return cls(layout.n_pes, layout.stride)

    @cached_property
    def base_lines(self) -> int:
        """Number of lines of work of PEs without tasks: see ``clocks``."""
        n = self.n_pes
        return 3 * n + (n * n if n <= EXACT_PES else n)

    @cached_property
    def chains(self) -> int:
        """Number of chains of tasks that a PE can have; each is a line, behind the others."""
        return max(LEAST_CHAINS, min(MOST_CHAINS, ALL_CHAINS // self.n_pes))

    @cached_property
    def lines(self) -> int:
        """Number of lines of work."""
        return self.base_lines + self.n_pes * self.chains

    @cached_property
    def chains_used(self) -> int:
        """The word that counts chains in use."""
        return round_up(self.n_pes * LINE, PAGE)

    @cached_property
    def states(self) -> int:
        """First PE's state."""
        return self.chains_used + PAGE

    @cached_property
    def state_bytes(self) -> int:
        """Bytes of a state, with the PE's three clocks behind its words."""
        return round_up(8 * (STATE_WORDS + 3 * self.lines), PAGE)

    @cached_property
    def freed(self) -> int:
        """The clock of all that was freed."""
        return self.states + self.n_pes * self.state_bytes

    @cached_property
    def rows(self) -> int:
        """First group's rows."""
        return self.freed + round_up(8 * self.lines, PAGE)

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a row: the number of the meeting, and a clock."""
        return 8 * (1 + self.lines)

    @cached_property
    def sites(self) -> int:
        """First PE's sites."""
        return round_up(self.rows + GROUPS * self.n_pes * 2 * self.row_bytes, PAGE)

    @cached_property
    def findings(self) -> int:
        """First PE's findings: the number of bytes, and the text."""
        return self.sites + self.n_pes * SITES * SITE_BYTES

    @cached_property
    def tasks(self) -> int:
        """First PE's tasks."""
        return self.findings + self.n_pes * FINDINGS_BYTES

    @cached_property
    def tasks_bytes(self) -> int:
        """Bytes of a PE's tasks."""
        return TASKS * 8 * (TASK_WORDS + self.lines)

    @cached_property
    def records(self) -> int:
        """First PE's records."""
        return round_up(self.tasks + self.n_pes * self.tasks_bytes, PAGE)

    @cached_property
    def words(self) -> int:
        """First heap's signal words: buckets, then words."""
        return round_up(self.records + self.n_pes * RECORDS * RECORD_WORDS * 8, PAGE)

    @cached_property
    def word_words(self) -> int:
        """Words (of 8 bytes) that a signal word takes."""
        return 4 + self.n_pes + VERSIONS * (VERSION_WORDS + self.lines)

    @cached_property
    def words_bytes(self) -> int:
        """Bytes of a heap's signal words."""
        return round_up(8 * (BUCKETS + 8 + WORDS * self.word_words), PAGE)

    @cached_property
    def entries(self) -> int:
        """First heap's entries: the number that were ever used, the first free one, then entries."""
        return self.words + self.n_pes * self.words_bytes

    @cached_property
    def entries_bytes(self) -> int:
        """Bytes of a heap's entries: room for four a granule."""
        return round_up(self.heap // GRANULE * 4 * ENTRY_WORDS * 8, PAGE)

    @cached_property
    def shadow(self) -> int:
        """First heap's shadow."""
        return self.entries + self.n_pes * self.entries_bytes

    @cached_property
    def shadow_bytes(self) -> int:
        """Bytes of a heap's shadow."""
        return round_up(self.heap // GRANULE * 16, PAGE)

    @cached_property
    def nbytes(self) -> int:
        """Size of the area."""
        return self.shadow + self.n_pes * self.shadow_bytes
