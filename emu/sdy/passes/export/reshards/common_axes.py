"""Choice of one list of axes per factor, on which all tensors of an operation agree.

After propagation the tensors of an operation may still be sharded in ways that
require communication: a factor has different axes in different tensors, or one axis
shards two factors. This module chooses the axes of the operation; tensors that
differ are resharded.

Without conflicts, the tensors stay as they are. If only two tensors have
dimensions, one of them stays and the other follows. Otherwise axes are assigned
greedily: each pair of a factor and a list of axes (or a prefix of one) that some
tensor has is a candidate, and the one that keeps the largest tensors unchanged is
taken first. Candidates that overlap with it are truncated, and those that extend it
remain candidates.

A factor can be sharded only if those before it in each dimension are fully sharded;
until then its candidates wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.sdy.dialect.attributes import AxisRef, FactorType, Mesh, OpShardingRule
from emu.sdy.dialect.axes import (
    add_or_merge,
    expanded_size,
    is_strict_prefix_of_list,
    list_key,
    lists_overlap,
    total_size,
    truncate_by_overlaps,
)
from emu.sdy.propagation.projection import Axes, Projection


def common_axes(
    projection: Projection, rule: OpShardingRule, sizes: Sequence[int], mesh: Mesh
) -> list[Axes]:
    """Return the axes of each factor of an operation.

    Args:
        projection: The shardings of its tensors, without overflow axes.
        rule: Its sharding rule.
        sizes: Number of elements of each operand, then of each result.
        mesh: The mesh.
    """
    agreed = compatible_axes(projection, rule)
    if agreed is not None:
        return agreed
    if (
        len(rule.non_scalar_tensors) == 2
        and not rule.need_replication
        and not rule.has_compound_dimension
    ):
        return _axes_of_preferred(projection, rule, sizes, mesh)
    axes = _greedy_axes(projection, rule, sizes, mesh)
    _move_to_batching_factors(axes, rule, mesh)
    return axes


# No conflicts


def compatible_axes_of_factor(projection: Projection, factor: int) -> Axes | None:
    """Return the axes of a factor if all tensors that have it agree, else None."""
    seen: Axes | None = None
    for tensor in projection.tensors:
        sharding = tensor.factors.get(factor)
        if sharding is None:
            continue
        if seen is None:
            seen = sharding.axes
        elif seen != sharding.axes:
            return None
    return seen or ()


def compatible_axes(projection: Projection, rule: OpShardingRule) -> list[Axes] | None:
    """Return the axes of all factors if tensors agree and no axes overlap, else None."""
    found: list[Axes] = []
    seen: list[AxisRef] = []
    for factor in range(len(rule.factor_sizes)):
        axes = compatible_axes_of_factor(projection, factor)
        if axes is None:
            return None
        if axes:
            if factor in rule.need_replication or lists_overlap(axes, seen):
                return None
            seen += axes
        found.append(axes)
    return found


# Two tensors


def _axes_of_preferred(
    projection: Projection, rule: OpShardingRule, sizes: Sequence[int], mesh: Mesh
) -> list[Axes]:
    """Return the axes of the preferred one of two tensors.

    That is the one whose permutation factors are not sharded, then the larger one,
    then the one with more shards; the first if they are equal.
    """
    tensors = projection.tensors

    def preference(index: int) -> tuple[bool, int, int]:
        permuted = any(
            factor in rule.permutation and sharding.axes
            for factor, sharding in tensors[index].factors.items()
        )
        return (not permuted, sizes[index], tensors[index].sharded_size(mesh))

    first, second = rule.non_scalar_tensors
    if preference(first) < preference(second):
        first, second = second, first
    preferred = tensors[first].factors
    axes: list[Axes] = [()] * len(rule.factor_sizes)
    for factor, sharding in preferred.items():
        axes[factor] = sharding.axes
    taken = [axis for sharding in preferred.values() for axis in sharding.axes]
    for factor, sharding in tensors[second].factors.items():
        if factor not in preferred:
            axes[factor] = truncate_by_overlaps(sharding.axes, taken)
    return axes


# Many tensors

_PRECEDENCE = {
    FactorType.PASS_THROUGH: 3,
    FactorType.REDUCTION: 2,
    FactorType.PERMUTATION: 1,
    FactorType.NEED_REPLICATION: 0,
}


@dataclass(slots=True)
class _Candidate:
    """Axes that some tensor has for a factor.

    Attributes:
        factor: The factor.
        axes: The axes, truncated when overlapping ones were assigned.
        precedence: Precedence of the factor's kind.
        source_size: Number of elements of all tensors with these axes as a prefix.
        sharded_size: Number of additional shards of the factor along them.
    """

    factor: int
    axes: Axes
    precedence: int
    source_size: int
    sharded_size: int

    @property
    def order(self) -> tuple[int, int, int, int, object]:
        """Sort key; the best candidate has the greatest."""
        return (
            self.source_size,
            self.precedence,
            self.sharded_size,
            self.factor,
            list_key(self.axes),
        )


def _candidates(
    projection: Projection, rule: OpShardingRule, sizes: Sequence[int], mesh: Mesh
) -> list[_Candidate]:
    # For each factor, the number of elements in tensors with exactly these axes.
    stored: dict[int, dict[Axes, int]] = {}
    for tensor, size in zip(projection.tensors, sizes, strict=True):
        for factor, sharding in tensor.factors.items():
            if sharding.axes:
                by_axes = stored.setdefault(factor, {})
                by_axes[sharding.axes] = by_axes.get(sharding.axes, 0) + size
    found = []
    for factor, by_axes in stored.items():
        precedence = _PRECEDENCE[rule.factor_type(factor)]
        prefixes = {full[:count] for full in by_axes for count in range(1, len(full) + 1)}
        for axes in prefixes:
            size = sum(
                size
                for other, size in by_axes.items()
                if other == axes or is_strict_prefix_of_list(axes, other)
            )
            found.append(_Candidate(factor, axes, precedence, size, total_size(axes, mesh)))
    return found


def _dependencies(rule: OpShardingRule) -> dict[int, set[int]]:
    """Return, for each factor, those right before it in a dimension that are not fully sharded."""
    waits_for: dict[int, set[int]] = {}
    for tensor in rule.tensors:
        for dim in tensor.dims:
            for before, factor in zip(dim.factors, dim.factors[1:], strict=False):
                waits_for.setdefault(factor, set()).add(before)
    return waits_for


def _greedy_axes(
    projection: Projection, rule: OpShardingRule, sizes: Sequence[int], mesh: Mesh
) -> list[Axes]:
    given: list[Axes] = [()] * len(rule.factor_sizes)
    candidates = _candidates(projection, rule, sizes, mesh)
    waits_for = _dependencies(rule)
    while True:
        ready = [each for each in candidates if not waits_for.get(each.factor)]
        if not ready:
            return given
        best = max(ready, key=lambda each: each.order)
        given[best.factor] = best.axes
        if total_size(best.axes, mesh) == rule.factor_sizes[best.factor]:
            for factors in waits_for.values():
                factors.discard(best.factor)
        chosen = best.axes
        candidates = [
            each for each in candidates if _survives(each, best.factor, chosen, given, mesh)
        ]


def _survives(
    candidate: _Candidate, factor: int, chosen: Axes, given: list[Axes], mesh: Mesh
) -> bool:
    """Update a candidate after ``chosen`` went to ``factor``; return whether it still adds axes.

    Its axes are truncated where they overlap, and its sharded size is updated.
    """
    prefix: Axes = ()
    if candidate.factor == factor:
        if not is_strict_prefix_of_list(chosen, candidate.axes):
            return False
        prefix = chosen
    else:
        axes = truncate_by_overlaps(candidate.axes, chosen)
        if axes != candidate.axes:
            prefix = given[candidate.factor]
            if axes == prefix:
                return False
            candidate.axes = axes
        # An unchanged candidate counts in full, including axes its factor already has.
    candidate.sharded_size = expanded_size(candidate.axes, prefix, mesh)
    return True


# Factors that need replication


def _move_to_batching_factors(axes: list[Axes], rule: OpShardingRule, mesh: Mesh) -> None:
    """Remove the axes of factors that need replication.

    Those of a factor in all tensors shard batching factors instead, as far as they
    divide them.
    """
    for factor in rule.need_replication:
        freed, axes[factor] = axes[factor], ()
        if freed and rule.is_in_all_non_scalar_tensors(factor):
            _distribute(freed, axes, rule, mesh)


def _distribute(freed: Axes, axes: list[Axes], rule: OpShardingRule, mesh: Mesh) -> None:
    left = list(freed)
    for factor in rule.batching_factors:
        size, shards = rule.factor_sizes[factor], total_size(axes[factor], mesh)
        if size == 0 or size % shards:
            continue
        capacity = size // shards
        extended = list(axes[factor])
        while left and capacity % left[0].size(mesh) == 0:
            capacity //= left[0].size(mesh)
            add_or_merge(extended, left.pop(0), mesh)
        axes[factor] = tuple(extended)
