"""Reshards of dot and reshape, which are chosen differently from other operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.attributes import (
    AxisRef,
    Mesh,
    OpShardingRule,
    TensorMapping,
    TensorSharding,
)
from emu.sdy.dialect.axes import lists_overlap
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.shardings import set_sharding
from emu.sdy.dialect.tensors import static_shape
from emu.sdy.passes.insertion_point import Place, replace_other_uses
from emu.sdy.propagation.projection import (
    Axes,
    Projection,
    TensorFactors,
    distribute_axes,
    project,
)

# Dot


def reshard_dot_result(
    op: Operation,
    projection: Projection,
    wanted: TensorSharding,
    rule: OpShardingRule,
    mesh_name: str,
    mesh: Mesh,
) -> None:
    """Compute a dot with the sharding of its operands, and reshard the result.

    This is done if the operands agree, one dimension of the result differs from its
    operand's, that operand is not smaller than the result, and the result is sharded
    there along the contracted axes. Then an all-reduce and a reshard of the result
    replace a reshard of an operand, or a reduce-scatter that leaves less of the
    matmul sharded.
    """
    conflict = _dot_conflict(op, projection, rule)
    if conflict is None:
        return
    factor, axes = conflict
    result = projection.results[0]
    result.update(factor, axes, result.factors[factor].overflow_axes)
    value = op.results[0]
    set_sharding(value, result.sharding(rule.results[0], rule.factor_sizes, mesh_name, mesh))
    added = make_reshard(value, wanted, op.location)
    Place.after(op).insert(added)
    replace_other_uses(value, added.result)


def _dot_conflict(
    op: Operation, projection: Projection, rule: OpShardingRule
) -> tuple[int, Axes] | None:
    """Return the factor in which the result alone differs, and the operands' axes for it."""
    sizes = [_elements(value) for value in op.operands[:2]]
    operands = list(zip(projection.operands[:2], sizes, strict=True))
    result = projection.results[0]
    conflict: tuple[int, Axes] | None = None
    reduction: list[AxisRef] = []
    seen: list[AxisRef] = []
    for factor in range(len(rule.factor_sizes)):
        having = [(o.factors[factor].axes, size) for o, size in operands if factor in o.factors]
        if not having:
            continue
        axes, size = having[0][0], max(size for _, size in having)
        if any(other != axes for other, _ in having):
            return None
        if len(having) == 2 and factor in rule.reduction:
            reduction += axes
            continue
        if len(having) == 1:
            # The result has the dimensions of both operands, so their axes must be distinct.
            if lists_overlap(axes, seen):
                return None
            seen += axes
        if result.factors[factor].axes != axes:
            if not axes or conflict is not None or _elements(op.results[0]) > size:
                return None
            conflict = (factor, axes)
    if conflict is None:
        return None
    stored = result.factors[conflict[0]].axes
    return conflict if stored and stored == tuple(reduction) else None


def _elements(value: Value) -> int:
    return math.prod(static_shape(value.type) or ())


# Reshape


@dataclass(frozen=True, slots=True)
class ReshapeAxes:
    """Axes of a reshape with overflow axes.

    Attributes:
        common: Axes of each factor.
        operand: Sharding that the operand should have.
        result: Sharding that the result should have.
    """

    common: list[Axes]
    operand: TensorSharding
    result: TensorSharding


def axes_of_reshape(
    projection: Projection, rule: OpShardingRule, mesh_name: str, mesh: Mesh
) -> ReshapeAxes:
    """Choose the axes of a reshape with overflow axes.

    All axes of the tensor with more shards are distributed anew on both sides; the
    axes that both sides then have in common stay.
    """
    operand, result = projection.operands[0], projection.results[0]
    more = operand if operand.sharded_size(mesh) >= result.sharded_size(mesh) else result
    axes = tuple(
        axis
        for factor in sorted(more.factors)
        for axis in (*more.factors[factor].axes, *more.factors[factor].overflow_axes)
    )
    sizes = rule.factor_sizes
    _hand_out(operand, rule.operands[0], sizes, axes, mesh)
    _hand_out(result, rule.results[0], sizes, axes, mesh)

    def shardings() -> tuple[TensorSharding, TensorSharding]:
        return (
            operand.sharding(rule.operands[0], sizes, mesh_name, mesh),
            result.sharding(rule.results[0], sizes, mesh_name, mesh),
        )

    # Convert to a sharding and back, since not every list of factors makes a sharding.
    before, after = shardings()
    common = project(rule, [before], [after], mesh).common_prefix_axes(len(sizes))
    for factor, chosen in enumerate(common):
        projection.update(factor, chosen)
    return ReshapeAxes(common, *shardings())


def _hand_out(
    tensor: TensorFactors,
    mapping: TensorMapping,
    factor_sizes: Sequence[int],
    axes: Axes,
    mesh: Mesh,
) -> None:
    """Distribute axes over all factors of a tensor, replacing their current ones."""
    # After a factor with overflow axes there may be factors that the tensor lacks.
    factors = [f for dim in mapping.dims for f in dim.factors if f in tensor.factors]
    empty = [replace(tensor.factors[f], axes=(), overflow_axes=()) for f in factors]
    if not factors:
        return
    new = distribute_axes(empty, [factor_sizes[f] for f in factors], axes, mesh)
    tensor.factors.update(zip(factors, new, strict=True))
