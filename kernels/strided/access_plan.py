"""Access plans of strided tiles: decided once for shape and strides, and kept.

An :class:`AccessPlan` is a row of integers that the kernels of ``emu.kernels.strided`` read. Axes are put in
the order of the target's memory and joined where one continues another. The one or two axes that then lie
innermost are an :class:`InnerLoop`; an odometer steps through the others and runs that loop at each step.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from emu.kernels.strided import vector_ops
from emu.kernels.strided.axes import order_and_join


class Axis(NamedTuple):
    """One axis of a tile: its extent, and the strides of both sides in bytes."""

    extent: int
    target: int
    source: int


CONTIGUOUS, STRIDED, FILL, REVERSE, STRIDE2, TRANSPOSED, UNALIGNED = range(7)
"""Forms of an inner loop. ``FILL``, ``REVERSE`` and ``STRIDE2`` are ``STRIDED`` with vectors, for a dense
target and a source stride of 0, -1 or 2 elements; ``UNALIGNED`` adds elements at odd addresses."""


class InnerLoop(NamedTuple):
    """The innermost loops over a tile. Plans hold them, and compiled code passes them on.

    Attributes:
        form: What is done: :data:`CONTIGUOUS` and so on.
        width: Bytes that are moved at a time: of an element, or of a contiguous row.
        rows: The outer of the two axes.
        columns: The inner one.
        block: Columns to finish in all rows before the next ones; of ``TRANSPOSED`` the side of a square.
    """

    form: int
    width: int
    rows: Axis
    columns: Axis
    block: int


# The words of a plan. They begin with an inner loop, flat; kernels read it by `odometer.inner_loop`.
FORM, WIDTH, ROWS, COLUMNS, BLOCK = 0, 1, 2, 5, 8
TARGET_SHIFT, SOURCE_SHIFT = 9, 10  # bytes from the first elements to where the walk begins
TARGET_LOW, TARGET_HIGH, SOURCE_LOW, SOURCE_HIGH = 11, 12, 13, 14  # bytes that are touched
REPEATS = 15  # how often the inner loop runs
RANK = 16  # axes that the odometer steps through
OUTER = 17  # those axes, outermost first
MAX_AXES = 9  # eight of the tile, and one inside a short row
WORDS = OUTER + 3 * MAX_AXES

_ONCE = Axis(1, 0, 0)
_LONG_ROW = 64  # bytes beyond which memmove is called for a contiguous row
_FEW = 8  # columns for which a loop of their own costs more than they do
_NEAR = 16 << 10  # bytes of the source that are read over and over
_NATURAL = tuple(vector_ops.SIDES)


class AccessPlan(NamedTuple):
    """Order in which a tile is accessed; :func:`copy_plan` and :func:`add_plan` make it.

    Attributes:
        address: Address of the words, for kernels; valid as long as the plan is referred to.
        words: What the kernels read.
        dense: Whether the tile is one contiguous stretch from the first element on, on both sides.
        crossed: Whether the source is denser along another axis than the target.
    """

    address: int
    words: np.ndarray[Any, np.dtype[np.int64]]
    dense: bool
    crossed: bool


_Loops = tuple[InnerLoop, list[Axis]]
"""An inner loop, and the axes around it."""


def extremes(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return where the bytes of an array begin and end, relative to its first element."""
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(n for n in reach if n < 0), sum(n for n in reach if n > 0) + itemsize


def _denser_axis(axes: list[Axis]) -> int | None:
    """Return the outer axis along which the source is denser than along the last one, if any."""
    strides = [abs(axis.source) for axis in axes[:-1]]
    nearest = min((stride for stride in strides if stride), default=0)
    return strides.index(nearest) if 0 < nearest < abs(axes[-1].source) else None


def _row_form(columns: Axis, width: int) -> int:
    extent, target, source = columns
    if target == width and width in _NATURAL and extent * width >= 2 * vector_ops.VECTOR:
        return {0: FILL, -width: REVERSE, 2 * width: STRIDE2}.get(source, STRIDED)
    return STRIDED


def _element_loops(axes: list[Axis], width: int) -> _Loops:
    """Choose the loops over the last axes of a tile of single elements."""
    if len(axes) < 2:
        columns = axes[0] if axes else Axis(1, width, width)
        form = _row_form(columns, width)
        return InnerLoop(form, width, _ONCE, columns, columns.extent), []
    columns, denser = axes[-1], _denser_axis(axes)
    if denser is not None:
        rows = axes[denser]
        outer = axes[:denser] + axes[denser + 1 : -1]
        dense = columns.target == abs(rows.source) == width and width in _NATURAL
        if dense and min(rows.extent, columns.extent) >= vector_ops.SIDES[width]:
            return InnerLoop(TRANSPOSED, width, rows, columns, vector_ops.SIDES[width]), outer
        if columns.extent < _FEW < rows.extent:
            return InnerLoop(STRIDED, width, columns, rows, 256), outer
        # Neither order suits both sides: as many lines of the source at a time as a cache holds.
        block = max(32, _NEAR // abs(columns.source))
        return InnerLoop(STRIDED, width, rows, columns, block), outer
    rows, outer = axes[-2], axes[:-2]
    form = _row_form(columns, width)
    if form == STRIDED and columns.extent < _FEW < rows.extent:
        return InnerLoop(STRIDED, width, columns, rows, 256), outer
    return InnerLoop(form, width, rows, columns, columns.extent), outer


def _copy_loops(axes: list[Axis], itemsize: int) -> _Loops:
    if not axes or axes[-1][1:] != (itemsize, itemsize):
        return _element_loops(axes, itemsize)
    length = axes[-1].extent * itemsize
    if len(axes) == 1 or length > _LONG_ROW:
        rows = axes[-2] if len(axes) > 1 else _ONCE
        return InnerLoop(CONTIGUOUS, length, rows, _ONCE, 1), axes[:-2]
    # A short contiguous row is a wider element, or two that overlap.
    width = min(32, 1 << (length.bit_length() - 1))
    axes = axes[:-1]
    if width < length:
        axes.append(Axis(2, length - width, length - width))
    return _element_loops(axes, width)


def _add_loops(axes: list[Axis], itemsize: int, ordered: bool, aligned: bool) -> _Loops:
    columns = axes[-1] if axes else Axis(1, itemsize, itemsize)
    rows = axes[-2] if len(axes) > 1 else _ONCE
    plain = InnerLoop(STRIDED, itemsize, rows, columns, columns.extent)
    if not aligned or any((axis.target | axis.source) % itemsize for axis in axes):
        return plain._replace(form=UNALIGNED), axes[:-2]
    if columns[1:] == (itemsize, itemsize) and (ordered or columns.extent >= _FEW):
        return plain._replace(form=CONTIGUOUS), axes[:-2]
    if ordered:
        return plain, axes[:-2]
    loop, outer = _element_loops(axes, itemsize)
    return (loop if loop.form == TRANSPOSED else loop._replace(form=STRIDED)), outer


class _Tile(NamedTuple):
    """The layout that a plan is made for; strides in bytes."""

    shape: tuple[int, ...]
    target_strides: tuple[int, ...]
    source_strides: tuple[int, ...]
    itemsize: int

    def axes(self) -> tuple[list[Axis], tuple[int, int]]:
        """Return the axes of a walk along the target's memory, and the shifts of both sides."""
        axes, (target, source) = order_and_join(
            self.shape, self.target_strides, self.source_strides
        )
        return [Axis(*axis) for axis in axes], (target, source)

    def plan(self, axes: list[Axis], shifts: tuple[int, int], loops: _Loops) -> AccessPlan:
        """Write down the plan of these axes."""
        loop, outer = loops
        if loop.form == TRANSPOSED and loop.rows.source < 0:  # read the source forward
            extent, target, source = loop.rows
            shifts = (shifts[0] + target * (extent - 1), shifts[1] + source * (extent - 1))
            loop = loop._replace(rows=Axis(extent, -target, -source))
        words = np.zeros(WORDS, np.int64)
        words[:OUTER] = (
            *(loop.form, loop.width, *loop.rows, *loop.columns, loop.block),
            *shifts,
            *extremes(self.shape, self.target_strides, self.itemsize),
            *extremes(self.shape, self.source_strides, self.itemsize),
            math.prod(axis.extent for axis in outer),
            len(outer),
        )
        flat = [number for axis in outer for number in axis]
        words[OUTER : OUTER + len(flat)] = flat
        dense = loop.form == CONTIGUOUS and not outer and loop.rows.extent == 1 and not any(shifts)
        crossed = bool(axes) and _denser_axis(axes) is not None
        return AccessPlan(int(words.ctypes.data), words, dense, crossed)


@functools.lru_cache(maxsize=4096)
def copy_plan(
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    itemsize: int,
) -> AccessPlan:
    """Plan how ``copy_strided`` accesses a tile.

    Args:
        shape: Extent along each axis, in elements: at most eight axes, and none is 0.
        target_strides: Strides of the target in bytes; its elements lie apart.
        source_strides: Strides of the source in bytes.
        itemsize: Bytes of an element: 1, 2, 4 or 8.
    """
    tile = _Tile(shape, target_strides, source_strides, itemsize)
    axes, shifts = tile.axes()
    return tile.plan(axes, shifts, _copy_loops(axes, itemsize))


@functools.lru_cache(maxsize=4096)
def add_plan(
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    itemsize: int,
    *,
    ordered: bool = False,
    aligned: bool = True,
) -> AccessPlan:
    """Plan how ``add_strided`` accesses a tile; as :func:`copy_plan`.

    Args:
        shape: Extent along each axis.
        target_strides: Strides of the target in bytes.
        source_strides: Strides of the source in bytes.
        itemsize: Bytes of an element.
        ordered: Rows and columns in the order of the target's memory, whatever the source's: the inner
            loop is then ``CONTIGUOUS`` or ``STRIDED``.
        aligned: Every element of both sides lies at a multiple of its size.
    """
    tile = _Tile(shape, target_strides, source_strides, itemsize)
    axes, shifts = tile.axes()
    return tile.plan(axes, shifts, _add_loops(axes, itemsize, ordered, aligned))
