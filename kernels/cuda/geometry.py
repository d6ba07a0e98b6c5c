"""How a tile is walked: axes joined and ordered, and the widest access that alignment allows.

What a kernel does here to one element does not depend on another, so axes may be walked in any
order and direction. The innermost axis runs along the threads; the others are decoded from one
number by the function that a kernel calls once a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.cuda.device import device_function
from emu.kernels.cuda.primitives import divide

FEW, ALL = 2, 7
"""Outer axes that the two versions of a kernel can walk: most tiles need few."""

WIDEST = 16
_INDEX_LIMIT = 1 << 31
_EDGES_FROM = 1 << 12  # bytes in a row from which it pays to launch its ragged ends by themselves


@dataclass(frozen=True)
class Walk:
    """A pair of tiles as a grid of units.

    Attributes:
        target: Address of the target's first unit.
        source: Address of the source's.
        unit: Bytes of a unit: one access.
        inner: Units along the innermost axis, and the strides of both sides.
        outer: (extent, target stride, source stride) of the other axes, innermost first.
    """

    target: int
    source: int
    unit: int
    inner: tuple[int, int, int]
    outer: tuple[tuple[int, int, int], ...]

    @property
    def rows(self) -> int:
        """How many rows of ``inner`` units there are."""
        return math.prod(extent for extent, _, _ in self.outer)

    @property
    def few(self) -> bool:
        """Whether the kernels for few outer axes do."""
        return len(self.outer) <= FEW

    def arguments(self) -> tuple[Any, ...]:
        """What kernels take: addresses, units in a row, strides, rows, and the outer axes' triples.

        The triples are padded with extents of 1, so that two compiled versions serve every rank.
        """
        padding = ((1, 0, 0),) * ((FEW if self.few else ALL) - len(self.outer))
        outer = tuple(number for axis in (*self.outer, *padding) for number in axis)
        return self.target, self.source, *self.inner, self.rows, outer


def walks(target: DeviceArray, source: DeviceArray, units: tuple[int, ...]) -> Iterator[Walk]:
    """Split a pair of tiles of one shape and item size into walks: one, or a few with edges.

    Args:
        target: Where the units are stored.
        source: Where they are loaded.
        units: Widths that there are kernels for, in bytes; the element's is one.

    Yields:
        Walks that together reach each element once.
    """
    item = target.itemsize
    joined, t_low, s_low = joined_axes(target.shape, target.strides, source.strides)
    t, s = target.address + t_low, source.address + s_low
    if joined and joined[0][1] == joined[0][2] == item:
        row, outer = joined[0][0] * item, joined[1:]
    else:
        # Without a contiguous axis, one element is a row; the kernels stride over the rest.
        inner, outer = (joined[0], joined[1:]) if joined else ((1, item, item), [])
        yield from _short(Walk(t, s, item, inner, tuple(outer)))
        return
    steps = [step for axis in outer for step in axis[1:]]
    pieces = [(0, row)]
    if WIDEST in units and row >= _EDGES_FROM and (t - s) % WIDEST == 0 and all(n % WIDEST == 0 for n in steps):
        head = -t % WIDEST
        body = (row - head) // WIDEST * WIDEST
        pieces = [(0, head), (head, body), (head + body, row - head - body)]
    for start, nbytes in pieces:
        if nbytes:
            aligned = math.gcd(WIDEST, t + start, s + start, nbytes, *steps)
            unit = max(n for n in units if aligned % n == 0)
            inner = (nbytes // unit, unit, unit)
            yield from _short(Walk(t + start, s + start, unit, inner, tuple(outer)))


def joined_axes(
    shape: tuple[int, ...], target: tuple[int, ...], source: tuple[int, ...]
) -> tuple[list[tuple[int, int, int]], int, int]:
    """Join and order the axes of two layouts of one shape.

    Args:
        shape: Extent along each axis; none is 0.
        target: Strides of the target in bytes.
        source: Strides of the source in bytes.

    Returns:
        ``(axes, target offset, source offset)``: (extent, target stride, source stride) with the
        smallest target stride first and none negative, and by how many bytes the walk begins
        beside the first element of either side.
    """
    axes, t_low, s_low = [], 0, 0
    for extent, t, s in zip(shape, target, source, strict=True):
        if extent == 1:
            continue
        if t < 0:
            t_low += (extent - 1) * t
            s_low += (extent - 1) * s
            t, s = -t, -s
        axes.append((extent, t, s))
    axes.sort(key=lambda axis: axis[1])
    joined: list[tuple[int, int, int]] = []
    for extent, t, s in axes:
        if joined and (t, s) == (joined[-1][0] * joined[-1][1], joined[-1][0] * joined[-1][2]):
            joined[-1] = (joined[-1][0] * extent, *joined[-1][1:])
        else:
            joined.append((extent, t, s))
    return joined, t_low, s_low


def _short(walk: Walk) -> Iterator[Walk]:
    """Cut a walk along its slowest axis until rows are numbered in 31 bits."""
    if walk.rows < _INDEX_LIMIT:
        yield walk
        return
    extent, t, s = walk.outer[-1]
    for start, n in ((0, extent // 2), (extent // 2, extent - extent // 2)):
        if n:
            outer = (*walk.outer[:-1], (n, t, s)) if n > 1 else walk.outer[:-1]
            half = Walk(
                walk.target + start * t, walk.source + start * s, walk.unit, walk.inner, outer
            )
            yield from _short(half)


@device_function
def few_offsets(index: int, outer: Any) -> Any:
    """Return the (target, source) offsets of a row; ``outer`` is two triples."""
    slow = divide(index, outer[0])
    fast = index - slow * outer[0]
    return fast * outer[1] + slow * outer[4], fast * outer[2] + slow * outer[5]


@device_function
def _split(index: int, extent: int, t: int, s: int, t_step: int, s_step: int) -> Any:
    rest = divide(index, extent)
    step = index - rest * extent
    return rest, t + step * t_step, s + step * s_step


@device_function
def all_offsets(index: int, outer: Any) -> Any:
    """Return the (target, source) offsets of a row; ``outer`` is seven triples."""
    # Spelled out: a tuple indexed by a variable would be laid down in local memory.
    rest, t, s = _split(index, outer[0], 0, 0, outer[1], outer[2])
    rest, t, s = _split(rest, outer[3], t, s, outer[4], outer[5])
    rest, t, s = _split(rest, outer[6], t, s, outer[7], outer[8])
    rest, t, s = _split(rest, outer[9], t, s, outer[10], outer[11])
    rest, t, s = _split(rest, outer[12], t, s, outer[13], outer[14])
    rest, t, s = _split(rest, outer[15], t, s, outer[16], outer[17])
    return t + rest * outer[19], s + rest * outer[20]
