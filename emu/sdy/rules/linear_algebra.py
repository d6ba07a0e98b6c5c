"""Rules of sort, fft, decompositions, solvers and random bits.

Their last dimensions belong together and mostly need replication; the ones before
them are batch dimensions.
"""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import FactorType, OpShardingRule
from emu.sdy.rules.builder import Dims, RuleBuilder, RuleFunction
from emu.sdy.rules.reading import attribute, boolean, integer, integers, shape
from emu.stablehlo.attributes import Transpose


def _sort(op: Operation) -> OpShardingRule:
    """Return the rule of sort: the sorted dimension needs replication.

    Nothing propagates along it if no other dimension could take over its axes.
    """
    # A negative dimension matches none, as in Shardy: no dimension counts as sorted.
    along = integer(op, "dimension") if "dimension" in op.properties else -1
    sizes = shape(op.operands[0])
    alone = all(dim == along or size == 1 for dim, size in enumerate(sizes))
    builder = RuleBuilder.of(op)
    for dim, size in enumerate(sizes):
        if dim == along:
            builder.add_everywhere(dim, size, FactorType.NEED_REPLICATION, blocked=alone)
        else:
            builder.add_everywhere(dim, size)
    return builder.build()


def _fft(op: Operation) -> OpShardingRule:
    """Return the rule of fft: transformed dimensions are replicated, a truncated one is blocked."""
    source, result = shape(op.operands[0]), shape(op.results[0])
    batch_rank = len(source) - len(integers(op, "fft_length") or ())
    builder = RuleBuilder.of(op)
    for dim, size in enumerate(source):
        if dim < batch_rank:
            builder.add_everywhere(dim, size)
        else:
            truncated = dim == len(source) - 1 and source[-1] != result[-1]
            builder.add_everywhere(dim, size, FactorType.NEED_REPLICATION, blocked=truncated)
    return builder.build()


def _cholesky(op: Operation) -> OpShardingRule:
    sizes = shape(op.operands[0])
    return (
        RuleBuilder.of(op)
        .add_pointwise(
            sizes,
            lambda dim: (
                FactorType.PASS_THROUGH if dim < len(sizes) - 2 else FactorType.NEED_REPLICATION
            ),
        )
        .build()
    )


def _triangular_solve(op: Operation) -> OpShardingRule:
    """Return the rule of ``op(a) @ x = b`` or ``x @ op(a) = b``."""
    a, b = shape(op.operands[0]), shape(op.operands[1])
    left = boolean(op, "left_side")
    transposed = attribute(op, "transpose_a", Transpose).value in {"TRANSPOSE", "ADJOINT"}
    row, column = len(a) - 2, len(a) - 1
    # The dimension of b that is solved for, and the one of independent equations.
    solved, free = (row, column) if left else (column, row)
    # Which dimension of a goes with the solved one of b, and which with x's.
    own, contracted = (row, column) if left != transposed else (column, row)
    of_a: tuple[Dims, Dims, int] = ([own, solved], [None], a[own])
    of_b: tuple[Dims, Dims, int] = ([None, free], [free], b[free])
    builder = RuleBuilder.of(op).add_pointwise(a[:-2])
    for operand_dims, result_dims, size in (of_a, of_b) if left else (of_b, of_a):
        builder.add(operand_dims, result_dims, size, FactorType.NEED_REPLICATION)
    builder.add([contracted, None], [solved], a[contracted], FactorType.NEED_REPLICATION)
    return builder.build()


def _rng_bit_generator(op: Operation) -> OpShardingRule:
    """Return the rule: the output may be sharded, the states are replicated and unrelated."""
    builder = RuleBuilder.of(op)
    for dim, size in enumerate(shape(op.operands[0])):
        builder.add([dim], [dim, None], size, FactorType.NEED_REPLICATION, blocked=True)
    for dim, size in enumerate(shape(op.results[1])):
        builder.add([None], [None, dim], size)
    return builder.build()


RULES: dict[str, RuleFunction] = {
    "stablehlo.cholesky": _cholesky,
    "stablehlo.fft": _fft,
    "stablehlo.rng_bit_generator": _rng_bit_generator,
    "stablehlo.sort": _sort,
    "stablehlo.triangular_solve": _triangular_solve,
}
"""Rule functions, by name of the operation."""
