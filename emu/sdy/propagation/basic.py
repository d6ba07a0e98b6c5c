"""The basic strategy: all tensors of a factor get the axes that all can agree on.

For each factor on its own:

1. ``compatible_axes``: the tensors' lists of axes for the factor are merged into
one. The list ends where two of them disagree.
2. ``truncate``: an axis of that list is dropped, with all after it, if a tensor
cannot have it: because another factor has it there (``free_of_other_factors``),
or because it is replicated or unreduced there, the factor is closed, or the
axis does not divide the rest of the factor (``fits_factor``).
3. Each tensor whose axes are a strict prefix of the remaining list gets that list.

If two factors want the same axis, neither gets it. Deciding between them is left
to ``emu.sdy.propagation.aggressive``, which uses the functions of this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from emu.sdy.dialect.attributes import AxisRef, Mesh, PropagationDirection, SubAxisInfo
from emu.sdy.dialect.axes import contains, is_prefix, pre_size, prefix_without_overlap_of_list
from emu.sdy.propagation.projection import Axes, FactorSharding, Projection, TensorFactors


@dataclass(frozen=True, slots=True)
class StepContext:
    """Inputs of a step besides the shardings.

    Attributes:
        mesh: The mesh of all shardings.
        factor_sizes: The sizes of the factors.
        directions: The allowed direction of each factor.
        conservative: Whether axes must not be split into sub-axes.
        elementwise: Whether the operation is elementwise.
    """

    mesh: Mesh
    factor_sizes: tuple[int, ...]
    directions: tuple[PropagationDirection, ...]
    conservative: bool = False
    elementwise: bool = False


Strategy = Callable[[Projection, StepContext], list[bool]]
"""A function that extends a projection in place and returns which tensors changed."""


def merge_axes(axes: Axes, more: Axes, can_expand: bool) -> tuple[Axes, bool]:
    """Merge two lists of axes for a factor into the longest list compatible with both.

    Args:
        axes: The merged list so far.
        more: The list of another tensor.
        can_expand: Whether ``more`` may make the list longer.

    Returns:
        The merged list, and whether further lists may make it longer.
    """
    if axes == more:
        return axes, can_expand
    shorter = min(len(axes), len(more))
    for index in range(shorter):
        old, new = axes[index], more[index]
        if old == new:
            continue
        # If one axis is a prefix of the other, the longer one counts if the
        # shorter one is the last of its list, which could still grow to it.
        # Otherwise the axes after it are in conflict.
        if is_prefix(new, old):
            if index + 1 < len(more):
                return (*axes[:index], new), False
        elif is_prefix(old, new):
            if not can_expand or index + 1 < len(axes):
                return (*axes[:index], old), False
            return (*axes[:index], *more[index:]), can_expand
        else:
            return axes[:index], False
    if can_expand and len(more) > len(axes):
        return (*axes, *more[shorter:]), True
    return axes, can_expand


def compatible_axes(projection: Projection, factor: int, direction: PropagationDirection) -> Axes:
    """Return the axes of a factor that no tensor contradicts.

    Forward, only operands contribute axes and results only limit them; backward,
    the other way round.
    """
    if direction is PropagationDirection.NONE:
        return ()
    first, second = projection.operands, projection.results
    if direction is PropagationDirection.BACKWARD:
        first, second = second, first
    axes: Axes = ()
    can_expand = True
    for tensor in first:
        sharding = tensor.factors.get(factor)
        if sharding is not None:
            axes, can_expand = merge_axes(axes, sharding.axes, can_expand)
    if direction is not PropagationDirection.BOTH:
        can_expand = False
    for tensor in second:
        sharding = tensor.factors.get(factor)
        if sharding is not None:
            axes, can_expand = merge_axes(axes, sharding.axes, can_expand)
    return axes


def free_of_other_factors(axis: AxisRef, tensor: TensorFactors, factor: int) -> AxisRef | None:
    """Return the largest prefix of an axis that shards no other factor of a tensor."""
    for index, other in tensor.factors.items():
        if index == factor:
            continue
        for axes in (other.overflow_axes, other.axes):
            if axes:
                prefix = prefix_without_overlap_of_list(axis, axes)
                if prefix is None:
                    return None
                axis = prefix
    return axis


def fits_factor(
    axis: AxisRef,
    tensor: TensorFactors,
    sharding: FactorSharding,
    context: StepContext,
    factor: int,
    sharded_size: int,
) -> AxisRef | None:
    """Return the largest prefix of an axis that a factor of a tensor can take.

    Args:
        axis: The axis.
        tensor: The tensor.
        sharding: Its sharding of the factor.
        context: Sizes of mesh and factors.
        factor: The factor.
        sharded_size: Number of shards of the factor along the axes before this one.
    """
    prefix = prefix_without_overlap_of_list(axis, tensor.replicated_axes)
    if prefix is not None:
        prefix = prefix_without_overlap_of_list(prefix, tensor.unreduced_axes)
    if prefix is None:
        return None
    axes = sharding.axes
    if any(contains(own, prefix) for own in axes):
        return prefix
    # The axis would be new to the tensor.
    if not sharding.is_closed and not sharding.overflow_axes:
        if sharding.is_minor_most:
            return prefix
        fitting = dividing_part(prefix, context, factor, sharded_size)
        if fitting is not None:
            return fitting
    # The last axis may be kept if it is a prefix, since those before it are equal.
    if axes and is_prefix(axes[-1], prefix):
        return axes[-1]
    return None


def dividing_part(
    axis: AxisRef, context: StepContext, factor: int, sharded_size: int
) -> AxisRef | None:
    """Return the largest prefix of an axis that divides the rest of a factor."""
    left, remainder = divmod(context.factor_sizes[factor], sharded_size)
    if remainder:
        return None
    size = axis.size(context.mesh)
    common = math.gcd(left, size)
    if common == size:
        return axis
    if common == 1:
        return None
    return AxisRef(axis.name, SubAxisInfo(pre_size(axis), common))


def truncate(
    axes: Axes, prefix_of: Callable[[AxisRef, int], AxisRef | None], context: StepContext
) -> Axes:
    """Return the list up to the first axis that cannot stay whole.

    Args:
        axes: The list.
        prefix_of: Returns the prefix of an axis that can stay, given the number of
            shards along the axes before it.
        context: The mesh, and whether sub-axes may stay.
    """
    size = 1
    for index, axis in enumerate(axes):
        prefix = prefix_of(axis, size)
        if prefix is None or (context.conservative and prefix.sub_axis is not None):
            return axes[:index]
        if prefix != axis:
            return (*axes[:index], prefix)
        size *= axis.size(context.mesh)
    return axes


def allowed_axes(projection: Projection, factor: int, context: StepContext) -> Axes:
    """Return the axes of a factor that every tensor can have."""
    axes = compatible_axes(projection, factor, context.directions[factor])
    if not axes:
        return axes
    tensors = projection.tensors

    def prefix_of(axis: AxisRef, size: int) -> AxisRef | None:
        for tensor in tensors:
            prefix = free_of_other_factors(axis, tensor, factor)
            sharding = tensor.factors.get(factor)
            if prefix is not None and sharding is not None:
                prefix = fits_factor(prefix, tensor, sharding, context, factor, size)
            if prefix is None:
                return None
            axis = prefix
        return axis

    return truncate(axes, prefix_of, context)


def propagate_basic(projection: Projection, context: StepContext) -> list[bool]:
    """Extend all tensors, factor by factor, as the module's docstring describes."""
    tensors = projection.tensors
    updated = [False] * len(tensors)
    for factor in range(len(context.factor_sizes)):
        axes = allowed_axes(projection, factor, context)
        if axes:
            for index, tensor in enumerate(tensors):
                updated[index] |= tensor.expand(factor, axes)
    return updated
