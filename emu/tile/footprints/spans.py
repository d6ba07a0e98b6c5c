"""Spans of memory: the very bytes of a footprint, as few pieces as there are."""

from __future__ import annotations

import numpy as np

from emu.tile.footprints.evaluation import Footprint
from emu.tile.footprints.lines import Numbers

MOST_RUNS = 1 << 20
"""Pieces of a footprint up to which they are listed."""

_MOST_PATTERNS = 1 << 10


def merged(rows: Numbers) -> Numbers:
    """Return spans, each first byte and the one behind, in ascending order; what overlaps or touches is one."""
    if len(rows) < 2:
        return rows
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reach = np.maximum.accumulate(rows[:, 1])
    begins = np.concatenate([[True], rows[1:, 0] > reach[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    return np.stack([rows[begins, 0], reach[ends]], axis=1)


def spans_of(footprint: Footprint) -> Numbers | None:
    """Return the bytes of a footprint from its argument's pointer, as :func:`merged` does.

    Returns:
        Rows of first byte and the one behind; None: they are not known exactly, or there are too many pieces.
    """
    if footprint.starts is None or not footprint.is_exact:
        return None
    count, axes = len(footprint.starts), len(footprint.strides)
    if not count:
        return np.zeros((0, 2), np.int64)
    strides = np.stack([*footprint.strides, np.zeros(count, np.int64)], axis=1)[:, :axes]
    counts = np.stack([*footprint.counts, np.ones(count, np.int64)], axis=1)[:, :axes]
    strides = np.where(counts > 1, strides, 0)
    starts = footprint.starts + np.where(strides < 0, strides * (counts - 1), 0).sum(axis=1)
    pattern = np.concatenate([np.abs(strides), np.where(strides != 0, counts, 1)], axis=1)
    patterns, which = np.unique(pattern, axis=0, return_inverse=True)
    which = which.reshape(-1)
    if len(patterns) > _MOST_PATTERNS:
        return None
    found, total = [], 0
    for number, row in enumerate(patterns.tolist()):
        here = np.unique(starts[which == number])
        run, offsets = _pieces(sorted(zip(row[:axes], row[axes:], strict=True)), footprint.size)
        total += len(here) * len(offsets)
        if total > MOST_RUNS:
            return None
        firsts = (here[:, None] + offsets[None, :]).ravel()
        found.append(np.stack([firsts, firsts + run], axis=1))
    return merged(np.concatenate(found))


def _pieces(axes: list[tuple[int, int]], size: int) -> tuple[int, Numbers]:
    """Return the bytes of a dense run, and where the runs of a tile begin; axes are (stride, extent), least first."""
    run = size
    rest: list[tuple[int, int]] = []
    for stride, extent in axes:
        if extent > 1 and not rest and stride <= run:
            run += stride * (extent - 1)
        elif extent > 1:
            rest.append((stride, extent))
    total = int(np.prod([extent for _, extent in rest], dtype=np.float64))
    if total > MOST_RUNS:
        return run, np.zeros(MOST_RUNS + 1, np.int64)
    offsets: Numbers = np.zeros(1, np.int64)
    for stride, extent in rest:
        offsets = (offsets[:, None] + np.arange(extent, dtype=np.int64) * stride).ravel()
    return run, offsets
