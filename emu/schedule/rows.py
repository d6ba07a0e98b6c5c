"""What each PE is about to do, in shared memory, and who may act because of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emu.comm.arrays import Bytes, Words
from emu.comm.world.steering import Span
from emu.schedule.area import (
    AWAY,
    MEETS,
    R_HOLDS,
    R_KEY,
    R_LOOKS,
    R_ONLY_LOOKS,
    R_OPERATIONS,
    R_SEEN,
    R_SITE,
    R_SIZE,
    R_SPAN,
    R_SPANS,
    R_STATE,
    R_STORE,
    R_STORES,
    R_WATCH,
    READY,
    ROW_WORDS,
    RUNS,
    S_BEHIND,
    S_EPOCH,
    S_FIRST,
    S_NUMBER,
    S_PE,
    S_SITE,
    SPANS,
    STORE_WORDS,
    WAITS,
    Area,
)
from emu.schedule.strategies import Candidate


class Rows:
    """The rows of all PEs.

    Args:
        memory: The area of PEs that take turns.
        area: Where its parts lie.
    """

    def __init__(self, memory: Bytes, area: Area) -> None:
        size = area.n_pes * ROW_WORDS * 8
        table: Words = memory[area.rows : area.rows + size].view("i8").reshape(area.n_pes, -1)
        self.n_pes = area.n_pes
        self.rows: list[Words] = list(table)
        self.versions: Words = memory[area.versions : area.versions + 8 * area.n_pes].view("i8")

    def write(
        self, pe: int, state: int, spans: Sequence[Span], *, site: int, only_looks: bool = False
    ) -> None:
        """Note what a PE is about to do."""
        row = self.rows[pe]
        row[R_STATE], row[R_SITE], row[R_ONLY_LOOKS] = state, site, only_looks
        row[R_HOLDS] = state == READY
        given = spans if len(spans) <= SPANS else [*spans[: SPANS - 1], _joined(spans[SPANS - 1 :])]
        row[R_SPANS] = len(given)
        for i, span in enumerate(given):
            row[R_SPAN + 4 * i : R_SPAN + 4 * i + 4] = span

    def write_wait(self, pe: int, watch: int, *, holds: bool) -> None:
        """Note whether the condition of a PE's wait holds, as far as the heap of PE ``watch`` says now."""
        row = self.rows[pe]
        row[R_WATCH], row[R_SEEN], row[R_HOLDS] = watch, self.versions[watch], holds

    def write_meeting(self, pe: int, key: int, size: int) -> None:
        """Note at which group's meeting a PE waits, and how many must come."""
        self.rows[pe][R_KEY], self.rows[pe][R_SIZE] = key, size

    def spans(self, pe: int) -> tuple[Span, ...]:
        """Return the memory that a PE is about to use."""
        row = self.rows[pe]
        return tuple(
            _span(row[R_SPAN + 4 * i : R_SPAN + 4 * i + 4].tolist()) for i in range(row[R_SPANS])
        )

    def changed(self, spans: Sequence[Span]) -> None:
        """Note that memory is about to change."""
        for span in spans:
            if span.writes:
                self.versions[span.pe] += 1
                for row in self.rows:
                    row[R_LOOKS] = 0

    def stale(self) -> int | None:
        """Return a PE whose condition must be looked at again; None: there is none."""
        for pe, row in enumerate(self.rows):
            if row[R_STATE] == WAITS and row[R_SEEN] != self.versions[row[R_WATCH]]:
                return pe
        return None

    def distrust(self) -> bool:
        """Let all conditions be looked at again; return whether there are any."""
        waits = [row for row in self.rows if row[R_STATE] == WAITS]
        for row in waits:
            row[R_SEEN] = self.versions[row[R_WATCH]] - 1
        return bool(waits)

    def in_state(self, state: int) -> list[int]:
        """Return the PEs in a state."""
        return [pe for pe, row in enumerate(self.rows) if row[R_STATE] == state]

    def give_up(self) -> list[int]:
        """Note that the PEs that run are away; return them."""
        running = self.in_state(RUNS)
        for pe in running:
            self.rows[pe][R_STATE] = AWAY
        return running

    def meeting(self, pe: int) -> list[int]:
        """Return the PEs that have come to the meeting at which a PE waits."""
        key = self.rows[pe][R_KEY]
        return [p for p in self.in_state(MEETS) if self.rows[p][R_KEY] == key]

    def candidates(self) -> list[Candidate]:
        """Return who may act, by actor."""
        found = []
        for pe, row in enumerate(self.rows):
            can_go = row[R_STATE] in (READY, WAITS) and row[R_HOLDS]
            if row[R_STATE] == MEETS:
                there = self.meeting(pe)
                can_go = there[0] == pe and len(there) == row[R_SIZE]
            if can_go:
                looks = int(row[R_LOOKS]) if row[R_ONLY_LOOKS] else 0
                found.append(
                    Candidate(pe, self.spans(pe), int(row[R_SITE]), int(row[R_OPERATIONS]), looks)
                )
            found += self._stores(pe)
        return sorted(found, key=lambda c: c.actor)

    def _stores(self, pe: int) -> Iterator[Candidate]:
        """Return the stores of a PE that may arrive: those of the first epoch for each target."""
        row = self.rows[pe]
        count = int(row[R_STORES])
        if not count:
            return
        stores = row[R_STORE : R_STORE + STORE_WORDS * count].reshape(count, STORE_WORDS).tolist()
        first: dict[int, int] = {}
        for store in stores:
            first[store[S_PE]] = min(first.get(store[S_PE], store[S_EPOCH]), store[S_EPOCH])
        for store in stores:
            if store[S_EPOCH] == first[store[S_PE]]:
                yield Candidate(
                    pe + self.n_pes * store[S_NUMBER],
                    (Span(store[S_PE], store[S_FIRST], store[S_BEHIND], True),),
                    store[S_SITE],
                    int(row[R_OPERATIONS]),
                    0,
                )


def _span(words: Sequence[int]) -> Span:
    return Span(words[0], words[1], words[2], bool(words[3]))


def _joined(spans: Sequence[Span]) -> Span:
    """Return one span for several of a PE's heap, for a wait for many words."""
    return Span(
        spans[0].pe,
        min(s.first for s in spans),
        max(s.behind for s in spans),
        any(s.writes for s in spans),
    )
