"""Insertion points of new operations, and replacement of uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emu.mlir.diagnostics import Location
from emu.mlir.ir import Block, BlockArgument, Operation, OpResult, Value


@dataclass(frozen=True, slots=True)
class Place:
    """An insertion point in a block; inserted operations stay in order."""

    block: Block
    following: Operation | None

    @staticmethod
    def before(op: Operation) -> Place:
        """Return the place before an operation."""
        if op.parent is None:
            raise ValueError(f"{op.name} is in no block")
        return Place(op.parent, op)

    @staticmethod
    def after(op: Operation) -> Place:
        """Return the place right after an operation."""
        if op.parent is None:
            raise ValueError(f"{op.name} is in no block")
        return Place(op.parent, op.next_op)

    @staticmethod
    def after_value(value: Value) -> Place:
        """Return the place right after the definition of a value."""
        if isinstance(value, OpResult):
            return Place.after(value.owner)
        if value.parent_block is None:
            raise ValueError("the value is in no block")
        return Place(value.parent_block, value.parent_block.first)

    def insert(self, op: Operation) -> Operation:
        """Insert an operation here, and return it."""
        return self.block.insert_before(self.following, op)


def location_of(value: Value) -> Location:
    """Return the location of a value: of its operation, or of the block argument."""
    if isinstance(value, BlockArgument):
        return value.location
    assert isinstance(value, OpResult)
    return value.owner.location


def replace_uses_where(value: Value, new: Value, chosen: Callable[[Operation], bool]) -> None:
    """Replace the uses of a value by ``new`` in the operations for which ``chosen(op)`` is true."""
    for op, index in value.uses:
        if chosen(op):
            op.set_operand(index, new)


def replace_other_uses(value: Value, new: Value) -> None:
    """Replace all uses of a value by ``new``, except those by the operation that defines it."""
    replace_uses_where(value, new, lambda op: op is not new.defining_op)
