"""Which operations run in one loop: the fusion of a stretch of operations without control flow.

Each element-wise operation, load, store and reduction of a stretch is given a *level*; what has one level
and one shape shares one loop nest. An operation may join the level of the tiles that it reads at its own
coordinates, and must come after the level of what it reads elsewhere (through a view, or a reduction's
result). What is no loop over elements (scalars, products, scans) happens at a *time*: that of level ``n``
before the loops of level ``n``. A value that is needed beyond its loop gets memory.

Memory keeps its order as far as a program can tell: a load comes after the stores before it; a store may
share the loop of a load before it (the emitter sees to what overlaps); stores of one stretch share theirs,
since without a barrier between them no order is promised for different elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from emu.tile import ops
from emu.tile.cpu.plan.analysis import Analysis, is_view
from emu.tile.ir import Operation, Value
from emu.tile.ops import Code
from emu.tile.types import Tile

AT_ONCE = frozenset({Code.SCAN, Code.DOT, Code.HISTOGRAM})
"""Operations on whole tiles, with loops of their own, from memory to memory."""

_ATOMIC = frozenset({Code.ATOMIC_RMW, Code.ATOMIC_CAS})
SINKS = frozenset({Code.STORE, Code.REDUCE, Code.JOIN, Code.CAT, Code.ASSERT})


@dataclass(slots=True)
class Group:
    """Operations that share one loop nest.

    Attributes:
        shape: What the nest runs over.
        single: One element at a time, in row-major order: atomic operations.
        operations: In program order.
        kept: Values that are written to memory.
    """

    shape: tuple[int, ...]
    single: bool
    operations: list[Operation] = field(default_factory=list)
    kept: list[Value] = field(default_factory=list)


@dataclass(slots=True)
class Stage:
    """What happens at one time, in program order, and the loops that follow."""

    items: list[Operation] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


def loop_shape(operation: Operation) -> tuple[int, ...] | None:
    """Return the shape that an operation loops over; ``None`` if it does not."""
    code = operation.code
    if code in (Code.STORE, Code.ASSERT, Code.REDUCE, Code.JOIN, *_ATOMIC):
        return operation.operands[0].shape or None
    if code is Code.CAT:
        return operation.result.shape
    if code in AT_ONCE:
        return None
    if code in ops.ELEMENTWISE or code in (Code.LOAD, Code.GATHER, Code.RESHAPE):
        return operation.result.shape or None
    return None


class Schedule:
    """The stages of a stretch of operations.

    Args:
        analysis: Of the function.
        operations: The stretch, in program order.

    Attributes:
        demands: Inline tiles that must be written to memory all the same, and the level at which.
        stages: What happens when.
    """

    def __init__(self, analysis: Analysis, operations: Sequence[Operation]) -> None:
        self._analysis = analysis
        self._level: dict[Operation, int] = {}  # of operations in loops
        self._time: dict[Operation, int] = {}  # of the others
        self._members = set(operations)
        self.demands: dict[Value, int] = {}
        self._loads = self._stores = self._atomics = -1  # latest levels so far
        self._other_shapes: list[tuple[tuple[int, ...], int]] = []
        self._moment = 0  # latest time of a scalar memory operation
        self._irregular_loads = -1
        for operation in operations:
            if operation.code in ops.TERMINATORS or self._costs_nothing(operation):
                continue
            self._place(operation)
        self._delay(operations)
        self.stages = self._collect(operations)

    def _costs_nothing(self, operation: Operation) -> bool:
        results = operation.results
        if not results or operation.code in ops.IMPURE:
            return False
        if not all(isinstance(result.type, Tile) for result in results):
            return False
        return is_view(operation) or all(map(self._analysis.is_inline, results))

    # ---- placing

    def ready(self, value: Value) -> int:
        """Return the first level whose loops can read a value anywhere."""
        if isinstance(value.type, Tile) and self._analysis.is_inline(value):
            operation = value.owner
            if operation is None or operation not in self._members:
                return 0
            return max((self.ready(operand) for operand in operation.operands), default=0)
        root, _ = self._analysis.root(value)
        if root.owner in self._level:
            return self._level[root.owner] + 1
        if root.owner in self._time:
            return self._time[root.owner]
        return 0

    def ready_memory(self, value: Value) -> int:
        """Return the first level, or time, at which a tile is in memory."""
        root, _ = self._analysis.root(value)
        if not isinstance(root.type, Tile) or not self._analysis.is_inline(root):
            return self.ready(value)
        level = self.ready(root)
        self.demands[root] = min(self.demands.get(root, level), level)
        return level + 1

    def _lowest(self, operation: Operation, shape: tuple[int, ...]) -> int:
        level = 0
        for operand in operation.operands:
            root, direct = self._analysis.root(operand)
            owner = root.owner
            joins = (
                direct
                and owner in self._level
                and not self._analysis.is_inline(operand)
                and root.shape == shape
                and owner is not None
                and self._gives_lanes(owner)
                and operation.code not in _ATOMIC
                and not self._wants_memory(operation, operand)
            )
            if joins and owner is not None:
                level = max(level, self._level[owner])
            elif self._wants_memory(operation, operand):
                level = max(level, self.ready_memory(operand))
            else:
                level = max(level, self.ready(operand))
        return level

    @staticmethod
    def _gives_lanes(operation: Operation) -> bool:
        return operation.code not in (Code.REDUCE, Code.JOIN, *_ATOMIC)

    @staticmethod
    def _wants_memory(operation: Operation, operand: Value) -> bool:
        if operation.code is Code.GATHER:
            return operand is operation.operands[0]
        return operation.code in (Code.CAT, Code.RESHAPE)

    def _place(self, operation: Operation) -> None:
        shape = loop_shape(operation)
        if shape is None:
            ready = self.ready_memory if operation.code in AT_ONCE else self.ready
            time = max(map(ready, operation.operands), default=0)
            if operation.code in ops.MEMORY:
                time = self._after_memory(operation, time)
            self._time[operation] = time
            return
        level = self._lowest(operation, shape)
        if operation.code is Code.LOAD:
            level = max(level, self._stores + 1, self._atomics + 1, self._moment)
            self._loads = max(self._loads, level)
            if not self._analysis.is_regular(operation.operands[0]):
                self._irregular_loads = max(self._irregular_loads, level)
            self._other_shapes.append((shape, level))
        elif operation.code is Code.STORE:
            level = max(level, self._loads, self._stores, self._atomics + 1, self._moment)
            level = max(level, self._irregular_loads + 1)
            if self._loads >= 0 and not self._analysis.is_regular(operation.operands[0]):
                level = max(level, self._loads + 1)
            others = [at + 1 for other, at in self._other_shapes if other != shape]
            level = max([level, *others])
            self._stores = level
        elif operation.code in _ATOMIC:
            level = max(level, self._loads + 1, self._stores + 1, self._atomics + 1, self._moment)
            self._atomics = level
        self._level[operation] = level

    def _after_memory(self, operation: Operation, time: int) -> int:
        time = max(time, self._stores + 1, self._atomics + 1, self._moment)
        if operation.code is not Code.LOAD:
            time = max(time, self._loads + 1)
            self._moment = time
        else:
            self._moment = max(self._moment, time)
        return time

    # ---- overwriting

    def may_overwrite(self, value: Value, old: Value | None, terminator: Operation) -> bool:
        """Say whether a tile of this stretch may be written where an older tile of its shape lies.

        Args:
            value: What is written.
            old: What lies there; ``None``: nothing that matters.
            terminator: The end of the region, which takes the value.
        """
        analysis, owner = self._analysis, value.owner
        if owner is None or analysis.is_inline(value) or analysis.root(value)[0] is not value:
            return False
        if self._position(owner) is None:
            return False
        if old is None:
            return True
        return self._is_over(old, old, owner, terminator, True)

    def _position(self, operation: Operation) -> int | None:
        if operation in self._time:
            return 2 * self._time[operation]
        if operation in self._level:
            return 2 * self._level[operation] + 1
        return None

    def _is_over(
        self, value: Value, old: Value, owner: Operation, terminator: Operation, direct: bool
    ) -> bool:
        """Say whether all that reads a value has read it when ``owner`` writes."""
        writes = self._position(owner)
        assert writes is not None
        for user in self._analysis.users[value]:
            if user is terminator:
                return False
            passes_on = is_view(user) or (
                user not in self._level
                and user not in self._time
                and any(
                    isinstance(v.type, Tile) and self._analysis.is_inline(v) for v in user.results
                )
            )
            if passes_on:
                if not all(self._is_over(v, old, owner, terminator, False) for v in user.results):
                    return False
                continue
            reads = self._position(user)
            if reads is None or reads < writes:  # in an earlier stretch, or earlier in this one
                continue
            if user is owner and owner.code is Code.DOT:
                if owner.operands[2] is not old or old in owner.operands[:2]:
                    return False
            elif not (direct and self._shares_loop(user, owner)):
                return False
        return True

    def _shares_loop(self, user: Operation, owner: Operation) -> bool:
        """Say whether two operations of one level are done element by element in one loop."""
        return (
            user in self._level
            and owner in self._level
            and self._level[user] == self._level[owner]
            and loop_shape(user) == loop_shape(owner)
            and user.code not in (*_ATOMIC, Code.GATHER, Code.RESHAPE, Code.CAT)
            and owner.code not in (*_ATOMIC, Code.REDUCE, Code.JOIN)
        )

    # ---- delaying

    def _delay(self, operations: Sequence[Operation]) -> None:
        """Move what is needed later only to where it is needed: it then needs no memory."""
        last_store = max(self._stores, self._atomics, self._moment)
        for operation in reversed(operations):
            level = self._level.get(operation)
            code = operation.code
            movable = code in ops.ELEMENTWISE or (code is Code.LOAD and last_store < 0)
            if code is Code.LOAD and last_store >= 0:
                movable = level is not None and self._no_store_before(operations, operation)
            if level is None or not movable or len(operation.results) != 1:
                continue
            latest = self._latest(operation)
            if latest is not None and latest > level:
                self._level[operation] = latest

    def _no_store_before(self, operations: Sequence[Operation], load: Operation) -> bool:
        """Say whether a load may be done anywhere up to the stores that share its last users' level."""
        latest = self._latest(load)
        if latest is None or load not in self._level:
            return False
        regular = self._analysis.is_regular(load.operands[0])
        for other in operations:
            if other.code in (Code.STORE, *_ATOMIC):
                at = self._level.get(other, self._time.get(other, 0))
                same_loop = (
                    other in self._level
                    and other.code is Code.STORE
                    and at == latest
                    and regular
                    and self._analysis.is_regular(other.operands[0])
                    and loop_shape(other) == loop_shape(load)
                )
                if at <= latest and not same_loop:
                    return False
        return True

    def _latest(self, operation: Operation) -> int | None:
        """Return the latest level at which all users can read the result in their own loops."""
        shape, latest = loop_shape(operation), None
        for user in self._analysis.users[operation.result]:
            level = self._level.get(user)
            if level is None or loop_shape(user) != shape or user.code in _ATOMIC:
                return None
            if self._wants_memory(user, operation.result):
                return None
            latest = level if latest is None else min(latest, level)
        return latest

    # ---- collecting

    def _collect(self, operations: Sequence[Operation]) -> list[Stage]:
        levels = (*self._level.values(), *self._time.values(), *self.demands.values())
        count = max(levels, default=-1) + 1
        stages = [Stage() for _ in range(count)]
        group_of: dict[Operation, Group] = {}
        for operation in operations:
            if operation in self._time:
                stages[self._time[operation]].items.append(operation)
            elif operation in self._level:
                group = self._group(stages[self._level[operation]], operation)
                group.operations.append(operation)
                group_of[operation] = group
        for value, level in self.demands.items():
            stages[level].groups.append(Group(value.shape, False, [], [value]))
        for operation, group in group_of.items():
            for result in operation.results:
                if not isinstance(result.type, Tile) or not self._gives_lanes(operation):
                    continue
                if self._leaves(result, group_of, group):
                    group.kept.append(result)
        return stages

    @staticmethod
    def _group(stage: Stage, operation: Operation) -> Group:
        shape = loop_shape(operation)
        assert shape is not None
        single = operation.code in _ATOMIC
        for group in stage.groups:
            if group.shape == shape and not group.single and not single:
                return group
        stage.groups.append(Group(shape, single))
        return stage.groups[-1]

    def _leaves(self, value: Value, group_of: dict[Operation, Group], group: Group) -> bool:
        """Say whether anyone outside its loop reads a value."""
        for user in self._analysis.users[value]:
            if is_view(user):
                if any(self._is_read(result) for result in user.results):
                    return True
            elif group_of.get(user) is not group or self._wants_memory(user, value):
                return True
        return False

    def _is_read(self, value: Value) -> bool:
        return any(
            not is_view(user) or any(self._is_read(result) for result in user.results)
            for user in self._analysis.users[value]
        )
