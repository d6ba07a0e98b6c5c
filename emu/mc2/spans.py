"""Spans of one operator call: the stretches of time that its parts took."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from emu.comm.world import recording
from emu.tile.counting.state import wants_operators
from emu.trace.events import Kind

if TYPE_CHECKING:
    from emu.mc2.counted import SpanCounts


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of computation or communication on one PE.

    Attributes:
        pe: Number of the PE in the operator's group.
        kind: Computation or communication.
        name: Name of the product or the collective.
        turn: Turn that it belongs to, from 0; -1: all turns.
        start_ns: Begin, in nanoseconds of ``time.monotonic_ns``, the same clock on all PEs.
        end_ns: End, on the same clock.
    """

    pe: int
    kind: Literal["compute", "communication"]
    name: str
    turn: int
    start_ns: int
    end_ns: int


class Noted:
    """What the open span computes, where that is recorded and counted.

    Attributes:
        counted: Its counts, as they grow; None: nobody wants them.
    """

    counted: SpanCounts | None = None


@contextlib.contextmanager
def computing(trace: list[Span] | None, pe: int, name: str, turn: int) -> Iterator[None]:
    """Append the block's span to ``trace``, if there is one, and to the trace of the run, if that is recorded.

    Where operators are counted the event's site has what the block computes, as :class:`Noted` was told; a block that told nothing is none of a device's.
    """
    recorder = recording.active
    if trace is None and recorder is None:
        yield
        return
    if recorder is not None and wants_operators():
        from emu.mc2.counted import SpanCounts  # where somebody counts

        Noted.counted = SpanCounts()
    start = time.monotonic_ns()
    try:
        yield
    finally:
        found, Noted.counted = Noted.counted, None
    end = time.monotonic_ns()
    if trace is not None:
        trace.append(Span(pe, "compute", name, turn, start, end))
    if recorder is not None:
        details: dict[str, object] = {"turn": turn}
        if found is not None:
            details["counts"] = found.to_json(name)
        site = recorder.here(Kind.TURN, name, details, key=json.dumps(details))
        recorder.write_span(site, start, end)
