"""Where the elements of a value lie, seen in another shape: strides, without any memory.

A chain of broadcasts, transposes, slices and reshapes of a contiguous array is an :class:`Access`. Elements of a shape are
counted in row-major order, so that values of different shapes but of one size can be computed in one loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Dimension = tuple[int, int]
"""An extent and a stride, in elements."""


@dataclass(frozen=True, slots=True)
class Access:
    """Places of the elements of a value in a contiguous array.

    Attributes:
        dimensions: Extent and stride (in elements) of each dimension of the value.
        offset: Place of its first element.
    """

    dimensions: tuple[Dimension, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(extent for extent, _ in self.dimensions)

    def broadcast(self, places: Sequence[int], shape: Sequence[int]) -> Access:
        """Return the access of a ``broadcast_in_dim``."""
        found = [(extent, 0) for extent in shape]
        for (extent, stride), place in zip(self.dimensions, places, strict=True):
            found[place] = (shape[place], stride if extent != 1 else 0)
        return Access(tuple(found), self.offset)

    def transpose(self, order: Sequence[int]) -> Access:
        """Return the access whose dimension ``i`` is dimension ``order[i]``."""
        return Access(tuple(self.dimensions[d] for d in order), self.offset)

    def slice(self, starts: Sequence[int], limits: Sequence[int], steps: Sequence[int]) -> Access:
        """Return the access of a slice."""
        found, offset = [], self.offset
        for (_, stride), start, limit, step in zip(
            self.dimensions, starts, limits, steps, strict=True
        ):
            found.append((max(-(-(limit - start) // step), 0), stride * step))
            offset += start * stride
        return Access(tuple(found), offset)

    def reshape(self, shape: Sequence[int]) -> Access | None:
        """Return the access in another shape; None where strides cannot say it."""
        found: list[Dimension] = []
        rest = list(coalesced(self.dimensions))
        for extent in reversed(shape):
            if extent == 1:
                found.append((1, 0))
                continue
            inner, stride = rest.pop()
            if inner % extent:
                return None
            found.append((extent, stride))
            if inner != extent:
                rest.append((inner // extent, stride * extent))
        return Access(tuple(reversed(found)), self.offset)

    def split(self, at: Sequence[int]) -> tuple[Dimension, ...]:
        """Return the dimensions between neighbouring cuts, the last the innermost.

        Args:
            at: Numbers of elements, ascending, each a divisor of the next; the cuts of this access and its
                size are among them.
        """
        found: list[Dimension] = []
        rest = list(coalesced(self.dimensions))
        inner = 1
        for cut in at:
            part, inner = cut // inner, cut
            extent, stride = rest.pop()
            found.append((part, stride))
            if extent != part:
                rest.append((extent // part, stride * part))
        return tuple(reversed(found))


def contiguous(shape: Sequence[int]) -> Access:
    """Return the access of an array's own elements."""
    found: list[Dimension] = []
    stride = 1
    for extent in reversed(shape):
        found.append((extent, stride))
        stride *= extent
    return Access(tuple(reversed(found)))


def cuts(shape: Iterable[int]) -> frozenset[int]:
    """Return the numbers of elements that the inner dimensions of a shape have: where strides may change."""
    found, inner = set(), 1
    for extent in reversed(tuple(shape)):
        inner *= extent
        if extent != 1:
            found.add(inner)
    return frozenset(found)


def are_nested(at: Iterable[int]) -> bool:
    """Return whether each cut divides the next, so that dimensions between them exist."""
    inner = 1
    for cut in sorted(at):
        if cut % inner:
            return False
        inner = cut
    return True


def coalesced(dimensions: Iterable[Dimension]) -> tuple[Dimension, ...]:
    """Join neighbours that are one dimension, and leave out those of extent 1."""
    found: list[Dimension] = []
    for extent, stride in dimensions:
        if extent == 1:
            continue
        if found and found[-1][1] == extent * stride:
            found[-1] = (found[-1][0] * extent, stride)
        else:
            found.append((extent, stride))
    return tuple(found)


def necessary_cuts(access: Access) -> frozenset[int]:
    """Return the cuts of an access where its strides do change."""
    return cuts(extent for extent, _ in coalesced(access.dimensions))
