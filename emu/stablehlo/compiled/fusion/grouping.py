"""Division of a block's operations into groups.

Each operation that a kernel can compute joins the groups of its operands where one loop does for all and where the result
still has an order: nothing between the operations of a group may need one of them and be needed by another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from emu.mlir.effects import is_effect_free
from emu.mlir.ir import Block, Operation, Value
from emu.stablehlo.compiled.fusion.groups import MOST_OPERATIONS, Draft, Group, can_fuse
from emu.stablehlo.compiled.fusion.values import FREE, Sources, shape_of
from emu.stablehlo.regions import captured

_CHUNK = 8192
"""Operations among which groups are looked for: dependences are kept as sets of so many bits at most."""


@dataclass(eq=False)
class _Unit:
    """An operation that stands alone, or a draft.

    Attributes:
        number: Its place among all units.
        draft: The group; None for an operation that stands alone.
        operation: That operation.
        needs: Numbers of the units whose results it reads.
        before: All that must run before it, as bits.
    """

    number: int
    draft: Draft | None = None
    operation: Operation | None = None
    needs: set[int] = field(default_factory=set)
    before: int = 0


def find_groups(
    block: Block | Sequence[Operation], results: Iterable[Value] | None = None
) -> list[Operation | Group]:
    """Divide operations into groups that kernels compute, and operations that stand alone.

    Args:
        block: A block, or operations in order without a terminator. Operations that only move elements
            (broadcasts, slices, constants ...) are read through by kernels.
        results: Values that are needed behind the operations. Default: what the block's terminator takes.

    Returns:
        Groups and operations in an order in which they can run. What only kernels read through, and what
        nothing needs, is not among them.
    """
    operations = list(block)
    if results is None:
        results = operations[-1].operands
        operations.pop()
    needed = set(results)
    steps: list[Operation | Group] = []
    for start in reversed(range(0, len(operations), _CHUNK)):
        found = _Division(operations[start : start + _CHUNK]).steps(needed)
        steps[:0] = found
    return steps


class _Division:
    def __init__(self, operations: Sequence[Operation]) -> None:
        self._sources = Sources()
        self._order = {op: n for n, op in enumerate(operations)}
        self._units: list[_Unit] = []
        self._unit_of: dict[Operation, int] = {}
        self._merged: dict[int, int] = {}
        self._last_effect: int | None = None
        for op in operations:
            if op.name in FREE:
                continue
            if can_fuse(op):
                self._fuse(op)
            else:
                self._stand_alone(op)

    # Placing

    def _number_of(self, value: Value) -> int | None:
        """Return the number of the unit that a value needs; None if it comes from outside.

        Operations that are read through have no units; each needs what its only operand does.
        """
        op = value.defining_op
        while op is not None and op.name in FREE and op in self._order:
            op = op.operands[0].defining_op if op.operands else None
        number = None if op is None else self._unit_of.get(op)
        return None if number is None else self._representative(number)

    def _new(self, op: Operation, draft: Draft | None, values: Iterable[Value]) -> _Unit:
        unit = _Unit(len(self._units), draft, op)
        self._units.append(unit)
        self._unit_of[op] = unit.number
        for value in values:
            number = self._number_of(value)
            if number is not None and number != unit.number:
                self._need(unit, number)
        return unit

    def _need(self, unit: _Unit, number: int) -> None:
        unit.needs.add(number)
        unit.before |= 1 << number | self._units[number].before

    def _stand_alone(self, op: Operation) -> None:
        unit = self._new(op, None, [*op.operands, *captured(op)])
        # All but plain computations keep their order, on every process the same.
        if not is_effect_free(op):
            if self._last_effect is not None:
                self._need(unit, self._last_effect)
            self._last_effect = unit.number

    def _fuse(self, op: Operation) -> None:
        roots = [self._sources.of(operand).root for operand in op.operands]
        values = [root for root in roots if root is not None]
        numbers = {n for n in map(self._number_of, values) if n is not None}
        drafts = sorted(n for n in numbers if self._units[n].draft is not None)
        choices = [drafts] if len(drafts) > 1 else []
        choices += [[n] for n in reversed(drafts)]
        for chosen in choices:
            if self._join(op, chosen, numbers):
                return
        draft = Draft(self._sources, _size(op))
        if draft.add(op):
            self._new(op, draft, values)
        else:
            self._stand_alone(op)

    def _join(self, op: Operation, chosen: Sequence[int], numbers: Iterable[int]) -> bool:
        """Let an operation join groups, which become one; return whether it did."""
        units = [self._units[n] for n in chosen]
        members = set(chosen)
        bits = sum(1 << n for n in members)
        outside = {n for unit in units for n in unit.needs} | set(numbers)
        outside = {self._representative(n) for n in outside} - members
        if any(self._units[n].before & bits for n in outside):
            return False
        draft = units[0].draft
        assert draft is not None
        if len(units) > 1:
            merged = self._merge(op, units)
            if merged is None:
                return False
            draft = merged
        elif not draft.add(op):
            return False
        home = units[0]
        home.draft = draft
        for unit in units[1:]:
            self._merged[unit.number] = home.number
            unit.draft = None
        self._unit_of[op] = home.number
        home.needs = outside
        before = 0
        for n in outside:
            before |= 1 << n | self._units[n].before
        self._spread(home, bits, before)
        return True

    def _representative(self, number: int) -> int:
        while number in self._merged:
            number = self._merged[number]
        return number

    def _merge(self, op: Operation, units: Sequence[_Unit]) -> Draft | None:
        drafts = [unit.draft for unit in units if unit.draft is not None]
        size, *others = {draft.size for draft in drafts}
        operations = [o for draft in drafts for o in draft.operations]
        if others or len(operations) >= MOST_OPERATIONS:
            return None
        draft = Draft(self._sources, size)
        for each in sorted([*operations, op], key=self._order.__getitem__):
            if not draft.add(each):
                return None
        return draft

    def _spread(self, home: _Unit, bits: int, before: int) -> None:
        """Tell what needs a group that all which the group needs comes before, too."""
        added = before & ~home.before
        home.before |= before
        if not added and bits == 1 << home.number:
            return
        everything = home.before | bits
        for unit in self._units:
            if unit.before & bits:
                unit.before |= everything

    # Collecting

    def steps(self, needed: set[Value]) -> list[Operation | Group]:
        """Return what has to run, in order; add to ``needed`` what that reads."""
        results = list(needed)
        self._want(needed, results)
        chosen: list[tuple[Operation | Group, Sequence[Value]]] = []
        for unit in reversed(self._sorted()):
            if unit.draft is not None:
                group = self._group(unit.draft, needed)
                if group is not None:
                    chosen.append((group, group.inputs))
                    self._want(needed, group.inputs)
                continue
            op = unit.operation
            assert op is not None
            if not is_effect_free(op) or any(r in needed for r in op.results):
                read: tuple[Value, ...] = (*op.operands, *captured(op))
                chosen.append((op, read))
                self._want(needed, read)
        found: dict[Operation | Group, None] = {}
        for step, values in reversed(chosen):
            self._move(found, values)
            found[step] = None
        self._move(found, results)
        return list(found)

    def _moves(self, value: Value) -> Iterator[Operation]:
        """Iterate over the operations of this block that only move elements and lead to a value, the last one first."""
        op = value.defining_op
        while op is not None and op.name in FREE and op in self._order:
            yield op
            op = op.operands[0].defining_op if op.operands else None

    def _want(self, needed: set[Value], values: Iterable[Value]) -> None:
        """Note that values are needed, and what they are moved from."""
        for value in values:
            needed.add(value)
            for op in self._moves(value):
                needed.update(op.operands)

    def _move(self, found: dict[Operation | Group, None], values: Iterable[Value]) -> None:
        """Add the operations that move elements to these places."""
        for value in values:
            for op in reversed(list(self._moves(value))):
                found.setdefault(op)

    def _group(self, draft: Draft, needed: set[Value]) -> Group | None:
        operations = sorted(draft.operations, key=self._order.__getitem__)
        alive: set[Value] = set()
        inputs: dict[Value, None] = {}
        kept = []
        for op in reversed(operations):
            if not any(r in needed or r in alive for r in op.results):
                continue
            kept.append(op)
            for operand in op.operands:
                root = self._sources.of(operand).root
                if root is not None:
                    alive.add(root)
        kept.reverse()
        inside = {r for op in kept for r in op.results}
        for op in kept:
            for operand in op.operands:
                root = self._sources.of(operand).root
                if root is not None and root not in inside:
                    inputs[root] = None
        outputs = tuple(r for op in kept for r in op.results if r in needed)
        if not outputs:
            return None
        return Group(tuple(kept), tuple(inputs), outputs, draft.space())

    def _sorted(self) -> list[_Unit]:
        """Return the units in an order that respects what they need, and else that of the program."""
        units = [unit for unit in self._units if unit.number not in self._merged]
        needs = {
            unit.number: {self._representative(n) for n in unit.needs} - {unit.number}
            for unit in units
        }
        # A group runs where its last operation stands: what it frees is needed until then anyway.
        place = {unit.number: self._place(unit) for unit in units}
        users: dict[int, list[int]] = {}
        waiting = {number: len(found) for number, found in needs.items()}
        for number, found in needs.items():
            for other in found:
                users.setdefault(other, []).append(number)
        ready = [(place[n], n) for n, count in waiting.items() if not count]
        heapq.heapify(ready)
        ordered = []
        while ready:
            _, number = heapq.heappop(ready)
            ordered.append(self._units[number])
            for user in users.get(number, ()):
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, (place[user], user))
        assert len(ordered) == len(units)
        return ordered

    def _place(self, unit: _Unit) -> int:
        if unit.draft is not None:
            return max(self._order[op] for op in unit.draft.operations)
        assert unit.operation is not None
        return self._order[unit.operation]


def _size(op: Operation) -> int:
    value = op.operands[0] if op.name == "stablehlo.reduce" else op.result
    size = 1
    for extent in shape_of(value) or ():
        size *= extent
    return size
