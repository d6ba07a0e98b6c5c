"""Cells: what of each argument's memory a launch has touched, a bit for each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from emu.tile.counting.plan import GROUP_WORDS, POINTER_WORDS, Plan
from emu.tile.counting.tally import Touched
from emu.tile.counting.working_sets import WorkingSet, line_shift, working_set

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Cells:
    """Cells of one argument: those of what was read, then those of what was written.

    Attributes:
        start: Address of the element of the first.
        count: How many elements there are.
        granule: Bytes of an element.
        words: A bit for each cell.
        groups: A bit for each line and group of programs that read it; no line if nothing reads it.
        is_read: Whether anything reads it.
        is_written: Whether anything writes it.
    """

    start: int
    count: int
    granule: int
    words: Array
    groups: Array
    is_read: bool
    is_written: bool

    @property
    def facts(self) -> tuple[int, ...]:
        """What native code is told of them."""
        address = int(self.words.ctypes.data)
        shift = self.granule.bit_length() - 1
        cells = self.start, self.count, shift, address, address + self.words[0].nbytes
        return *cells, self.line, int(self.groups.ctypes.data)

    @property
    def line(self) -> int:
        """The binary logarithm of a line's bytes."""
        return line_shift(self.count * self.granule)

    def read_by(self, programs: int) -> WorkingSet:
        """Return the working sets of what was read."""
        return working_set(self.groups, self.line, programs) if self.is_read else ()

    @cached_property
    def either(self) -> Array:
        """The cells of what was read or written."""
        if self.is_read and self.is_written:
            return np.asarray(self.words[0] | self.words[1])
        return np.asarray(self.words[0 if self.is_read else 1])

    @cached_property
    def touched(self) -> int:
        """How many bytes were touched."""
        return _count(self.either) * self.granule

    def by_verb(self) -> tuple[int, int]:
        """Return how many bytes were read, and how many were written."""
        if not (self.is_read and self.is_written):
            return self.touched * self.is_read, self.touched * self.is_written
        read, written = self.words
        return _count(read) * self.granule, _count(written) * self.granule


class Cells:
    """Cells of a launch.

    Args:
        plan: Of its kernel.
        values: The arguments of the kernel.
        spans: For each argument, the first address of its storage and the one behind it; None: it has none, or that is not known.
    """

    def __init__(
        self, plan: Plan, values: Sequence[Any], spans: Sequence[tuple[int, int] | None]
    ) -> None:
        self._plan = plan
        self._of: list[_Cells | None] = []
        known = zip(values, spans, plan.granules, strict=True)
        for number, (value, span, granule) in enumerate(known):
            if span is None or not granule or not span[0] <= int(value) <= span[1]:
                self._of.append(None)
                continue
            start = span[0] + (int(value) - span[0]) % granule
            count = max(0, span[1] - start) // granule
            if not count:
                self._of.append(None)
                continue
            verbs = [s.verb for s in plan.sites if s.arguments == (number,)]
            is_read, is_written = any(v != "store" for v in verbs), any(v != "load" for v in verbs)
            bits = np.zeros((2, -(-count // 64)), np.uint64)
            lines = ((count * granule - 1) >> line_shift(count * granule)) + 1
            groups = np.zeros((lines * is_read, GROUP_WORDS), np.uint64)
            self._of.append(_Cells(start, count, granule, bits, groups, is_read, is_written))

    def words(self) -> Array:
        """Return what the kernel is told of them."""
        words = np.zeros((len(self._of), POINTER_WORDS), np.int64)
        for row, cells in zip(words, self._of, strict=True):
            if cells is not None:
                row[:] = cells.facts
        return words.reshape(-1)

    def touched(self, programs: int) -> list[Touched | None]:
        """Return what of each argument's memory a launch of so many programs has touched."""
        return [
            None if c is None else Touched(*c.by_verb(), c.touched, c.read_by(programs))
            for c in self._of
        ]

    def unique(self) -> int | None:
        """Return the bytes that were touched at least once, by whatever argument; None: they are not known."""
        sites = self._plan.sites
        if any(len(s.arguments) != 1 or self._of[s.arguments[0]] is None for s in sites):
            return None
        used = [self._of[n] for n in sorted({s.arguments[0] for s in sites})]
        alone: list[_Cells] = []
        shared: list[_Cells] = []
        for cells in used:
            assert cells is not None
            others = [c for c in used if c is not None and c is not cells]
            (shared if any(_overlap(cells, c) for c in others) else alone).append(cells)
        return sum(c.touched for c in alone) + _bytes_of(shared)


def _count(bits: Array) -> int:
    return int(np.bitwise_count(bits).sum(dtype=np.int64))


def _overlap(first: _Cells, second: _Cells) -> bool:
    end, other = (c.start + c.count * c.granule for c in (first, second))
    return first.start < other and second.start < end


def _bytes_of(shared: Sequence[_Cells]) -> int:
    """Return how many bytes were touched of memory that several arguments share."""
    if not shared:
        return 0
    spans = []
    for cells in shared:
        filled = np.unpackbits(cells.either.view(np.uint8), bitorder="little").view(np.int8)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], filled, [0]))))
        spans.append(cells.start + edges.reshape(-1, 2) * cells.granule)
    rows = np.concatenate(spans)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    if not len(rows):
        return 0
    ends = np.maximum.accumulate(rows[:, 1])
    before = np.concatenate(([rows[0, 0]], ends[:-1]))
    return int(np.maximum(ends - np.maximum(rows[:, 0], before), 0).sum())
