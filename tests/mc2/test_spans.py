"""Spans of computation."""

from __future__ import annotations

import time

from emu.mc2.spans import computing


def test_a_block_is_recorded_with_its_times():
    trace = []
    begin = time.monotonic_ns()
    with computing(trace, 3, "own rows", -1):
        inside = time.monotonic_ns()
    (span,) = trace
    assert (span.pe, span.kind, span.name, span.turn) == (3, "compute", "own rows", -1)
    assert begin <= span.start_ns <= inside <= span.end_ns <= time.monotonic_ns()


def test_nothing_is_recorded_without_a_trace():
    with computing(None, 0, "own rows", 0):
        pass
