"""What a kernel computes, without names or extents: equal recipes are one kernel.

A group's loop has dimensions: those that its results keep before what is reduced, those reduced, and those behind. The
extents of dimensions and the strides of inputs along them are numbers that a kernel gets when it is launched, where that
costs no speed; along the innermost dimension, and of rows that a kernel keeps, they are part of the recipe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_ROW = 16384
"""Elements of a row that a kernel keeps in its scratch memory."""

BLOCK = 1024
"""Elements of a block of a long dimension: what one program computes."""

SHORT = 256
"""Extent below which the innermost dimension is no block of its own: a program takes several of it."""

REDUCE = "reduce"
"""Kind of the nodes that reduce."""

READS = frozenset({"load", "iota"})
"""Kinds of nodes that have a place: what they read, or count."""


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a kernel.

    Attributes:
        kind: Name of an operation, or ``load``, ``iota``, ``constant``.
        dtype: Name of the result's dtype.
        operands: Numbers of the nodes that it takes; of a load the number of the input.
        is_reduced: Whether it has an element per row.
        word: See ``operations.Facts``; of a constant its bits; of a reduction the operation that combines.
        steps: Of a load or iota: for each dimension of the loop 0, 1, or 2 for another stride, which is passed.
        has_offset: Whether the place of its first element is passed.
    """

    kind: str
    dtype: str
    operands: tuple[int, ...] = ()
    is_reduced: bool = False
    word: str = ""
    steps: tuple[int, ...] = ()
    has_offset: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """Loop of a kernel.

    Attributes:
        kind: ``map``, ``rows`` (a program keeps whole rows), or ``columns`` (a program walks along what is
            reduced).
        labels: For each dimension ``o`` (outer), ``r`` (reduced) or ``i`` (inner).
        tile: For each dimension the elements that a program takes at once; 0: one.
        extents: Extents that are part of the kernel; 0 for those that are passed.
        is_ragged: Whether the extent of the dimension that is passed in blocks may be no multiple of the block.
    """

    kind: str
    labels: str
    tile: tuple[int, ...]
    extents: tuple[int, ...]
    is_ragged: bool


@dataclass(frozen=True, slots=True)
class Recipe:
    """A kernel, as data.

    Attributes:
        loop: Its loop.
        nodes: Its steps in order.
        inputs: dtypes of its inputs.
        outputs: Numbers of the nodes that are its outputs.
        places: For each output its strides, as ``Node.steps``, which are passed behind those of loads; none at all: outputs
            are contiguous.
    """

    loop: Loop
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[int, ...]
    places: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Numbers that a kernel gets when it is launched.

    Attributes:
        grid: Extents of the grid.
        numbers: Extents, offsets and strides, in the order in which the kernel's parameters are.
    """

    grid: tuple[int, int, int]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """Elements over which a group loops, counted in row-major order: ``outer * reduced * inner`` of them.

    Attributes:
        outer: Extent before the reduced dimension.
        reduced: Extent of what is reduced; 1 if nothing is.
        inner: Extent behind it.
        cuts: Numbers of elements, ascending, at which a dimension ends.
    """

    outer: int
    reduced: int
    inner: int
    cuts: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.outer * self.reduced * self.inner

    @property
    def are_rows(self) -> bool:
        """Whether each result of a reduction comes of neighbouring elements, few enough to be kept."""
        return self.inner == 1 and 1 < self.reduced <= LONGEST_ROW


def split_space(space: Space) -> tuple[list[int], str]:
    """Return the extents of a loop's dimensions and their labels."""
    extents, labels, inner = [], [], 1
    for cut in space.cuts:
        extents.append(cut // inner)
        behind = cut <= space.inner
        labels.append("i" if behind else "r" if cut <= space.inner * space.reduced else "o")
        inner = cut
    if space.reduced == 1:
        labels = ["o"] * len(labels)
    return extents[::-1], "".join(reversed(labels))


def plan_loop(space: Space, extents: Sequence[int], labels: str) -> Loop:
    """Choose what a program takes at once."""
    tile, known = [0] * len(extents), [0] * len(extents)
    last, kind = len(extents) - 1, "map"
    blocked: int | None = last if last >= 0 else None
    if space.reduced == 1:
        # A chain over one dimension is one kernel for all extents; so it is always ragged.
        always = last == 0
        if last > 0 and extents[last] < SHORT:
            tile[last] = known[last] = extents[last]
            blocked = last - 1
            tile[blocked] = several(extents[last], extents[blocked])
        elif last >= 0:
            tile[last] = BLOCK if always else block_of(extents[last])
    elif space.are_rows:
        kind, always = "rows", False
        for axis, label in enumerate(labels):
            if label == "r":
                tile[axis] = known[axis] = extents[axis]
        blocked = labels.rfind("o") if "o" in labels else None
        if blocked is not None and space.reduced < SHORT:
            tile[blocked] = several(space.reduced, extents[blocked])
    else:
        kind, always = "columns", False
        tile[last] = block_of(extents[last])
    is_ragged = always or (
        blocked is not None and tile[blocked] > 0 and extents[blocked] % tile[blocked] > 0
    )
    return Loop(kind, labels, tuple(tile), tuple(known), is_ragged)


def block_of(extent: int) -> int:
    """Return how many elements of a long dimension a program takes: a divisor if there is a large one."""
    for block in (BLOCK, BLOCK // 2, BLOCK // 4):
        if extent % block == 0:
            return block
    return min(BLOCK, 32 * math.ceil(extent / 32))


def several(row: int, rows: int) -> int:
    """Return how many short rows a program takes, 0 for one: a power of two, so that there are few kernels."""
    count = 1
    while 2 * count * row <= BLOCK and count < rows:
        count *= 2
    fitting = count
    while rows % fitting:
        fitting //= 2
    if 4 * fitting >= count:
        count = fitting
    return count if count > 1 else 0


def grid_of(loop: Loop, extents: Sequence[int]) -> tuple[int, int, int]:
    """Return the grid: blocks of the dimension that is passed in blocks, times the other kept dimensions."""
    blocks, rest = 1, 1
    for extent, tile, known, label in zip(
        extents, loop.tile, loop.extents, loop.labels, strict=True
    ):
        if tile and not known and label != "r":
            blocks *= math.ceil(extent / tile)
        elif not tile and label != "r":
            rest *= extent
    return blocks, rest, 1
