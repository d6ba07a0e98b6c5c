"""How to walk a tile: decided once for its shape and strides, and kept.

A :class:`Plan` is a row of integers which the kernels of ``emu.kernels.strided.copy_add`` read. Axes are put in the
order of the target's memory and joined where one continues another. What then lies innermost is done
by a loop of its own, the *leaf*, over two axes at most; an odometer steps through the others.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from emu.kernels.strided import vector_ops

Axis = tuple[int, int, int]
"""Extent, target stride, source stride; strides in bytes."""

RUNS, STRIDED, FILL, REVERSE, SECOND, TRANSPOSED, LOOSE = range(7)
"""Forms of a leaf. ``FILL``, ``REVERSE`` and ``SECOND`` are ``STRIDED`` with vectors, for a dense target
and a source stride of 0, -1 or 2 elements; ``LOOSE`` adds what may lie at odd addresses."""

# Where a plan holds what. The leaf has two axes, rows and columns: (extent, target, source) each.
FORM, WIDTH, LEAVES, RANK = 0, 1, 2, 3
TARGET_SHIFT, SOURCE_SHIFT = 4, 5
TARGET_LOW, TARGET_HIGH, SOURCE_LOW, SOURCE_HIGH = 6, 7, 8, 9
ROWS, COLUMNS = 10, 13
BLOCK = 16  # columns done in all rows before the next ones; of TRANSPOSED the side of a square
OUTER = 17  # the axes that the odometer steps through, outermost first
MAX_AXES = 9  # eight of the tile, and one inside a short run
WORDS = OUTER + 3 * MAX_AXES

_LONG_RUN = 64  # bytes beyond which memmove is called for a run
_FEW = 8  # columns for which a loop of their own costs more than they do
_NEAR = 16 << 10  # bytes of the source that are gone over again and again
_NATURAL = tuple(vector_ops.SIDES)


class Plan(NamedTuple):
    """How to walk a tile; :func:`copy_plan` and :func:`add_plan` make it.

    Attributes:
        address: Of the words, for kernels; valid as long as the plan is referred to.
        words: What the kernels read.
        dense: The tile is one run which begins at the first element, on both sides.
        crossed: The source is denser along another axis than the target.
    """

    address: int
    words: np.ndarray[Any, np.dtype[np.int64]]
    dense: bool
    crossed: bool


class _Leaf(NamedTuple):
    form: int
    width: int
    rows: Axis
    columns: Axis
    block: int
    outer: list[Axis]


def walk(
    shape: tuple[int, ...], target_strides: tuple[int, ...], source_strides: tuple[int, ...]
) -> tuple[list[Axis], int, int]:
    """Order the axes of a tile as they lie in the target, and join those that continue each other.

    Args:
        shape: Extent along each axis, in elements.
        target_strides: Strides of the target in bytes.
        source_strides: Strides of the source in bytes.

    Returns:
        ``(axes, target shift, source shift)``: the axes, outermost first, target strides positive,
        and the bytes from the first element to where the walk begins.
    """
    axes: list[Axis] = []
    target_shift = source_shift = 0
    for extent, target, source in zip(shape, target_strides, source_strides, strict=True):
        if extent == 1:
            continue
        if target < 0:
            target_shift += target * (extent - 1)
            source_shift += source * (extent - 1)
            target, source = -target, -source
        axes.append((extent, target, source))
    axes.sort(key=lambda axis: (-axis[1], -abs(axis[2])))
    joined: list[Axis] = []
    for extent, target, source in axes:
        if joined and joined[-1][1:] == (extent * target, extent * source):
            joined[-1] = (joined[-1][0] * extent, target, source)
        else:
            joined.append((extent, target, source))
    return joined, target_shift, source_shift


def extremes(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return where the bytes of an array begin and end, seen from its first element."""
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(n for n in reach if n < 0), sum(n for n in reach if n > 0) + itemsize


def _nearer(axes: list[Axis]) -> int | None:
    """Return the outer axis along which the source is denser than along the last one, if any."""
    strides = [abs(source) for _, _, source in axes[:-1]]
    nearest = min((stride for stride in strides if stride), default=0)
    return strides.index(nearest) if 0 < nearest < abs(axes[-1][2]) else None


def _row_form(columns: Axis, width: int) -> int:
    extent, target, source = columns
    if target == width and width in _NATURAL and extent * width >= 2 * vector_ops.VECTOR:
        return {0: FILL, -width: REVERSE, 2 * width: SECOND}.get(source, STRIDED)
    return STRIDED


def _element_leaf(axes: list[Axis], width: int) -> _Leaf:
    """Choose the loops over the last axes of a tile of single elements."""
    if len(axes) < 2:
        columns = axes[0] if axes else (1, width, width)
        return _Leaf(_row_form(columns, width), width, (1, 0, 0), columns, columns[0], [])
    columns, nearer = axes[-1], _nearer(axes)
    if nearer is not None:
        rows = axes[nearer]
        outer = axes[:nearer] + axes[nearer + 1 : -1]
        dense = columns[1] == abs(rows[2]) == width and width in _NATURAL
        if dense and min(rows[0], columns[0]) >= vector_ops.SIDES[width]:
            return _Leaf(TRANSPOSED, width, rows, columns, vector_ops.SIDES[width], outer)
        if columns[0] < _FEW < rows[0]:
            return _Leaf(STRIDED, width, columns, rows, 256, outer)
        # Neither order suits both sides: as many lines of the source at a time as a cache holds.
        return _Leaf(STRIDED, width, rows, columns, max(32, _NEAR // abs(columns[2])), outer)
    rows, outer = axes[-2], axes[:-2]
    form = _row_form(columns, width)
    if form == STRIDED and columns[0] < _FEW < rows[0]:
        return _Leaf(STRIDED, width, columns, rows, 256, outer)
    return _Leaf(form, width, rows, columns, columns[0], outer)


def _copy_leaf(axes: list[Axis], itemsize: int) -> _Leaf:
    if not axes or axes[-1][1:] != (itemsize, itemsize):
        return _element_leaf(axes, itemsize)
    run = axes[-1][0] * itemsize
    if len(axes) == 1 or run > _LONG_RUN:
        rows = axes[-2] if len(axes) > 1 else (1, 0, 0)
        return _Leaf(RUNS, run, rows, (1, 0, 0), 1, axes[:-2])
    # A short run is a wider element, or two that overlap.
    width = min(32, 1 << (run.bit_length() - 1))
    axes = axes[:-1]
    return _element_leaf(axes if width == run else [*axes, (2, run - width, run - width)], width)


def _add_leaf(axes: list[Axis], itemsize: int, ordered: bool, aligned: bool) -> _Leaf:
    columns = axes[-1] if axes else (1, itemsize, itemsize)
    rows = axes[-2] if len(axes) > 1 else (1, 0, 0)
    if not aligned or any((target | source) % itemsize for _, target, source in axes):
        return _Leaf(LOOSE, itemsize, rows, columns, columns[0], axes[:-2])
    leaf = _element_leaf(axes, itemsize)
    if columns[1:] == (itemsize, itemsize) and (ordered or columns[0] >= _FEW):
        return _Leaf(RUNS, itemsize, rows, columns, columns[0], axes[:-2])
    if ordered:
        return _Leaf(STRIDED, itemsize, rows, columns, columns[0], axes[:-2])
    return leaf if leaf.form == TRANSPOSED else leaf._replace(form=STRIDED)


def _plan(
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    itemsize: int,
    leaf: _Leaf,
    shifts: tuple[int, int],
    crossed: bool,
) -> Plan:
    if leaf.form == TRANSPOSED and leaf.rows[2] < 0:  # read the source forward, write backward
        extent, target, source = leaf.rows
        shifts = (shifts[0] + target * (extent - 1), shifts[1] + source * (extent - 1))
        leaf = leaf._replace(rows=(extent, -target, -source))
    words = np.zeros(WORDS, np.int64)
    words[:ROWS] = (
        leaf.form,
        leaf.width,
        math.prod(extent for extent, _, _ in leaf.outer),
        len(leaf.outer),
        *shifts,
        *extremes(shape, target_strides, itemsize),
        *extremes(shape, source_strides, itemsize),
    )
    words[ROWS:OUTER] = (*leaf.rows, *leaf.columns, leaf.block)
    flat = [n for axis in leaf.outer for n in axis]
    words[OUTER : OUTER + len(flat)] = flat
    dense = leaf.form == RUNS and not leaf.outer and leaf.rows[0] == 1 and not any(shifts)
    return Plan(int(words.ctypes.data), words, dense, crossed)


@functools.lru_cache(maxsize=4096)
def copy_plan(
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    itemsize: int,
) -> Plan:
    """Say how :func:`copy_grid` is to walk a tile.

    Args:
        shape: Extent along each axis, in elements: at most eight axes, and none is 0.
        target_strides: Strides of the target in bytes; its elements lie apart.
        source_strides: Strides of the source in bytes.
        itemsize: Bytes of an element: 1, 2, 4 or 8.
    """
    axes, *shifts = walk(shape, target_strides, source_strides)
    leaf = _copy_leaf(axes, itemsize)
    crossed = _nearer(axes) is not None if axes else False
    return _plan(
        shape, target_strides, source_strides, itemsize, leaf, (shifts[0], shifts[1]), crossed
    )


@functools.lru_cache(maxsize=4096)
def add_plan(
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    itemsize: int,
    *,
    ordered: bool = False,
    aligned: bool = True,
) -> Plan:
    """Say how :func:`add_grid` is to walk a tile; as :func:`copy_plan`.

    Args:
        shape: Extent along each axis.
        target_strides: Strides of the target in bytes.
        source_strides: Strides of the source in bytes.
        itemsize: Bytes of an element.
        ordered: Rows and columns in the order of the target's memory, whatever the source's: a leaf
            is then ``RUNS`` or ``STRIDED``.
        aligned: Every element of both lies at a multiple of its size.
    """
    axes, *shifts = walk(shape, target_strides, source_strides)
    leaf = _add_leaf(axes, itemsize, ordered, aligned)
    crossed = _nearer(axes) is not None if axes else False
    return _plan(
        shape, target_strides, source_strides, itemsize, leaf, (shifts[0], shifts[1]), crossed
    )
