"""Facts about values that the CPU compiler needs before it emits anything.

**Inline values.** Offsets, masks and pointers are cheap to recompute wherever they are needed, and best left
symbolic: ``base + arange`` costs nothing and shows that a load is contiguous. So constants, splats, ranges and cheap
integer arithmetic on them get no memory.

**Views.** Broadcasts, permutations and the like are not computed: a read of the result at one coordinate becomes a
read of the operand at another.

**Steps.** The difference between neighbours along an axis: a known constant, an amount that is known at run time, or
irregular. A load whose pointers step by the size of an element is a vector load.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from emu.tile import ops
from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.types import DType, Pointer, Tile, element_of

VARIES: Final = "varies"
"""A step that is the same everywhere along the axis, but known only at run time."""

Step = int | str | None
"""A constant, ``VARIES``, or ``None``: irregular. Of pointers in bytes."""

_INLINE_LIMIT = 12
"""Number of operations that an inline value may cost per use."""

_SHORTEST_ROW = 8
"""Elements of a row for which it pays to look at the beginnings of all rows before the loop."""


def _is_unit_reshape(operation: Operation) -> bool:
    """Return whether a RESHAPE only adds or drops axes of extent 1: then it is a view."""
    source, target = operation.operands[0].shape, operation.result.shape
    return [n for n in source if n != 1] == [n for n in target if n != 1]


def is_view(operation: Operation) -> bool:
    """Return whether results are read by reading the operand elsewhere."""
    if operation.code is Code.RESHAPE:
        return _is_unit_reshape(operation)
    return operation.code in ops.VIEWS or operation.code is Code.AFTER


def kept_axes(shape: tuple[int, ...]) -> list[int]:
    """Return the axes whose extent is not 1."""
    return [axis for axis, extent in enumerate(shape) if extent != 1]


def vector_axis(shape: tuple[int, ...]) -> int:
    """Return the axis along which loops walk in runs of lanes: the last whose extent is not 1."""
    return max((axis for axis, n in enumerate(shape) if n != 1), default=len(shape) - 1)


def source_axis(operation: Operation, axis: int) -> int | None:
    """Return the axis of a view's operand that an axis of its result follows; ``None`` if there is none."""
    operand = operation.operands[0]
    if operation.code is Code.PERMUTE:
        return int(operation.attributes["order"][axis])
    if operation.code is Code.BROADCAST:
        return axis if operand.shape[axis] != 1 else None
    if operation.code is Code.RESHAPE:
        kept = kept_axes(operation.result.shape)
        return kept_axes(operand.shape)[kept.index(axis)] if axis in kept else None
    return axis


def constant_of(value: Value) -> int | float | None:
    """Return the constant that all elements of a value are known to equal, if any."""
    while value.owner is not None and value.owner.code in (Code.SPLAT, Code.BROADCAST, Code.CAST):
        if value.owner.code is Code.CAST and not _keeps_integers(value.owner):
            return None
        value = value.owner.operands[0]
    if value.owner is not None and value.owner.code is Code.CONSTANT:
        number = value.owner.attributes["value"]
        return number if isinstance(number, (int, float)) else None
    return None


def _keeps_integers(operation: Operation) -> bool:
    source = element_of(operation.operands[0].type)
    target = element_of(operation.result.type)
    return (
        isinstance(source, DType)
        and isinstance(target, DType)
        and source.is_integer
        and target.is_integer
        and target.bits >= source.bits
    )


def _is_integral(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, Pointer) or not element.is_float


def _is_wide(value: Value) -> bool:
    """Return whether a tile has pointers, or integers that no program expects to wrap: of 32 bits at least."""
    element = element_of(value.type)
    return isinstance(element, Pointer) or (element.is_integer and element.bits >= 32)


@dataclass(frozen=True)
class Bound:
    """A comparison that is false in all lanes from some index on.

    Attributes:
        comparison: Comparison of a range, with step 1 along one axis, with a scalar.
        axis: Axis of the comparison's shape.
    """

    comparison: Operation
    axis: int


class Analysis:
    """Facts about one function, whose calls are inlined already.

    Attributes:
        users: Operations that take a value, nested ones included.
        region_of: Region that an operation stands in.
        owner_of: Operation that a nested region belongs to, by the region's id.
        defined_in: Region in which a value is defined.
    """

    def __init__(self, body: Region) -> None:
        self.users: dict[Value, list[Operation]] = defaultdict(list)
        self.region_of: dict[Operation, Region] = {}
        self.owner_of: dict[int, Operation] = {}
        self.defined_in: dict[Value, Region] = {}
        self._costs: dict[Value, int | None] = {}
        self._steps: dict[tuple[Value, int, frozenset[Operation]], Step] = {}
        self._linear: dict[tuple[Value, frozenset[Operation]], bool] = {}
        self._visit(body)

    def _visit(self, region: Region) -> None:
        for argument in region.arguments:
            self.defined_in[argument] = region
        for operation in region.operations:
            self.region_of[operation] = region
            for operand in operation.operands:
                self.users[operand].append(operation)
            for result in operation.results:
                self.defined_in[result] = region
            for nested in operation.regions:
                self.owner_of[id(nested)] = operation
                self._visit(nested)

    def inline_cost(self, value: Value) -> int | None:
        """Return the number of operations that a value costs per use; ``None`` if it is not inline."""
        if value not in self._costs:
            self._costs[value] = self._cost(value)
        return self._costs[value]

    def is_inline(self, value: Value) -> bool:
        """Return whether a tile is computed again where it is needed."""
        return self.inline_cost(value) is not None

    def _cost(self, value: Value) -> int | None:
        if not isinstance(value.type, Tile):
            return 0
        operation = value.owner
        if operation is None:
            return None
        if operation.code in (Code.CONSTANT, Code.SPLAT, Code.ARANGE):
            return 0
        if is_view(operation):
            cost = self.inline_cost(operation.operands[0])
            # A view of irregular offsets is read from memory in any case, but what is computed from it
            # may stay symbolic along the other axes.
            return 1 if cost is None and _is_integral(value) else cost
        if operation.code not in ops.CHEAP or not all(
            map(_is_integral, (value, *operation.operands))
        ):
            return None
        costs = [self.inline_cost(operand) for operand in operation.operands]
        total = 1
        for cost in costs:
            if cost is None:
                return None
            total += cost
        return total if total <= _INLINE_LIMIT else None

    def root(self, value: Value) -> tuple[Value, bool]:
        """Follow views; return the value read in the end, and whether at the same coordinates."""
        direct = True
        while value.owner is not None and is_view(value.owner):
            direct = direct and value.owner.code is Code.AFTER
            value = value.owner.operands[0]
        return value, direct

    def last_use(self, value: Value, region: Region, order: dict[Operation, int]) -> int:
        """Return the number of the last operation of a region that needs a value of it.

        Args:
            value: Defined in the region.
            region: The region.
            order: Its operations, numbered.
        """
        last = -1
        for user in self.users[value]:
            last = max(last, order[self.ancestor(user, region)])
            if is_view(user) or any(self.is_inline(v) for v in user.results):
                for result in user.results:
                    if isinstance(result.type, Tile):
                        last = max(
                            last,
                            self.last_use(result, self.region_of[user], order)
                            if self.region_of[user] is region
                            else last,
                        )
        return last

    def ancestor(self, operation: Operation, region: Region) -> Operation:
        """Return the operation of a region in which another stands."""
        while self.region_of[operation] is not region:
            operation = self.owner_of[id(self.region_of[operation])]
        return operation

    # ---- steps

    def step(self, value: Value, axis: int, assumed: frozenset[Operation] = frozenset()) -> Step:
        """Return the step of a tile along an axis.

        Args:
            value: The tile.
            axis: Of its shape.
            assumed: DIV and REM operations that are known to have one quotient in all lanes.
        """
        key = (value, axis, assumed)
        if key not in self._steps:
            self._steps[key] = self._find_step(value, axis, assumed)
        return self._steps[key]

    def _find_step(self, value: Value, axis: int, assumed: frozenset[Operation]) -> Step:
        if not isinstance(value.type, Tile) or value.type.shape[axis] == 1:
            return 0
        operation = value.owner
        if operation is None:
            return None
        code = operation.code
        if code in (Code.CONSTANT, Code.SPLAT):
            return 0
        if code is Code.ARANGE:
            return 1
        if is_view(operation):
            source = source_axis(operation, axis)
            step = 0 if source is None else self.step(operation.operands[0], source, assumed)
            if code is Code.FLIP and operation.attributes["axis"] == axis:
                return -step if isinstance(step, int) else step
            return step
        if code in ops.ELEMENTWISE:
            return self._step_of(operation, axis, assumed)
        return None

    def _step_of(self, operation: Operation, axis: int, assumed: frozenset[Operation]) -> Step:
        steps = [self.step(operand, axis, assumed) for operand in operation.operands]
        if all(step == 0 for step in steps):
            return 0
        if operation in assumed:
            return steps[0] if operation.code is Code.REM else 0
        if None in steps or not _is_wide(operation.result):
            return None
        code = operation.code
        if code in (Code.ADD, Code.SUB, Code.PTR_ADD, Code.NEG):
            return self._sum_of_steps(operation, steps)
        if code in (Code.MUL, Code.SHL):
            return self._scaled_step(operation, steps)
        if code is Code.CAST:
            return steps[0] if _is_wide(operation.operands[0]) else None
        if code is Code.BITCAST and _is_integral(operation.operands[0]):
            return steps[0]
        return None

    @staticmethod
    def _sum_of_steps(operation: Operation, steps: list[Step]) -> Step:
        element = element_of(operation.result.type)
        numbers = [step for step in steps if isinstance(step, int)]
        if len(numbers) < len(steps):
            return VARIES
        if operation.code is Code.NEG:
            return -numbers[0]
        if operation.code is Code.SUB:
            return numbers[0] - numbers[1]
        if operation.code is Code.PTR_ADD:
            assert isinstance(element, Pointer)
            return numbers[0] + numbers[1] * element.element.bytes
        return numbers[0] + numbers[1]

    @staticmethod
    def _scaled_step(operation: Operation, steps: list[Step]) -> Step:
        if operation.code is Code.SHL:
            bits = constant_of(operation.operands[1])
            if steps[1] != 0 or not isinstance(bits, int) or not 0 <= bits < 32:
                return None
            return steps[0] << bits if isinstance(steps[0], int) else VARIES
        if steps[0] != 0 and steps[1] != 0:
            return None
        moving = 0 if steps[0] != 0 else 1
        factor, step = constant_of(operation.operands[1 - moving]), steps[moving]
        if isinstance(factor, int) and isinstance(step, int):
            return factor * step
        return VARIES

    def is_regular(self, value: Value, assumed: frozenset[Operation] = frozenset()) -> bool:
        """Return whether a tile steps evenly along each axis, by the same step wherever one stands on the others.

        The least and the greatest element of such a tile lie in its corners.
        """
        axes = range(len(value.shape))
        return all(self.step(value, axis, assumed) is not None for axis in axes) and (
            self._is_linear(value, assumed)
        )

    def has_span(self, pointer: Value) -> bool:
        """Return whether a few instructions can tell between which addresses a tile of pointers lies.

        It is regular, or has rows whose beginnings are picked by indices and can be computed before its loop.
        """
        axis = vector_axis(pointer.shape)
        return self.is_regular(pointer) or (
            pointer.shape[axis] >= _SHORTEST_ROW
            and isinstance(self.step(pointer, axis), int)
            and self.is_inline(pointer)
        )

    def _is_linear(self, value: Value, assumed: frozenset[Operation]) -> bool:
        """Return whether no step of a tile with steps depends on the other coordinates.

        The product of a range along the rows and one along the columns has a step along each, another in each row.
        """
        key = (value, assumed)
        if key not in self._linear:
            self._linear[key] = self._find_linear(value, assumed)
        return self._linear[key]

    def _find_linear(self, value: Value, assumed: frozenset[Operation]) -> bool:
        operation = value.owner
        if self._is_uniform(value, assumed) or operation is None:
            return True
        operands = operation.operands
        if is_view(operation) or operation in assumed:
            return self._is_linear(operands[0], assumed)
        if operation.code is Code.MUL and not any(self._is_uniform(v, assumed) for v in operands):
            return False
        return all(self._is_linear(operand, assumed) for operand in operands)

    def _is_uniform(self, value: Value, assumed: frozenset[Operation]) -> bool:
        axes = range(len(value.shape)) if isinstance(value.type, Tile) else ()
        return all(self.step(value, axis, assumed) == 0 for axis in axes)
