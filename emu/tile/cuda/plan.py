"""Plan of a kernel: the tiles that are materialized, and their lifetimes.

A tile is *inline* if its elements are computed wherever they are needed; else it is *materialized*: in the
registers of the threads, each of which has the elements t, t + T, t + 2T ..., or, if threads need elements of
others, in memory of the block.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from emu.tile import ops
from emu.tile.ir import Function, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.types import Tile

_WEIGHT = 8  # cost of a costly operation, in plain ones
_CHEAP = 4  # greatest cost of a tile that is computed again rather than materialized

# The loop that evaluates a value at one index, or several loops or indices.
_Context = tuple[object, ...]
_SEVERAL: _Context = ("several",)


def is_tile(value: Value) -> bool:
    """Return whether a value is a tile."""
    return isinstance(value.type, Tile)


def size_of(value: Value) -> int:
    """Return the number of elements of a tile; 1 for a scalar."""
    return math.prod(value.shape)


def keeps_order(operation: Operation) -> bool:
    """Return whether an element of a shape operation's result has the index of the operand's element."""
    source, result = operation.operands[0], operation.results[0]
    if operation.code is Code.RESHAPE:
        return True
    if operation.code is Code.BROADCAST:
        return size_of(source) == size_of(result)
    if operation.code is Code.PERMUTE:
        order = [a for a in operation.attributes["order"] if source.shape[a] != 1]
        return order == sorted(order)
    return False


def reduced_rows(operation: Operation) -> int:
    """Return the number of results of a reduction."""
    shape = operation.operands[0].shape
    axis: int = operation.attributes["axis"]
    return math.prod(shape[:axis] + shape[axis + 1 :])


@dataclass
class Plan:
    """Result of :func:`plan`.

    Attributes:
        materialized: Tiles that are materialized.
        home: For arguments and results of control flow that share a place: the value whose place it is.
        block: Homes that lie in memory of the block.
        reads: For each operation the materialized tiles that it reads; true where a thread reads others' elements.
        dies: For each operation the homes whose place is free after it.
        spinning: Operations inside a WHILE.
    """

    materialized: set[Value] = field(default_factory=set)
    home: dict[Value, Value] = field(default_factory=dict)
    block: set[Value] = field(default_factory=set)
    reads: dict[Operation, dict[Value, bool]] = field(default_factory=dict)
    dies: dict[Operation, list[Value]] = field(default_factory=lambda: defaultdict(list))
    spinning: set[Operation] = field(default_factory=set)

    def home_of(self, value: Value) -> Value:
        """Return the value in whose place a materialized tile lies."""
        return self.home.get(value, value)


class _Planner:
    def __init__(self, kernel: Function) -> None:
        self.plan = Plan()
        self.operations: list[Operation] = []
        self.region: dict[Operation, Region] = {}
        self.owner: dict[int, Operation | None] = {}
        self.loops: dict[Operation, int] = {}
        self.users: dict[Value, list[tuple[Operation, int]]] = defaultdict(list)
        self.birth: dict[Value, tuple[Region, Operation]] = {}
        self.scan_region(kernel.body, None, 0, False)

    def scan_region(
        self, region: Region, owner: Operation | None, loops: int, spinning: bool
    ) -> None:
        self.owner[id(region)] = owner
        for operation in region.operations:
            self.operations.append(operation)
            self.region[operation] = region
            self.loops[operation] = loops
            if spinning:
                self.plan.spinning.add(operation)
            for position, operand in enumerate(operation.operands):
                self.users[operand].append((operation, position))
            self.places(operation, region)
            if operation.code in (Code.REDUCE, Code.SCAN):
                continue  # a combine function has no tiles
            deeper = loops + (operation.code in (Code.FOR, Code.WHILE))
            for nested in operation.regions:
                self.scan_region(
                    nested, operation, deeper, spinning or operation.code is Code.WHILE
                )

    def places(self, operation: Operation, region: Region) -> None:
        """Record which values of an operation share a place, and where each is defined."""
        groups: list[tuple[Value, Value]] = []
        if operation.code is Code.FOR:
            groups = list(zip(operation.results, operation.regions[0].arguments[1:], strict=True))
        elif operation.code is Code.WHILE:
            groups = list(zip(operation.results, operation.regions[1].arguments, strict=True))
            for argument in operation.regions[0].arguments:
                if is_tile(argument):
                    self.materialize(argument, region, operation)
        for home, other in groups:
            if is_tile(home):
                self.plan.home[other] = home
                self.plan.materialized.add(other)
        for result in operation.results:
            if is_tile(result) and operation.code not in ops.PER_ELEMENT:
                self.materialize(result, region, operation)

    def materialize(self, value: Value, region: Region, operation: Operation) -> None:
        self.plan.materialized.add(value)
        self.birth[value] = (region, operation)

    # ---- which of the tiles that could be inline are materialized

    def decide(self) -> None:
        costs = self.costs()
        contexts: dict[Value, _Context | None] = {}
        for operation in reversed(self.operations):
            if operation.code not in ops.PER_ELEMENT:
                continue
            for result in operation.results:
                if not is_tile(result):
                    continue
                context = self.context(result, operation, contexts)
                contexts[result] = context
                cheap = context is None or context != _SEVERAL or costs[result] <= _CHEAP
                if operation.code in ops.LEAVES or (cheap and not self.must_materialize(result)):
                    continue
                self.materialize(result, self.region[operation], operation)

    def costs(self) -> dict[Value, int]:
        costs: dict[Value, int] = defaultdict(int)
        for operation in self.operations:
            if operation.code not in ops.PER_ELEMENT or operation.code in ops.LEAVES:
                continue
            total = _WEIGHT if operation.code in ops.COSTLY else 1
            for operand in operation.operands:
                cost = costs[operand]
                several = len(self.users[operand]) > 1
                total += 1 if several and cost > _CHEAP else cost
            for result in operation.results:
                costs[result] = total
        return costs

    def must_materialize(self, value: Value) -> bool:
        """Return whether a tile that a region yields must be materialized.

        Yielded tiles are copied element by element while their sources may change: an inline one may only read
        its sources at the same index.
        """
        if not any(user.code is Code.YIELD for user, _ in self.users[value]):
            return False
        return not self.is_elementwise(value)

    def is_elementwise(self, value: Value) -> bool:
        stack, seen = [value], set()
        while stack:
            value = stack.pop()
            operation = value.owner
            if value in seen or operation is None or value in self.plan.materialized:
                continue
            seen.add(value)
            if operation.code in ops.SHAPES and not keeps_order(operation):
                return False
            if operation.code in ops.PER_ELEMENT:
                stack += [v for v in operation.operands if is_tile(v)]
        return True

    def context(
        self, value: Value, operation: Operation, contexts: dict[Value, _Context | None]
    ) -> _Context | None:
        found: _Context | None = None
        for user, position in self.users[value]:
            one = self.one_context(user, position, contexts)
            if one is None:
                continue
            if found not in (None, one) or self.loops[user] > self.loops[operation]:
                return _SEVERAL
            found = one
        return found

    def one_context(
        self, user: Operation, position: int, contexts: dict[Value, _Context | None]
    ) -> _Context | None:
        """Return the context in which a user evaluates one of its operands; ``None``: nothing does."""
        if user.code is Code.SORT or (user.code is Code.DOT and position < 2):
            return _SEVERAL  # each factor is read once per row or column, a row once per element
        tiles = [r for r in user.results if is_tile(r)]
        is_inline = tiles and not any(r in self.plan.materialized for r in tiles)
        if user.code not in ops.PER_ELEMENT or not is_inline:
            return (user,)  # evaluated in the user's own loop, each element once
        return self.inline_context(user, position, [contexts[r] for r in tiles])

    @staticmethod
    def inline_context(
        user: Operation, position: int, results: Sequence[_Context | None]
    ) -> _Context | None:
        """Return the context in which an inline user evaluates an operand, given those of its results."""
        # An inline user evaluates its operand wherever its own results are evaluated.
        found = {context for context in results if context is not None}
        if len(found) != 1:
            return _SEVERAL if found else None
        (context,) = found
        if user.code is Code.GATHER and position == 1:
            return context  # the index of a gather is read at the index of its result
        if context == _SEVERAL or user.code in (Code.BROADCAST, Code.GATHER):
            return _SEVERAL  # one element of the operand may serve many of the result
        # Through another change of shape the loop would evaluate the tile at another index.
        return (*context, user, position) if user.code in ops.SHAPES else context

    # ---- who reads what, and until when

    def read(self) -> None:
        last: dict[Value, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            reads: dict[Value, bool] = {}
            for value, own in self.roots(operation):
                self.visit(value, own, reads, set())
            self.plan.reads[operation] = reads
            for value, cross in reads.items():
                home = self.plan.home_of(value)
                last[home].append(operation)
                if cross:
                    self.plan.block.add(home)
        for home, (region, operation) in self.birth.items():
            final = operation
            order = {id(o): n for n, o in enumerate(region.operations)}
            for reader in last[home]:
                outer = self.outermost(reader, region)
                if order[id(outer)] > order[id(final)]:
                    final = outer
            self.plan.dies[final].append(home)

    def outermost(self, operation: Operation, region: Region) -> Operation:
        """Return the operation of a region in which another one lies."""
        while self.region[operation] is not region:
            owner = self.owner[id(self.region[operation])]
            assert owner is not None
            operation = owner
        return operation

    def roots(self, operation: Operation) -> list[tuple[Value, bool]]:
        """Return the tiles that an operation evaluates; true if each thread evaluates its own elements."""
        code = operation.code
        tiles = [v for v in operation.operands if is_tile(v)]
        if code in ops.PER_ELEMENT:
            if code is Code.SPLIT and not is_tile(operation.results[0]):
                return [(tiles[0], False)]
            if not any(r in self.plan.materialized for r in operation.results):
                return []
            return [(v, self.own(operation, n)) for n, v in enumerate(tiles)]
        if code is Code.REDUCE:
            return [(v, reduced_rows(operation) == 1) for v in tiles]
        if code is Code.DOT:
            return [(v, n == 2) for n, v in enumerate(tiles)]
        if code is Code.SORT:
            return [(v, False) for v in tiles]
        if code is Code.JOIN_TOKENS:
            return []
        return [(v, True) for v in tiles]

    @staticmethod
    def own(operation: Operation, position: int) -> bool:
        """Return whether an operation reads an operand at the index of the result."""
        if operation.code in ops.SHAPES:
            return keeps_order(operation) or (operation.code is Code.GATHER and position == 1)
        return True

    def visit(
        self, value: Value, own: bool, reads: dict[Value, bool], seen: set[tuple[Value, bool]]
    ) -> None:
        if (value, own) in seen or not is_tile(value):
            return
        seen.add((value, own))
        if value in self.plan.materialized:
            reads[value] = reads.get(value, False) or not own
            return
        operation = value.owner
        assert operation is not None
        if operation.code is Code.AFTER:
            self.visit(operation.operands[0], own, reads, seen)
            return
        for position, operand in enumerate(operation.operands):
            self.visit(operand, own and self.own(operation, position), reads, seen)


def plan(kernel: Function) -> Plan:
    """Plan a kernel without calls."""
    planner = _Planner(kernel)
    planner.decide()
    planner.read()
    return planner.plan
