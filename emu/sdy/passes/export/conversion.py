"""Conversion of single operations, with all uses replaced at the end.

Passes that convert one kind of operation to others see the original operations
until the end; and the order of a value's uses, on which later passes depend, is
that of replacing everything at the end, first operation first.
"""

from __future__ import annotations

from emu.mlir.ir import Operation, Value


class Conversion:
    """A collection of replacements that are applied together."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Operation, Value]] = []
        self._values: dict[Value, Value] = {}

    def current(self, value: Value) -> Value:
        """Return the replacement of a value, or the value itself if it has none."""
        while (new := self._values.get(value)) is not None:
            value = new
        return value

    def insert(self, place: Operation, op: Operation) -> None:
        """Insert a new operation before one that will be replaced."""
        if place.parent is None:
            raise ValueError(f"{place.name} is in no block")
        place.parent.insert_before(place, op)

    def replace(self, op: Operation, value: Value) -> None:
        """Replace the only result of ``op`` by ``value`` at the end."""
        self._replaced.append((op, value))
        self._values[op.result] = value

    def finish(self) -> None:
        """Replace the uses, and erase the replaced operations."""
        for op, _ in self._replaced:
            op.result.replace_all_uses_with(self.current(op.result))
        for op, _ in self._replaced:
            op.erase()
