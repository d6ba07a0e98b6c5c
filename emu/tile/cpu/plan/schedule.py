"""Loop fusion of a stretch of straight-line code: the operations that run in one loop.

Each element-wise operation, load, store and reduction of a stretch gets a *fusion level*; operations of one level
and one shape share one loop nest, a :class:`Group`. Operations that are no loop over elements (scalars, products,
scans) get an *issue slot*: slot ``n`` comes before the loops of level ``n``. So a stretch runs in this order::

    slot 0, in program order | the loops of level 0 | slot 1 | the loops of level 1 | ...

The rules, from which everything else follows:

* **Values.** An operation may share the loop of a tile that it reads at its own coordinates. It must come in a later
  level than a tile that it reads elsewhere (through a view, or as the operand of a scan), and than results that
  are complete only after their loop (of reductions, joins, atomic operations). A tile that AFTER holds back is
  read no earlier than all values of the token are complete.
* **Memory.** What a program can observe of the order of its memory operations is kept; see ``memory_order``.
* **Materialisation.** A value that is read beyond its loop is written to memory. Inline values (offsets, masks; see
  ``analysis``) are computed again instead, and have no place in the schedule, unless an operation that reads whole
  tiles from memory takes one.

Operations are placed in program order, each as early as these rules allow. Then those with one late reader are
delayed to the loop of that reader: they then need no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from emu.tile import ops
from emu.tile.cpu.plan.analysis import Analysis, constant_of, is_view
from emu.tile.cpu.plan.memory_order import MemoryOrder
from emu.tile.ir import Operation, Value
from emu.tile.ops import Code
from emu.tile.types import Tile

_COMPLETE_AFTER_LOOP = ops.ATOMIC | {Code.REDUCE, Code.JOIN}
"""Operations in loops whose results cannot be read in the same loop."""


@dataclass(slots=True)
class Group:
    """Operations that share one loop nest.

    Attributes:
        shape: Extents of the nest.
        is_serial: Whether it runs one element at a time, in row-major order: an atomic operation.
        operations: Operations in program order.
        materialized: Values that the loop writes to memory.
    """

    shape: tuple[int, ...]
    is_serial: bool
    operations: list[Operation] = field(default_factory=list)
    materialized: list[Value] = field(default_factory=list)


@dataclass(slots=True)
class Stage:
    """One issue slot, in program order, and the loops of the level after it."""

    items: list[Operation] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


def loop_shape(operation: Operation) -> tuple[int, ...] | None:
    """Return the shape that an operation loops over; ``None`` if it has no loop of its elements."""
    code = operation.code
    if code in ops.ATOMIC or code in (Code.STORE, Code.ASSERT, Code.REDUCE, Code.JOIN):
        return operation.operands[0].shape or None
    if code in ops.WHOLE_TILE:
        return None
    if code in ops.ELEMENTWISE or code in (Code.LOAD, Code.GATHER, Code.RESHAPE, Code.CAT):
        return operation.result.shape or None
    return None


def reads_memory(operation: Operation, operand: Value) -> bool:
    """Return whether an operation in a loop reads an operand at other coordinates than its own."""
    if operation.code is Code.GATHER:
        return operand is operation.operands[0]
    return operation.code in (Code.CAT, Code.RESHAPE)


class Schedule:
    """The stages of a stretch of operations.

    Args:
        analysis: Analysis of the function.
        operations: The stretch, in program order.
        in_place: Loads whose results are no tiles in scratch: the products and scans of the stretch read memory itself.

    Attributes:
        in_place: As given.
        materialized_inline: Inline tiles that must be written to memory all the same, and the level of the
            loop that does it.
        stages: Stages in the order in which they run.
    """

    def __init__(
        self,
        analysis: Analysis,
        operations: Sequence[Operation],
        in_place: frozenset[Operation] = frozenset(),
    ) -> None:
        self.in_place = in_place
        self.materialized_inline: dict[Value, int] = {}
        self._analysis = analysis
        # Each operation that costs anything is in exactly one of these two.
        self._fusion_level: dict[Operation, int] = {}
        self._issue_slot: dict[Operation, int] = {}
        self._members = set(operations)
        self._memory = MemoryOrder()
        for operation in operations:
            if operation.code not in ops.TERMINATORS and not self._costs_nothing(operation):
                self._place(operation)
        self._delay(operations)
        self.stages = self._collect(operations)

    def position(self, operation: Operation) -> int | None:
        """Return a number that orders operations as they run; ``None`` if it is not in the schedule.

        Operations of one issue slot have one number, as have those of one level.
        """
        if operation in self._issue_slot:
            return 2 * self._issue_slot[operation]
        if operation in self._fusion_level:
            return 2 * self._fusion_level[operation] + 1
        return None

    def shares_loop(self, reader: Operation, writer: Operation) -> bool:
        """Return whether two operations are in one loop, in which each does its own element."""
        level = self._fusion_level.get(reader)
        return (
            level is not None
            and level == self._fusion_level.get(writer)
            and loop_shape(reader) == loop_shape(writer)
            and reader.code not in (*ops.ATOMIC, Code.GATHER, Code.RESHAPE, Code.CAT)
            and writer.code not in _COMPLETE_AFTER_LOOP
        )

    def _costs_nothing(self, operation: Operation) -> bool:
        results = operation.results
        if not results or operation.code in ops.IMPURE:
            return False
        if not all(isinstance(result.type, Tile) for result in results):
            return False
        return is_view(operation) or all(map(self._analysis.is_inline, results))

    # ---- placing

    def _place(self, operation: Operation) -> None:
        shape = None if operation in self.in_place else loop_shape(operation)
        if shape is None:
            self._issue_slot[operation] = self._earliest_slot(operation)
            return
        level = self._earliest_level(operation, shape)
        if operation.code in ops.ATOMIC:
            level = self._memory.place_atomic(level)
        elif operation.code in (Code.LOAD, Code.STORE):
            has_span = self._analysis.has_span(operation.operands[0])
            place = self._memory.place_load
            if operation.code is Code.STORE:
                place = self._memory.place_store
            level = place(level, shape, has_span)
        self._fusion_level[operation] = level

    def _earliest_slot(self, operation: Operation) -> int:
        ready = self._ready_in_memory if operation.code in ops.WHOLE_TILE else self._ready
        operands = operation.operands
        if operation.code is Code.DOT and constant_of(operands[2]) is not None:
            operands = operands[:2]  # sums begin with it in registers
        slot = max(map(ready, operands), default=0)
        if operation.code in ops.MEMORY:
            slot = self._memory.place_scalar(slot, operation.code is Code.LOAD)
        elif operation.code in (Code.DOT, Code.SCAN) and self._reads_in_place(operation):
            slot = self._memory.place_scalar(slot, is_load=True)
        return slot

    def _reads_in_place(self, reader: Operation) -> bool:
        return any(self._analysis.root(v)[0].owner in self.in_place for v in reader.operands)

    def _earliest_level(self, operation: Operation, shape: tuple[int, ...]) -> int:
        level = 0
        for operand in operation.operands:
            if reads_memory(operation, operand):
                ready = self._ready_in_memory(operand)
            elif self._may_fuse(operation, operand, shape):
                owner = self._analysis.root(operand)[0].owner
                assert owner is not None
                ready = max(self._fusion_level[owner], self._after_tokens(operand))
            else:
                ready = self._ready(operand)
            level = max(level, ready)
        return level

    def _may_fuse(self, operation: Operation, operand: Value, shape: tuple[int, ...]) -> bool:
        """Return whether an operation may run in the loop that computes an operand."""
        root, is_direct = self._analysis.root(operand)
        owner = root.owner
        return (
            is_direct
            and owner is not None
            and owner in self._fusion_level
            and owner.code not in _COMPLETE_AFTER_LOOP
            and operation.code not in ops.ATOMIC
            and not self._analysis.is_inline(operand)
            and root.shape == shape
        )

    def _ready(self, value: Value) -> int:
        """Return the first level whose loops, or slot whose operations, can read a value anywhere."""
        if isinstance(value.type, Tile) and self._analysis.is_inline(value):
            operation = value.owner
            if operation is None or operation not in self._members:
                return 0
            return max((self._ready(operand) for operand in operation.operands), default=0)
        root, _ = self._analysis.root(value)
        ready = self._after_tokens(value)
        if root.owner in self._fusion_level:
            return max(ready, self._fusion_level[root.owner] + 1)
        if root.owner in self._issue_slot:
            return max(ready, self._issue_slot[root.owner])
        return ready

    def _after_tokens(self, value: Value) -> int:
        """Return the first level, or slot, that comes after the tokens which hold a tile back.

        A tile with memory is read there, past the AFTERs that lead to it. The program itself cannot tell whether a
        reader waited for the token, since it sees its memory operations in order anyway; other programs can: they
        must not see a store before all loads of its token are done.
        """
        level = 0
        while value.owner is not None and is_view(value.owner):
            if value.owner.code is Code.AFTER:
                level = max(level, self._ready(value.owner.operands[1]))
            value = value.owner.operands[0]
        return level

    def _ready_in_memory(self, value: Value) -> int:
        """Return the first level, or slot, before which a tile is in memory; have inline ones written."""
        root, _ = self._analysis.root(value)
        if not isinstance(root.type, Tile) or not self._analysis.is_inline(root):
            return self._ready(value)
        level = self._ready(root)
        self.materialized_inline[root] = min(self.materialized_inline.get(root, level), level)
        return max(level + 1, self._after_tokens(value))

    # ---- delaying

    def _delay(self, operations: Sequence[Operation]) -> None:
        """Move each operation to the level of its readers where all can share its loop."""
        # Backwards: the readers of an operation have been delayed before it.
        for operation in reversed(operations):
            level = self._fusion_level.get(operation)
            if level is None or len(operation.results) != 1:
                continue
            if operation.code not in ops.ELEMENTWISE and operation.code is not Code.LOAD:
                continue
            latest = self._latest_level(operation)
            if latest is None or latest <= level:
                continue
            if operation.code is Code.LOAD and self._is_overwritten(operations, operation, latest):
                continue
            self._fusion_level[operation] = latest

    def _latest_level(self, operation: Operation) -> int | None:
        """Return the latest level at which all readers can take the result in their own loops."""
        shape, latest = loop_shape(operation), None
        for user in self._analysis.users[operation.result]:
            level = self._fusion_level.get(user)
            if level is None or loop_shape(user) != shape or user.code in ops.ATOMIC:
                return None
            if reads_memory(user, operation.result):
                return None
            latest = level if latest is None else min(latest, level)
        return latest

    def _is_overwritten(
        self, operations: Sequence[Operation], load: Operation, latest: int
    ) -> bool:
        """Return whether a write runs no later than ``latest`` that a load there might come after."""
        # Writes that precede the load in the program count as well: it stays on the safe side.
        for other in operations:
            if other.code is not Code.STORE and other.code not in ops.ATOMIC:
                continue
            at = self._fusion_level.get(other, self._issue_slot.get(other, 0))
            if at <= latest and not (at == latest and self._are_checked(load, other)):
                return True
        return False

    def _are_checked(self, load: Operation, store: Operation) -> bool:
        """Return whether the emitter checks a load and a store of one level for overlap."""
        return (
            store.code is Code.STORE
            and store in self._fusion_level
            and loop_shape(store) == loop_shape(load)
            and self._analysis.has_span(load.operands[0])
            and self._analysis.has_span(store.operands[0])
        )

    # ---- collecting

    def _collect(self, operations: Sequence[Operation]) -> list[Stage]:
        used = (
            *self._fusion_level.values(),
            *self._issue_slot.values(),
            *self.materialized_inline.values(),
        )
        stages = [Stage() for _ in range(max(used, default=-1) + 1)]
        group_of: dict[Operation, Group] = {}
        for operation in operations:
            if operation in self._issue_slot:
                stages[self._issue_slot[operation]].items.append(operation)
            elif operation in self._fusion_level:
                group = self._group(stages[self._fusion_level[operation]], operation)
                group.operations.append(operation)
                group_of[operation] = group
        for value, level in self.materialized_inline.items():
            stages[level].groups.append(Group(value.shape, False, [], [value]))
        for operation, group in group_of.items():
            if operation.code not in _COMPLETE_AFTER_LOOP:  # those have memory in any case
                group.materialized += [
                    result
                    for result in operation.results
                    if isinstance(result.type, Tile) and self._is_read(result, group_of, group)
                ]
        return stages

    @staticmethod
    def _group(stage: Stage, operation: Operation) -> Group:
        shape = loop_shape(operation)
        assert shape is not None
        is_serial = operation.code in ops.ATOMIC
        for group in stage.groups:
            if group.shape == shape and not group.is_serial and not is_serial:
                return group
        stage.groups.append(Group(shape, is_serial))
        return stage.groups[-1]

    def _is_read(self, value: Value, group_of: dict[Operation, Group], group: Group) -> bool:
        """Return whether a value is read outside its loop, or in it at other coordinates."""
        for user in self._analysis.users[value]:
            if is_view(user):
                if any(map(self._is_read_at_all, user.results)):
                    return True
            elif group_of.get(user) is not group or reads_memory(user, value):
                return True
        return False

    def _is_read_at_all(self, value: Value) -> bool:
        return any(
            not is_view(user) or any(map(self._is_read_at_all, user.results))
            for user in self._analysis.users[value]
        )
