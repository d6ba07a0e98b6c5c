"""Base class of passes: copies modules operation by operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from emu.tile.ir import Function, Location, Module, Operation, Region, Value


class Pass(Protocol):
    """Pass: a frozen dataclass that returns a new module."""

    def apply(self, module: Module) -> Module:
        """Return a new module that does the same."""


class Rewriter:
    """Copier of modules; passes override ``operation``.

    Attributes:
        values: For each value of the old module that is visible, the one in the new module.
        out: The operations of the region that is being written.
    """

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}
        self.out: list[Operation] = []

    def module(self, module: Module) -> Module:
        """Copy all functions."""
        return Module({name: self.function(f) for name, f in module.functions.items()})

    def function(self, function: Function) -> Function:
        """Copy one function."""
        body = self.region(function.body)
        return Function(function.name, body, function.results, function.noinline)

    def region(self, region: Region) -> Region:
        """Copy a region with its arguments."""
        arguments = [self.argument(a) for a in region.arguments]
        outer, self.out = self.out, []
        self.operations(region)
        copy = Region(arguments, self.out)
        self.out = outer
        return copy

    def operations(self, region: Region) -> None:
        """Copy the operations of a region to the end of the current one."""
        for operation in region.operations:
            self.operation(operation)

    def argument(self, value: Value) -> Value:
        """Copy an argument of a region."""
        self.values[value] = Value(value.type, name=value.name)
        return self.values[value]

    def mapped(self, values: Sequence[Value]) -> list[Value]:
        """Return the new values of old ones."""
        return [self.values[v] for v in values]

    def location(self, operation: Operation) -> Location | None:
        """Return where a copied operation comes from."""
        return operation.location

    def operation(self, operation: Operation) -> None:
        """Copy one operation; an override must bind its results in ``values``."""
        self.copy(operation, self.mapped(operation.operands))

    def copy(self, operation: Operation, operands: Sequence[Value]) -> Operation:
        """Append a copy with these operands."""
        regions = [self.region(r) for r in operation.regions]
        return self.append(operation, operands, operation.results, regions)

    def append(
        self,
        operation: Operation,
        operands: Sequence[Value],
        results: Sequence[Value],
        regions: Sequence[Region] = (),
    ) -> Operation:
        """Append an operation like another one, of which only some results may be kept."""
        copy = Operation(
            operation.code,
            operands,
            [v.type for v in results],
            dict(operation.attributes),
            regions,
            self.location(operation),
        )
        for old, new in zip(results, copy.results, strict=True):
            new.name = old.name
            self.values[old] = new
        self.out.append(copy)
        return copy
