"""``Stores``: what a PE has issued and what has not arrived yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from emu.comm.arrays import Words
from emu.comm.world.steering import Span
from emu.schedule.area import (
    R_STORE,
    R_STORES,
    S_BEHIND,
    S_EPOCH,
    S_FIRST,
    S_NUMBER,
    S_PE,
    S_SITE,
    STORE_WORDS,
    STORES,
)


@dataclass
class _Store:
    number: int
    span: Span
    site: int
    epoch: int
    parts: list[Callable[[], None]] = field(default_factory=list)


class Stores:
    """The stores of a PE, in the order in which they were issued.

    Args:
        row: The PE's row, in which others read what may arrive.
    """

    def __init__(self, row: Words) -> None:
        self._row = row
        self._pending: list[_Store] = []
        self._issued = 0
        self._epoch = 0

    def add(self, span: Span, site: int, store: Callable[[], None], *, joins: bool) -> None:
        """Add a store; ``joins``: to the last one, with which it arrives."""
        if joins and self._pending:
            last = self._pending[-1]
            last.parts.append(store)
            if span.pe == last.span.pe:
                last.span = Span(
                    span.pe,
                    min(span.first, last.span.first),
                    max(span.behind, last.span.behind),
                    True,
                )
        else:
            self._issued += 1
            self._pending.append(_Store(self._issued, span, site, self._epoch, [store]))
        self._publish()

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more."""
        return len(self._pending) >= STORES

    @property
    def is_empty(self) -> bool:
        """Whether all have arrived."""
        return not self._pending

    def fence(self) -> None:
        """Let later ones arrive at a PE behind those that there are."""
        self._epoch += 1

    def arrive(self, number: int) -> Span | None:
        """Let one arrive; return what it has written, None if it is not there."""
        for store in self._pending:
            if store.number == number:
                for part in store.parts:
                    part()
                self._pending.remove(store)
                self._publish()
                return store.span
        return None

    def arrive_all(self, pe: int | None = None, *, before_fence: bool = False) -> list[Span]:
        """Let all arrive, in order: those for a PE, or for all.

        Args:
            pe: The PE. Default: all.
            before_fence: Only those that a fence separates from what is done next.
        """
        due = [
            s.number
            for s in self._pending
            if (pe is None or s.span.pe == pe) and not (before_fence and s.epoch == self._epoch)
        ]
        return [span for number in due if (span := self.arrive(number)) is not None]

    def arrive_first(self) -> Span | None:
        """Let the first one arrive."""
        return self.arrive(self._pending[0].number) if self._pending else None

    def _publish(self) -> None:
        row = self._row
        row[R_STORES] = len(self._pending)
        for i, store in enumerate(self._pending):
            at = R_STORE + STORE_WORDS * i
            row[at + S_NUMBER], row[at + S_PE] = store.number, store.span.pe
            row[at + S_FIRST], row[at + S_BEHIND] = store.span.first, store.span.behind
            row[at + S_SITE], row[at + S_EPOCH] = store.site, store.epoch
