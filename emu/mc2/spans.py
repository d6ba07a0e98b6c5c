"""Spans of one operator call: the stretches of time that its parts took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from emu.comm.world import recording
from emu.trace.events import Kind


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


@contextlib.contextmanager
def computing(trace: list[Span] | None, pe: int, name: str, turn: int) -> Iterator[None]:
    """Append the block's span to ``trace``, if there is one, and to the trace of the run, if that is recorded."""
    recorder = recording.active
    if trace is None and recorder is None:
        yield
        return
    start = time.monotonic_ns()
    yield
    end = time.monotonic_ns()
    if trace is not None:
        trace.append(Span(pe, "compute", name, turn, start, end))
    if recorder is not None:
        site = recorder.here(Kind.TURN, name, {"turn": turn}, key=turn)
        recorder.write_span(site, start, end)
