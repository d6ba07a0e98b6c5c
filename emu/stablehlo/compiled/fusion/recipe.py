"""What a kernel computes, without names or extents: equal recipes are one kernel.

A group's loop has dimensions: those that its results keep before what is reduced, those reduced, and those behind. The
extents of dimensions and the strides of inputs along them are numbers that a kernel gets when it is launched, where that
costs no speed; along the innermost dimension, and of rows that a kernel keeps, they are part of the recipe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.ir import Operation, Value
from emu.stablehlo.attributes import ComparisonDirection, ComparisonType
from emu.stablehlo.compiled.fusion.groups import Group, Space, reduces_nothing, spread
from emu.stablehlo.compiled.fusion.precision import precision_of
from emu.stablehlo.compiled.fusion.reducers import argument_of, combiner_of
from emu.stablehlo.compiled.fusion.values import Source, Sources, tile_dtype

BLOCK = 1024
"""Elements of a block of a long dimension: what one program computes."""

SHORT = 256
"""Extent below which the innermost dimension is no block of its own: a program takes several of it."""

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
    """

    loop: Loop
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """Numbers that a kernel gets when it is launched.

    Attributes:
        grid: Extents of the grid.
        numbers: Extents, offsets and strides, in the order in which the kernel's parameters are.
    """

    grid: tuple[int, int, int]
    numbers: tuple[int, ...]


def recipe_of(group: Group) -> tuple[Recipe, Launch]:
    """Return what a group's kernel computes, and the numbers of its launch."""
    return _Writer(group).write()


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


class _Writer:
    def __init__(self, group: Group) -> None:
        self._group = group
        self._sources = Sources()
        self._space = group.space
        self._extents, self._labels = split_space(group.space)
        self._nodes: list[Node] = []
        self._number: dict[object, int] = {}
        self._numbers: list[int] = []
        self._input = {value: n for n, value in enumerate(group.inputs)}
        self._loads: list[tuple[int, int, tuple[int, ...]]] = []

    def write(self) -> tuple[Recipe, Launch]:
        levels = _levels(self._group, self._sources)
        for op in self._group.operations:
            self._operation(op, levels)
        loop = plan_loop(self._space, self._extents, self._labels)
        outputs = tuple(self._number[v] for v in self._group.outputs)
        dtypes = tuple(str(tile_dtype(v)) for v in self._group.inputs)
        passed = [e for e, known in zip(self._extents, loop.extents, strict=True) if not known]
        recipe = Recipe(loop, tuple(self._nodes), dtypes, outputs)
        numbers = (*passed, *self._numbers)
        return recipe, Launch(grid_of(loop, self._extents), numbers)

    def _add(self, key: object, node: Node) -> int:
        if key not in self._number:
            self._number[key] = len(self._nodes)
            self._nodes.append(node)
        return self._number[key]

    def _operation(self, op: Operation, levels: dict[Value, bool]) -> None:
        level = levels[op.results[0]]
        is_reduction = op.name == "stablehlo.reduce" and not reduces_nothing(op)
        count = len(op.operands) // 2 if is_reduction else len(op.operands)
        operands = []
        for index, operand in enumerate(op.operands):
            starts = is_reduction and index >= count
            operands.append(self._operand(operand, starts or (level and not is_reduction), starts))
        word = (combiner_of(op) or argument_of(op) or "") if is_reduction else word_of(op)
        kind = (combiner_of(op) or "") if reduces_nothing(op) else op.name
        # Of a reduction of pairs, only the index is used.
        result = op.results[-1]
        self._add(result, Node(kind, str(tile_dtype(result)), tuple(operands), level, word))

    def _operand(self, operand: Value, level: bool, is_start: bool) -> int:
        source = self._sources.of(operand)
        dtype = str(tile_dtype(operand))
        if source.constant is not None:
            return self._add(
                ("constant", source.constant, dtype),
                Node("constant", dtype, word=source.constant.hex()),
            )
        if source.root in self._number:
            return self._number[source.root]
        size = 1 if is_start else self._size(level)
        strides = self._strides(source, level, size)
        kind = "iota"
        inputs: tuple[int, ...] = ()
        if source.root is not None:
            kind, inputs = "load", (self._input[source.root],)
        offset = source.access.offset
        key = (kind, inputs, dtype, strides, offset, level)
        steps = tuple(s if s in (0, 1) else 2 for s in strides)
        known = len(self._nodes)
        number = self._add(key, Node(kind, dtype, inputs, level, "", steps, offset != 0))
        if number == known:
            self._numbers += [offset] * (offset != 0) + [s for s in strides if s not in (0, 1)]
        return number

    def _size(self, level: bool) -> int:
        space = self._space
        return space.outer * space.inner if level else space.size

    def _strides(self, source: Source, level: bool, size: int) -> tuple[int, ...]:
        """Return an operand's stride along each dimension of the loop."""
        if size == 1:
            return (0,) * len(self._extents)
        access, space = spread(source, size), self._space
        if not level:
            return tuple(s for _, s in access.split(space.cuts))
        behind = space.inner * space.reduced
        at = [c for c in space.cuts if c <= space.inner]
        at += [c // space.reduced for c in space.cuts if c > behind]
        found = [s for _, s in access.split(at)]
        return tuple(0 if label == "r" else found.pop(0) for label in self._labels)


def _levels(group: Group, sources: Sources) -> dict[Value, bool]:
    """Return for each value of a group whether it has an element per row."""
    space = group.space
    found: dict[Value, bool] = {}
    for op in group.operations:
        size = sources.of(op.results[0]).access.size
        found[op.results[0]] = space.reduced > 1 and size == space.outer * space.inner
    return found


def word_of(op: Operation) -> str:
    """Return what an operation computes besides its name and dtypes, as ``operations.Facts`` has it."""
    if op.name == "stablehlo.reduce_precision":
        return precision_of(op)
    direction = op.properties.get("comparison_direction")
    if not isinstance(direction, ComparisonDirection):
        return ""
    kind = op.properties.get("compare_type")
    total = isinstance(kind, ComparisonType) and kind.value == "TOTALORDER"
    return direction.value + " TOTAL" * total


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
