"""A trace as a table for people: one column a PE, one row an operation."""

from __future__ import annotations

from pathlib import Path

from emu.schedule.trace import Step, Trace

_LAST = 60
"""Rows that are shown, from the end."""
_WIDEST = 46
"""Characters of a cell's operation."""


def interleaving(trace: Trace, *, rows: int = _LAST) -> str:
    """Return what the PEs did as a table.

    Args:
        trace: What they did.
        rows: How many of the last operations are shown.
    """
    steps = list(enumerate(trace.steps, 1))
    shown = steps[-rows:]
    cells = [_cell(step, trace.n_pes) for _, step in shown]
    widths = [
        max(
            [
                len(f"PE {pe}"),
                *(len(c) for (_, s), c in zip(shown, cells, strict=True) if s.pe == pe),
            ]
        )
        for pe in range(trace.n_pes)
    ]
    lines = ["      " + "  ".join(f"PE {pe}".ljust(width) for pe, width in enumerate(widths))]
    if len(shown) < len(steps):
        lines.append(f"       … {len(steps) - len(shown)} operations before")
    for (number, step), cell in zip(shown, cells, strict=True):
        columns = ["·".ljust(width) for width in widths]
        columns[step.pe] = cell.ljust(widths[step.pe])
        lines.append(f"{number:5} " + "  ".join(columns))
    return "\n".join(line.rstrip() for line in lines)


def _cell(step: Step, n_pes: int) -> str:
    where = f"  {Path(step.file).name}:{step.line}" if step.line else ""
    what = step.operation if len(step.operation) <= _WIDEST else f"{step.operation[: _WIDEST - 1]}…"
    if step.is_arrival:
        what = f"↘ store {step.actor // n_pes}: {what}"
    return what + where
