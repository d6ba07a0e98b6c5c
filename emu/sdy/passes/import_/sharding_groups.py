"""Import of sharding groups: groups with a common value are merged and numbered."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.attributes import IntegerAttr
from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, Value
from emu.mlir.types import IntegerType, TensorType
from emu.sdy.passes.base import ModulePass, Session


class ShardingGroupImport(ModulePass, name="sdy-sharding-group-import"):
    """Merge sharding groups that share a value, number them, and check them.

    All values of a group must have one shape and must lie in the same manual
    computation, if in any.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Check, merge and number the groups of a module."""
        members = _collect(op, session)
        _unify(list(members.values()))
        for ops in members.values():
            # By now they all have the same group.
            for duplicate in ops[1:]:
                duplicate.erase()


def group_id(op: Operation) -> int:
    """Return the id of the group that an ``sdy.sharding_group`` names."""
    found = op.properties["group_id"]
    assert isinstance(found, IntegerAttr)  # checked by the verifier
    return found.value


def _shape(value: Value) -> tuple[int | None, ...]:
    return value.type.shape if isinstance(value.type, TensorType) else ()


def _collect(module: Operation, session: Session) -> dict[Value, list[Operation]]:
    """Return the group operations of each value; raise ``PassFailed`` if a group is invalid."""
    members: dict[Value, list[Operation]] = {}
    manual_computation: dict[int, Operation | None] = {}
    shape: dict[int, tuple[int | None, ...]] = {}
    for op in module.walk(post_order=True):
        if op.name != "sdy.sharding_group":
            continue
        value, group = op.operands[0], group_id(op)
        members.setdefault(value, []).append(op)
        parent = op.ancestor("sdy.manual_computation")
        wrong = None
        if manual_computation.setdefault(group, parent) is not parent:
            wrong = "cannot cross ManualComputationOp boundaries"
        elif shape.setdefault(group, _shape(value)) != _shape(value):
            wrong = "must have the same shape"
        if wrong is not None:
            message = f"ShardingGroupOps values {wrong} for groupId: {group}"
            session.diagnostics.error(op.location, message)
            raise PassFailed(message)
    return members


def _unify(members: Sequence[Sequence[Operation]]) -> None:
    """Merge groups with a common value, and number the remaining ones from 0.

    Numbers are in the order in which the groups' leaders were first seen; the leader
    of a merged group is that of the group named first for the common value.
    """
    leader_of: dict[int, int] = {}

    def leader(group: int) -> int:
        leader_of.setdefault(group, group)
        while (above := leader_of[group]) != group:
            leader_of[group] = leader_of[above]
            group = above
        return group

    for ops in members:
        first = leader(group_id(ops[0]))
        for op in ops[1:]:
            leader_of[leader(group_id(op))] = first
    numbers: dict[int, int] = {}
    for group in leader_of:
        if leader(group) == group:
            numbers[group] = len(numbers)
    for ops in members:
        for op in ops:
            number = numbers[leader(group_id(op))]
            op.properties["group_id"] = IntegerAttr(number, IntegerType(64))
