"""Rules of reductions and of sliding windows."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import FactorType, OpShardingRule
from emu.sdy.rules.builder import RuleBuilder, RuleFunction
from emu.sdy.rules.reading import integers, shape


def _reduce(op: Operation) -> OpShardingRule:
    """Return the rule of reduce: inputs and results share the kept dimensions."""
    count = len(op.results)
    reduced = integers(op, "dimensions") or ()
    builder = RuleBuilder.of(op)
    out_dim = 0
    for dim, size in enumerate(shape(op.operands[0])):
        operand_dims = [*[dim] * count, *[None] * (len(op.operands) - count)]
        if dim in reduced:
            builder.add(operand_dims, [None] * count, size, FactorType.REDUCTION)
        else:
            builder.add(operand_dims, [out_dim] * count, size)
            out_dim += 1
    return builder.build()


def _reduce_window(op: Operation, *, conservative: bool) -> OpShardingRule:
    """Return the rule of reduce_window: the input can be sharded between windows.

    With ``conservative``, nothing propagates along dimensions with non-trivial
    windows.
    """
    return (
        RuleBuilder.of(op)
        .add_pointwise(
            shape(op.results[0]),
            lambda dim: FactorType.PASS_THROUGH if _is_trivial(op, dim) else FactorType.PERMUTATION,
            blocked=lambda kind: conservative and kind is FactorType.PERMUTATION,
        )
        .build()
    )


def _select_and_scatter(op: Operation, *, conservative: bool) -> OpShardingRule:
    """Return the rule: the source's windows need replication, input and result go together."""
    source = shape(op.operands[1])
    builder = RuleBuilder.of(op)
    for dim, size in enumerate(shape(op.results[0])):
        if _is_trivial(op, dim):
            builder.add_everywhere(dim, size)
            continue
        builder.add(
            [None, dim, None],
            [None],
            source[dim],
            FactorType.NEED_REPLICATION,
            blocked=conservative,
        )
        builder.add([dim, None, None], [dim], size, FactorType.PERMUTATION, blocked=conservative)
    return builder.build()


def _is_trivial(op: Operation, dim: int) -> bool:
    """Return whether windows along a dimension are single elements: size, step 1, no padding."""
    padding = integers(op, "padding")
    if padding is not None and any(padding[2 * dim : 2 * dim + 2]):
        return False
    strides, sizes = integers(op, "window_strides"), integers(op, "window_dimensions")
    return (not strides or strides[dim] == 1) and (not sizes or sizes[dim] == 1)


RULES: dict[str, RuleFunction] = {
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
"""Rule functions, by name of the operation."""
