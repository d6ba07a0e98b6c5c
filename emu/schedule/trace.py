"""``Trace``: what PEs that took turns have done, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from emu.check.area import SITE_BYTES, SITES
from emu.check.races.sites import Place, read_site
from emu.comm.arrays import Bytes, Words
from emu.comm.memory.segment import Segment
from emu.comm.schedule_options import Switch
from emu.comm.world.steering import Span
from emu.schedule.area import (
    CANDIDATE_WORDS,
    CANDIDATES,
    H_FREED,
    H_STEP,
    HEADER_WORDS,
    STEP_WORDS,
    STEPS,
    T_ACTOR,
    T_CANDIDATE,
    T_CANDIDATES,
    T_COUNT,
    T_DEFAULT,
    T_SITE,
    T_SPANS,
    T_STALLED,
    TRACE_SPANS,
    Area,
)
from emu.schedule.strategies import Candidate, Choice

EVERYWHERE = -2
"""In the place of a PE's number: an operation whose memory is not known."""


class Step(NamedTuple):
    """One thing that was done.

    Attributes:
        actor: Who did it; see :class:`~emu.comm.schedule_options.Schedule`.
        pe: Its PE.
        operation: What it did.
        file: Source file of the program's line; empty: not known.
        line: Its line.
        default: Who would have come by the strategy ``"first"``.
        after: How many operations the PE of ``default`` had done.
        is_stalled: Whether some PE ran beside it, because it had run for too long.
        spans: Memory that it used, as far as it is known.
        candidates: Who could have come, each with the memory that it would have used.
    """

    actor: int
    pe: int
    operation: str
    file: str
    line: int
    default: int
    after: int
    is_stalled: bool
    spans: tuple[Span, ...]
    candidates: tuple[tuple[int, tuple[Span, ...]], ...]

    @property
    def is_arrival(self) -> bool:
        """Whether a store arrived, which its PE had issued before."""
        return self.actor != self.pe

    @property
    def signature(self) -> tuple[int, str, str, int]:
        """What must be the same when the order is repeated."""
        return self.actor, self.operation, self.file, self.line


@dataclass(frozen=True)
class Trace:
    """What the PEs of a launch did.

    Attributes:
        n_pes: How many they were.
        steps: What they did.
        freed: Why they took turns no more: 0 if they did to the end; see :mod:`emu.schedule.area`.
    """

    n_pes: int
    steps: tuple[Step, ...]
    freed: int

    @property
    def switches(self) -> tuple[Switch, ...]:
        """Where the order departs from the strategy ``"first"``."""
        return tuple(
            Switch(step.default, step.after, step.actor)
            for step in self.steps
            if step.actor != step.default
        )

    @property
    def actors(self) -> tuple[int, ...]:
        """The actors, in order."""
        return tuple(step.actor for step in self.steps)

    def as_data(self) -> dict[str, Any]:
        """Return the trace as plain data: what :meth:`Step.signature` has of each step."""
        return {
            "n_pes": self.n_pes,
            "freed": self.freed,
            "steps": [[s.actor, s.operation, s.file, s.line] for s in self.steps],
        }


class TraceWriter:
    """Writes steps into the area of PEs that take turns."""

    def __init__(self, memory: Bytes, area: Area) -> None:
        size = STEPS * STEP_WORDS * 8
        self._steps: Words = memory[area.trace : area.trace + size].view("i8").reshape(STEPS, -1)

    def write(
        self, number: int, choice: Choice, candidates: Sequence[Candidate], *, stalled: bool
    ) -> None:
        """Write a step, which is not the last for which there is room."""
        row = self._steps[number]
        chosen, default = choice
        row[T_ACTOR], row[T_SITE], row[T_DEFAULT] = chosen.actor, chosen.site, default.actor
        row[T_COUNT], row[T_STALLED] = default.operations, stalled
        _write_spans(row[T_SPANS:T_CANDIDATE], chosen.spans)
        # With too many to keep, none are kept: who needs them must know that.
        kept = candidates if len(candidates) <= CANDIDATES else ()
        row[T_CANDIDATES] = len(kept)
        for i, candidate in enumerate(kept):
            start = T_CANDIDATE + CANDIDATE_WORDS * i
            row[start] = candidate.actor
            _write_spans(row[start + 1 : start + CANDIDATE_WORDS], candidate.spans)

    def widen(self, number: int) -> None:
        """Note that a step used more memory than was known when it began."""
        self._steps[number][T_SPANS : T_SPANS + 4] = (EVERYWHERE, 0, 0, 1)


def _write_spans(words: Words, spans: Sequence[Span]) -> None:
    for i in range(TRACE_SPANS):
        # Behind the spans stands one of no PE; more spans than there is room for are one of all memory.
        if len(spans) > TRACE_SPANS:
            words[4 * i : 4 * i + 4] = (EVERYWHERE, 0, 0, 1)
        else:
            words[4 * i : 4 * i + 4] = spans[i] if i < len(spans) else (-1, 0, 0, 0)


def _read_spans(words: Words) -> tuple[Span, ...]:
    table = words.reshape(-1, 4).tolist()
    return tuple(Span(pe, first, behind, bool(w)) for pe, first, behind, w in table if pe != -1)


def read_trace(segment: Segment) -> Trace:
    """Return what PEs have done, as far as they have."""
    memory = segment.map_schedule()
    area = Area(segment.layout.n_pes)
    head: Words = memory[: 8 * HEADER_WORDS].view("i8")
    count = min(int(head[H_STEP]), STEPS)
    size = count * STEP_WORDS * 8
    table: Words = memory[area.trace : area.trace + size].view("i8").reshape(count, STEP_WORDS)
    known: dict[tuple[int, int], Place] = {}
    return Trace(
        area.n_pes,
        tuple(_read_step(memory, area, row, known) for row in table),
        int(head[H_FREED]),
    )


def _read_step(memory: Bytes, area: Area, row: Words, known: dict[tuple[int, int], Place]) -> Step:
    actor, site = int(row[T_ACTOR]), int(row[T_SITE])
    pe = actor % area.n_pes
    place = known.get((pe, site))
    if place is None:
        start = area.sites + pe * SITES * SITE_BYTES
        place = known[pe, site] = read_site(memory[start : start + SITES * SITE_BYTES], site)
    candidates = []
    for i in range(int(row[T_CANDIDATES])):
        start = T_CANDIDATE + CANDIDATE_WORDS * i
        spans = _read_spans(row[start + 1 : start + CANDIDATE_WORDS])
        candidates.append((int(row[start]), spans))
    return Step(
        actor=actor,
        pe=pe,
        operation=place.operation,
        file=place.file,
        line=place.line,
        default=int(row[T_DEFAULT]),
        after=int(row[T_COUNT]),
        is_stalled=bool(row[T_STALLED]),
        spans=_read_spans(row[T_SPANS:T_CANDIDATE]),
        candidates=tuple(candidates),
    )
