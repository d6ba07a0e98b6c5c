"""What causes each collective: the operation, its source line, and the steps that brought the axes.

Before types become local, collectives are those of the sdy dialect, and every value has its sharding.
There the causes are found, and each operation gets a mark around its location. Whatever the last passes
make of it carries the mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from emu.mlir.diagnostics import CallSiteLoc, FusedLoc, Location, NameLoc
from emu.mlir.ir import Operation, OpResult, Value
from emu.sdy.costs.data import AxisSource
from emu.sdy.dialect import axes as axes_
from emu.sdy.dialect.attributes import (
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    ListOfAxisRefLists,
    TensorSharding,
)
from emu.sdy.dialect.meshes import find_mesh
from emu.sdy.dialect.names import COLLECTIVES
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.dialect.walker import FunctionResult
from emu.sdy.provenance.history import Recorder, ShardingOwner
from emu.sdy.provenance.names import ValueName, function_of, line_of, location_name, name_of

_MARK = "\0made by "
_REDUCING = {"sdy.all_reduce", "sdy.reduce_scatter"}
_CONSTRAINTS = {"sdy.sharding_constraint", "sdy.reshard"}
_PADDING = {"stablehlo.pad", "stablehlo.slice"}


@dataclass(frozen=True)
class Cause:
    """What an operation of the program of one device is made for.

    Attributes:
        operation: Name of the operation that causes it.
        value: The value that is combined or moved; may be empty.
        place: Source line of the operation.
        function: Function that it is in.
        axes: Axes that the sdy collective names; none for other operations.
        size: Number of devices that differ along them.
        sources: How these axes came to the values of the operation.
    """

    operation: str
    value: str
    place: str
    function: str
    axes: tuple[AxisRef, ...] = ()
    size: int = 1
    sources: tuple[AxisSource, ...] = ()


def mark_operations(module: Operation) -> dict[int, Operation]:
    """Mark every operation by a number; return them."""
    found = dict(enumerate(module.walk()))
    for number, op in found.items():
        op.location = NameLoc(f"{_MARK}{number}", op.location)
    return found


def mark_of(location: Location) -> int | None:
    """Return the number of the operation that one with this location is made from."""
    if isinstance(location, NameLoc):
        if location.name.startswith(_MARK):
            return int(location.name.removeprefix(_MARK))
        return mark_of(location.child)
    if isinstance(location, CallSiteLoc):
        found = mark_of(location.callee)
        return mark_of(location.caller) if found is None else found
    if isinstance(location, FusedLoc):
        return next((n for n in map(mark_of, location.locations) if n is not None), None)
    return None


class Causes:
    """Finds the causes of collectives in a module that was propagated and has explicit collectives.

    Args:
        recorder: The steps of propagation.
        originals: Operations of the module as it was given, by the names of their values.
    """

    def __init__(self, recorder: Recorder, originals: Mapping[ValueName, Operation]) -> None:
        self._recorder = recorder
        self._originals = originals
        self._owners: dict[ValueName, list[Value]] = {}
        for owner in recorder.owners:
            name = name_of(owner) if isinstance(owner, Value) else None
            if isinstance(owner, Value) and name is not None:
                self._owners.setdefault(name, []).append(owner)

    def of(self, op: Operation) -> Cause:
        """Return the cause of an operation."""
        if op.name not in COLLECTIVES:
            return Cause(op.name, _value_text(op), line_of(op.location), function_of(op))
        value = _behind_collectives(op)
        producer = value.defining_op
        axes = _axes(op)
        constraint = self._constraint(op)
        if constraint is not None:
            cause, shown = constraint, constraint.name
        elif op.name in _REDUCING and producer is not None:
            cause, shown = producer, producer.name
        else:
            cause = _consumer(op)
            shown = "result" if cause.name.endswith(".return") else cause.name
        operands = list(producer.operands) if op.name in _REDUCING and producer is not None else []
        sources = tuple(
            source
            for axis in axes
            for source in [self._source(axis, operands if operands else [value])]
            if source is not None
        )
        name = name_of(value)
        return Cause(
            shown,
            "" if name is None else str(name),
            line_of(cause.location),
            function_of(op),
            axes,
            _size(op, axes),
            sources,
        )

    def _constraint(self, op: Operation) -> Operation | None:
        """Return the constraint, or the reshard, of the given module that a collective is made from."""
        name = location_name(op.location)
        original = self._originals.get(name) if name is not None else None
        return original if original is not None and original.name in _CONSTRAINTS else None

    def _source(self, axis: AxisRef, values: Iterable[Value]) -> AxisSource | None:
        """Return how an axis came to the first value that has it."""
        for value in values:
            sharding = get_sharding(value)
            dim = _dim_with(sharding, axis)
            if dim is None:
                continue
            name = name_of(value)
            for owner in self._owners.get(name, []) if name is not None else []:
                found = self._step(owner, axis, str(name))
                if found is not None:
                    return found
            if name is not None:
                where = "put there by a reshard after propagation"
                return AxisSource(axis.stripped_text(), str(name), dim, None, where, "", "")
        return None

    def _step(self, owner: Value, axis: AxisRef, name: str) -> AxisSource | None:
        history = self._recorder.histories.get(self._recorder.owner(owner))
        dim = _dim_with(history.final if history is not None else None, axis)
        if dim is None:
            return None
        path = self._recorder.path(owner, dim, axis)
        first, last = path[0], path[-1]
        origin = f"{owner_text(first.value)} dim {first.dim}: {first.cause}"
        place = line_of(last.op.location) if last.op is not None else ""
        text = axis.stripped_text()
        return AxisSource(text, name, dim, last.step, last.cause, place, origin)


def owner_text(owner: ShardingOwner) -> str:
    """Return the name of a value, or of a function's result."""
    if isinstance(owner, FunctionResult):
        return f"result#{owner.index} in @{owner.function.symbol_name}"
    name = name_of(owner)
    return "a value that passes made" if name is None else str(name)


def _axes(op: Operation) -> tuple[AxisRef, ...]:
    """Return the axes along which an sdy collective works."""
    attribute = COLLECTIVES[op.name]
    found = op.properties.get(attribute) if attribute is not None else None
    if isinstance(found, AxisRefList):
        return found.axes
    if isinstance(found, ListOfAxisRefLists):
        return tuple(axis for axes in found.lists for axis in axes)
    if isinstance(found, AllToAllParamList):
        return tuple(axis for param in found.params for axis in param.axes)
    if op.name == "sdy.collective_permute":
        return tuple(_moved_axes(op))
    return ()


def _size(op: Operation, axes: Iterable[AxisRef]) -> int:
    sharding = op.properties.get("out_sharding")
    mesh = find_mesh(op, sharding.mesh) if isinstance(sharding, TensorSharding) else None
    return axes_.total_size(axes, mesh) if mesh is not None else 1


def _moved_axes(op: Operation) -> Iterator[AxisRef]:
    """Yield the axes that a permutation takes from a dimension; all, where it turns shards around."""
    before, after = get_sharding(op.operands[0]), op.properties.get("out_sharding")
    if before is None or not isinstance(after, TensorSharding):
        return
    turned = before.dims == after.dims
    for old, new in zip(before.dims, after.dims, strict=True):
        yield from (axis for axis in old.axes if turned or axis not in new.axes)


def _is_passing_on(op: Operation, collective: Operation) -> bool:
    """Return whether an operation only brings a value to a collective, or away from it.

    Padding of uneven shards, and the slices that drop it, have the location of their collective.
    """
    if op.name in COLLECTIVES or op.name == "sdy.reshard":
        return True
    name = location_name(op.location)
    return op.name in _PADDING and name is not None and name == location_name(collective.location)


def _behind_collectives(op: Operation) -> Value:
    """Return the value that a chain of sdy collectives starts with."""
    value = op.operands[0]
    while isinstance(value, OpResult) and _is_passing_on(value.owner, op):
        value = value.owner.operands[0]
    return value


def _consumer(op: Operation) -> Operation:
    """Return the first operation that uses the result of a collective, behind other collectives."""
    collective = op
    while True:
        users = op.result.users
        if not users:
            return op
        op = users[-1]
        if not _is_passing_on(op, collective):
            return op


def _dim_with(sharding: TensorSharding | None, axis: AxisRef) -> int | None:
    dims = sharding.dims if sharding is not None else ()
    for dim, each in enumerate(dims):
        if any(axes_.overlaps(own, axis) for own in each.axes):
            return dim
    return None


def _value_text(op: Operation) -> str:
    name = name_of(op.operands[0]) if op.operands else None
    return "" if name is None else str(name)
