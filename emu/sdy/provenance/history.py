"""From recorded steps to histories: which step brought an axis, and from where.

A step is one visit of an operation by propagation. What it changed is read by
comparing shardings before and after; where an axis came from is read from the
rule: another tensor of the operation had the axis, before the step, on a
dimension of the same factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.mlir.ir import Operation, Value
from emu.sdy.dialect import axes as axes_
from emu.sdy.dialect.attributes import AxisRef, DimMapping, TensorMapping, TensorSharding
from emu.sdy.dialect.shardings import shardable_value
from emu.sdy.dialect.walker import FunctionResult
from emu.sdy.propagation.events import Cut, SeedEvent, StepEvent

__all__ = ["Gain", "Holder", "Link", "Recorder", "Rejection", "what"]

Holder = Value | FunctionResult
"""What has a sharding: a value, or a result of a function."""


@dataclass(frozen=True, slots=True)
class Gain:
    """An axis that a step brought to a dimension of a value.

    Attributes:
        step: The number of the step.
        dim: The dimension that got it.
        axis: The axis.
        factor: The factor of the operation's rule along which it went; None
            where a group or a constraint gave the whole sharding.
        source: The value that had it, if one did.
        source_dim: On which dimension.
    """

    step: int
    dim: int
    axis: AxisRef
    factor: int | None
    source: Holder | None
    source_dim: int | None


@dataclass(frozen=True, slots=True)
class Link:
    """One place of the way that an axis took.

    Attributes:
        value: The value (or function's result) that has the axis here.
        dim: On which dimension.
        step: The step that brought it; None: it had it from the start.
        cause: What did: an operation's name, "group 3", "given".
        op: The operation of the step.
        factor: The factor along which it went.
    """

    value: Holder
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
        kind: What kind of step it was.
        cut: Why it did not.
        step: The last step at which it was cut.
        other: On which value the conflict lies, if there is one.
    """

    dim: int
    axis: AxisRef
    op: Operation
    kind: str
    cut: Cut
    step: int
    other: Holder | None


@dataclass(slots=True)
class ValueHistory:
    """What happened to a value.

    Attributes:
        initial: Its sharding when it was first seen, before that step.
        final: Its sharding after the last step.
        gains: What steps brought it, in order.
        cuts: What it was refused, by (dimension, axis, operation).
        causes: Causes of what no step brought.
    """

    initial: TensorSharding | None = None
    final: TensorSharding | None = None
    gains: list[Gain] = field(default_factory=list)
    cuts: dict[tuple[int, AxisRef, Operation], Rejection] = field(default_factory=dict)
    causes: list[str] = field(default_factory=list)


class Recorder:
    """A listener that keeps all steps and reads histories from them.

    What a data-flow edge ties together (the result of a loop, its arguments
    inside) has one sharding, and so one history: that of the edge's owner.
    """

    def __init__(self) -> None:
        self.steps: list[StepEvent | SeedEvent] = []
        self.histories: dict[Holder, ValueHistory] = {}
        self.homes: dict[Holder, Holder] = {}

    # What propagation calls

    def step(self, event: StepEvent) -> None:
        """Keep a step, its gains and its cuts."""
        number = len(self.steps)
        self.steps.append(event)
        holders = self.holders(event)
        for index, holder in enumerate(holders):
            history = self._history(holder, event.before[index])
            history.final = event.after[index]
            if event.before[index] != event.after[index]:
                history.gains += _gains(number, index, holders, event)
        for cut in event.cuts:
            self._cut(number, cut, holders, event)

    def seed(self, event: SeedEvent) -> None:
        """Keep a sharding that no step brought."""
        number = len(self.steps)
        self.steps.append(event)
        (holder,) = self.holders(event)
        known = holder in self.histories
        source = self.home(event.source) if event.source is not None else None
        history = self._history(holder, event.sharding if source is None else None)
        before, history.final = history.final, event.sharding
        history.causes.append(event.cause)
        if known or source is not None:
            history.gains += [
                Gain(number, dim, axis, None, source, dim if source is not None else None)
                for dim, axis in _new_axes(before, event.sharding)
            ]

    # What explanations ask

    def home(self, holder: Holder) -> Holder:
        """The holder that has the history of a value."""
        found = self.homes.get(holder)
        if found is None:
            found = self.homes[holder] = _home(holder)
            self.homes[found] = found
        return found

    def way(self, holder: Holder, dim: int, axis: AxisRef, most: int | None = None) -> list[Link]:
        """How an axis came to a dimension of a value, from its origin on.

        Args:
            holder: The value.
            dim: The dimension.
            axis: The axis.
            most: How many places; the last ones. Default: all.
        """
        links: list[Link] = []
        before = len(self.steps)
        place: Holder | None = self.home(holder)
        while place is not None and len(links) != most:
            gain = self._gain(place, dim, axis, before)
            if gain is None:
                links.append(Link(place, dim, None, self._origin(place)))
                break
            links.append(self._link(place, gain))
            place, before = gain.source, gain.step
            dim = dim if gain.source_dim is None else gain.source_dim
        return links[::-1]

    def _gain(self, holder: Holder, dim: int, axis: AxisRef, before: int) -> Gain | None:
        history = self.histories.get(holder)
        for gain in reversed(history.gains if history is not None else ()):
            if gain.step < before and gain.dim == dim and axes_.overlaps(gain.axis, axis):
                return gain
        return None

    def _link(self, holder: Holder, gain: Gain) -> Link:
        event = self.steps[gain.step]
        if isinstance(event, SeedEvent):
            return Link(holder, gain.dim, gain.step, what(event))
        return Link(holder, gain.dim, gain.step, what(event), event.op, gain.factor)

    def _origin(self, holder: Holder) -> str:
        history = self.histories.get(holder)
        return history.causes[0] if history is not None and history.causes else "given"

    def rejections(self, holder: Holder) -> list[Rejection]:
        """The axes that a value was refused and does not have at the end."""
        history = self.histories.get(self.home(holder))
        if history is None:
            return []
        found = []
        for rejection in history.cuts.values():
            final = history.final
            has = final.dims[rejection.dim].axes if final is not None else ()
            if not any(axes_.contains(own, rejection.axis) for own in has):
                found.append(rejection)
        return found

    def results(self) -> list[FunctionResult]:
        """The results of functions that propagation met."""
        return [place for place in self.histories if isinstance(place, FunctionResult)]

    def holders(self, event: StepEvent | SeedEvent) -> list[Holder]:
        """Who holds the sharding of each tensor of a step, operands first."""
        if isinstance(event, SeedEvent):
            if event.result_index is None:
                return [self.home(event.value)]
            block = event.value.parent_block
            function = _function(block.parent_op if block is not None else None)
            if function is None:
                return [self.home(event.value)]
            return [self.home(FunctionResult(function, event.result_index))]
        if event.result_index is not None:
            result = FunctionResult(event.op, event.result_index)
            return [self.home(event.operands[0]), self.home(result)]
        return [self.home(value) for value in (*event.operands, *event.results)]

    def _history(self, holder: Holder, sharding: TensorSharding | None) -> ValueHistory:
        history = self.histories.get(holder)
        if history is None:
            history = self.histories[holder] = ValueHistory(sharding, sharding)
        return history

    def _cut(self, number: int, cut: Cut, holders: list[Holder], event: StepEvent) -> None:
        mappings = (*event.rule.operands, *event.rule.results)
        dim = _dim_of(mappings[cut.tensor], cut.factor)
        if dim is None:
            return
        other = holders[cut.other_tensor] if cut.other_tensor is not None else None
        rejection = Rejection(dim, cut.axis, event.op, event.kind, cut, number, other)
        history = self._history(holders[cut.tensor], event.before[cut.tensor])
        history.cuts[dim, cut.axis, event.op] = rejection


def what(event: StepEvent | SeedEvent) -> str:
    """What happened at a step: an operation's name, or what stands for one."""
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


def _home(holder: Holder) -> Holder:
    if isinstance(holder, FunctionResult):
        return holder
    value = shardable_value(holder) or holder
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


def _gains(number: int, index: int, holders: list[Holder], event: StepEvent) -> list[Gain]:
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
            found.append(Gain(number, dim, axis, factor, holders[tensor], source_dim))
    return found


def _source(
    index: int,
    axis: AxisRef,
    factors: DimMapping,
    mappings: tuple[TensorMapping, ...],
    before: tuple[TensorSharding | None, ...],
) -> tuple[int, int, int] | None:
    """The tensor, dimension and factor from which an axis came.

    A tensor that has the whole axis comes before one that has a part.
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
