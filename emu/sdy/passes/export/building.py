"""Where new operations go, and the few kinds that export makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.mlir.attributes import Attribute
from emu.sdy.mlir.diagnostics import Location
from emu.sdy.mlir.ir import Block, BlockArgument, Operation, OpResult, Value

__all__ = ["Place", "collective", "location_of", "replace_other_uses", "reshard"]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a block: what is inserted comes behind what was inserted before."""

    block: Block
    following: Operation | None

    @staticmethod
    def before(op: Operation) -> Place:
        """Before an operation."""
        if op.parent is None:
            raise ValueError(f"{op.name} is in no block")
        return Place(op.parent, op)

    @staticmethod
    def after(op: Operation) -> Place:
        """Right behind an operation."""
        if op.parent is None:
            raise ValueError(f"{op.name} is in no block")
        return Place(op.parent, op.next_op)

    @staticmethod
    def after_value(value: Value) -> Place:
        """Right behind where a value comes to be."""
        if isinstance(value, OpResult):
            return Place.after(value.owner)
        if value.parent_block is None:
            raise ValueError("the value is in no block")
        return Place(value.parent_block, value.parent_block.first)

    def insert(self, op: Operation) -> Operation:
        """Insert an operation here; gives it."""
        return self.block.insert_before(self.following, op)


def location_of(value: Value) -> Location:
    """The location of a value: of its operation, or of the block argument."""
    if isinstance(value, BlockArgument):
        return value.location
    assert isinstance(value, OpResult)
    return value.owner.location


def reshard(value: Value, sharding: TensorSharding) -> Operation:
    """A ``sdy.reshard`` of a value, in no block yet."""
    return Operation(
        "sdy.reshard",
        [value],
        [value.type],
        properties={"sharding": sharding},
        location=location_of(value),
    )


def collective(
    name: str,
    value: Value,
    sharding: TensorSharding,
    properties: Mapping[str, Attribute],
    location: Location | None = None,
) -> Operation:
    """A collective operation on a value, in no block yet.

    Args:
        name: The operation's name.
        value: Its operand.
        sharding: The sharding of its result.
        properties: Its other properties.
        location: Its location; that of the value unless given.
    """
    return Operation(
        name,
        [value],
        [value.type],
        properties={**properties, "out_sharding": sharding},
        location=location_of(value) if location is None else location,
    )


def replace_other_uses(value: Value, user: Operation) -> None:
    """Make all uses of a value uses of the result of ``user``, but its own."""
    value.replace_uses_where(user.result, lambda op, _index: op is not user)
