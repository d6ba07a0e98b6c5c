"""What propagation tells a listener: steps taken, and axes that were cut.

Propagation runs the same with and without a listener; without one it spends
nothing on telling.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emu.mlir.ir import Operation, Value
    from emu.sdy.dialect.attributes import (
        AxisRef,
        OpShardingRule,
        PropagationDirection,
        TensorSharding,
    )

__all__ = ["Cut", "CutReason", "Listener", "SeedEvent", "StepEvent"]


class CutReason(Enum):
    """Why an axis did not reach a tensor along a factor."""

    OTHER_FACTOR = "the axis (or a part of it) shards another factor of a tensor"
    REPLICATED = "the tensor says that it stays replicated along the axis"
    UNREDUCED = "the tensor is unreduced along the axis"
    CLOSED = "the dimension is closed"
    OVERFLOW = "the factor has axes that do not divide it"
    NOT_DIVISIBLE = "the axis does not divide what is left of the factor"
    DISAGREEMENT = "two tensors bring different axes for the factor"
    DIRECTION = "the direction is not allowed for this operation now"
    CONSERVATIVE = "sub-axes are not allowed in conservative propagation"
    BLOCKED = "the rule blocks propagation along the factor"
    NOT_TAKEN = "the tensor's own axes of the factor are not a prefix"
    RESULT_LIMITS = "a result stays shorter, so operands do not shard each other"
    STRIDED = "the factor before it in the dimension is not cut up, so shards would be strided"


@dataclass(frozen=True, slots=True)
class Cut:
    """An axis that another tensor has and that a step did not bring to a tensor.

    Only the first such axis is told; without it, those behind it cannot come.
    Tensors are counted operands first, then results.

    Attributes:
        factor: The factor of the rule.
        axis: The axis (or sub-axis) that was cut, or of which a part was.
        tensor: The tensor that would have got it.
        reason: Why.
        source: The first tensor that has the axis.
        other_tensor: The tensor on which the conflict lies, if one does.
        other_factor: The factor that has the axis there, if one does.
    """

    factor: int
    axis: AxisRef
    tensor: int
    reason: CutReason
    source: int
    other_tensor: int | None = None
    other_factor: int | None = None


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One visit of an operation that changed a sharding, or brought an axis no further.

    Attributes:
        op: The operation visited; for "func_results", the function.
        kind: "op", "constraint", "barrier", "data_flow_edge",
            "func_data_flow_edge" or "func_results".
        rule: Its rule.
        operands: The values that the rule calls operands, in its order.
        results: The values that the rule calls results.
        before: Their shardings before, operands first.
        after: Their shardings after.
        directions: By factor: the direction allowed in this round.
        cuts: What did not pass.
        round: Which round it is: user priority and op priority.
        result_index: Which result of the function, for "func_results".
    """

    op: Operation
    kind: str
    rule: OpShardingRule
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    before: tuple[TensorSharding | None, ...]
    after: tuple[TensorSharding | None, ...]
    directions: tuple[PropagationDirection, ...]
    cuts: tuple[Cut, ...]
    round: tuple[int, int]
    result_index: int | None = None


@dataclass(frozen=True, slots=True)
class SeedEvent:
    """A value has a sharding that no step brought to it.

    All members of a sharding group change with the one that a step changes, and
    so do all targets of a data-flow edge: such events follow that of the step.

    Attributes:
        value: The value.
        sharding: What it has now.
        cause: "given" in the module; "group 3", as a member of that sharding
            group has it; "data-flow edge", as another target of the edge has
            it; "manual axes", as the step had it but with (or without) the
            manual axes; "priority 2", the turn of which it is now (at the turn
            of 0, dimensions of other priorities are hidden).
        source: The value from which it comes, if one does.
        result_index: If it is the sharding of a function's result: which one;
            ``value`` is what the function returns there.
    """

    value: Value
    sharding: TensorSharding
    cause: str
    source: Value | None = None
    result_index: int | None = None


class Listener(Protocol):
    """Who wants to be told."""

    def step(self, event: StepEvent) -> None:
        """A visit that changed something, or met a conflict."""

    def seed(self, event: SeedEvent) -> None:
        """A sharding that no step brought."""
