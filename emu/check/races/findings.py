"""Findings: from the ids that compiled code leaves to reports, and from the PEs to the launcher.

A PE writes each report, as a line of JSON, behind those that it has in the listeners' area. So they are there for the
launcher however the PE ends.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from emu.check.area import (
    FINDINGS_BYTES,
    GRANULE,
    RECORD_WORDS,
    RECORDS,
    SITE_BYTES,
    SITES,
    STATE_WORDS,
    Area,
)
from emu.check.places import between
from emu.check.races import clocks as c
from emu.check.races import records as r
from emu.check.races.sites import Place, read_site
from emu.check.reports import Access, Note, Race, Report, as_dictionary
from emu.comm.arrays import Bytes, Words
from emu.comm.memory.segment import Segment
from emu.kernels.core.dtype_table import DTYPES

End = tuple[int, int, int]
"""An access: its PE, its line of work, and its time there."""


class _Record(NamedTuple):
    """An access, as the tables of its PE have it."""

    pe: int
    place: Place
    line: int
    time: int
    kind: int
    issued: int
    low: int
    high: int


class Findings:
    """What one PE has found.

    Args:
        segment: The world's.
        memory: The listeners' area.
        pe: The PE.
        finds_races: Whether races are looked for; else none is reported.
    """

    def __init__(
        self, segment: Segment, memory: Bytes, pe: int, *, finds_races: bool = True
    ) -> None:
        self._finds_races = finds_races
        self._segment = segment
        self._memory = memory
        self._area = Area.of(segment.layout)
        self._pe = pe
        self._told: set[tuple[Any, ...]] = set()

    def take(self, state: Words) -> None:
        """Report what compiled code has left in a PE's state."""
        count = min(int(state[c.S_FOUND]), c.FINDINGS)
        rows = state[c.S_FINDINGS : c.S_FINDINGS + 5 * count].reshape(count, 5).tolist()
        state[c.S_FOUND] = 0
        if not self._finds_races:
            return
        for other, own, heap, granule, mask in rows:
            pair = self._pair(other), self._pair(own)
            if pair in self._told:
                continue
            self._told.add(pair)
            one, two = self._record(other), self._record(own)
            race = self._race(one, two, heap, granule * GRANULE, mask)
            ends = [(each.pe, each.line, each.time) for each in (one, two)]
            self.add(race, ends if self._is_task(one) or self._is_task(two) else None)

    def note_lost(self) -> None:
        """Report that the shadow had no room for all accesses."""
        self.add(Note("the shadow had no room for all accesses: races may have been missed"))

    def _is_task(self, record: _Record) -> bool:
        return record.line >= self._area.base_lines

    def add(self, report: Report, ends: list[End] | None = None) -> None:
        """Write a report for the launcher, and of accesses by tasks what it looks up when all PEs have ended."""
        first = self._area.findings + self._pe * FINDINGS_BYTES
        log = self._memory[first : first + FINDINGS_BYTES]
        size = log[:8].view(np.int64)
        data = as_dictionary(report)
        if ends is not None:
            data["ends"] = ends
        text = json.dumps(data).encode() + b"\n"
        start = 8 + int(size[0])
        if start + len(text) <= FINDINGS_BYTES:
            log[start : start + len(text)] = np.frombuffer(text, np.uint8)
            size[0] += len(text)

    # --- a race ----------------------------------------------------------------------------

    def _words_of(self, identity: int) -> tuple[int, Words]:
        pe = (identity >> r.SERIAL_BITS) - 1
        place = (identity & ((1 << r.SERIAL_BITS) - 1)) % RECORDS
        start = self._area.records + (pe * RECORDS + place) * 8 * RECORD_WORDS
        return pe, self._memory[start : start + 8 * RECORD_WORDS].view(np.int64)

    def _pair(self, identity: int) -> tuple[int, int]:
        pe, words = self._words_of(identity)
        return pe, int(words[r.R_SITE])

    def _record(self, identity: int) -> _Record:
        pe, words = self._words_of(identity)
        start = self._area.sites + pe * SITES * SITE_BYTES
        table = self._memory[start : start + SITES * SITE_BYTES]
        place = read_site(table, int(words[r.R_SITE]))
        fields = (r.R_LINE, r.R_TIME, r.R_KIND, r.R_ISSUED, r.R_LOW, r.R_HIGH)
        return _Record(pe, place, *(int(words[f]) for f in fields))

    def _race(self, one: _Record, two: _Record, heap: int, start: int, mask: int) -> Race:
        bits = np.flatnonzero([mask >> bit & 1 for bit in range(GRANULE)])
        low, high = start + int(bits[0]), start + int(bits[-1]) + 1
        low, high = max(low, one.low, two.low), min(high, one.high, two.high)
        array, at, elements = self._array(low, high)
        reason, advice = self._explain(one, two)
        return Race(
            _access(one), _access(two), heap, array, low - at, high - at, elements, reason, advice
        )

    def _array(self, low: int, high: int) -> tuple[str, int, str]:
        """Return what memory of the heap is: the array, its offset, and which elements."""
        for entry in self._segment.allocations:
            if entry["used"] and entry["offset"] <= low < entry["offset"] + entry["nbytes"]:
                dtype = DTYPES[entry["dtype"]]
                offset, shape = (
                    int(entry["offset"]),
                    tuple(entry["shape"][: entry["rank"]].tolist()),
                )
                first = (low - offset) // dtype.itemsize
                last = (high - 1 - offset) // dtype.itemsize
                name = entry["name"].decode(errors="replace")
                text = f"{name or 'an array'} ({dtype}, shape {shape})"
                elements = f"element {_index(first, shape)}"
                if last > first:
                    elements = f"elements {_index(first, shape)} to {_index(last, shape)}"
                return text, offset, f"first at {elements}"
        return "memory of the heap", 0, f"bytes {low} to {high}"

    def _explain(self, one: _Record, two: _Record) -> tuple[str, str]:
        """Return why two accesses have no order, and what would give them one."""
        n = self._area.n_pes
        sent = one.line >= 2 * n
        after, before = between(one.place, two.place)
        if self._is_task(one) or self._is_task(two):
            if one.pe == two.pe:
                return (
                    f"no pred leads from {before} to {after}",
                    f"the result of {after}, or of an op behind it, in pred of {before}",
                )
            return (
                f"no signal that comes after {after} by preds was waited for by what {before} comes after by preds",
                f"a signal with {after} in pred, and the wait for it in pred of {before}",
            )
        if one.pe == two.pe:
            if n <= one.line < 2 * n:
                return (
                    f"{one.place.operation} may go on until quiet(), which PE {one.pe} did not call between",
                    f"quiet() after {after}, before {before}",
                )
            call = "fence() or quiet()" if two.line >= 2 * n else "quiet()"
            return (
                f"what PE {one.pe} sends may arrive later, and it called no {call} between",
                f"{call} after {after}, before {before}",
            )
        if one.time == r.OPEN:
            return (
                f"the scope of {after} was open, in which PE {one.pe} uses the memory at any time",
                f"a barrier, or a signal that PE {one.pe} sends behind the scope and PE {two.pe} waits for before {before}",
            )
        known = self._known_of(two.pe)
        heard = sent and int(known[one.pe]) >= one.issued
        if heard and one.place.operation.startswith("put_signal"):
            reason = (
                f"PE {two.pe} has heard of PE {one.pe} since, but has not seen the signal of {after}, and a put_signal tells "
                "of no other"
            )
            return reason, f"a wait of PE {two.pe} for the signal of {after}, before {before}"
        if heard:
            reason = (
                f"PE {two.pe} has heard of PE {one.pe} since, but PE {one.pe} called neither fence() nor quiet() after "
                f"{after}: what it sent there may arrive later than its signals"
            )
            return (
                reason,
                f"fence() or quiet() on PE {one.pe} after {after} and before it signals, or put_signal",
            )
        return (
            f"PE {two.pe} waited for nothing that PE {one.pe} did after {after}",
            f"a barrier between, or a signal that PE {one.pe} sends after {after} and PE {two.pe} waits for before {before}",
        )

    def _known_of(self, pe: int) -> Words:
        area = self._area
        start = area.states + pe * area.state_bytes + 8 * STATE_WORDS
        return self._memory[start : start + 8 * area.lines].view(np.int64)


def _access(record: _Record) -> Access:
    verb = "updates" if record.kind & r.ATOMIC else "writes"
    if not record.kind & r.WRITES:
        verb = "reads"
    place = record.place
    return Access(record.pe, place.operation, verb, place.file, place.line)


def _index(number: int, shape: tuple[int, ...]) -> str:
    if not shape:
        return "()"
    index = tuple(int(i) for i in np.unravel_index(number, shape))
    return str(index[0]) if len(index) == 1 else str(index)
