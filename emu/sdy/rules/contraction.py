"""Rules of dot products and convolutions."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import FactorType, OpShardingRule
from emu.sdy.rules.builder import RuleBuilder, RuleFunction
from emu.sdy.rules.reading import attribute, integer, shape
from emu.stablehlo.attributes import ConvDimensionNumbers, DotDimensionNumbers


def _dot(op: Operation) -> OpShardingRule:
    """Return the rule of dot, which contracts the left side's last dimension."""
    lhs, rhs = shape(op.operands[0]), shape(op.operands[1])
    builder = RuleBuilder.of(op)
    if len(lhs) == 2:
        builder.add([0, None], [0], lhs[0])
    if len(rhs) == 2:
        builder.add([None, 1], [len(lhs) - 1], rhs[1])
    builder.add([len(lhs) - 1, 0], [None], rhs[0], FactorType.REDUCTION)
    return builder.build()


def _dot_general(op: Operation) -> OpShardingRule:
    """Return the rule of dot_general: batch dimensions, then each side's, then contracted ones."""
    numbers = attribute(op, "dot_dimension_numbers", DotDimensionNumbers)
    lhs, rhs = shape(op.operands[0]), shape(op.operands[1])
    builder = RuleBuilder.of(op)
    batching = list(
        zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True)
    )
    contracting = list(
        zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True)
    )
    # The result has the batch dimensions, then the free ones of the left and right side.
    out_dim = 0
    for lhs_dim, rhs_dim in batching:
        builder.add([lhs_dim, rhs_dim], [out_dim], lhs[lhs_dim])
        out_dim += 1
    for dim, size in enumerate(lhs):
        if (
            dim not in numbers.lhs_contracting_dimensions
            and dim not in numbers.lhs_batching_dimensions
        ):
            builder.add([dim, None], [out_dim], size)
            out_dim += 1
    for dim, size in enumerate(rhs):
        if (
            dim not in numbers.rhs_contracting_dimensions
            and dim not in numbers.rhs_batching_dimensions
        ):
            builder.add([None, dim], [out_dim], size)
            out_dim += 1
    for lhs_dim, rhs_dim in contracting:
        builder.add([lhs_dim, rhs_dim], [None], lhs[lhs_dim], FactorType.REDUCTION)
    return builder.build()


def _convolution(op: Operation, *, conservative: bool) -> OpShardingRule:
    """Return the rule of a convolution: groups, batch, windows, features.

    With ``conservative``, spatial dimensions share no factor.
    """
    numbers = attribute(op, "dimension_numbers", ConvDimensionNumbers)
    rhs, out = shape(op.operands[1]), shape(op.results[0])
    batch_groups = integer(op, "batch_group_count")
    feature_groups = integer(op, "feature_group_count")
    out_feature = numbers.output_feature_dimension
    kernel_out = numbers.kernel_output_feature_dimension

    # Group factors are added before the other factors of the same dimensions, because they
    # are the major ones: "batch" is [groups, batch], "features" is [groups, features].
    builder = RuleBuilder.of(op)
    if batch_groups > 1:
        builder.add([numbers.input_batch_dimension, kernel_out], [out_feature], batch_groups)
    out_batch = numbers.output_batch_dimension
    builder.add([numbers.input_batch_dimension, None], [out_batch], out[out_batch])
    if not conservative:
        _add_windows(builder, op, numbers)
    if feature_groups > 1:
        builder.add([numbers.input_feature_dimension, kernel_out], [out_feature], feature_groups)
    kernel_in = numbers.kernel_input_feature_dimension
    builder.add(
        [numbers.input_feature_dimension, kernel_in],
        [None],
        rhs[kernel_in],
        FactorType.REDUCTION,
    )
    features = out[out_feature] // (batch_groups * feature_groups)
    if features > 1:
        builder.add([None, kernel_out], [out_feature], features)
    return builder.build()


def _add_windows(builder: RuleBuilder, op: Operation, numbers: ConvDimensionNumbers) -> None:
    """Add the factors of the spatial dimensions.

    An input dimension can be sharded by windows, like the output, or within windows,
    like the kernel. It gets a factor for each, the larger one as the major one, and
    neither larger than the rest of the input.
    """
    lhs, rhs, out = shape(op.operands[0]), shape(op.operands[1]), shape(op.results[0])
    for lhs_dim, rhs_dim, out_dim in zip(
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
        strict=True,
    ):
        windows, window = out[out_dim], rhs[rhs_dim]
        remaining = lhs[lhs_dim]
        for by_window in (True, False) if windows >= window else (False, True):
            size = min(remaining, windows if by_window else window)
            # A factor of size 1 would only be noise in a dimension with another factor.
            if size <= 1:
                continue
            if by_window:
                builder.add([lhs_dim, None], [out_dim], size, FactorType.PERMUTATION)
            else:
                builder.add([lhs_dim, rhs_dim], [None], size, FactorType.REDUCTION)
            remaining //= size


RULES: dict[str, RuleFunction] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
}
"""Rule functions, by name of the operation."""
