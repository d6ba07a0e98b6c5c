"""Reasons why an axis did not reach a tensor.

``find_conflicts`` looks at one step again: at the axes that some tensor has for
a factor and that the tensor in question still lacks after the step. Whether an
axis was stopped follows from the step's own outcome and from the functions that
the strategies use; only the reason is worked out here. So an explanation can be
incomplete at worst, but never contradicts the step. Propagation itself does not
use this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from emu.sdy.dialect.attributes import AxisRef, OpShardingRule, PropagationDirection
from emu.sdy.dialect.axes import contains, is_prefix, lists_overlap
from emu.sdy.propagation.aggressive import factor_order, propagate_aggressive, wanted_axes
from emu.sdy.propagation.basic import (
    Strategy,
    compatible_axes,
    fits_factor,
    free_of_other_factors,
)
from emu.sdy.propagation.events import Conflict, ConflictReason
from emu.sdy.propagation.projection import (
    Axes,
    FactorSharding,
    Prefix,
    Projection,
    TensorFactors,
    list_prefix,
)
from emu.sdy.propagation.steps import Outcome

_Why = tuple[ConflictReason, int | None, int | None]
"""The reason, the tensor on which the conflict lies, the factor that has the axis there."""


def find_conflicts(
    strategy: Strategy, rule: OpShardingRule, outcome: Outcome, written: Projection
) -> tuple[Conflict, ...]:
    """Return the axes that a step did not bring to tensors, with the reasons.

    Args:
        strategy: The strategy of the step.
        rule: The rule.
        outcome: The step's outcome.
        written: The shardings by factor as they are once written as shardings of
            dimensions.
    """
    return tuple(_Explainer(strategy, rule, outcome, written).conflicts())


class _Explainer:
    def __init__(
        self, strategy: Strategy, rule: OpShardingRule, outcome: Outcome, written: Projection
    ) -> None:
        before, context = outcome.before, outcome.context
        self._rule = rule
        self._context = context
        self._projection = before
        self._before = before.tensors
        self._after = outcome.after.tensors
        self._written = written.tensors
        self._operand_count = len(before.operands)
        self._aggressive = strategy is propagate_aggressive
        self._order = list(range(len(context.factor_sizes)))
        if self._aggressive:
            self._order = factor_order(before, wanted_axes(before, context), context)

    def conflicts(self) -> Iterator[Conflict]:
        for factor in range(len(self._context.factor_sizes)):
            for index, tensor in enumerate(self._after):
                if factor in tensor.factors:
                    yield from self._conflicts_at(factor, index)

    def _conflicts_at(self, factor: int, index: int) -> Iterator[Conflict]:
        reported: set[AxisRef] = set()
        own = self._after[index].factors[factor].axes
        for source, tensor in enumerate(self._before):
            if source == index or factor not in tensor.factors:
                continue
            axis = _first_missing(own, tensor.factors[factor].axes)
            if axis is not None and axis not in reported:
                reported.add(axis)
                reason, other_tensor, other_factor = self._why(factor, index, source, axis)
                yield Conflict(factor, axis, index, reason, source, other_tensor, other_factor)
        kept = self._written[index].factors.get(factor, FactorSharding()).axes
        axis = _first_missing(kept, own)
        if axis is not None:
            source = self._source_of(factor, index, axis)
            yield Conflict(factor, axis, index, ConflictReason.STRIDED, source, index)

    def _source_of(self, factor: int, index: int, axis: AxisRef) -> int:
        for source, tensor in enumerate(self._before):
            axes = tensor.factors.get(factor, FactorSharding()).axes
            if source != index and any(contains(each, axis) for each in axes):
                return source
        return index

    def _why(self, factor: int, index: int, source: int, axis: AxisRef) -> _Why:
        """Return why ``axis``, which ``source`` has, did not reach the tensor ``index``."""
        if factor in self._rule.blocked_propagation:
            return ConflictReason.BLOCKED, None, None
        if not self._can_go_from(factor, source):
            return ConflictReason.DIRECTION, None, None
        offered = self._axes(source, factor)
        own = self._axes(index, factor)
        if list_prefix(own, offered) is Prefix.NONE:
            return ConflictReason.NOT_TAKEN, index, None
        direction = self._context.directions[factor]
        wanted = compatible_axes(self._projection, factor, direction)
        place = offered.index(axis)
        if place >= len(wanted) or not is_prefix(axis, wanted[place]):
            return (
                ConflictReason.DISAGREEMENT,
                self._disagreeing_tensor(factor, offered, place),
                None,
            )
        if self._aggressive:
            return self._why_aggressive(factor, index, wanted)
        return self._why_basic(factor, wanted)

    def _axes(self, index: int, factor: int) -> Axes:
        sharding = self._before[index].factors.get(factor)
        return () if sharding is None else sharding.axes

    def _can_go_from(self, factor: int, source: int) -> bool:
        direction = self._context.directions[factor]
        forward = source < self._operand_count
        wanted = PropagationDirection.FORWARD if forward else PropagationDirection.BACKWARD
        return direction in (wanted, PropagationDirection.BOTH)

    def _disagreeing_tensor(self, factor: int, offered: Axes, place: int) -> int | None:
        """Return the first tensor with another axis there, or a shorter one before others."""
        for index in range(len(self._before)):
            axes = self._axes(index, factor)
            if list_prefix(axes, offered) is Prefix.NONE and (
                list_prefix(offered[: place + 1], axes) is Prefix.NONE
            ):
                return index
        return None

    # Basic: an axis is stopped for all tensors if one of them cannot have it.

    def _why_basic(self, factor: int, wanted: Axes) -> _Why:
        size = 1
        for axis in wanted:
            for index in range(len(self._before)):
                tensor = self._at_its_turn(index, factor)
                found = self._why_tensor(axis, index, tensor, factor, size)
                if found is not None:
                    return found
            size *= axis.size(self._context.mesh)
        return ConflictReason.NOT_TAKEN, None, None

    def _why_tensor(
        self, axis: AxisRef, index: int, tensor: TensorFactors, factor: int, size: int
    ) -> _Why | None:
        """Return why a tensor stops an axis of a factor, wholly or in part; None if it does not."""
        if self._is_stopped(axis, free_of_other_factors(axis, tensor, factor)):
            return self._why_not_free(axis, index, tensor, factor)
        if factor in tensor.factors:
            return self._why_not_fitting(axis, index, tensor, factor, size)
        return None

    def _is_stopped(self, axis: AxisRef, prefix: AxisRef | None) -> bool:
        if prefix != axis:
            return True
        return self._context.conservative and axis.sub_axis is not None

    def _why_not_free(self, axis: AxisRef, index: int, tensor: TensorFactors, factor: int) -> _Why:
        for other, sharding in tensor.factors.items():
            if other != factor and lists_overlap((axis,), sharding.axes + sharding.overflow_axes):
                return ConflictReason.OTHER_FACTOR, index, other
        return ConflictReason.CONSERVATIVE, index, None

    def _why_not_fitting(
        self, axis: AxisRef, index: int, tensor: TensorFactors, factor: int, size: int
    ) -> _Why | None:
        sharding = tensor.factors[factor]
        if not self._is_stopped(
            axis, fits_factor(axis, tensor, sharding, self._context, factor, size)
        ):
            return None
        if lists_overlap((axis,), tensor.replicated_axes):
            return ConflictReason.REPLICATED, index, None
        if lists_overlap((axis,), tensor.unreduced_axes):
            return ConflictReason.UNREDUCED, index, None
        if sharding.overflow_axes:
            return ConflictReason.OVERFLOW, index, None
        if sharding.is_closed and not any(contains(own, axis) for own in sharding.axes):
            return ConflictReason.CLOSED, index, None
        if self._context.conservative:
            return ConflictReason.CONSERVATIVE, index, None
        return ConflictReason.NOT_DIVISIBLE, index, None

    # Aggressive: each tensor on its own, factor after factor.

    def _why_aggressive(self, factor: int, index: int, wanted: Axes) -> _Why:
        tensor = self._at_its_turn(index, factor)
        size = 1
        for axis in wanted:
            found = self._why_not_fitting(axis, index, tensor, factor, size)
            if found is not None:
                return found
            size *= axis.size(self._context.mesh)
        for axis in wanted:
            if self._is_stopped(axis, free_of_other_factors(axis, tensor, factor)):
                return self._why_not_free(axis, index, tensor, factor)
        return self._why_limited(factor, wanted)

    def _at_its_turn(self, index: int, factor: int) -> TensorFactors:
        """Return the tensor as it was at the factor's turn: after the factors before it."""
        done = self._order[: self._order.index(factor)]
        before, after = self._before[index], self._after[index]
        factors = {
            each: after.factors[each] if each in done else sharding
            for each, sharding in before.factors.items()
        }
        return replace(before, factors=factors)

    def _why_limited(self, factor: int, wanted: Axes) -> _Why:
        for index in range(self._operand_count, len(self._after)):
            sharding = self._after[index].factors.get(factor)
            if sharding is not None and list_prefix(sharding.axes, wanted) is Prefix.STRICT:
                return ConflictReason.RESULT_LIMITS, index, None
        return ConflictReason.NOT_TAKEN, None, None


def _first_missing(own: Axes, offered: Axes) -> AxisRef | None:
    """Return the first axis of ``offered`` that ``own`` lacks, wholly or in part."""
    for axis in offered:
        if not any(contains(each, axis) for each in own):
            return axis
    return None
