"""Walks over every sharding of a module, in order, with the place where it is stored.

A sharding is stored on a function's argument or result, in the in- and
out-shardings of a manual or named computation, in the attribute of any other
operation, or in a property of operations like ``sdy.sharding_constraint``.
Passes that read or change all shardings use this module. Outer operations come
before inner ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emu.mlir.attributes import ArrayAttr, Attribute, DictAttr
from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.attributes import TensorSharding, TensorShardingPerValue, shared_per_value
from emu.sdy.dialect.dataflow import is_data_flow_op
from emu.sdy.dialect.functions import func_result_sharding, set_func_result_sharding
from emu.sdy.dialect.names import SHARDING
from emu.sdy.dialect.shardings import get_sharding, get_shardings, set_sharding, set_shardings


@dataclass(frozen=True, slots=True)
class FunctionResult:
    """A result of a function: a place for a sharding that is not a value."""

    function: Operation
    index: int


Place = Value | FunctionResult | None
"""The sharded value or result; None for an operation without results on one device."""

Transform = Callable[[TensorSharding, Place], TensorSharding]
Visit = Callable[[Operation], None]


def walk_shardings(
    root: Operation, consume: Callable[[TensorSharding, Place], None], visit: Visit | None = None
) -> None:
    """Call ``consume(sharding, place)`` for every sharding in ``root``.

    Args:
        root: The operation to start with, often a module.
        consume: Called with each sharding and its place.
        visit: Called with each operation, before its shardings.
    """

    def keep(sharding: TensorSharding, place: Place) -> TensorSharding:
        consume(sharding, place)
        return sharding

    for op in root.walk():
        if visit is not None:
            visit(op)
        _process(op, keep, change=False)


def transform_shardings(root: Operation, transform: Transform) -> None:
    """Replace every sharding in ``root`` by ``transform(sharding, place)``.

    Args:
        root: The operation to start with, often a module.
        transform: Returns the new sharding, which may be the old one.
    """
    for op in root.walk():
        _process(op, transform, change=True)


def transform_shardings_of(
    op: Operation, transform: Callable[[TensorSharding], TensorSharding]
) -> None:
    """Replace every sharding of one operation, and of none inside of it."""
    _process(op, lambda sharding, _: transform(sharding), change=True)


def transform_sharding(
    place: Value | FunctionResult, transform: Callable[[TensorSharding], TensorSharding]
) -> None:
    """Replace the sharding at one place, if there is one."""
    if isinstance(place, FunctionResult):
        old = func_result_sharding(place.function, place.index)
        if old is not None and (new := transform(old)) != old:
            set_func_result_sharding(place.function, place.index, new)
    else:
        old = get_sharding(place)
        if old is not None and (new := transform(old)) != old:
            set_sharding(place, new)


def _process(op: Operation, transform: Transform, *, change: bool) -> None:
    if op.name == "func.func":
        _process_function(op, transform, change=change)
    elif op.name in ("sdy.manual_computation", "sdy.named_computation"):
        arguments, results = op.body().arguments, op.results
        _process_property(op, "in_shardings", arguments, transform, change=change)
        _process_property(op, "out_shardings", results, transform, change=change)
    elif len(op.results) == 1 and not is_data_flow_op(op):
        result = op.results[0]
        old = get_sharding(result)
        if old is not None:
            new = transform(old, result)
            if change and new != old:
                set_sharding(result, new)
    elif SHARDING in op.attributes:
        shardings = get_shardings(op)
        if shardings:
            new_list = _transformed(shardings, op.results, transform)
            if change:
                set_shardings(op, new_list)


def _process_property(
    op: Operation, name: str, values: Sequence[Value], transform: Transform, *, change: bool
) -> None:
    old = op.properties.get(name)
    if isinstance(old, TensorShardingPerValue) and old.shardings:
        new = shared_per_value(tuple(_transformed(old.shardings, values, transform)))
        if change:
            op.properties[name] = new


def _transformed(
    shardings: Sequence[TensorSharding | None], values: Sequence[Value], transform: Transform
) -> list[TensorSharding]:
    # An operation without results may still have a sharding on one device.
    places: Sequence[Place] = values or [None]
    return [
        transform(sharding, place)
        for sharding, place in zip(shardings, places, strict=True)
        if sharding is not None
    ]


def _process_function(function: Operation, transform: Transform, *, change: bool) -> None:
    blocks = function.regions[0].blocks
    arguments: Sequence[Place] = blocks[0].arguments if blocks else []
    for name in ("arg_attrs", "res_attrs"):
        old = function.properties.get(name)
        if not isinstance(old, ArrayAttr):
            continue
        new: list[Attribute] = []
        for index, entry in enumerate(old.elements):
            place: Place = FunctionResult(function, index)
            if name == "arg_attrs":
                place = arguments[index] if arguments else None
            sharding = entry.get(SHARDING) if isinstance(entry, DictAttr) else None
            if isinstance(entry, DictAttr) and isinstance(sharding, TensorSharding):
                entries = entry.as_dict()
                entries[SHARDING] = transform(sharding, place)
                new.append(DictAttr.of(entries))
            else:
                new.append(entry)
        if change and tuple(new) != old.elements:
            function.properties[name] = ArrayAttr(tuple(new))
