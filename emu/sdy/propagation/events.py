"""What propagation tells a listener: steps taken, and axes that were cut.

Propagation runs the same with and without a listener; without one it spends
nothing on telling.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emu.sdy.dialect.attributes import (
        AxisRef,
        OpShardingRule,
        PropagationDirection,
        TensorSharding,
    )
    from emu.sdy.mlir.ir import Operation, Value

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


@dataclass(frozen=True, slots=True)
class Cut:
    """An axis that a step did not bring to a tensor.

    Tensors are counted operands first, then results.

    Attributes:
        factor: The factor of the rule.
        axis: The axis (or sub-axis) that was cut.
        tensor: The tensor that would have got it, or None for all of them.
        reason: Why.
        other_tensor: The tensor on which the conflict lies, if one does.
        other_factor: The factor that has the axis there, if one does.
    """

    factor: int
    axis: AxisRef
    tensor: int | None
    reason: CutReason
    other_tensor: int | None = None
    other_factor: int | None = None


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One visit of an operation, whether or not it changed a sharding.

    Attributes:
        op: The operation visited.
        kind: "op", "data_flow_edge", "barrier", "func_results" or "constraint".
        rule: Its rule.
        operands: The values that the rule calls operands, in its order.
        results: The values that the rule calls results.
        before: Their shardings before, operands first.
        after: Their shardings after.
        directions: By factor: the direction allowed in this round.
        cuts: What did not pass.
        round: Which round it is: user priority and op priority.
    """

    op: Operation
    kind: str
    rule: OpShardingRule
    operands: tuple[Value | None, ...]
    results: tuple[Value | None, ...]
    before: tuple[TensorSharding | None, ...]
    after: tuple[TensorSharding | None, ...]
    directions: tuple[PropagationDirection, ...]
    cuts: tuple[Cut, ...]
    round: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SeedEvent:
    """A value got a sharding otherwise: from the text, a group, a constraint.

    Attributes:
        value: The value.
        sharding: What it has now.
        cause: "input", "constraint", "group 3", "manual computation" …
        source: The value from which it comes, if one does.
    """

    value: Value
    sharding: TensorSharding
    cause: str
    source: Value | None = None


class Listener(Protocol):
    """Who wants to be told."""

    def step(self, event: StepEvent) -> None:
        """A visit."""

    def seed(self, event: SeedEvent) -> None:
        """A sharding that no step brought."""
