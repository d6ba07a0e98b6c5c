"""Data-flow edges: values that an operation passes on unchanged.

An edge of an operation ties *sources* (its operands, or the values that its
blocks return) to *targets* (its results, or arguments of its blocks) that are
the same tensor and so should be sharded alike. One target, which depends on the
kind of operation, is the edge's *owner*; the ``sdy.data_flow_edge`` that import
inserts after the owner holds the sharding of all targets.

=========================== ================ ======================= ===============
operation                   sources          owner                   other targets
=========================== ================ ======================= ===============
``sdy.manual_computation``  operand i        argument i of the body
                            returned value i result i
``sdy.named_computation``   the same         the same
``stablehlo.while``         operand i, what  result i                argument i of
                            the body returns                         condition, body
``stablehlo.case``          what each branch result i
                            returns
``optimization_barrier``    operand i        result i
=========================== ================ ======================= ===============
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from emu.mlir.ir import Block, BlockArgument, Operation, OpResult, Use, Value
from emu.mlir.registry import definition
from emu.sdy.dialect.attributes import (
    ManualAxes,
    TensorSharding,
    TensorShardingPerValue,
    shared_per_value,
)
from emu.sdy.dialect.names import SHARDING
from emu.sdy.dialect.tensors import add_free_axes, erase_manual_axes, open_shardings_with

_MANUAL = "sdy.manual_computation"
_NAMED = "sdy.named_computation"
_WHILE = "stablehlo.while"
_CASE = "stablehlo.case"
_BODIES = frozenset({_MANUAL, _NAMED})

DATA_FLOW_OPS = frozenset({_MANUAL, _NAMED, _WHILE, _CASE, "stablehlo.optimization_barrier"})
"""Operations that have data-flow edges."""


class When(Enum):
    """Times at which a target's sharding is transformed: see ``transform_target_sharding``."""

    BEFORE_EDGE_PROPAGATION = 0
    AFTER_EDGE_PROPAGATION = 1


def is_data_flow_op(op: Operation) -> bool:
    """Return whether an operation has data-flow edges."""
    return op.name in DATA_FLOW_OPS


def owning_op(value: Value) -> Operation:
    """Return the operation that defines a value, or in whose block it is an argument."""
    if isinstance(value, OpResult):
        return value.owner
    block = value.parent_block
    op = block.parent_op if block is not None else None
    if op is None:
        raise ValueError("the block of the argument is in no operation")
    return op


def body_terminator(op: Operation) -> Operation:
    """Return the terminator of the body of a function, a computation, or a while loop."""
    return op.regions[1 if op.name == _WHILE else 0].blocks[0].terminator


def manual_axes_of(op: Operation) -> tuple[str, ...]:
    """Return the manual axes of an ``sdy.manual_computation``."""
    axes = op.properties.get("manual_axes")
    return axes.axes if isinstance(axes, ManualAxes) else ()


def keeps_edges_divisible(op: Operation) -> bool:
    """Return whether shardings of the edges' owners must divide evenly, without padding."""
    return op.name == _MANUAL


# Owners, sources, targets


def block_argument_owners(op: Operation) -> list[BlockArgument]:
    """Return the block arguments that own an edge."""
    return op.regions[0].blocks[0].arguments if op.name in _BODIES else []


def edge_owners(op: Operation) -> tuple[list[BlockArgument], list[OpResult]]:
    """Return the owners of all edges: block arguments, and results."""
    return block_argument_owners(op), op.results


def edge_sources(op: Operation, owner: Value) -> list[Use]:
    """Return the uses through which the edge's sources enter."""
    if isinstance(owner, BlockArgument):
        return [(op, owner.index)] if op.name in _BODIES else []
    if not isinstance(owner, OpResult):
        return []
    index = owner.index
    if op.name in _BODIES:
        return [(body_terminator(op), index)]
    if op.name == _WHILE:
        return [(op, index), (body_terminator(op), index)]
    if op.name == _CASE:
        return [(region.blocks[0].terminator, index) for region in op.regions]
    return [(op, index)]


def edge_owner_from_target(value: Value) -> Value:
    """Return the owner of the edge of which a value is a target."""
    if isinstance(value, BlockArgument) and (op := owning_op(value)).name == _WHILE:
        return op.results[value.index]
    return value


def edge_owner_from_source(op: Operation, use: Use) -> Value | None:
    """Return the value that Shardy takes for the owner of the edge of which a use is a source.

    For an operand of a computation that is the *operand*, not the body's
    argument; for the predicate of a loop and the index of a case it is the
    first result (None if there is none). The order in which propagation visits
    operations depends on it.
    """
    user, index = use
    if op.name in _BODIES and user is op:
        return op.operands[index]
    return op.results[index] if index < len(op.results) else None


def non_owner_targets(op: Operation, owner: Value) -> list[Value]:
    """Return the targets of an edge other than its owner."""
    if op.name == _WHILE and isinstance(owner, OpResult):
        return [region.blocks[0].arguments[owner.index] for region in op.regions]
    return []


# Shardings of owners


def edge_owner_shardings(op: Operation, *, arguments: bool) -> tuple[TensorSharding, ...]:
    """Return the shardings of the block arguments, or of the results, that own edges.

    Empty if there are none. Shardings of a manual computation's arguments are
    given without the manual axes, as its body sees them.
    """
    if op.name in _BODIES:
        stored = op.properties.get("in_shardings" if arguments else "out_shardings")
    else:
        stored = None if arguments else op.attributes.get(SHARDING)
    if not isinstance(stored, TensorShardingPerValue):
        return ()
    if arguments and op.name == _MANUAL:
        axes = manual_axes_of(op)
        return tuple(erase_manual_axes(sharding, axes) for sharding in stored.shardings)
    return stored.shardings


def set_edge_owner_shardings(
    op: Operation, shardings: Sequence[TensorSharding], *, arguments: bool
) -> None:
    """Set the shardings that ``edge_owner_shardings`` returns."""
    if op.name not in _BODIES:
        if shardings and not arguments:
            op.attributes[SHARDING] = shared_per_value(tuple(shardings))
        return
    name = "in_shardings" if arguments else "out_shardings"
    if arguments and op.name == _MANUAL:
        axes = manual_axes_of(op)
        outer = _per_value(op, name)
        shardings = [
            add_free_axes(old, new, axes) for old, new in zip(outer, shardings, strict=True)
        ]
    op.properties[name] = shared_per_value(tuple(shardings))


def _per_value(op: Operation, name: str) -> tuple[TensorSharding, ...]:
    stored = op.properties.get(name)
    return stored.shardings if isinstance(stored, TensorShardingPerValue) else ()


def edge_owner_sharding(op: Operation, owner: Value) -> TensorSharding | None:
    """Return the sharding of the owner of an edge."""
    arguments = isinstance(owner, BlockArgument)
    if op.name in _BODIES:
        stored = op.properties.get("in_shardings" if arguments else "out_shardings")
    else:
        stored = None if arguments else op.attributes.get(SHARDING)
    if not isinstance(stored, TensorShardingPerValue) or not stored.shardings:
        return None
    sharding = stored.shardings[owner.index]  # type: ignore[attr-defined]  # of both kinds
    if arguments and op.name == _MANUAL:
        return erase_manual_axes(sharding, manual_axes_of(op))
    return sharding


def set_edge_owner_sharding(op: Operation, owner: Value, sharding: TensorSharding) -> None:
    """Set the sharding of the owner of an edge.

    If the owners have no shardings yet, those of the others become open.
    """
    arguments = isinstance(owner, BlockArgument)
    index: int = owner.index  # type: ignore[attr-defined]  # both kinds of values have one
    shardings = edge_owner_shardings(op, arguments=arguments)
    if shardings:
        shardings = (*shardings[:index], sharding, *shardings[index + 1 :])
    else:
        owners = block_argument_owners(op) if arguments else op.results
        shardings = open_shardings_with([o.type for o in owners], index, sharding)
    set_edge_owner_shardings(op, shardings, arguments=arguments)


def transform_target_sharding(
    op: Operation, target: Value, sharding: TensorSharding, when: When
) -> TensorSharding:
    """Return a target's sharding as the other end of the edge sees it.

    Only manual computations make a difference. Outside, the values of an edge have
    the manual axes; inside, they do not. Before propagation along the edge, the
    target's stored sharding is converted to the form of the sources; after it,
    the result is converted back to the form that the target stores.
    """
    if op.name != _MANUAL:
        return sharding
    axes = manual_axes_of(op)
    is_argument = isinstance(target, BlockArgument)
    if is_argument != (when is When.BEFORE_EDGE_PROPAGATION):
        return erase_manual_axes(sharding, axes)
    name = "in_shardings" if is_argument else "out_shardings"
    outer = _per_value(op, name)[target.index]  # type: ignore[attr-defined]  # as above
    return add_free_axes(outer, sharding, axes)


# The sdy.data_flow_edge of an edge


def data_flow_edge_of(owner: Value | None) -> Operation | None:
    """Return the ``sdy.data_flow_edge`` that is the only user of an owner, or None."""
    if owner is None or len(owner._uses) != 1:
        return None
    ((user, _),) = owner._uses
    return user if user.name == "sdy.data_flow_edge" else None


def edge_of_target(value: Value) -> Operation | None:
    """Return the ``sdy.data_flow_edge`` of which a value is a target, or None."""
    if isinstance(value, OpResult):
        if value.owner.name not in DATA_FLOW_OPS:
            return None
        return data_flow_edge_of(value)
    block = value.parent_block
    op = block.parent_op if isinstance(block, Block) else None
    if op is None or op.name not in DATA_FLOW_OPS:
        return None
    return data_flow_edge_of(edge_owner_from_target(value))


def edge_of_source(use: Use) -> Operation | None:
    """Return the ``sdy.data_flow_edge`` of which a use is a source, or None."""
    op: Operation | None = use[0]
    if use[0].name not in DATA_FLOW_OPS and definition(use[0].name).terminator:
        op = use[0].parent_op
    if op is None or op.name not in DATA_FLOW_OPS:
        return None
    return data_flow_edge_of(edge_owner_from_source(op, use))


def edge_op_sources(edge: Operation) -> list[Value]:
    """Return the sources of the edge to which an edge operation belongs."""
    owner = edge.operands[0]
    return [op.operands[index] for op, index in edge_sources(owning_op(owner), owner)]


def edge_op_non_owner_targets(edge: Operation) -> list[Value]:
    """Return the targets, other than the owner, of an edge operation's edge."""
    owner = edge.operands[0]
    return non_owner_targets(owning_op(owner), owner)


def edge_op_transform(edge: Operation, sharding: TensorSharding, when: When) -> TensorSharding:
    """Apply ``transform_target_sharding`` to the owner of an edge operation's edge."""
    owner = edge.operands[0]
    return transform_target_sharding(owning_op(owner), owner, sharding, when)
