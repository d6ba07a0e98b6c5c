"""Groups as recipes."""

from __future__ import annotations

from emu.mlir.ir import Operation, Value
from emu.stablehlo.attributes import ComparisonDirection, ComparisonType
from emu.stablehlo.compiled.fusion.groups import Group, reduces_nothing, spread
from emu.stablehlo.compiled.fusion.precision import precision_of
from emu.stablehlo.compiled.fusion.reducers import argument_of, combiner_of
from emu.stablehlo.compiled.fusion.values import Source, Sources, tile_dtype
from emu.tile.fusion import REDUCE, Launch, Node, Recipe, grid_of, plan_loop, split_space


def recipe_of(group: Group) -> tuple[Recipe, Launch]:
    """Return what a group's kernel computes, and the numbers of its launch."""
    return _Writer(group).write()


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
        if is_reduction:
            kind = REDUCE
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
