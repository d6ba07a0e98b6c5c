"""The shortest order that still fails: fewest switches between PEs (Zeller's delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from emu.comm.schedule_options import Schedule, Switch
from emu.schedule.running import Outcome

Run = Callable[[Schedule], Outcome]


def shrink(run: Run, failed: Outcome, *, limit: int) -> Outcome:
    """Return a failing run with as few switches as ``limit`` further runs find.

    Args:
        run: Runs the program once.
        failed: A run that failed.
        limit: How many further runs there may be.
    """
    best = failed
    left = limit
    pieces = 2
    if (
        best.schedule.seed
    ):  # perhaps the order in which front ends do what nothing orders counts for nothing
        plain = run(replace(best.repeating, seed=0))
        left -= 1
        if plain.signature == best.signature:
            best = plain
    while left > 0:
        switches = best.trace.switches
        if not switches:
            return best
        pieces = min(pieces, len(switches))
        for part in range(pieces):
            found = run(replace(best.repeating, switches=_without(switches, part, pieces)))
            left -= 1
            shorter = len(found.trace.switches) < len(switches)
            if shorter and found.signature == best.signature:
                best, pieces = found, max(pieces - 1, 2)
                break
            if left <= 0:
                return best
        else:
            if pieces == len(switches):
                return best
            pieces = min(2 * pieces, len(switches))
    return best


def _without(switches: Sequence[Switch], part: int, pieces: int) -> tuple[Switch, ...]:
    """Return the switches without one of so many equal parts."""
    first, behind = (len(switches) * (part + i) // pieces for i in (0, 1))
    return (*switches[:first], *switches[behind:])
