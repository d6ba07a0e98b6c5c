"""Symbols: names of operations in a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from emu.mlir.attributes import StringAttr
from emu.mlir.ir import Operation
from emu.mlir.registry import definition

__all__ = ["SymbolTable", "indexed", "lookup", "nearest_table"]


def nearest_table(op: Operation) -> Operation | None:
    """The operation itself or the nearest one around it that holds symbols."""
    found: Operation | None = op
    while found is not None and not definition(found.name).symbol_table:
        found = found.parent_op
    return found


def lookup(op: Operation, name: str) -> Operation | None:
    """The operation of that name in the nearest symbol table, or None."""
    table = nearest_table(op)
    if table is None:
        return None
    index = _indices.get(table)
    if index is not None:
        return index.get(name)
    return next((o for o in _holders(table) if o.symbol_name == name), None)


def _holders(table: Operation) -> Iterable[Operation]:
    return table.regions[0].blocks[0] if table.regions and table.regions[0].blocks else ()


_indices: dict[Operation, dict[str, Operation]] = {}


def _index(table: Operation) -> dict[str, Operation]:
    index: dict[str, Operation] = {}
    for op in _holders(table):
        name = op.symbol_name
        if name is not None:
            index.setdefault(name, op)
    return index


@contextmanager
def indexed(table: Operation) -> Iterator[None]:
    """Keep an index of a table's symbols for `lookup` and `SymbolTable`.

    Meanwhile symbols may change through a `SymbolTable` only.
    """
    if table in _indices:
        yield
        return
    _indices[table] = _index(table)
    try:
        yield
    finally:
        del _indices[table]


class SymbolTable:
    """The symbols of an operation, looked up fast.

    Changes to the symbols have to go through it.

    Attributes:
        op: The operation that holds the symbols.
    """

    def __init__(self, op: Operation) -> None:
        if not definition(op.name).symbol_table:
            raise ValueError(f"{op.name} holds no symbols")
        self.op = op
        known = _indices.get(op)
        self._ops = _index(op) if known is None else known
        self._counter = 0

    def lookup(self, name: str) -> Operation | None:
        """The operation of that name, or None."""
        return self._ops.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._ops

    def __iter__(self) -> Iterator[Operation]:
        """The operations with symbols, in the order of the block."""
        return (op for op in self.op.body() if op.symbol_name is not None)

    @property
    def names(self) -> list[str]:
        """The names, in the order of the block."""
        return [op.symbol_name for op in self if op.symbol_name is not None]

    def insert(self, op: Operation, before: Operation | None = None) -> str:
        """Add an operation; it gets a new name if its own is taken.

        Args:
            op: Has a symbol name; it may be in the block already.
            before: Where to put it if it is in no block (else at the end).

        Returns:
            The name that it has now.
        """
        name = op.symbol_name
        if name is None:
            raise ValueError(f"{op.name} has no symbol name")
        if op.parent is None:
            self.op.body().insert_before(before, op)
        known = self._ops.get(name)
        if known is op:
            return name
        if known is not None:
            name = self.unique_name(name)
            op.properties["sym_name"] = StringAttr(name)
        self._ops[name] = op
        return name

    def unique_name(self, name: str) -> str:
        """The name with the first ``_<number>`` that is free."""
        while True:
            probe = f"{name}_{self._counter}"
            self._counter += 1
            if probe not in self._ops:
                return probe

    def rename(self, op: Operation, name: str) -> None:
        """Give an operation of the table another name, which must be free."""
        if name in self._ops:
            raise ValueError(f"symbol @{name} exists already")
        self.remove(op)
        op.properties["sym_name"] = StringAttr(name)
        self._ops[name] = op

    def remove(self, op: Operation) -> None:
        """Forget an operation, without erasing it."""
        name = op.symbol_name
        if name is not None and self._ops.get(name) is op:
            del self._ops[name]

    def erase(self, op: Operation) -> None:
        """Erase an operation and its symbol."""
        self.remove(op)
        op.erase()
