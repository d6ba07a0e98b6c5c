"""Sharding groups: values that are sharded alike, independent of data flow.

After ``sdy-sharding-group-import`` the groups are numbered from 0 and a value is
in one group at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.attributes import IntegerAttr
from emu.mlir.diagnostics import Diagnostics, PassFailed
from emu.mlir.ir import BlockArgument, Operation, Value
from emu.mlir.transforms.rewriting import Rewriter
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.dataflow import owning_op
from emu.sdy.dialect.shardings import get_sharding, set_sharding


@dataclass(frozen=True, slots=True)
class Grouped:
    """A member of a group that got the sharding of another member.

    Attributes:
        group: Number of the group.
        member: The member.
        sharding: The sharding that it got.
        source: The member that the sharding came from.
    """

    group: int
    member: Value
    sharding: TensorSharding
    source: Value


class ShardingGroups:
    """Sharding groups of a module with their members."""

    def __init__(self, module: Operation, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._members: dict[int, list[Value]] = {}
        self._group_of: dict[Value, int] = {}
        for op in module.walk():
            if op.name == "sdy.sharding_group":
                self._add(op)

    def _add(self, op: Operation) -> None:
        group_attribute = op.properties["group_id"]
        if not isinstance(group_attribute, IntegerAttr):
            raise TypeError(f"group_id is {group_attribute}, not an integer")
        group, value = group_attribute.value, op.operands[0]
        if self._group_of.setdefault(value, group) != group:
            self._diagnostics.error(
                op.location, "Value can only map to one sharding group id after import."
            )
            raise PassFailed("a value is in two sharding groups")
        self._members.setdefault(group, []).append(value)

    def group_of(self, value: Value) -> int | None:
        """Return the number of a value's group, or None."""
        return self._group_of.get(value)

    def members(self, value: Value) -> Sequence[Value]:
        """Return all members of the group of a value, itself included."""
        group = self._group_of.get(value)
        return () if group is None else self._members[group]

    def synchronise(self) -> list[Grouped]:
        """Give all members of each group the sharding that one of them has.

        If members have different ones, a warning is emitted, and each gets an open
        constraint that takes its place in the group: then propagation decides.

        Returns:
            The members that got the sharding of another one.
        """
        done: list[Grouped] = []
        for group in sorted(self._members):
            members = self._members[group]
            source, agree = self._first_sharded(group, members)
            sharding = None if source is None else get_sharding(source)
            if source is None or sharding is None:
                continue
            if not agree:
                self._constrain(group, sharding)
                continue
            for member in members:
                if get_sharding(member) != sharding:
                    set_sharding(member, sharding)
                    done.append(Grouped(group, member, sharding, source))
        return done

    def _first_sharded(self, group: int, members: Sequence[Value]) -> tuple[Value | None, bool]:
        """Return the first member that has a sharding, and whether all have the same."""
        first: Value | None = None
        for member in members:
            sharding = get_sharding(member)
            # An empty open sharding has nothing to contribute and yields to any other one.
            if sharding is None or (_is_empty_and_open(sharding) and len(members) > 1):
                continue
            if first is None:
                first = member
            elif sharding != get_sharding(first):
                self._diagnostics.warning(
                    owning_op(members[0]).location,
                    "The initial operand shardings on the sharding groups of groupID: "
                    f"{group} do not match. Inserting an open sharding constraint to all "
                    "constrained values. This can be caused when shardings from different "
                    "values are grouped (e.g. from jax.shard_alike) but have separate "
                    "inconsistent sharding constraints on them.",
                )
                return first, False
        return first, True

    def _constrain(self, group: int, template: TensorSharding) -> None:
        members = self._members[group]
        rewriter = Rewriter(None)
        for index, member in enumerate(members):
            place = member if isinstance(member, BlockArgument) else owning_op(member)
            constraint = Operation(
                "sdy.sharding_constraint",
                [member],
                [member.type],
                properties={"sharding": TensorSharding.fully_open(template.rank, template.mesh)},
                location=place.location,
            )
            rewriter.insert_after_value(member, constraint)
            # The constraint takes the member's place everywhere, in the group too: so the
            # conflict is resolved on the constraints, and the members keep their shardings.
            for user, operand in member.uses:
                if user is not constraint:
                    user.set_operand(operand, constraint.result)
            del self._group_of[member]
            members[index] = constraint.result
            self._group_of[constraint.result] = group


def _is_empty_and_open(sharding: TensorSharding) -> bool:
    """Return whether every dimension is open and without axes."""
    return not any(dim.axes or dim.is_closed for dim in sharding.dims)
