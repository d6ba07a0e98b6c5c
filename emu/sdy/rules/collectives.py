"""Rules of StableHLO's collectives that change shapes.

The others (all_reduce, collective_permute …) are pointwise, in
``emu.sdy.rules.elementwise``. Dimensions along which devices exchange parts have
separate factors in operands and results.
"""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import FactorType, OpShardingRule
from emu.sdy.rules.builder import RuleBuilder, RuleFunction
from emu.sdy.rules.reading import integer, shape


def _all_gather(op: Operation) -> OpShardingRule:
    return _exchange(op, integer(op, "all_gather_dim"))


def _reduce_scatter(op: Operation) -> OpShardingRule:
    return _exchange(op, integer(op, "scatter_dimension"))


def _all_to_all(op: Operation) -> OpShardingRule:
    return _exchange(op, integer(op, "split_dimension"), integer(op, "concat_dimension"))


def _exchange(op: Operation, *dims: int) -> OpShardingRule:
    """Return the rule of an operation that is pointwise except in some dimensions."""
    source, result = shape(op.operands[0]), shape(op.results[0])
    builder = RuleBuilder.of(op).add_pointwise(
        source, lambda dim: None if dim in dims else FactorType.PASS_THROUGH
    )
    for dim in dict.fromkeys(dims):
        builder.add_to_operands(dim, source[dim], FactorType.NEED_REPLICATION)
        builder.add_to_results(dim, result[dim], FactorType.NEED_REPLICATION)
    return builder.build()


RULES: dict[str, RuleFunction] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.reduce_scatter": _reduce_scatter,
}
"""Rule functions, by name of the operation."""
