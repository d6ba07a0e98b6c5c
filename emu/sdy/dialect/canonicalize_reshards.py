"""Reuse of a reshard's result in place of a later, equal reshard.

The operands of the two reshards need not be the same value, as long as both
come from one *root* by reshapes and transposes, which move nothing between
devices. The earlier reshard must come from the root by reshapes alone and shard
the data at the same places. Then its result, reshaped to the root's type, goes
through copies of the reshapes and transposes of the later one.
"""

from __future__ import annotations

from typing import cast

from emu.mlir.attributes import DenseArrayAttr
from emu.mlir.ir import Operation, Value
from emu.mlir.transforms.rewriting import Rewriter
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.meshes import find_mesh
from emu.sdy.dialect.reshape_shardings import is_equivalent_across_reshape

_RESHAPE = "stablehlo.reshape"
_TRANSPOSE = "stablehlo.transpose"


def equal_reshard(op: Operation, rewriter: Rewriter) -> bool:
    """Replace a reshard by the result of an earlier one that does the same."""
    start = op.operands[0]
    root = _root(start)
    wanted = _sharding_at_root(cast(TensorSharding, op.properties["sharding"]), start)
    found = _earlier(root, wanted, op)
    if found is None:
        return False
    if found.type != root.type:
        reshape = Operation(_RESHAPE, [found], [root.type], location=op.location)
        found = rewriter.insert_after_value(found, reshape).result
    rewriter.replace(op, [_repeat_path(root, start, found, rewriter)])
    return True


def _moves_nothing(op: Operation | None) -> bool:
    return op is not None and op.name in (_RESHAPE, _TRANSPOSE)


def _root(value: Value) -> Value:
    """Return the value that a value is derived from by reshapes and transposes."""
    op = value.defining_op
    while op is not None and _moves_nothing(op):
        value = op.operands[0]
        op = value.defining_op
    return value


def _sharding_at_root(sharding: TensorSharding, value: Value) -> TensorSharding:
    """Return the sharding with its dimensions as they were before the transposes.

    Reshapes that keep the rank are skipped; the walk ends at one that does not.
    A sharding on one device has no dimensions and is the same everywhere.
    """
    if not sharding.dims:
        return sharding
    op = value.defining_op
    while op is not None:
        if op.name == _TRANSPOSE:
            order = cast(DenseArrayAttr, op.properties["permutation"]).values
            # Dimension i of the result was dimension order[i] of the operand.
            dims = list(sharding.dims)
            for dim, source in zip(sharding.dims, order, strict=True):
                dims[source] = dim
            sharding = sharding.with_dims(dims)
        elif op.name != _RESHAPE or _rank(op.operands[0]) != _rank(op.result):
            break
        op = op.operands[0].defining_op
    return sharding


def _rank(value: Value) -> int:
    return cast(TensorType, value.type).rank


def _earlier(root: Value, wanted: TensorSharding, current: Operation) -> Value | None:
    """Return the result of an earlier reshard of the block to the wanted sharding, or None."""
    pending, seen = [root], set[Value]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for user in value.walk_users():
            # Only reshapes are followed: after a transpose, equal strides would mean
            # other elements.
            if user is current:
                continue
            if user.name == "sdy.reshard":
                sharding = cast(TensorSharding, user.properties["sharding"])
                if (
                    _is_same_split(sharding, user.result.type, wanted, current)
                    and user.parent is current.parent
                    and user.is_before(current)
                ):
                    return user.result
            elif user.name == _RESHAPE:
                pending.append(user.result)
    return None


def _is_same_split(
    sharding: TensorSharding, type_: Type, wanted: TensorSharding, current: Operation
) -> bool:
    """Return whether both shardings split the elements, in row-major order, alike.

    Unlike in Shardy, they must also be unreduced alike.
    """
    mesh = find_mesh(current, sharding.mesh)
    return (
        mesh is not None
        and sharding.unreduced_axes == wanted.unreduced_axes
        and is_equivalent_across_reshape(sharding, type_, wanted, current.result.type, mesh)
    )


def _repeat_path(root: Value, value: Value, found: Value, rewriter: Rewriter) -> Value:
    """Apply copies of the operations between ``root`` and ``value`` to ``found``."""
    path: list[Operation] = []
    while value is not root:
        op = cast(Operation, value.defining_op)
        path.append(op)
        value = op.operands[0]
    for op in reversed(path):
        copy = rewriter.insert_after_value(found, op.clone())
        copy.set_operand(0, found)
        found = copy.result
    return found
