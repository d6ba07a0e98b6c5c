"""Proofs that programs of a grid do not meet: neither in what they access, nor do the lanes of one in what it stores.

Three ways, the cheapest first: what the instances span is disjoint; they are cells of one regular lattice; or each
element is marked, where there are not too many of them. That none of them finds a proof says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.kernels.core import access_marks as marks
from emu.tile.footprints.evaluation import Footprint
from emu.tile.footprints.lines import Numbers

MOST_MARKED = 1 << 24
"""Elements, and granules of memory, up to which elements are marked one by one."""


@dataclass(frozen=True)
class Rows:
    """Instances of accesses of one kind.

    Attributes:
        programs: Program of each.
        starts: Its first byte.
        strides: Bytes of a step along each axis, at least 0: an array of two axes.
        counts: Steps along each axis, plus one.
        sizes: Bytes of an element.
    """

    programs: Numbers
    starts: Numbers
    strides: Numbers
    counts: Numbers
    sizes: Numbers

    def __len__(self) -> int:
        return len(self.programs)

    def ends(self) -> Numbers:
        """Return the byte behind the last one of each."""
        reach = (self.strides * (self.counts - 1)).sum(axis=1)
        return np.asarray(self.starts + reach + self.sizes)

    def taken(self, which: Numbers) -> Rows:
        """Return some of the instances."""
        parts = self.starts[which], self.strides[which], self.counts[which], self.sizes[which]
        return Rows(self.programs[which], *parts)


def are_apart(
    writes: Sequence[tuple[Footprint, int]],
    atomics: Sequence[tuple[Footprint, int]],
    reads: Sequence[tuple[Footprint, int]],
) -> bool:
    """Return whether it is proved that programs do not meet in memory that several of them may access.

    No element is written by two instances, even of one program, nor by two lanes; none that one program writes is
    accessed by another; and none that one changes atomically is read by another.

    Args:
        writes: Plain stores, each with the address from which its bytes are counted.
        atomics: Atomic operations, likewise.
        reads: Plain loads, likewise.
    """
    if any(f.starts is None for f, _ in (*writes, *atomics, *reads)):
        return False
    if not all(map(_lanes_are_apart, (f for f, _ in writes))):
        return False
    written, changed, read = _rows(writes, distinct=True), _rows(atomics), _rows(reads)
    if not len(written) and not (len(changed) and len(read)):
        return True
    if not len(changed) and (_spans_are_apart(written, read) or _cells_are_apart(written, read)):
        return True
    return _marks_are_apart(written, changed, read)


def _rows(footprints: Sequence[tuple[Footprint, int]], distinct: bool = False) -> Rows:
    """Return the instances of footprints; ``distinct``: what does the same in the same lanes again counts once."""
    axes = max((len(f.strides) for f, _ in footprints), default=0)
    found = []
    for footprint, address in footprints:
        count = len(footprint.programs)
        assert footprint.starts is not None
        strides = _columns(footprint.strides, count, axes, 0)
        counts = _columns(footprint.counts, count, axes, 1)
        sizes = np.full(count, footprint.size, np.int64)
        rows = Rows(footprint.programs, footprint.starts + address, strides, counts, sizes)
        if distinct and count > 1:
            firsts = _columns(footprint.firsts, count, axes, 0)
            key = [rows.programs[:, None], rows.starts[:, None], strides, counts, firsts]
            rows = rows.taken(_first_of_each(np.concatenate(key, axis=1)))
        found.append(rows)
    if not found:
        none = np.zeros(0, np.int64)
        return Rows(none, none, none.reshape(0, 0), none.reshape(0, 0), none)
    parts = [
        np.concatenate([getattr(r, name) for r in found])
        for name in ("programs", "starts", "strides", "counts", "sizes")
    ]
    return _upwards(Rows(*parts))


def _columns(columns: Sequence[Numbers], count: int, axes: int, rest: int) -> Numbers:
    table = np.full((count, axes), rest, np.int64)
    for axis, column in enumerate(columns):
        table[:, axis] = column
    return table


def _first_of_each(keys: Numbers) -> Numbers:
    """Return the positions of one row of each that are equal."""
    order = np.lexsort(keys.T)
    new = np.ones(len(keys), np.bool_)
    new[1:] = np.any(keys[order[1:]] != keys[order[:-1]], axis=1)
    return np.asarray(order[new])


def _upwards(rows: Rows) -> Rows:
    """Return instances with no stride below 0, and none where there is one lane alone or all touch the same."""
    strides = np.where(rows.counts > 1, rows.strides, 0)
    starts = rows.starts + np.where(strides < 0, strides * (rows.counts - 1), 0).sum(axis=1)
    counts = np.where(strides != 0, rows.counts, 1)
    return Rows(rows.programs, starts, np.abs(strides), counts, rows.sizes)


def _lanes_are_apart(footprint: Footprint) -> bool:
    """Return whether no two lanes of an instance touch one byte: each stride is beyond all that lies below it."""
    count = len(footprint.programs)
    if not footprint.strides or not count:
        return True
    axes = len(footprint.strides)
    counts = _columns(footprint.counts, count, axes, 1)
    strides = np.abs(_columns(footprint.strides, count, axes, 0))
    strides = np.where(counts > 1, strides, 1 << 60)
    order = np.argsort(strides, axis=1, kind="stable")
    strides = np.take_along_axis(strides, order, axis=1)
    counts = np.take_along_axis(counts, order, axis=1)
    reach = np.full(count, footprint.size, np.int64)
    for axis in range(axes):
        several = counts[:, axis] > 1
        if np.any(several & (strides[:, axis] < reach)):
            return False
        reach = reach + np.where(several, strides[:, axis] * (counts[:, axis] - 1), 0)
    return True


def _spans_are_apart(written: Rows, read: Rows) -> bool:
    """Return whether what instances span is disjoint, but for reads of what their own program writes."""
    order = np.argsort(written.starts, kind="stable")
    starts, ends = written.starts[order], written.ends()[order]
    if np.any(starts[1:] < ends[:-1]):
        return False
    if not len(read):
        return True
    programs = written.programs[order]
    first = np.searchsorted(ends, read.starts, side="right")
    behind = np.searchsorted(starts, read.ends(), side="left")
    meets = first < behind
    changes = np.concatenate([[0], np.cumsum(programs[1:] != programs[:-1])])
    first, last = np.minimum(first, len(programs) - 1), np.maximum(behind - 1, 0)
    own = (programs[first] == read.programs) & (changes[first] == changes[last])
    return bool(np.all(own | ~meets))


def _cells_are_apart(written: Rows, read: Rows) -> bool:
    """Return whether the instances lie in different cells of a lattice, which its strides span.

    A byte is then at coordinates: how many of the greatest stride, of the next one, and so on. Boxes of
    coordinates that are aligned to the greatest of them are cells.
    """
    both = [written, read] if len(read) else [written]
    steps = np.unique(np.concatenate([r.strides[r.counts > 1] for r in both]))[::-1]
    if not 1 <= len(steps) <= 4 or any(np.any(r.starts < 0) for r in both):
        return False
    origin = min(int(r.starts.min()) for r in both)
    boxes = [_boxes(r, steps, origin) for r in both]
    if any(b is None for b in boxes):
        return False
    known = [b for b in boxes if b is not None]
    cells = _cells(known)
    if cells is None:
        return False
    keys = [np.ravel(c) for c in cells]
    order = np.argsort(keys[0], kind="stable")
    ordered = keys[0][order]
    if np.any(ordered[1:] == ordered[:-1]):
        return False
    if len(read):
        at = np.minimum(np.searchsorted(ordered, keys[1]), len(ordered) - 1)
        meets = ordered[at] == keys[1]
        own = written.programs[order][at] == read.programs
        return bool(np.all(own | ~meets))
    return True


def _boxes(rows: Rows, steps: Numbers, origin: int) -> tuple[Numbers, Numbers] | None:
    """Return the first coordinates of instances, and how many there are along each step; None if they wrap around."""
    left = rows.starts - origin
    firsts = np.zeros((len(rows), len(steps)), np.int64)
    extents = np.ones((len(rows), len(steps)), np.int64)
    for n, step in enumerate(steps.tolist()):
        firsts[:, n], left = left // step, left % step
        same = (rows.strides == step) & (rows.counts > 1)
        extents[:, n] += np.where(same, rows.counts - 1, 0).sum(axis=1)
    reach = left + rows.sizes
    for n in range(len(steps) - 1, -1, -1):
        if np.any(reach > steps[n]):
            return None
        reach = reach + (firsts[:, n] + extents[:, n] - 1) * steps[n]
    return firsts, extents


def _cells(boxes: Sequence[tuple[Numbers, Numbers]]) -> list[Numbers] | None:
    """Return one number for each box, that of its cell; None if the boxes are not cells."""
    firsts = [f for f, _ in boxes]
    size = np.max([e.max(axis=0) for _, e in boxes], axis=0)
    least = np.min([f.min(axis=0) for f in firsts], axis=0)
    if any(np.any((f - least) % size) for f in firsts):
        return None
    at = [(f - least) // size for f in firsts]
    counts = np.max([a.max(axis=0) for a in at], axis=0) + 1
    if float(np.prod(counts.astype(np.float64))) > 1 << 60:
        return None
    return [np.ravel_multi_index(tuple(a.T), tuple(counts.tolist())) for a in at]


def _marks_are_apart(written: Rows, changed: Rows, read: Rows) -> bool:
    """Return whether no granule is met by two instances that must not meet, if there are not too many."""
    parts = [r for r in (written, changed, read) if len(r)]
    total = sum(int(r.counts.prod(axis=1).sum()) for r in parts)
    origin = min(int(r.starts.min()) for r in parts)
    end = max(int(r.ends().max()) for r in parts)
    numbers: list[Any] = [r.sizes for r in parts]
    numbers += [r.starts - origin for r in parts] + [r.strides.ravel() for r in parts]
    granule = int(np.gcd.reduce(np.concatenate(numbers)))
    extent = (end - origin) // granule
    if total > MOST_MARKED or extent > MOST_MARKED:
        return False
    owners, atomics = np.zeros((extent, 2), np.int32), np.zeros(extent, np.int32)
    kinds = (
        (written, marks.PLAIN_WRITE),
        (changed, marks.ATOMIC),
        (read, marks.READ),
    )
    for rows, kind in kinds:
        heads = [np.arange(1, len(rows) + 1), rows.programs + 1]
        heads += [(rows.starts - origin) // granule, rows.sizes // granule]
        table = np.stack(heads, axis=1).astype(np.int64)
        what = kind, int(len(changed) > 0)
        if len(rows) and not marks.mark(
            table, rows.strides // granule, rows.counts, what, owners, atomics
        ):
            return False
    return True
