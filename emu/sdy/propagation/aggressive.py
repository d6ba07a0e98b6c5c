"""The aggressive strategy: resolves conflicts between factors, and per tensor.

Two things differ from ``emu.sdy.propagation.basic``:

- Each tensor gets the axes that *it* can have. If one cannot have the second axis
  of a factor, the others get it nevertheless.
- If several factors want one axis, those with the larger *source* come first (the
  source of a factor is the largest tensor that has all wanted axes), since it is
  cheaper to reshard a smaller tensor. Only the tensor's own axes are in conflict:
  an axis that a factor of another tensor has is free here.

Results come before operands. In an elementwise operation an operand gets no more
axes than a result that stays shorter: sharding operands alike does not help if the
result has to be gathered anyway.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from emu.sdy.dialect.attributes import AxisRef
from emu.sdy.dialect.axes import total_size
from emu.sdy.propagation.basic import (
    StepContext,
    compatible_axes,
    fits_factor,
    free_of_other_factors,
    truncate,
)
from emu.sdy.propagation.projection import Axes, Prefix, Projection, TensorFactors, list_prefix


def wanted_axes(projection: Projection, context: StepContext) -> list[Axes]:
    """Return the axes that each factor would get without conflicts."""
    return [
        compatible_axes(projection, factor, direction)
        for factor, direction in enumerate(context.directions)
    ]


def sources(
    projection: Projection, wanted: Sequence[Axes], context: StepContext
) -> list[tuple[int, int]]:
    """Return, for each factor, size and index of the tensor from which the wanted axes come.

    A source has the wanted axes as a prefix of its own; the largest one counts, and
    the first of equally large ones. Without a source, both numbers are -1.
    """
    found = [(-1, -1)] * len(wanted)
    for index, tensor in enumerate(projection.tensors):
        size = math.prod(context.factor_sizes[factor] for factor in tensor.factors)
        for factor, sharding in tensor.factors.items():
            axes = wanted[factor]
            if (
                axes
                and size > found[factor][0]
                and list_prefix(axes, sharding.axes) is not Prefix.NONE
            ):
                found[factor] = (size, index)
    return found


def factor_order(projection: Projection, wanted: Sequence[Axes], context: StepContext) -> list[int]:
    """Return the factors in the order in which they get their axes."""
    found = sources(projection, wanted, context)

    def key(factor: int) -> tuple[int, int, int]:
        # Largest source first; among equals of an elementwise operation, most shards first,
        # then the source that comes first. ``sorted`` is stable: then the factor's number decides.
        size, index = found[factor]
        shards = total_size(wanted[factor], context.mesh) if context.elementwise else 0
        return (-size, -shards, index)

    return sorted(range(len(wanted)), key=key)


def _axes_for(tensor: TensorFactors, factor: int, wanted: Axes, context: StepContext) -> Axes:
    """Return the wanted axes that a tensor can have now; () if none is new."""
    sharding = tensor.factors[factor]

    def fitting(axis: AxisRef, size: int) -> AxisRef | None:
        return fits_factor(axis, tensor, sharding, context, factor, size)

    def free(axis: AxisRef, _: int) -> AxisRef | None:
        return free_of_other_factors(axis, tensor, factor)

    axes = truncate(wanted, fitting, context)
    if list_prefix(sharding.axes, axes) is not Prefix.STRICT:
        return ()
    return truncate(axes, free, context)


def _limit_to_results(axes: Axes, factor: int, results: Sequence[TensorFactors]) -> Axes:
    """Return the axes, cut down to those of any result that has fewer."""
    for result in results:
        sharding = result.factors.get(factor)
        if sharding is not None and list_prefix(sharding.axes, axes) is Prefix.STRICT:
            axes = sharding.axes
    return axes


def propagate_aggressive(projection: Projection, context: StepContext) -> list[bool]:
    """Extend each tensor as far as possible, as the module's docstring describes."""
    operands, results = projection.operands, projection.results
    updated = [False] * (len(operands) + len(results))
    wanted = wanted_axes(projection, context)
    if not any(wanted):
        return updated
    order = [f for f in factor_order(projection, wanted, context) if wanted[f]]
    # Results first, because operands of elementwise operations are limited to them. All
    # decisions use ``wanted`` from before the step, so tensors do not affect each other otherwise.
    for index, tensor in enumerate(results, len(operands)):
        for factor in order:
            if factor in tensor.factors:
                axes = _axes_for(tensor, factor, wanted[factor], context)
                updated[index] |= tensor.expand(factor, axes)
    for index, tensor in enumerate(operands):
        for factor in order:
            if factor in tensor.factors:
                axes = _axes_for(tensor, factor, wanted[factor], context)
                if axes and context.elementwise:
                    axes = _limit_to_results(axes, factor, results)
                updated[index] |= tensor.expand(factor, axes)
    return updated
