"""Launches that are counted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from emu.tile.counting.cells import Cells
from emu.tile.counting.counts import Counts
from emu.tile.counting.plan import GROUP_WORD, HEAD, MARKING_WORD, ROWS_WORD, Plan
from emu.tile.counting.tally import Kernel, tally
from emu.tile.counting.working_sets import group_shift

Run = Callable[[int, int, int, Sequence[Any]], None]

MOST_ROWS = 1 << 18
"""Rows of counters: with more programs several share one."""


def launch_counted(
    kernel: Kernel,
    plan: Plan,
    runs: tuple[Run, Run],
    call: tuple[int, int, int, Sequence[Any]],
    spans: Sequence[tuple[int, int] | None],
) -> Counts:
    """Run a launch and return its counts.

    Args:
        kernel: Which kernel it is.
        plan: Of the kernel that counts.
        runs: Run the kernel itself, and the one that counts, which has one more argument.
        call: Extents of the grid, and the arguments.
        spans: For each argument, the first address of its storage and the one behind it; None: it has none, or that is not known.
    """
    plain, counting = runs
    x, y, z, values = call
    programs = x * y * z
    rows = 1 << max(0, min(programs, MOST_ROWS) - 1).bit_length()
    cells = Cells(plan, values, spans)
    words = np.zeros(plan.first_row + rows * plan.columns, np.int64)
    words[ROWS_WORD] = rows - 1
    words[MARKING_WORD] = _address_of_marking()
    words[GROUP_WORD] = group_shift(programs)
    words[HEAD : plan.first_mark] = cells.words()
    words[plan.first_mark : plan.first_row] = [w for mark in plan.marks for w in mark.words()]
    if plan.is_apart:
        plain(x, y, z, values)
    counting(x, y, z, (*values, words.ctypes.data))
    matrix = words[plan.first_row :].reshape(rows, plan.columns)
    return tally(kernel, plan, matrix, programs, cells.touched(programs), cells.unique())


@functools.cache
def _address_of_marking() -> int:
    # Here: this loads Numba.
    from emu.kernels.core.jit import native_address
    from emu.tile.counting.marking import mark

    return native_address(mark, 2)


def repeat_key(
    plan: Plan,
    call: tuple[int, int, int, Sequence[Any]],
    spans: Sequence[tuple[int, int] | None],
) -> tuple[object, ...] | None:
    """Return what the counts of a launch follow from; None: from what is in memory, too.

    What a kernel that counts apart finds depends on the grid, the numbers that it is given, and where in its storage each
    pointer points.
    """
    if not plan.is_apart:
        return None
    *grid, values = call
    known = [span for span in spans if span is not None]
    parts: list[object] = [*grid]
    for value, span, granule in zip(values, spans, plan.granules, strict=True):
        if span is None:
            parts.append(None if granule else value)
            continue
        start, end = span
        same = [s == span for s in known].index(True)
        if any(s != span and s[0] < end and start < s[1] for s in known):
            return None  # storages that share a part of their memory
        parts.append((same, start % 16, int(value) - start, end - start))
    return tuple(parts)
