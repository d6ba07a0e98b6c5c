"""Events that propagation reports to a listener: steps taken, and axes that were stopped.

Propagation runs the same with and without a listener; without one it spends
no time on events.
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


class ConflictReason(Enum):
    """Reasons why an axis did not reach a tensor along a factor."""

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
class Conflict:
    """An axis that another tensor has and that a step did not bring to a tensor.

    Only the first such axis is reported; without it, the ones after it cannot
    come either. Tensors are numbered operands first, then results.

    Attributes:
        factor: The factor of the rule.
        axis: The axis (or sub-axis) that was stopped, wholly or in part.
        tensor: The tensor that would have got it.
        reason: The reason.
        source: The first tensor that has the axis.
        other_tensor: The tensor on which the conflict lies, if there is one.
        other_factor: The factor that has the axis there, if there is one.
    """

    factor: int
    axis: AxisRef
    tensor: int
    reason: ConflictReason
    source: int
    other_tensor: int | None = None
    other_factor: int | None = None


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One visit of an operation that changed a sharding or met a conflict.

    Attributes:
        op: The operation visited; for "func_results", the function.
        kind: "op", "constraint", "barrier", "data_flow_edge",
            "func_data_flow_edge" or "func_results".
        rule: Its rule.
        operands: The values that the rule calls operands, in its order.
        results: The values that the rule calls results.
        before: Their shardings before, operands first.
        after: Their shardings after.
        directions: For each factor, the direction allowed in this round.
        conflicts: Axes that did not pass.
        round: User priority and op priority of the round.
        result_index: Index of the function's result, for "func_results".
    """

    # Operation and values are those of the module, not copies: a later pass may erase them.
    op: Operation
    kind: str
    rule: OpShardingRule
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    before: tuple[TensorSharding | None, ...]
    after: tuple[TensorSharding | None, ...]
    directions: tuple[PropagationDirection, ...]
    conflicts: tuple[Conflict, ...]
    round: tuple[int, int]
    result_index: int | None = None


@dataclass(frozen=True, slots=True)
class SeedEvent:
    """A sharding of a value that no step brought to it.

    All members of a sharding group change with the one that a step changes, and
    so do all targets of a data-flow edge: their events follow that of the step.

    Attributes:
        value: The value.
        sharding: Its sharding now.
        cause: "given" for a sharding of the module; "group 3" for one that a
            member of that sharding group has; "data-flow edge" for one that
            another target of the edge has; "manual axes" for the step's own
            with (or without) the manual axes; "priority 2" when the turn of
            that priority begins (at priority 0, dimensions of other priorities
            are hidden).
        source: The value from which it comes, if there is one.
        result_index: Index of the function's result, if it is the sharding of
            one; ``value`` is then the value that the function returns there.
    """

    value: Value
    sharding: TensorSharding
    cause: str
    source: Value | None = None
    result_index: int | None = None


class Listener(Protocol):
    """A receiver of events."""

    def step(self, event: StepEvent) -> None:
        """Receive a visit that changed a sharding or met a conflict."""

    def seed(self, event: SeedEvent) -> None:
        """Receive a sharding that no step brought."""
