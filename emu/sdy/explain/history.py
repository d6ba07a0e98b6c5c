"""From recorded steps to histories: which step brought an axis, and from where.

A step is one visit of an operation by propagation. What it changed is read by
comparing shardings before and after; where an axis came from is read from the
rule: another tensor of the operation had the axis, before the step, on a
dimension of the same factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.sdy.dialect import axes as axes_
from emu.sdy.dialect.attributes import AxisRef, DimMapping, TensorMapping, TensorSharding
from emu.sdy.mlir.ir import Operation, Value
from emu.sdy.propagation.events import Cut, SeedEvent, StepEvent

__all__ = ["Gain", "Link", "Recorder", "Rejection"]


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
    source: Value | None
    source_dim: int | None


@dataclass(frozen=True, slots=True)
class Link:
    """One place of the way that an axis took.

    Attributes:
        value: The value that has the axis here.
        dim: On which dimension.
        step: The step that brought it; None: it had it from the start.
        cause: What did: an operation's name, "group 3", "given".
        op: The operation of the step.
        factor: The factor along which it went.
    """

    value: Value
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
        cut: Why it did not.
        step: The last step at which it was cut.
        other: The value on which the conflict lies, if there is one.
    """

    dim: int
    axis: AxisRef
    op: Operation
    cut: Cut
    step: int
    other: Value | None


@dataclass(slots=True)
class ValueHistory:
    """What happened to a value.

    Attributes:
        initial: Its sharding when it was first seen, before that step.
        final: Its sharding after the last step.
        gains: What steps brought it, in order.
        cuts: What it was refused, by (dimension, axis, operation).
        seeds: Causes of what no step brought.
    """

    initial: TensorSharding | None = None
    final: TensorSharding | None = None
    gains: list[Gain] = field(default_factory=list)
    cuts: dict[tuple[int, AxisRef, Operation], Rejection] = field(default_factory=dict)
    seeds: list[str] = field(default_factory=list)


class Recorder:
    """A listener that keeps all steps and reads histories from them."""

    def __init__(self) -> None:
        self.steps: list[StepEvent | SeedEvent] = []
        self.values: dict[Value, ValueHistory] = {}

    # What propagation calls

    def step(self, event: StepEvent) -> None:
        """Keep a step, its gains and its cuts."""
        number = len(self.steps)
        self.steps.append(event)
        tensors = (*event.operands, *event.results)
        for index, value in enumerate(tensors):
            if value is None:
                continue
            history = self._history(value, event.before[index])
            history.final = event.after[index]
            if event.before[index] != event.after[index]:
                history.gains += _gains(number, index, event)
        for cut in event.cuts:
            self._cut(number, cut, event)

    def seed(self, event: SeedEvent) -> None:
        """Keep a sharding that no step brought."""
        number = len(self.steps)
        self.steps.append(event)
        known = event.value in self.values
        history = self._history(event.value, None if event.source is not None else event.sharding)
        before, history.final = history.final if known else None, event.sharding
        history.seeds.append(event.cause)
        if event.source is None:
            return
        for dim, axis in _new_axes(before, event.sharding):
            history.gains.append(Gain(number, dim, axis, None, event.source, dim))

    # What explanations ask

    def way(self, value: Value, dim: int, axis: AxisRef) -> list[Link]:
        """How an axis came to a dimension of a value, from its origin on."""
        links: list[Link] = []
        before = len(self.steps)
        seen: set[tuple[Value, int]] = set()
        place: Value | None = value
        while place is not None and (place, dim) not in seen:
            seen.add((place, dim))
            gain = self._gain(place, dim, axis, before)
            if gain is None:
                links.append(Link(place, dim, None, self._origin(place)))
                break
            links.append(self._link(place, gain))
            place, before = gain.source, gain.step
            dim = dim if gain.source_dim is None else gain.source_dim
        return links[::-1]

    def _gain(self, value: Value, dim: int, axis: AxisRef, before: int) -> Gain | None:
        history = self.values.get(value)
        for gain in reversed(history.gains if history is not None else ()):
            if gain.step < before and gain.dim == dim and axes_.overlaps(gain.axis, axis):
                return gain
        return None

    def _link(self, value: Value, gain: Gain) -> Link:
        event = self.steps[gain.step]
        if isinstance(event, SeedEvent):
            return Link(value, gain.dim, gain.step, event.cause)
        cause = event.op.name if event.kind == "op" else event.kind.replace("_", " ")
        return Link(value, gain.dim, gain.step, cause, event.op, gain.factor)

    def _origin(self, value: Value) -> str:
        history = self.values.get(value)
        return history.seeds[0] if history is not None and history.seeds else "given"

    def rejections(self, value: Value) -> list[Rejection]:
        """The axes that a value was refused and does not have at the end."""
        history = self.values.get(value)
        if history is None:
            return []
        found = []
        for rejection in history.cuts.values():
            final = history.final
            has = final.dims[rejection.dim].axes if final is not None else ()
            if not any(axes_.contains(own, rejection.axis) for own in has):
                found.append(rejection)
        return found

    def _history(self, value: Value, sharding: TensorSharding | None) -> ValueHistory:
        history = self.values.get(value)
        if history is None:
            history = self.values[value] = ValueHistory(sharding, sharding)
        return history

    def _cut(self, number: int, cut: Cut, event: StepEvent) -> None:
        tensors = (*event.operands, *event.results)
        mappings = (*event.rule.operands, *event.rule.results)
        for index, value in enumerate(tensors):
            if value is None or cut.tensor not in {None, index}:
                continue
            dim = _dim_of(mappings[index], cut.factor)
            if dim is None:
                continue
            other = tensors[cut.other_tensor] if cut.other_tensor is not None else None
            rejection = Rejection(dim, cut.axis, event.op, cut, number, other)
            history = self._history(value, event.before[index])
            history.cuts[dim, cut.axis, event.op] = rejection


def _new_axes(before: TensorSharding | None, after: TensorSharding) -> list[tuple[int, AxisRef]]:
    found = []
    for dim, sharding in enumerate(after.dims):
        had = before.dims[dim].axes if before is not None else ()
        found += [(dim, axis) for axis in sharding.axes if axis not in had]
    return found


def _gains(number: int, index: int, event: StepEvent) -> list[Gain]:
    after = event.after[index]
    if after is None:
        return []
    tensors = (*event.operands, *event.results)
    mappings = (*event.rule.operands, *event.rule.results)
    found = []
    for dim, axis in _new_axes(event.before[index], after):
        factors = mappings[index].dims[dim] if dim < len(mappings[index].dims) else DimMapping()
        source = _source(index, axis, factors, mappings, event.before)
        if source is None:
            found.append(Gain(number, dim, axis, None, None, None))
        else:
            tensor, source_dim, factor = source
            found.append(Gain(number, dim, axis, factor, tensors[tensor], source_dim))
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
