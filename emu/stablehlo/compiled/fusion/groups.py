"""Groups of operations that one kernel computes."""

from __future__ import annotations

from dataclasses import dataclass

from emu.mlir.ir import Operation, Value
from emu.stablehlo.compiled.fusion.access import Access, are_nested, coalesced, necessary_cuts
from emu.stablehlo.compiled.fusion.operations import can_compute
from emu.stablehlo.compiled.fusion.precision import can_reduce
from emu.stablehlo.compiled.fusion.reducers import argument_of, combiner_of
from emu.stablehlo.compiled.fusion.values import FREE, Source, Sources, shape_of, tile_dtype
from emu.stablehlo.syntax import ints
from emu.tile.fusion import Space

MOST_OPERATIONS = 64
"""Operations of a group; LLVM's time grows with the square of what is live."""

MOST_OF_SCALARS = 16
"""Operations of a group of scalars, whose kernel takes longer to compile than to run."""

MOST_OPERANDS = 24
"""Values that a group reads."""


@dataclass(frozen=True, eq=False)
class Group:
    """Operations that one kernel computes.

    Attributes:
        operations: The operations that compute, in order. Broadcasts, constants and the like that they read
            through are not among them.
        inputs: Values that the kernel reads, each defined outside of the group; not what is computed from them
            by moving elements only.
        outputs: Values that something outside of the group needs.
        space: The loop that all of them share.
    """

    operations: tuple[Operation, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    space: Space


class Draft:
    """A group that grows.

    Attributes:
        operations: Its operations, in the order in which they were added.
        size: Elements of the values that are not reduced.
        is_reduced: For each value that it computes, whether it has an element per row instead of one per element.
    """

    def __init__(self, sources: Sources, size: int) -> None:
        self.operations: list[Operation] = []
        self.size = size
        self.is_reduced: dict[Value, bool] = {}
        self._sources = sources
        self._rows: tuple[int, int, int] | None = None
        self._cuts: frozenset[int] = frozenset({size} - {1})
        self._roots: set[Value] = set()

    def space(self) -> Space:
        """Return the loop of the group."""
        outer, reduced, inner = self._rows or (self.size, 1, 1)
        return Space(outer, reduced, inner, tuple(sorted(self._cuts)))

    def add(self, op: Operation) -> bool:
        """Add an operation if one loop can compute it with the others; return whether it did."""
        if len(self.operations) >= (MOST_OPERATIONS if self.size > 1 else MOST_OF_SCALARS):
            return False
        if op.name == "stablehlo.reduce" and not reduces_nothing(op):
            return self._add_reduction(op)
        shape = shape_of(op.result)
        assert shape is not None
        size = Access(tuple((n, 0) for n in shape)).size
        rows = self._rows
        levels = [False] if size == self.size else []
        if rows is not None and size == rows[0] * rows[2]:
            levels.append(True)
        return any(self._add_at(op, level, size) for level in levels)

    def _add_at(self, op: Operation, level: bool, size: int) -> bool:
        cuts, roots = self._cuts, set(self._roots)
        for operand in op.operands:
            found = self._read(operand, level, size, self._rows)
            if found is None:
                return False
            cuts |= found[0]
            if found[1] is not None:
                roots.add(found[1])
        return self._commit(op, level, cuts, roots, self._rows)

    def _commit(
        self,
        op: Operation,
        level: bool,
        cuts: frozenset[int],
        roots: set[Value],
        rows: tuple[int, int, int] | None,
    ) -> bool:
        if not are_nested(cuts) or len(roots) > MOST_OPERANDS:
            return False
        self._cuts, self._roots, self._rows = cuts, roots, rows
        self.operations.append(op)
        self.is_reduced.update(dict.fromkeys(op.results, level))
        return True

    def _read(
        self, operand: Value, level: bool, size: int, rows: tuple[int, int, int] | None
    ) -> tuple[frozenset[int], Value | None] | None:
        """Return the cuts that an operand needs, and what is read; None if it cannot be read in this loop."""
        source = self._sources.of(operand)
        access = spread(source, size)
        if source.root in self.is_reduced:
            return (frozenset(), None) if self._is_at_hand(source, access, level, rows) else None
        if source.root is not None and moved_from(source.root) in self.is_reduced:
            return None  # Elements of the group's own value are moved before they are read.
        needed = necessary_cuts(access)
        if level:
            assert rows is not None
            needed = frozenset(c if c <= rows[2] else c * rows[1] for c in needed)
        return needed, source.root

    def _is_at_hand(
        self,
        source: Source,
        access: Access,
        level: bool,
        rows: tuple[int, int, int] | None,
    ) -> bool:
        """Return whether a value of the group is read where it is computed, or by all elements of its row."""
        assert source.root is not None
        of_row = self.is_reduced[source.root]
        if access.offset or (level and not of_row):
            return False
        if of_row == level:
            return coalesced(access.dimensions) in (((access.size, 1),), ())
        if rows is None or not Space(*rows, ()).are_rows:
            return False
        return coalesced(access.dimensions) == coalesced([(rows[0], 1), (rows[1], 0)])

    def _add_reduction(self, op: Operation) -> bool:
        rows = rows_of(op)
        if rows is None or (self._rows is not None and rows != self._rows):
            return False
        outer, reduced, inner = rows
        if outer * reduced * inner != self.size:
            return False
        cuts, roots = self._cuts | {inner, inner * reduced} - {1}, set(self._roots)
        count = len(op.operands) // 2
        for operand in op.operands[:count]:
            found = self._read(operand, False, self.size, rows)
            if found is None:
                return False
            cuts |= found[0]
            if found[1] is not None:
                roots.add(found[1])
        if count == 2 and not self._counts(op.operands[1], rows):
            return False
        for start in op.operands[count:]:
            source = self._sources.of(start)
            if source.root in self.is_reduced or (count == 2 and source.constant is None):
                return False
            if source.root is not None:
                if moved_from(source.root) in self.is_reduced:
                    return False
                roots.add(source.root)
        return self._commit(op, True, cuts, roots, rows)

    def _counts(self, operand: Value, rows: tuple[int, int, int]) -> bool:
        """Return whether an operand is the index of each element among those that are reduced with it."""
        source = self._sources.of(operand)
        if source.root is not None or source.constant is not None or source.access.offset:
            return False
        outer, reduced, inner = rows
        index = coalesced([(outer, 0), (reduced, 1), (inner, 0)])
        return coalesced(source.access.dimensions) == index


def moved_from(value: Value) -> Value:
    """Return what a value's elements are moved from by operations that compute nothing."""
    op = value.defining_op
    while op is not None and op.name in FREE and op.operands:
        value = op.operands[0]
        op = value.defining_op
    return value


def spread(source: Source, size: int) -> Access:
    """Return the access of an operand of an operation with so many elements: scalars are repeated."""
    access = source.access
    return Access(((size, 0),), access.offset) if access.size == 1 and size > 1 else access


def rows_of(op: Operation) -> tuple[int, int, int] | None:
    """Return the extents before, of and behind the reduced dimensions; None if they are not neighbours."""
    shape = shape_of(op.operands[0])
    if shape is None:
        return None
    reduced = set(ints(op.properties["dimensions"]))
    extents, state = [1, 1, 1], 0
    for dimension, extent in enumerate(shape):
        if extent == 1:
            continue
        if dimension in reduced:
            if state == 2:
                return None
            state = 1
        elif state == 1:
            state = 2
        extents[state] *= extent
    return None if extents[1] == 1 else (extents[0], extents[1], extents[2])


def reduces_nothing(op: Operation) -> bool:
    """Return whether an operation reduces dimensions of extent 1 only: it combines each element with the initial value."""
    if op.name != "stablehlo.reduce":
        return False
    shape = shape_of(op.operands[0])
    return shape is not None and all(shape[d] == 1 for d in ints(op.properties["dimensions"]))


def can_fuse(op: Operation) -> bool:
    """Return whether a kernel can compute an operation."""
    values = (*op.operands, *op.results)
    dtypes = [d for d in map(tile_dtype, values) if d is not None]
    if len(dtypes) < len(values) or any(shape_of(v) is None for v in values):
        return False
    if op.name == "stablehlo.reduce":
        known = reduces_nothing(op) or rows_of(op) is not None
        if len(op.results) == 2:
            return rows_of(op) is not None and argument_of(op) is not None
        return known and combiner_of(op) is not None
    if op.name == "stablehlo.reduce_precision" and not can_reduce(op, dtypes[0]):
        return False
    return len(op.results) == 1 and can_compute(op.name, dtypes[:-1], dtypes[-1])
