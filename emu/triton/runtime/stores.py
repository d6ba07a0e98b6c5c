"""Analysis of stores: the arguments that a kernel may write through."""

from __future__ import annotations

from collections.abc import Sequence

from emu.tile.ir import Function, Module, Operation, Region, Value
from emu.tile.ops import Code

_STORES = (Code.STORE, Code.ATOMIC_RMW, Code.ATOMIC_CAS)
_NOTHING: frozenset[int] = frozenset()


def stored_arguments(module: Module) -> list[bool]:
    """Return for each argument of the kernel whether a store's address may come from it.

    A pointer's origins are followed through every operation, loop and call; a pointer that was read from
    memory has none.
    """
    kernel = module.kernel
    flow = _Flow(module)
    for i, argument in enumerate(kernel.body.arguments):
        flow.origins[argument] = frozenset((i,))
    while flow.visit(kernel.body):
        pass
    return [i in flow.stored for i in range(len(kernel.body.arguments))]


_EXCHANGES = frozenset(
    (
        Code.RESHAPE,
        Code.PERMUTE,
        Code.JOIN,
        Code.SPLIT,
        Code.CAT,
        Code.GATHER,
        Code.FLIP,
        Code.REDUCE,
        Code.SCAN,
        Code.HISTOGRAM,
        Code.SORT,
        Code.DOT,
    )
)


def exchanges_lanes(module: Module) -> bool:
    """Return whether lanes of a tile get values from other lanes anywhere in a module."""
    return any(
        operation.code in _EXCHANGES
        for function in module.functions.values()
        for operation in function.body.walk()
    )


class _Flow:
    """Origins of each value found so far; grows until nothing changes."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.origins: dict[Value, frozenset[int]] = {}
        self.stored: set[int] = set()

    def visit(self, region: Region) -> bool:
        """Go through a region once; return whether something was new."""
        changed = False
        for operation in region.operations:
            changed |= self._one(operation)
        return changed

    def _one(self, operation: Operation) -> bool:
        operands = operation.operands
        if operation.code in _STORES:
            found = self.origins.get(operands[0], _NOTHING)
            new = not found <= self.stored
            self.stored |= found
            return new
        if operation.code is Code.LOAD:
            return False
        if operation.code is Code.CALL:
            return self._call(operation)
        changed = False
        for region in operation.regions:
            inner = operands[-len(region.arguments) :] if region.arguments else ()
            if operation.code is Code.FOR:
                # start, end, step, carried values; the body takes the index and the carried values
                inner = (operands[0], *operands[3:])
            changed |= self._join(region.arguments, inner)
            changed |= self.visit(region)
            changed |= self._leave(operation, region)
        if operation.regions:
            return changed
        everything = _NOTHING.union(*(self.origins.get(v, _NOTHING) for v in operands))
        return self._add(operation.results, everything)

    def _leave(self, operation: Operation, region: Region) -> bool:
        """Carry what a region yields to the results, and into the regions that go on with it."""
        yielded = region.terminator.operands
        if operation.code is Code.WHILE and region is operation.regions[0]:
            yielded = yielded[1:]
        changed = False
        if len(yielded) == len(operation.results):
            changed |= self._join(operation.results, yielded)
        for other in operation.regions:
            if operation.code in (Code.FOR, Code.WHILE):
                into = other.arguments[1:] if operation.code is Code.FOR else other.arguments
                if len(into) == len(yielded):
                    changed |= self._join(into, yielded)
        return changed

    def _call(self, operation: Operation) -> bool:
        callee: Function = self.module.functions[str(operation.attributes["callee"])]
        changed = self._join(callee.body.arguments, operation.operands)
        changed |= self.visit(callee.body)
        return changed | self._join(operation.results, callee.body.terminator.operands)

    def _join(self, into: Sequence[Value], values: Sequence[Value]) -> bool:
        changed = False
        for target, value in zip(into, values, strict=False):
            changed |= self._add((target,), self.origins.get(value, _NOTHING))
        return changed

    def _add(self, values: Sequence[Value], found: frozenset[int]) -> bool:
        changed = False
        for value in values:
            before = self.origins.get(value, _NOTHING)
            if not found <= before:
                self.origins[value] = before | found
                changed = True
        return changed
