"""Replacing operations one by one, with all uses changed at the end.

Passes that convert one kind of operation into others look at the operations as
they were while they go on; and the order of a value's uses, which later passes
depend on, is that of replacing everything at the end, first operation first.
"""

from __future__ import annotations

from emu.mlir.ir import Operation, Value

__all__ = ["Conversion"]


class Conversion:
    """Replacements that are made when all are known."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Operation, Value]] = []
        self._values: dict[Value, Value] = {}

    def current(self, value: Value) -> Value:
        """What a value will be replaced by, if it will."""
        while (new := self._values.get(value)) is not None:
            value = new
        return value

    def insert(self, place: Operation, op: Operation) -> None:
        """Insert a new operation before one that is to be replaced."""
        if place.parent is None:
            raise ValueError(f"{place.name} is in no block")
        place.parent.insert_before(place, op)

    def replace(self, op: Operation, value: Value) -> None:
        """Replace the only result of ``op`` by ``value`` in the end."""
        self._replaced.append((op, value))
        self._values[op.result] = value

    def finish(self) -> None:
        """Change the uses and erase what was replaced."""
        for op, _ in self._replaced:
            op.result.replace_all_uses_with(self.current(op.result))
        for op, _ in self._replaced:
            op.erase()
