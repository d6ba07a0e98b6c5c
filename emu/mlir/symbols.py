"""Symbols: names of operations in a module, and their lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from emu.mlir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, SymbolRefAttr
from emu.mlir.ir import Operation
from emu.mlir.registry import definition

_VISIBILITIES = ("public", "private", "nested")


def nearest_table(op: Operation) -> Operation | None:
    """Return the operation itself or the nearest one around it that holds symbols."""
    found: Operation | None = op
    while found is not None and not definition(found.name).symbol_table:
        found = found.parent_op
    return found


def lookup(op: Operation, name: str) -> Operation | None:
    """Return the operation of that name in the nearest symbol table, or None."""
    table = nearest_table(op)
    if table is None:
        return None
    index = _indices.get(table)
    if index is not None:
        return index.get(name)
    return next((o for o in _holders(table) if o.symbol_name == name), None)


def _holders(table: Operation) -> Iterable[Operation]:
    return table.regions[0].blocks[0] if table.regions and table.regions[0].blocks else ()


# Symbols of the tables for which `indexed` is active.
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
    """Keep an index of a table's symbols for ``lookup`` and ``SymbolTable``.

    Inside the block, symbols must be changed through a ``SymbolTable`` only.
    """
    if table in _indices:
        yield
        return
    _indices[table] = _index(table)
    try:
        yield
    finally:
        del _indices[table]


def symbol_problem(op: Operation) -> str | None:
    """Return why an operation may not define its symbol where it stands, or None."""
    parent = None if op.parent_op is None else definition(op.parent_op.name)
    if parent is not None and parent.name and not parent.symbol_table:
        return "symbol's parent must have the SymbolTable trait"
    held = op.attribute("sym_visibility")
    if held is None:
        return None
    if not isinstance(held, StringAttr):
        return (
            "requires visibility attribute 'sym_visibility' to be a string attribute, "
            f"but got {held}"
        )
    if held.value not in _VISIBILITIES:
        return (
            'visibility expected to be one of ["public", "private", "nested"], '
            f'but got "{held.value}"'
        )
    return None


class SymbolTable:
    """An index of the symbols of an operation.

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
        """Return the operation of that name, or None."""
        return self._ops.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._ops

    def __iter__(self) -> Iterator[Operation]:
        """Iterate over the operations with symbols, in the order of the block."""
        return (op for op in self.op.body() if op.symbol_name is not None)

    @property
    def names(self) -> list[str]:
        """Names, in the order of the block."""
        return [op.symbol_name for op in self if op.symbol_name is not None]

    def insert(self, op: Operation, before: Operation | None = None) -> str:
        """Add an operation; rename it if its name is taken.

        Args:
            op: An operation with a symbol name; it may be in the block already.
            before: The operation before which to insert one that is in no block. Default: at the
                end.

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
        """Return the name with the first ``_<number>`` that is free."""
        while True:
            probe = f"{name}_{self._counter}"
            self._counter += 1
            if probe not in self._ops:
                return probe

    def remove(self, op: Operation) -> None:
        """Remove an operation from the index without erasing it."""
        name = op.symbol_name
        if name is not None and self._ops.get(name) is op:
            del self._ops[name]

    def erase(self, op: Operation) -> None:
        """Erase an operation and remove it from the index."""
        self.remove(op)
        op.erase()


def _no_names(_: Attribute) -> Iterator[str]:
    return iter(())


def symbol_references(
    attribute: Attribute, of_leaf: Callable[[Attribute], Iterator[str]] = _no_names
) -> Iterator[str]:
    """Yield the names of the symbols that an attribute refers to, without "@".

    Args:
        attribute: The attribute; arrays and dictionaries are searched.
        of_leaf: Yields the names in any other attribute, such as one of a dialect.
            Default: none.
    """
    if isinstance(attribute, SymbolRefAttr):
        yield attribute.root
    elif isinstance(attribute, ArrayAttr):
        for element in attribute.elements:
            yield from symbol_references(element, of_leaf)
    elif isinstance(attribute, DictAttr):
        for _, value in attribute.entries:
            yield from symbol_references(value, of_leaf)
    else:
        yield from of_leaf(attribute)
