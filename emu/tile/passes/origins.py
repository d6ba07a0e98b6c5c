"""Origins of pointers: the arguments of the kernel that an address may come from."""

from __future__ import annotations

from collections.abc import Sequence

from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.types import Pointer, Token, element_of

UNKNOWN = -1
"""Origin of a pointer that was read from memory, or made of an integer."""

_NOTHING: frozenset[int] = frozenset()


def find_origins(kernel: Region) -> dict[Value, frozenset[int]]:
    """Return for each pointer of a kernel the positions of the arguments that it may come from.

    Args:
        kernel: Body of a kernel that calls nothing.
    """
    flow = _Flow()
    for position, argument in enumerate(kernel.arguments):
        flow.add(argument, frozenset((position,)))
    while flow.visit(kernel):
        pass
    return flow.origins


def is_pointer(value: Value) -> bool:
    """Return whether a value is a pointer or a tile of pointers."""
    return not isinstance(value.type, Token) and isinstance(element_of(value.type), Pointer)


class _Flow:
    """Origins found so far; grows until nothing changes."""

    def __init__(self) -> None:
        self.origins: dict[Value, frozenset[int]] = {}

    def visit(self, region: Region) -> bool:
        """Go through a region once; return whether something was new."""
        changed = False
        for operation in region.operations:
            if operation.code in (Code.FOR, Code.WHILE, Code.IF):
                changed |= self._control(operation)
            else:
                found = self._found(operation)
                for result in operation.results:
                    changed |= self.add(result, found)
        return changed

    def add(self, value: Value, found: frozenset[int]) -> bool:
        """Add origins of a value; return whether one is new."""
        before = self.origins.get(value, _NOTHING)
        if found <= before or not is_pointer(value):
            return False
        self.origins[value] = before | found
        return True

    def _found(self, operation: Operation) -> frozenset[int]:
        pointers = [v for v in operation.operands if is_pointer(v)]
        if operation.code is Code.LOAD or not pointers:
            return frozenset((UNKNOWN,))
        return _NOTHING.union(*(self.origins.get(v, _NOTHING) for v in pointers))

    def _control(self, operation: Operation) -> bool:
        changed = False
        for region in operation.regions:
            changed |= self.visit(region)
        if operation.code is Code.FOR:
            (body,) = operation.regions
            carried, yielded = body.arguments[1:], body.terminator.operands
            for source in (operation.operands[3:], yielded):
                changed |= self._join(carried, source)
            return changed | self._join(operation.results, carried)
        if operation.code is Code.WHILE:
            before, after = operation.regions
            changed |= self._join(before.arguments, operation.operands)
            changed |= self._join(before.arguments, after.terminator.operands)
            changed |= self._join(after.arguments, before.terminator.operands[1:])
            return changed | self._join(operation.results, before.terminator.operands[1:])
        for region in operation.regions:
            changed |= self._join(operation.results, region.terminator.operands)
        return changed

    def _join(self, into: Sequence[Value], values: Sequence[Value]) -> bool:
        changed = False
        for target, value in zip(into, values, strict=True):
            changed |= self.add(target, self.origins.get(value, _NOTHING))
        return changed
