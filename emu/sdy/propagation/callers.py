"""References to functions: their callers, and other operations that name them.

The order is that in which MLIR collects the uses of symbols; if several
callers change one function, it decides which comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from emu.mlir.ir import Operation, Region
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable, symbol_references


def _with_inner(op: Operation) -> Iterator[Operation]:
    """Yield an operation and those inside it, the regions found last first."""
    yield op
    if definition(op.name).symbol_table:
        return
    pending: list[Region] = list(op.regions)
    while pending:  # a stack, like MLIR's worklist of regions
        region = pending.pop()
        for block in region.blocks:
            for inner in block:
                yield inner
                if not definition(inner.name).symbol_table:
                    pending.extend(inner.regions)


class SymbolUsers:
    """Operations that name each function of a module."""

    def __init__(self, users: Mapping[Operation, Sequence[Operation]]) -> None:
        self._users = users

    @staticmethod
    def of(module: Operation, table: SymbolTable) -> SymbolUsers:
        """Collect the users of a module's functions; fast if there is only one function."""
        functions = {op for op in module.body() if op.name == "func.func"}
        if len(functions) < 2:
            return SymbolUsers({})
        users: dict[Operation, dict[Operation, None]] = {}
        for top in module.body():
            for op in _with_inner(top):
                for name in _names(op):
                    named = table.lookup(name)
                    if named in functions:
                        users.setdefault(named, {})[op] = None
        return SymbolUsers({function: list(found) for function, found in users.items()})

    def of_function(self, function: Operation) -> Sequence[Operation]:
        """Return the operations that name a function."""
        return self._users.get(function, ())


def _names(op: Operation) -> Iterator[str]:
    for attributes in (op.properties, op.attributes):
        for attribute in attributes.values():
            yield from symbol_references(attribute)
