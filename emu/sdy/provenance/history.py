"""Histories of shardings, derived from recorded steps: which step brought an axis, and from where.

A step is one visit of an operation by propagation. Comparing shardings before
and after shows what it changed; the rule shows where an axis came from: another
tensor of the operation had the axis, before the step, on a dimension of the
same factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.mlir.ir import Operation, Value
from emu.sdy.dialect import axes as axes_
from emu.sdy.dialect.attributes import AxisRef, DimMapping, TensorMapping, TensorSharding
from emu.sdy.dialect.shardings import shardable_value
from emu.sdy.dialect.walker import FunctionResult
from emu.sdy.propagation.events import Conflict, SeedEvent, StepEvent

ShardingOwner = Value | FunctionResult
"""An owner of a sharding: a value, or a result of a function."""


@dataclass(frozen=True, slots=True)
class Gain:
    """An axis that a step brought to a dimension of a value.

    Attributes:
        step: Number of the step, from 1.
        dim: The dimension that got it.
        axis: The axis.
        factor: The factor of the operation's rule along which it went; None
            where a group or a constraint gave the whole sharding.
        source: The value it came from, if there is one.
        source_dim: The dimension of the source that had it.
    """

    step: int
    dim: int
    axis: AxisRef
    factor: int | None
    source: ShardingOwner | None
    source_dim: int | None


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of the path that an axis took.

    Attributes:
        value: The value (or function's result) that the axis reached.
        dim: The dimension of the value that the axis shards.
        step: Number of the step that brought it, from 1: ``Recorder.steps[step - 1]``; None if it was
            there from the start.
        cause: The cause: an operation's name, "group 3", "given".
        op: The operation of the step.
        factor: The factor along which the axis went.
    """

    value: ShardingOwner
    dim: int
    step: int | None
    cause: str
    op: Operation | None = None
    factor: int | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """An axis that a value did not get, at an operation.

    Attributes:
        dim: The dimension it would have sharded.
        axis: The axis.
        op: The operation that would have brought it.
        kind: Kind of the step, as in ``StepEvent``.
        conflict: The conflict that stopped it.
        step: Number of the last step at which it was stopped, from 1.
        other: The value on which the conflict lies, if there is one.
    """

    dim: int
    axis: AxisRef
    op: Operation
    kind: str
    conflict: Conflict
    step: int
    other: ShardingOwner | None


@dataclass(slots=True)
class ValueHistory:
    """History of one sharding.

    Attributes:
        initial: The sharding when its owner was first seen, before that step.
        final: The sharding after the last step.
        gains: Axes that steps brought, in order.
        rejections: Axes that were not taken, by (dimension, axis, operation).
        causes: Causes of shardings that no step brought.
    """

    initial: TensorSharding | None = None
    final: TensorSharding | None = None
    gains: list[Gain] = field(default_factory=list)
    rejections: dict[tuple[int, AxisRef, Operation], Rejection] = field(default_factory=dict)
    causes: list[str] = field(default_factory=list)


class Recorder:
    """A listener that records all steps and derives histories from them.

    Values that a data-flow edge ties together (the result of a loop, its
    arguments inside) share one sharding, and so one history: that of the edge's
    owner.
    """

    def __init__(self) -> None:
        self.steps: list[StepEvent | SeedEvent] = []
        self.histories: dict[ShardingOwner, ValueHistory] = {}
        self.owners: dict[ShardingOwner, ShardingOwner] = {}

    # The listener, called by propagation

    def step(self, event: StepEvent) -> None:
        """Record a step, its gains and its conflicts."""
        self.steps.append(event)
        number = len(self.steps)
        owners = self.tensor_owners(event)
        for index, owner in enumerate(owners):
            history = self._history(owner, event.before[index])
            history.final = event.after[index]
            if event.before[index] != event.after[index]:
                history.gains += _gains(number, index, owners, event)
        for conflict in event.conflicts:
            self._reject(number, conflict, owners, event)

    def seed(self, event: SeedEvent) -> None:
        """Record a sharding that no step brought."""
        self.steps.append(event)
        number = len(self.steps)
        (owner,) = self.tensor_owners(event)
        known = owner in self.histories
        source = self.owner(event.source) if event.source is not None else None
        history = self._history(owner, event.sharding if source is None else None)
        before, history.final = history.final, event.sharding
        history.causes.append(event.cause)
        if known or source is not None:
            history.gains += [
                Gain(number, dim, axis, None, source, dim if source is not None else None)
                for dim, axis in _new_axes(before, event.sharding)
            ]

    # Queries of explanations

    def owner(self, place: ShardingOwner) -> ShardingOwner:
        """Return the owner of the sharding, and so of the history, of a value."""
        found = self.owners.get(place)
        if found is None:
            found = self.owners[place] = _owner(place)
            self.owners[found] = found
        return found

    def path(
        self, value: ShardingOwner, dim: int, axis: AxisRef, limit: int | None = None
    ) -> list[PathStep]:
        """Return the path on which an axis came to a dimension of a value, origin first.

        Args:
            value: The value.
            dim: The dimension.
            axis: The axis.
            limit: Number of steps, the last ones of the path. Default: all.
        """
        path: list[PathStep] = []
        before = len(self.steps) + 1
        owner: ShardingOwner | None = self.owner(value)
        # Backwards: the number of the gain falls with each turn, so the loop ends.
        while owner is not None and len(path) != limit:
            gain = self.last_gain(owner, dim, axis, before)
            if gain is None:
                path.append(PathStep(owner, dim, None, self.origin(owner)))
                break
            path.append(self._path_step(owner, gain))
            owner, before = gain.source, gain.step
            dim = dim if gain.source_dim is None else gain.source_dim
        return path[::-1]

    def last_gain(self, owner: ShardingOwner, dim: int, axis: AxisRef, before: int) -> Gain | None:
        """Return the last gain of an axis by the owner of a sharding, before a step."""
        history = self.histories.get(owner)
        for gain in reversed(history.gains if history is not None else ()):
            if gain.step < before and gain.dim == dim and axes_.overlaps(gain.axis, axis):
                return gain
        return None

    def _path_step(self, owner: ShardingOwner, gain: Gain) -> PathStep:
        event = self.steps[gain.step - 1]
        if isinstance(event, SeedEvent):
            return PathStep(owner, gain.dim, gain.step, cause_of(event))
        return PathStep(owner, gain.dim, gain.step, cause_of(event), event.op, gain.factor)

    def origin(self, owner: ShardingOwner) -> str:
        """Return why the owner of a sharding has the axes that no step brought."""
        history = self.histories.get(owner)
        return history.causes[0] if history is not None and history.causes else "given"

    def rejections(self, owner: ShardingOwner) -> list[Rejection]:
        """Return the axes that a value did not take and does not have at the end."""
        history = self.histories.get(self.owner(owner))
        if history is None:
            return []
        found = []
        for rejection in history.rejections.values():
            final = history.final
            has = final.dims[rejection.dim].axes if final is not None else ()
            if not any(axes_.contains(own, rejection.axis) for own in has):
                found.append(rejection)
        return found

    def results(self) -> list[FunctionResult]:
        """Return the results of functions that propagation met."""
        return [place for place in self.histories if isinstance(place, FunctionResult)]

    def tensor_owners(self, event: StepEvent | SeedEvent) -> list[ShardingOwner]:
        """Return the owner of the sharding of each tensor of a step, operands first."""
        if isinstance(event, SeedEvent):
            if event.result_index is None:
                return [self.owner(event.value)]
            block = event.value.parent_block
            function = _function(block.parent_op if block is not None else None)
            if function is None:
                return [self.owner(event.value)]
            return [self.owner(FunctionResult(function, event.result_index))]
        if event.result_index is not None:
            result = FunctionResult(event.op, event.result_index)
            return [self.owner(event.operands[0]), self.owner(result)]
        return [self.owner(value) for value in (*event.operands, *event.results)]

    def _history(self, owner: ShardingOwner, sharding: TensorSharding | None) -> ValueHistory:
        history = self.histories.get(owner)
        if history is None:
            history = self.histories[owner] = ValueHistory(sharding, sharding)
        return history

    def _reject(
        self, number: int, conflict: Conflict, owners: list[ShardingOwner], event: StepEvent
    ) -> None:
        mappings = (*event.rule.operands, *event.rule.results)
        dim = _dim_of(mappings[conflict.tensor], conflict.factor)
        if dim is None:
            return
        other = owners[conflict.other_tensor] if conflict.other_tensor is not None else None
        rejection = Rejection(dim, conflict.axis, event.op, event.kind, conflict, number, other)
        history = self._history(owners[conflict.tensor], event.before[conflict.tensor])
        history.rejections[dim, conflict.axis, event.op] = rejection


def cause_of(event: StepEvent | SeedEvent) -> str:
    """Return the cause of a step: an operation's name, or the name of its kind."""
    if isinstance(event, SeedEvent):
        return event.cause
    return event.op.name if event.kind == "op" else _KINDS[event.kind]


_KINDS = {
    "barrier": "propagation barrier",
    "constraint": "sharding constraint",
    "data_flow_edge": "data flow",
    "func_data_flow_edge": "data flow between call and function",
    "func_results": "result of the function",
}


def _owner(owner: ShardingOwner) -> ShardingOwner:
    if isinstance(owner, FunctionResult):
        return owner
    value = shardable_value(owner) or owner
    definer = value.defining_op
    while definer is not None and definer.name in {"sdy.data_flow_edge", "sdy.func_data_flow_edge"}:
        value = definer.operands[0]
        definer = value.defining_op
    return value


def _function(op: Operation | None) -> Operation | None:
    while op is not None and op.name != "func.func":
        op = op.parent_op
    return op


def _new_axes(before: TensorSharding | None, after: TensorSharding) -> list[tuple[int, AxisRef]]:
    found = []
    for dim, sharding in enumerate(after.dims):
        had = before.dims[dim].axes if before is not None else ()
        found += [(dim, axis) for axis in sharding.axes if axis not in had]
    return found


def _gains(number: int, index: int, owners: list[ShardingOwner], event: StepEvent) -> list[Gain]:
    after = event.after[index]
    if after is None:
        return []
    mappings = (*event.rule.operands, *event.rule.results)
    found = []
    for dim, axis in _new_axes(event.before[index], after):
        factors = mappings[index].dims[dim] if dim < len(mappings[index].dims) else DimMapping()
        source = _source(index, axis, factors, mappings, event.before)
        if source is None:
            found.append(Gain(number, dim, axis, None, None, None))
        else:
            tensor, source_dim, factor = source
            found.append(Gain(number, dim, axis, factor, owners[tensor], source_dim))
    return found


def _source(
    index: int,
    axis: AxisRef,
    factors: DimMapping,
    mappings: tuple[TensorMapping, ...],
    before: tuple[TensorSharding | None, ...],
) -> tuple[int, int, int] | None:
    """Return the tensor, dimension and factor from which an axis came.

    A tensor that has the whole axis is preferred to one that has a part.
    """
    for fits in (axes_.contains, axes_.overlaps):
        for factor in factors.factors:
            for tensor, sharding in enumerate(before):
                if tensor == index or sharding is None:
                    continue
                dim = _dim_of(mappings[tensor], factor)
                if dim is not None and any(fits(own, axis) for own in sharding.dims[dim].axes):
                    return tensor, dim, factor
    return None


def _dim_of(mapping: TensorMapping, factor: int) -> int | None:
    return next((d for d, dim in enumerate(mapping.dims) if factor in dim.factors), None)
