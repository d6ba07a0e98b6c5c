"""Common subexpression elimination."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass

from emu.tile import ops
from emu.tile.ir import Function, Module, Operation, Region, Value
from emu.tile.objects import Attribute
from emu.tile.passes.rewriter import Rewriter


@dataclass(frozen=True)
class CommonSubexpressions:
    """Replace operations by an earlier one with the same operands and attributes.

    An expression is known in its region and in nested ones, not outside. Loads are not merged.
    """

    def apply(self, module: Module) -> Module:
        """Return the module without repetitions."""
        return _Merger().module(module)


def _exact(value: Attribute) -> Hashable:
    """Return a key that distinguishes attributes: 1, 1.0 and True; 0.0 and -0.0."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return (type(value), value)


class _Merger(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._known: list[dict[Hashable, tuple[Value, ...]]] = []

    def function(self, function: Function) -> Function:
        self._known = []
        return super().function(function)

    def region(self, region: Region) -> Region:
        self._known.append({})
        copy = super().region(region)
        self._known.pop()
        return copy

    def operation(self, operation: Operation) -> None:
        if operation.code not in ops.PURE:
            super().operation(operation)
            return
        operands = self.mapped(operation.operands)
        key = self._key(operation, operands)
        for known in self._known:
            if key in known:
                self.values.update(zip(operation.results, known[key], strict=True))
                return
        self._known[-1][key] = self.copy(operation, operands).results

    def _key(self, operation: Operation, operands: list[Value]) -> Hashable:
        numbers = [id(v) for v in operands]
        if operation.code in ops.COMMUTATIVE:
            numbers.sort()
        attributes = tuple((k, _exact(v)) for k, v in sorted(operation.attributes.items()))
        types = tuple(v.type for v in operation.results)
        return (operation.code, tuple(numbers), attributes, types)
