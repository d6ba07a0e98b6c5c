"""Where values are: roots of memory, layouts within them, and offsets in one arena."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np

from emu.stablehlo.reference.values import Array

ALIGNMENT = 64
"""Bytes at whose multiples buffers begin: a cache line."""


class Kind(Enum):
    """What a root is."""

    BUFFER = auto()
    CONSTANT = auto()
    INPUT = auto()
    OUTPUT = auto()
    WINDOW = auto()


@dataclass(slots=True)
class Root:
    """A stretch of memory that values lie in.

    Attributes:
        kind: A buffer of the arena, a constant, an input, an output, or a window: a part of
            another root whose place is known only when the program runs.
        index: Number of the constant, input or output; of a window, the root that it is in.
        nbytes: Size.
        start: Time at which it is written first.
        end: Time at which it is read last.
        offset: Place in the arena; set last.
        is_shared: Whether other processes read it, or write to it: it lies in an arena of its own.
    """

    kind: Kind
    index: int
    nbytes: int
    start: int = 0
    end: int = 0
    offset: int = 0
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Place of a value: an array in a root.

    Attributes:
        root: Number of the root.
        offset: Bytes from its start.
        shape: Shape.
        strides: Strides in bytes.
        dtype: dtype.
    """

    root: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    def array(self, memory: Array, offset: int = 0) -> Array:
        """Return the array, given the bytes of its root and where the root starts in them."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, memory, offset + self.offset, self.strides)


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a C-contiguous array."""
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def place_buffers(roots: Sequence[Root]) -> int:
    """Give each buffer among some roots its offset in an arena; return the arena's size.

    Buffers whose times overlap don't overlap. Each takes the smallest gap that it fits in, in the
    order of the times at which they are needed.
    """
    buffers = sorted(
        (r for r in roots if r.kind is Kind.BUFFER), key=lambda r: (r.start, -r.nbytes)
    )
    ends: list[tuple[int, int, Root]] = []
    free: list[tuple[int, int]] = []  # (offset, size), by offset
    top = 0
    for number, root in enumerate(buffers):
        while ends and ends[0][0] < root.start:
            _give_back(free, ends.pop(0)[2])
        size = _rounded(root.nbytes)
        fitting = [(gap, place) for place, (_, gap) in enumerate(free) if gap >= size]
        if fitting:
            gap, place = min(fitting)
            root.offset = free[place][0]
            if gap == size:
                del free[place]
            else:
                free[place] = (root.offset + size, gap - size)
        elif free and sum(free[-1]) == top:
            root.offset = free.pop()[0]
            top = root.offset + size
        else:
            root.offset = top
            top += size
        bisect.insort(ends, (root.end, number, root), key=lambda each: each[:2])
    return top


def _rounded(nbytes: int) -> int:
    return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT


def _give_back(free: list[tuple[int, int]], root: Root) -> None:
    """Join a buffer's bytes with the gaps beside it."""
    offset, size = root.offset, _rounded(root.nbytes)
    place = bisect.bisect(free, (offset, 0))
    if place < len(free) and free[place][0] == offset + size:
        size += free.pop(place)[1]
    if place and sum(free[place - 1]) == offset:
        place -= 1
        before = free.pop(place)
        offset, size = before[0], before[1] + size
    free.insert(place, (offset, size))
