"""Greedy rewriting: patterns are applied until none changes anything, in MLIR's order.

The order of two rewrites can decide the result (a value that two shardings claim keeps the first),
so it is part of what a pass does. It is that of MLIR's greedy driver:

* An iteration puts every operation of the region on a worklist, so that they are popped in program
  order (``top_down``) or in reverse post-order.
* An operation that is popped is erased if it is trivially dead. Otherwise its patterns are tried
  until one changes something: the higher benefit first; among equals, those for its name before
  those for any, and then in the order given.
* The list is a stack without duplicates: an operation that is pushed while it is on the list keeps
  its place. With an operation its ancestors inside the region are pushed, nearest first.
* These are pushed: an operation that was inserted or modified; the users of a replaced value, newest
  use first; for an erased operation, the definers of those operands that at most two operations
  (with or without itself) use.
* When the list is empty and something changed, the next iteration begins.

Before an iteration, equal constants are merged and moved to the head of the body that they are in;
those that are met later come nearer to the top.

A pass with patterns of its own calls ``rewrite_greedily``. One with a loop of its own uses
``Rewriter`` and its ``Worklist``, which follow the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from emu.mlir.attributes import Attribute
from emu.mlir.diagnostics import UNKNOWN
from emu.mlir.effects import is_trivially_dead
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.registry import definition, is_defined
from emu.mlir.types import Type


class Worklist:
    """A stack of operations without duplicates."""

    __slots__ = ("_places", "_stack")

    def __init__(self) -> None:
        self._stack: list[Operation | None] = []
        self._places: dict[Operation, int] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def __contains__(self, op: Operation) -> bool:
        return op in self._places

    def push(self, op: Operation) -> None:
        """Push an operation, unless it is on the list already."""
        if op not in self._places:
            self._places[op] = len(self._stack)
            self._stack.append(op)

    def pop(self) -> Operation:
        """Pop the operation on top; raise IndexError for an empty list."""
        while (op := self._stack.pop()) is None:
            pass
        del self._places[op]
        return op

    def remove(self, op: Operation) -> None:
        """Remove an operation from the list, if it is on it."""
        place = self._places.pop(op, None)
        if place is not None:
            self._stack[place] = None

    def reverse(self) -> None:
        """Reverse the order."""
        self._stack = list(reversed(self._places))
        self._places = {op: place for place, op in enumerate(self._stack) if op is not None}


class Rewriter:
    """Changes to a region that keep a worklist up to date.

    A pattern makes all its changes through it. Operations that are changed otherwise are not visited
    again before the next iteration.

    Attributes:
        scope: The region; operations outside are not put on the worklist. None: no bound.
        worklist: Operations that are to be visited.
    """

    def __init__(self, scope: Region | None) -> None:
        self.scope = scope
        self.worklist = Worklist()

    def enqueue(self, op: Operation) -> None:
        """Put an operation and its ancestors inside the scope on the worklist."""
        family = [op]
        while True:
            block = op.parent
            region = block.parent if block is not None else None
            if region is self.scope:
                break
            parent = region.parent if region is not None else None
            if parent is None:
                return
            op = parent
            family.append(op)
        for each in family:
            self.worklist.push(each)

    def modified(self, op: Operation) -> None:
        """Note that an operation was changed in place."""
        self.enqueue(op)

    def insert_before(self, place: Operation, op: Operation) -> Operation:
        """Insert an operation before another; return it."""
        if place.parent is None:
            raise ValueError(f"{place.name} is in no block")
        place.parent.insert_before(place, op)
        return self._inserted(op)

    def insert_after(self, place: Operation, op: Operation) -> Operation:
        """Insert an operation after another; return it."""
        if place.parent is None:
            raise ValueError(f"{place.name} is in no block")
        place.parent.insert_before(place.next_op, op)
        return self._inserted(op)

    def insert_after_value(self, value: Value, op: Operation) -> Operation:
        """Insert an operation directly after the definition of a value; return it."""
        definer = value.defining_op
        if definer is not None:
            return self.insert_after(definer, op)
        block = value.parent_block
        if block is None:
            raise ValueError("the value is in no block")
        block.insert_before(block.first, op)
        return self._inserted(op)

    def _inserted(self, op: Operation) -> Operation:
        for each in op.walk():
            self.enqueue(each)
        return op

    def replace_uses(self, old: Value, new: Value) -> None:
        """Replace every use of a value by another, and put the users on the worklist."""
        if old is new:
            return
        for op, index in old.uses:
            op.set_operand(index, new)
            self.enqueue(op)

    def replace(self, op: Operation, values: Iterable[Value]) -> None:
        """Replace the results of an operation, and erase it."""
        for old, new in zip(op.results, list(values), strict=True):
            self.replace_uses(old, new)
        self.erase(op)

    def erase(self, op: Operation) -> None:
        """Erase an unused operation, after the operations inside it."""
        for region in reversed(op.regions):
            for block in reversed(region.blocks):
                for inner in reversed(block.operations):
                    self.erase(inner)
        for value in op.operands:
            definer = value.defining_op
            if definer is not None and _few_users(value, op):
                self.enqueue(definer)
        self.worklist.remove(op)
        op.erase()


def _few_users(value: Value, op: Operation) -> bool:
    """Return whether at most one operation besides ``op`` uses the value."""
    other: Operation | None = None
    for user in value.walk_users():
        if user is op or user is other:
            continue
        if other is not None:
            return False
        other = user
    return True


Rewrite = Callable[[Operation, Rewriter], bool]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rewrite, and when it is tried.

    Attributes:
        apply: Rewrites an operation and returns True, or returns False and has changed nothing.
        op: Name of the operations that it is for; None for all.
        benefit: Patterns with a higher benefit are tried first.
    """

    apply: Rewrite
    op: str | None = None
    benefit: int = 1


class PatternSet:
    """Patterns by the operations that they are for, in the order in which they are tried."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        # Among equals, those for a name go first, then the one given first: the sort is stable.
        ordered = sorted(patterns, key=lambda pattern: (-pattern.benefit, pattern.op is None))
        self._any = tuple(p.apply for p in ordered if p.op is None)
        names = {p.op for p in ordered if p.op is not None}
        self._by_name: Mapping[str, tuple[Rewrite, ...]] = {
            name: tuple(p.apply for p in ordered if p.op is None or p.op == name) for name in names
        }

    def of(self, op: Operation) -> Sequence[Rewrite]:
        """Return the rewrites to try on an operation."""
        return self._by_name.get(op.name, self._any)


def rewrite_greedily(
    region: Region,
    patterns: PatternSet,
    *,
    top_down: bool = True,
    max_iterations: int | None = 10,
    unify_constants: bool = True,
) -> bool:
    """Apply patterns to a region until none applies.

    Args:
        region: A region of an operation whose regions use no values from outside.
        patterns: The patterns.
        top_down: Whether operations are first visited in program order. Default: True.
        max_iterations: Largest number of iterations; None for no limit. Default: 10.
        unify_constants: Whether equal constants are merged. Default: True.

    Returns:
        Whether the last iteration found nothing to change.
    """
    iteration = 0
    while max_iterations is None or iteration < max_iterations:
        iteration += 1
        rewriter = Rewriter(region)
        constants = _Constants(rewriter) if unify_constants else None
        _fill(region, rewriter, constants, top_down=top_down)
        if not _drain(rewriter, patterns):
            return True
    return False


def _fill(
    region: Region, rewriter: Rewriter, constants: _Constants | None, *, top_down: bool
) -> None:
    """Put all operations on the worklist; users of merged constants are on it earlier."""
    for block in region.blocks:
        for top in block:
            for op in list(top.walk(post_order=not top_down)):
                if constants is None or not constants.merge(op):
                    rewriter.enqueue(op)
    if top_down:
        rewriter.worklist.reverse()


def _drain(rewriter: Rewriter, patterns: PatternSet) -> bool:
    """Visit the operations on the worklist; return whether anything changed."""
    changed = False
    worklist = rewriter.worklist
    while worklist:
        op = worklist.pop()
        if is_trivially_dead(op):
            rewriter.erase(op)
            changed = True
        elif any(apply(op, rewriter) for apply in patterns.of(op)):
            changed = True
    return changed


class _Constants:
    """Constants that were kept so far, by the body that they are in."""

    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter = rewriter
        self._kept: dict[tuple[Region, str, Attribute, Type], Operation] = {}
        self._owned: set[Operation] = set()

    def merge(self, op: Operation) -> bool:
        """Replace a constant by an equal one, or move it up; return whether it was erased."""
        value = op.properties.get("value")
        if value is None or not definition(op.name).constant:
            return False
        region = _isolated_region(op)
        key = (region, op.dialect, value, op.result.type)
        kept = self._kept.get(key)
        if kept is not None:
            self._rewriter.replace(op, kept.results)
            kept.location = UNKNOWN
            return True
        self._kept[key] = op
        self._move_up(op, region.blocks[0])
        self._owned.add(op)
        return False

    def _move_up(self, op: Operation, block: Block) -> None:
        first = block.first
        if op.parent is block and (first is op or op._previous in self._owned):
            return
        op.detach()
        block.insert_before(first, op)
        op.location = UNKNOWN


def _isolated_region(op: Operation) -> Region:
    """Return the nearest region around an operation whose values must not come from outside.

    An operation without a definition counts as isolated, since it may be.
    """
    while True:
        block = op.parent
        if block is None or block.parent is None or block.parent.parent is None:
            raise ValueError(f"{op.name} is in no region")
        region, parent = block.parent, block.parent.parent
        isolated = definition(parent.name).isolated or not is_defined(parent.name)
        if isolated or parent.parent is None:
            return region
        op = parent
