"""Rules of operations that take parts of tensors, or join tensors."""

from __future__ import annotations

from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.attributes import FactorType, OpShardingRule
from emu.sdy.rules.builder import Dims, RuleBuilder, RuleFunction
from emu.sdy.rules.reading import integer, integers, shape

_CONSTANTS = {
    "arith.constant",
    "chlo.constant",
    "mhlo.constant",
    "sdy.constant",
    "stablehlo.constant",
}


def _slice(op: Operation, *, conservative: bool) -> OpShardingRule:
    """Return the rule of slice, unless ``conservative`` also along sliced dimensions.

    The position of the slice is known, and so how shards must move.
    """
    return (
        RuleBuilder.of(op)
        .add_matching(
            shape(op.operands[0]),
            shape(op.results[0]),
            FactorType.PERMUTATION,
            blocked=conservative,
        )
        .build()
    )


def _dynamic_slice(op: Operation) -> OpShardingRule:
    """Return the rule, without sliced dimensions: the position of the slice is unknown."""
    return (
        RuleBuilder.of(op)
        .add_matching(
            shape(op.operands[0]), shape(op.results[0]), FactorType.NEED_REPLICATION, blocked=True
        )
        .build()
    )


def _dynamic_update_slice(op: Operation) -> OpShardingRule:
    """Return the rule: in an updated dimension, operand and result may be sharded.

    The update is replicated there, and every shard takes its part of it. If all
    start indices are constants, the update may be sharded too.
    """
    operand, update = op.operands[:2]
    indices = op.operands[2:]
    builder = RuleBuilder.of(op)
    kind = (
        FactorType.PASS_THROUGH
        if all(_is_constant(index) for index in indices)
        else FactorType.NEED_REPLICATION
    )
    scalars: Dims = [None] * len(indices)
    for dim, (size, update_size) in enumerate(zip(shape(operand), shape(update), strict=True)):
        if size == update_size:
            builder.add_everywhere(dim, size)
        else:
            # Two factors, since the update's shards do not match those of the operand.
            builder.add([dim, None, *scalars], [dim], size)
            builder.add([None, dim, *scalars], [None], update_size, kind)
    return builder.build()


def _is_constant(value: Value) -> bool:
    op = value.defining_op
    return op is not None and op.name in _CONSTANTS


def _pad(op: Operation, *, conservative: bool) -> OpShardingRule:
    """Return the rule of pad, unless ``conservative`` also along padded dimensions."""
    return (
        RuleBuilder.of(op)
        .add_matching(
            shape(op.operands[0]),
            shape(op.results[0]),
            FactorType.PERMUTATION,
            blocked=conservative,
        )
        .build()
    )


def _concatenate(op: Operation, *, conservative: bool) -> OpShardingRule:
    """Return the rule; with ``conservative``, the concatenated dimension has no factor."""
    along = integer(op, "dimension")
    kind = FactorType.PERMUTATION if _rearranges(op) else FactorType.NEED_REPLICATION

    def kind_of(dim: int) -> FactorType | None:
        if dim != along:
            return FactorType.PASS_THROUGH
        return None if conservative else kind

    return RuleBuilder.of(op).add_pointwise(shape(op.results[0]), kind_of).build()


def _rearranges(concatenate: Operation) -> bool:
    """Return whether shards only move: the operands are slices, or parts of one tensor."""
    slices = [_slice_of(value) for value in concatenate.operands]
    # As in Shardy: slices of different tensors count too, a tensor together with its own
    # slices (a roll or a wrap-around padding) as well.
    if all(op is not None for op in slices):
        return True
    sources = {
        value if op is None else op.operands[0]
        for value, op in zip(concatenate.operands, slices, strict=True)
    }
    return len(sources) == 1 and any(op is not None for op in slices)


def _slice_of(value: Value) -> Operation | None:
    op = value.defining_op
    return op if op is not None and op.name == "stablehlo.slice" else None


def _reverse(op: Operation) -> OpShardingRule:
    reversed_dims = integers(op, "dimensions") or ()
    return (
        RuleBuilder.of(op)
        .add_pointwise(
            shape(op.results[0]),
            lambda dim: FactorType.PERMUTATION if dim in reversed_dims else FactorType.PASS_THROUGH,
        )
        .build()
    )


RULES: dict[str, RuleFunction] = {
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.pad": _pad,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
}
"""Rule functions, by name of the operation."""
