"""Rules of custom calls, by target."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import FactorType, OpShardingRule
from emu.sdy.rules.builder import RuleBuilder, RuleFunction, pointwise_rule
from emu.sdy.rules.reading import shape

_POINTWISE = (
    "Cholesky",
    "CompactWyHelper",
    "InspectSharding",
    "InvertDiagBlocksLowerTriangular",
    "InvertDiagBlocksUpperTriangular",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "X64SplitHigh",
    "X64SplitLow",
    "_SPMDInternalOp_MultiPad",
    "_SPMDInternalOp_MultiRotate",
    "_SPMDInternalOp_MultiSlice",
    "_SPMDInternalOp_RotateRight",
    "_SPMDInternalOp_Wrap",
    "annotate_device_placement",
    "mhlo.erf",
    "xla.megascale.provide_metadata",
)


def _expect(op: Operation, operands: int, results: int) -> None:
    """Raise ValueError unless the call has that many operands and results."""
    found = (len(op.operands), len(op.results))
    if found != (operands, results):
        raise ValueError(
            f"must have {operands} operand(s) and {results} result(s), "
            f"but has {found[0]} and {found[1]}"
        )


def _matrix(op: Operation, operand: int = 0) -> tuple[int, ...]:
    """Return the shape of an operand; raise ValueError if its rank is below 2."""
    sizes = shape(op.operands[operand])
    if len(sizes) < 2:
        raise ValueError(f"operand {operand} must have at least rank 2, but has {len(sizes)}")
    return sizes


def _eigh(op: Operation) -> OpShardingRule:
    """Return the rule of eigh: eigenvalues go with the last dimension of eigenvectors."""
    _expect(op, 1, 2)
    sizes = _matrix(op)
    row, column = len(sizes) - 2, len(sizes) - 1
    return (
        RuleBuilder.of(op)
        .add_pointwise(sizes[:-2])
        .add([row], [row, None], sizes[row])
        .add([column], [column, row], sizes[column])
        .build()
    )


def _qr(op: Operation) -> OpShardingRule:
    """Return the rule of qr: packed matrix, and taus, which have a dimension of their own."""
    _expect(op, 1, 2)
    sizes = _matrix(op)
    row, column = len(sizes) - 2, len(sizes) - 1
    taus = shape(op.results[1])[row]
    return (
        RuleBuilder.of(op)
        .add_pointwise(sizes[:-2])
        .add([row], [row, None], sizes[row], FactorType.NEED_REPLICATION)
        .add([column], [column, None], sizes[column], FactorType.NEED_REPLICATION)
        .add([None], [None, row], taus, FactorType.NEED_REPLICATION)
        .build()
    )


def _householder_product(op: Operation) -> OpShardingRule:
    """Return the rule of a product of Householder reflectors: packed matrix, taus to matrix."""
    _expect(op, 2, 1)
    sizes = _matrix(op)
    row, column = len(sizes) - 2, len(sizes) - 1
    taus = shape(op.operands[1])[row]
    return (
        RuleBuilder.of(op)
        .add_pointwise(sizes[:-2])
        .add([row, None], [row], sizes[row], FactorType.NEED_REPLICATION)
        .add([column, None], [column], sizes[column], FactorType.NEED_REPLICATION)
        .add([None, row], [None], taus, FactorType.NEED_REPLICATION)
        .build()
    )


def _top_k(op: Operation) -> OpShardingRule:
    """Return the rule of top-k; nothing propagates along the dimension searched."""
    _expect(op, 1, 2)
    return (
        RuleBuilder.of(op)
        .add_matching(
            shape(op.operands[0]), shape(op.results[0]), FactorType.NEED_REPLICATION, blocked=True
        )
        .build()
    )


def _approximate_top_k(op: Operation) -> OpShardingRule:
    """Return the rule of approximate top-k: array, iota, two scalars to values and indices."""
    _expect(op, 4, 2)
    builder = RuleBuilder.of(op)
    source, result = shape(op.operands[0]), shape(op.results[0])
    for dim, (in_size, out_size) in enumerate(zip(source, result, strict=True)):
        if in_size == out_size:
            builder.add_everywhere(dim, in_size)
        else:
            # The input may stay sharded along the dimension searched; the few results may not.
            builder.add([dim, dim, None, None], [None, None], in_size)
            builder.add([None] * 4, [dim, dim], out_size, FactorType.NEED_REPLICATION, blocked=True)
    return builder.build()


def _x64_combine(op: Operation) -> OpShardingRule | None:
    """Return the pointwise rule; the state of a random generator stays replicated."""
    is_state = any(
        user.name == "stablehlo.rng_bit_generator" for user in op.results[0].walk_users()
    )
    if not is_state:
        return pointwise_rule(op)
    # The two halves are one generator's state, a vector that every device needs whole.
    (size,) = shape(op.results[0])
    return (
        RuleBuilder.of(op)
        .add_everywhere(0, size, FactorType.NEED_REPLICATION, blocked=True)
        .build()
    )


RULES: dict[str, RuleFunction] = {
    **dict.fromkeys(_POINTWISE, pointwise_rule),
    "ApproxTopK": _approximate_top_k,
    "Eigh": _eigh,
    "PartialReduce": _approximate_top_k,
    "ProductOfElementaryHouseholderReflectors": _householder_product,
    "Qr": _qr,
    "QrDecompositionBlock": _qr,
    "X64Combine": _x64_combine,
    "mhlo.topk": _top_k,
}
"""Rule functions, by target of the custom call."""

SILENT = frozenset(
    {
        "sdy_testonly",
        "tpu_custom_call",
        "xla_ffi_python_cpu_callback",
        "xla_ffi_python_gpu_callback",
        "xla.debug.Log",
        "xla_python_cpu_callback",
        "xla_python_gpu_callback",
    }
)
"""Targets without a rule for which no warning is emitted."""
