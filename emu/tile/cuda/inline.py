"""Calls are replaced by the bodies of what they call: a kernel of one function remains."""

from __future__ import annotations

from emu.tile.ir import Function, Module, Operation, Region, TileError, Value
from emu.tile.ops import Code


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.active: list[str] = []

    def body(self, source: Region, known: dict[Value, Value]) -> tuple[Region, Operation]:
        """Copy a region without its terminator; return that as it was."""
        target = Region([known.setdefault(a, Value(a.type, None, a.name)) for a in source.arguments])
        for operation in source.operations[:-1]:
            self.copy(operation, target, known)
        return target, source.terminator

    def copy(self, operation: Operation, into: Region, known: dict[Value, Value]) -> None:
        operands = [known[v] for v in operation.operands]
        if operation.code is Code.CALL:
            self.call(operation, operands, into, known)
            return
        regions = [self.region(r, known) for r in operation.regions]
        clone = Operation(
            operation.code,
            operands,
            [r.type for r in operation.results],
            operation.attributes,
            regions,
            operation.location,
        )
        into.operations.append(clone)
        for old, new in zip(operation.results, clone.results, strict=True):
            new.name = old.name
            known[old] = new

    def region(self, source: Region, known: dict[Value, Value]) -> Region:
        target, last = self.body(source, known)
        operands = [known[v] for v in last.operands]
        target.operations.append(
            Operation(last.code, operands, (), last.attributes, (), last.location)
        )
        return target

    def call(
        self, operation: Operation, operands: list[Value], into: Region, known: dict[Value, Value]
    ) -> None:
        name = operation.attributes["callee"]
        if name in self.active:
            chain = " -> ".join([*self.active, name])
            raise TileError(f"functions must not call themselves, but got {chain}")
        self.active.append(name)
        callee: Function = self.module.functions[name]
        inner = dict(zip(callee.body.arguments, operands, strict=True))
        copied, last = self.body(callee.body, inner)
        self.active.pop()
        into.operations.extend(copied.operations)
        for result, returned in zip(operation.results, last.operands, strict=True):
            known[result] = inner[returned]


def inlined(module: Module) -> Function:
    """Return a copy of the kernel without calls.

    Raises:
        TileError: A function calls itself, directly or not.
    """
    kernel = module.kernel
    inliner = _Inliner(module)
    inliner.active.append(kernel.name)
    return Function(kernel.name, inliner.region(kernel.body, {}), kernel.results)
