"""Walks of tiles: axes ordered and joined, and the widest access that alignment allows.

What a kernel does here to one element does not depend on another, so axes may be walked in any
order and direction. The innermost axis runs along the threads; the others are decoded from one
number by the functions that a kernel calls once a row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.cuda.device import device_function
from emu.kernels.cuda.primitives import divide
from emu.kernels.strided.axes import Axis, order_and_join

Outer: TypeAlias = tuple[int, ...]  # outer axes as kernels take them (:func:`packed`)
Offsets: TypeAlias = tuple[int, int, int]

FEW, MANY = 2, 7
"""Outer axes that the two versions of a kernel can walk: most tiles need few."""

WIDEST = 16
ROW_LIMIT = 1 << 31
"""Rows that one launch may have: kernels divide their numbers in 32 bits."""

_EDGES_FROM = 1 << 12  # bytes in a row from which it pays to launch its ragged ends by themselves


def joined_axes(
    shape: Sequence[int], *strides: Sequence[int]
) -> tuple[list[Axis], tuple[int, ...]]:
    """Join and order the axes of some layouts of one shape.

    Args:
        shape: Extent along each axis; none is 0.
        *strides: Strides of each operand. The first operand's layout decides.

    Returns:
        The axes, with the smallest stride of the first operand first and none of it negative, and
        by how much the walk begins beside the first element of each operand.
    """
    axes, offsets = order_and_join(shape, *strides)
    return axes[::-1], offsets


def pieces(axes: Sequence[Axis], operands: int) -> Iterator[tuple[tuple[int, ...], list[Axis]]]:
    """Cut a grid of rows along its slowest axes until each piece has less than ``ROW_LIMIT``.

    Args:
        axes: The outer axes, innermost first.
        operands: Number of operands that have strides in them.

    Yields:
        By how much a piece begins behind the grid, for each operand, and its axes.
    """
    if math.prod(axis[0] for axis in axes) < ROW_LIMIT:
        yield (0,) * operands, list(axes)
        return
    *rest, (extent, *steps) = axes
    half = extent // 2
    for start, n in ((0, half), (half, extent - half)):
        kept = [*rest, (n, *steps)] if n > 1 else rest
        for offsets, part in pieces(kept, operands):
            yield tuple(o + start * s for o, s in zip(offsets, steps, strict=True)), part


def packed(axes: Sequence[Axis], operands: int) -> tuple[int, ...]:
    """Return outer axes as a kernel takes them: flat, padded with extents of 1 to few or many."""
    room = FEW if len(axes) <= FEW else MANY
    padding = ((1, *(0,) * operands),) * (room - len(axes))
    return tuple(number for axis in (*axes, *padding) for number in axis)


@dataclass(frozen=True)
class Walk:
    """A pair of tiles as a grid of units.

    Attributes:
        target: Address of the target's first unit.
        source: Address of the source's.
        unit: Bytes of a unit: one access.
        inner: Units along the innermost axis, and the strides of both sides.
        outer: The other axes, innermost first.
    """

    target: int
    source: int
    unit: int
    inner: Axis
    outer: tuple[Axis, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows of ``inner`` units."""
        return math.prod(axis[0] for axis in self.outer)

    @property
    def few(self) -> bool:
        """Return whether the kernels for few outer axes suffice."""
        return len(self.outer) <= FEW

    def arguments(self) -> tuple[int | Outer, ...]:
        """Return the arguments of a kernel: addresses, units in a row, strides, rows, and the outer axes."""
        return self.target, self.source, *self.inner, self.rows, packed(self.outer, 2)


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
    axes, (t_low, s_low) = joined_axes(target.shape, target.strides, source.strides)
    t, s = target.address + t_low, source.address + s_low
    contiguous = bool(axes) and axes[0][1] == axes[0][2] == item
    inner, outer = (axes[0], axes[1:]) if axes else ((1, item, item), [])
    for (t_start, s_start), part in pieces(outer, 2):
        at = t + t_start, s + s_start
        if contiguous:
            yield from _contiguous(*at, inner[0] * item, part, units)
        else:
            yield Walk(*at, item, inner, tuple(part))


def _contiguous(
    t: int, s: int, row: int, outer: list[Axis], units: tuple[int, ...]
) -> Iterator[Walk]:
    """Choose the unit of rows of contiguous bytes; ragged ends go into walks of their own."""
    steps = [step for axis in outer for step in axis[1:]]
    cuts = [0, row]
    if (
        WIDEST in units
        and row >= _EDGES_FROM
        and (t - s) % WIDEST == 0
        and all(step % WIDEST == 0 for step in steps)
    ):
        head = -t % WIDEST
        cuts = [0, head, row - (row - head) % WIDEST, row]
    for start, end in itertools.pairwise(cuts):
        if start < end:
            aligned = math.gcd(WIDEST, t + start, s + start, end - start, *steps)
            unit = max(n for n in units if aligned % n == 0)
            inner = ((end - start) // unit, unit, unit)
            yield Walk(t + start, s + start, unit, inner, tuple(outer))


@device_function
def few_offsets(index: int, outer: Outer) -> tuple[int, int]:
    """Return the (target, source) offsets of a row; ``outer`` is two axes of two strides."""
    slow = divide(index, outer[0])
    fast = index - slow * outer[0]
    return fast * outer[1] + slow * outer[4], fast * outer[2] + slow * outer[5]


@device_function
def _split(index: int, extent: int, t: int, s: int, t_step: int, s_step: int) -> Offsets:
    rest = divide(index, extent)
    step = index - rest * extent
    return rest, t + step * t_step, s + step * s_step


@device_function
def many_offsets(index: int, outer: Outer) -> tuple[int, int]:
    """Return the (target, source) offsets of a row; ``outer`` is seven axes of two strides."""
    # Spelled out: a tuple indexed by a variable would be laid down in local memory.
    rest, t, s = _split(index, outer[0], 0, 0, outer[1], outer[2])
    rest, t, s = _split(rest, outer[3], t, s, outer[4], outer[5])
    rest, t, s = _split(rest, outer[6], t, s, outer[7], outer[8])
    rest, t, s = _split(rest, outer[9], t, s, outer[10], outer[11])
    rest, t, s = _split(rest, outer[12], t, s, outer[13], outer[14])
    rest, t, s = _split(rest, outer[15], t, s, outer[16], outer[17])
    return t + rest * outer[19], s + rest * outer[20]


@device_function
def few_offsets_of_three(index: int, outer: Outer) -> Offsets:
    """Return the offsets of a row in three operands; ``outer`` is two axes of three strides."""
    slow = divide(index, outer[0])
    fast = index - slow * outer[0]
    return (
        fast * outer[1] + slow * outer[5],
        fast * outer[2] + slow * outer[6],
        fast * outer[3] + slow * outer[7],
    )


@device_function
def _split_three(index: int, axis: Outer, sums: Offsets) -> tuple[int, Offsets]:
    rest = divide(index, axis[0])
    step = index - rest * axis[0]
    return rest, (sums[0] + step * axis[1], sums[1] + step * axis[2], sums[2] + step * axis[3])


@device_function
def many_offsets_of_three(index: int, outer: Outer) -> Offsets:
    """Return the offsets of a row in three operands; ``outer`` is seven axes of three strides."""
    rest, sums = _split_three(index, outer[0:4], (0, 0, 0))
    rest, sums = _split_three(rest, outer[4:8], sums)
    rest, sums = _split_three(rest, outer[8:12], sums)
    rest, sums = _split_three(rest, outer[12:16], sums)
    rest, sums = _split_three(rest, outer[16:20], sums)
    rest, sums = _split_three(rest, outer[20:24], sums)
    return sums[0] + rest * outer[25], sums[1] + rest * outer[26], sums[2] + rest * outer[27]
