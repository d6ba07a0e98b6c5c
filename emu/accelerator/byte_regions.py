"""Bytes of a block of memory that one access touches: runs of equal length at regular distances; needs no torch.

Two views overlap only if a byte is in both: ``x[:, 0]`` and ``x[:, 1]`` lie between the same addresses and do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

MOST_RUNS = 1 << 22
"""Views of more runs, neither of them whole nor laid out alike, are taken for disjoint."""


class Region(NamedTuple):
    """Bytes of a block, counted from its beginning.

    Attributes:
        low: The first byte that may belong to it.
        high: The byte behind the last that may.
        start: The first byte of the first run.
        run: Bytes of a run.
        steps: Number of runs, and bytes from one to the next, of each axis along which they repeat; the largest
            distance first.
    """

    low: int
    high: int
    start: int
    run: int
    steps: tuple[tuple[int, int], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is every byte from ``low`` to ``high``."""
        return not self.steps

    def covers(self, other: Region) -> bool:
        """Return whether every byte of another region is known to be in this one."""
        if self.steps:
            return self == other
        return self.low <= other.low and other.high <= self.high

    def within(self, low: int, high: int) -> Region:
        """Return the part of the region from one byte to another."""
        return self._replace(low=max(self.low, low), high=min(self.high, high))


def dense(start: int, end: int) -> Region:
    """Return the region of all bytes from ``start`` to ``end``."""
    return Region(start, end, start, end - start)


def strided(start: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> Region:
    """Return the region of a strided array.

    Args:
        start: Byte of its first element.
        itemsize: Bytes of an element.
        shape: Its extents; none of them is 0.
        strides: Bytes from one element to the next along each axis, at least 0.
    """
    steps = sorted(
        ((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1 and stride)
    )
    run = itemsize
    kept: list[tuple[int, int]] = []
    for stride, size in steps:
        if not kept and stride <= run:  # elements may overlap, as in an unfolded view
            run += stride * (size - 1)
        elif kept and stride == kept[-1][0] * kept[-1][1]:
            kept[-1] = (kept[-1][0] * size, kept[-1][1])
        else:
            kept.append((size, stride))
    end = start + run + sum((size - 1) * stride for size, stride in kept)
    return Region(start, end, start, run, tuple(reversed(kept)))


def overlap(one: Region, other: Region) -> tuple[int, int] | None:
    """Return the bytes between which two regions share some; None if they share none."""
    low, high = max(one.low, other.low), min(one.high, other.high)
    if low >= high:
        return None
    if one.is_whole and other.is_whole:
        return low, high
    if _is_plain(one) and _is_plain(other) and one.steps[0][1] == other.steps[0][1]:
        return (low, high) if _alike_overlap(one, other) else None
    if max(_count(one), _count(other)) > MOST_RUNS:
        return None
    return _shared(one, other, low, high)


def _count(region: Region) -> int:
    return math.prod(size for size, _ in region.steps)


def _is_plain(region: Region) -> bool:
    """Return whether a region repeats along one axis, and is no part of a longer one."""
    if len(region.steps) != 1:
        return False
    ((size, stride),) = region.steps
    end = region.start + (size - 1) * stride + region.run
    return region.low <= region.start and end <= region.high


def _alike_overlap(one: Region, other: Region) -> bool:
    """Return whether two regions whose runs have the same distance overlap."""
    ((size, stride),), ((other_size, _),) = one.steps, other.steps
    ahead, rest = divmod(other.start - one.start, stride)
    # A run of the other begins `rest` bytes behind one of ours, and ends before, or in, the next.
    here = rest < one.run and -other_size < ahead < size
    following = stride - rest < other.run and -other_size < ahead + 1 < size
    return here or following


def _shared(one: Region, other: Region, low: int, high: int) -> tuple[int, int] | None:
    ours, theirs = _runs(one, low, high), _runs(other, low, high)
    if not len(ours) or not len(theirs):
        return None
    # Of our runs, the first that ends behind the beginning of each of theirs, and the last that begins before its end.
    first = np.searchsorted(ours + one.run, theirs, "right")
    last = np.searchsorted(ours, theirs + other.run, "left") - 1
    hit = first <= last
    if not hit.any():
        return None
    begin = np.maximum(theirs[hit], ours[first[hit]]).min()
    end = np.minimum(theirs[hit] + other.run, ours[last[hit]] + one.run).max()
    return max(int(begin), low), min(int(end), high)


def _runs(region: Region, low: int, high: int) -> np.ndarray[Any, Any]:
    """Return the sorted beginnings of the runs that lie between two bytes, at least in part."""
    starts = np.array([region.start], np.int64)
    for size, stride in region.steps:
        starts = (starts[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    starts = np.sort(starts[(starts < high) & (starts + region.run > low)])
    return starts
