"""Access to the shardings of values, wherever they are stored.

Most operations store the shardings of their results in the attribute
``sdy.sharding``; functions store those of arguments and results in their lists
of attributes, ``sdy`` operations in properties, and the targets of a data-flow
edge in its ``sdy.data_flow_edge``, if it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from emu.mlir.ir import BlockArgument, Operation, OpResult, Value
from emu.sdy.dialect.attributes import (
    Mesh,
    OpShardingRule,
    TensorSharding,
    TensorShardingPerValue,
    shared_per_value,
)
from emu.sdy.dialect.dataflow import (
    DATA_FLOW_OPS,
    edge_of_target,
    edge_owner_from_target,
    edge_owner_sharding,
    owning_op,
    set_edge_owner_sharding,
)
from emu.sdy.dialect.functions import (
    func_arg_sharding,
    set_func_arg_sharding,
)
from emu.sdy.dialect.names import COLLECTIVES, SHARDING, SHARDING_RULE
from emu.sdy.dialect.tensors import (
    fully_closed_shardings,
    open_shardings_with,
    tensor_rank,
)

_PROPERTY = {
    "sdy.data_flow_edge": "sharding",
    "sdy.reshard": "sharding",
    "sdy.sharding_constraint": "sharding",
    **dict.fromkeys(COLLECTIVES, "out_sharding"),
}
"""Operations that store the sharding of their result as a property, with its name."""


def shardable_value(value: Value) -> Value | None:
    """Return the value that stores the sharding of ``value``, usually itself.

    None for block arguments that have no place for a sharding, such as those of a
    reduction's body.
    """
    # A value on a data-flow edge shares the sharding of all the edge's targets: it is stored
    # on the ``sdy.data_flow_edge`` if import has added one, else on the owner.
    if isinstance(value, OpResult):
        if value.owner.name in DATA_FLOW_OPS:
            edge = edge_of_target(value)
            return value if edge is None else edge.results[0]
        return value
    op = owning_op(value)
    if op.name == "func.func":
        return value
    if op.name in DATA_FLOW_OPS:
        edge = edge_of_target(value)
        return edge_owner_from_target(value) if edge is None else edge.results[0]
    if op.name == "stablehlo.async_start" and isinstance(value, BlockArgument):
        return op.operands[value.index]
    return None


def get_sharding(value: Value) -> TensorSharding | None:
    """Return the sharding of a value, or None."""
    stored = shardable_value(value)
    if isinstance(stored, OpResult):
        op = stored.owner
        name = _PROPERTY.get(op.name)
        if name is not None:
            return op.properties.get(name)  # type: ignore[return-value]  # verified
        if op.name in DATA_FLOW_OPS:
            return edge_owner_sharding(op, stored)
        per_value = op.attributes.get(SHARDING)
        if isinstance(per_value, TensorShardingPerValue):
            return per_value.shardings[stored.index]
    elif isinstance(stored, BlockArgument):
        op = owning_op(stored)
        if op.name == "func.func":
            return func_arg_sharding(op, stored.index)
        if op.name in DATA_FLOW_OPS:
            return edge_owner_sharding(op, stored)
    return None


def set_sharding(value: Value, sharding: TensorSharding) -> None:
    """Set the sharding of a value; do nothing if it cannot have one."""
    stored = shardable_value(value)
    if isinstance(stored, OpResult):
        op = stored.owner
        name = _PROPERTY.get(op.name)
        if name is not None:
            op.properties[name] = sharding
        elif op.name in DATA_FLOW_OPS:
            set_edge_owner_sharding(op, stored, sharding)
        else:
            replace_sharding_at(op, stored.index, sharding)
    elif isinstance(stored, BlockArgument):
        op = owning_op(stored)
        if op.name == "func.func":
            set_func_arg_sharding(op, stored.index, sharding)
        elif op.name in DATA_FLOW_OPS:
            set_edge_owner_sharding(op, stored, sharding)


def sharding_per_value(op: Operation) -> TensorShardingPerValue | None:
    """Return the attribute ``sdy.sharding`` of an operation, or None."""
    stored = op.attributes.get(SHARDING)
    return stored if isinstance(stored, TensorShardingPerValue) else None


@overload
def get_shardings(of: Operation) -> tuple[TensorSharding, ...]: ...


@overload
def get_shardings(of: Iterable[Value]) -> list[TensorSharding | None]: ...


def get_shardings(
    of: Operation | Iterable[Value],
) -> tuple[TensorSharding, ...] | list[TensorSharding | None]:
    """Return the sharding of each value, or the ``sdy.sharding`` of an operation.

    The latter is empty if the operation has no such attribute.
    """
    if isinstance(of, Operation):
        stored = of.attributes.get(SHARDING)
        return stored.shardings if isinstance(stored, TensorShardingPerValue) else ()
    return [get_sharding(value) for value in of]


def set_shardings(
    op: Operation, shardings: Sequence[TensorSharding] | TensorShardingPerValue
) -> None:
    """Set the attribute ``sdy.sharding``; an empty sequence changes nothing."""
    if isinstance(shardings, TensorShardingPerValue):
        op.attributes[SHARDING] = shardings
    elif shardings:
        op.attributes[SHARDING] = shared_per_value(tuple(shardings))


def replace_sharding_at(op: Operation, index: int, sharding: TensorSharding) -> None:
    """Set the sharding of one result in ``sdy.sharding``.

    Without the attribute, the other results become open.
    """
    stored = op.attributes.get(SHARDING)
    if isinstance(stored, TensorShardingPerValue):
        op.attributes[SHARDING] = stored.with_sharding(index, sharding)
    elif len(op.results) == 1:
        op.attributes[SHARDING] = shared_per_value((sharding,))
    else:
        types = [result.type for result in op.results]
        op.attributes[SHARDING] = shared_per_value(open_shardings_with(types, index, sharding))


def get_or_create_sharding(
    value: Value, mesh: str | Mesh, *, closed_if_missing: bool = False
) -> TensorSharding:
    """Return the sharding of a value, or one without axes on that mesh if it has none."""
    stored = get_sharding(value)
    if stored is not None:
        return stored
    make = TensorSharding.fully_closed if closed_if_missing else TensorSharding.fully_open
    return make(tensor_rank(value), mesh)


def sharding_bypassing_barriers(value: Value) -> TensorSharding | None:
    """Return the sharding of a value as it is before any propagation barriers."""
    op = value.defining_op
    while op is not None and op.name == "sdy.propagation_barrier":
        value = op.operands[0]
        op = value.defining_op
    return get_sharding(value)


def fully_closed_like(
    of: Iterable[Value] | TensorShardingPerValue, mesh: str | Mesh | None = None
) -> TensorShardingPerValue:
    """Return closed shardings without axes, for values on a mesh or in place of shardings."""
    if isinstance(of, TensorShardingPerValue):
        closed = tuple(TensorSharding.fully_closed(s.rank, s.mesh) for s in of.shardings)
    elif mesh is not None:
        closed = fully_closed_shardings([value.type for value in of], mesh)
    else:
        raise ValueError("values alone do not tell the mesh: mesh is None")
    return shared_per_value(closed)


def remove_sharding_rules(op: Operation) -> None:
    """Remove the sharding rules inside an operation, except those given by the user."""
    for inner in op.walk():
        rule = inner.attributes.get(SHARDING_RULE)
        if isinstance(rule, OpShardingRule) and not rule.is_custom:
            del inner.attributes[SHARDING_RULE]
