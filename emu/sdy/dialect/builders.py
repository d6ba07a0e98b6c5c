"""Builders of the dialect's operations, which are not yet in a block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from emu.mlir.attributes import Attribute, IntegerAttr, StringAttr
from emu.mlir.diagnostics import UNKNOWN, Location
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.types import IntegerType, Type
from emu.sdy.dialect.attributes import (
    ManualAxes,
    Mesh,
    ReductionOp,
    SdyAttribute,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.names import COLLECTIVES, REDUCING


def _identity(
    name: str, value: Value, location: Location, properties: Mapping[str, Attribute]
) -> Operation:
    return Operation(name, [value], [value.type], properties=properties, location=location)


def make_mesh(name: str, mesh: Mesh, location: Location = UNKNOWN) -> Operation:
    """Return ``sdy.mesh @name = <…>``."""
    properties: dict[str, Attribute] = {"sym_name": StringAttr(name), "mesh": mesh}
    return Operation("sdy.mesh", properties=properties, location=location)


def make_reshard(value: Value, sharding: TensorSharding, location: Location = UNKNOWN) -> Operation:
    """Return ``sdy.reshard %value <…>``."""
    return _identity("sdy.reshard", value, location, {"sharding": sharding})


def make_return(values: Iterable[Value], location: Location = UNKNOWN) -> Operation:
    """Return ``sdy.return %values``."""
    return Operation("sdy.return", values, location=location)


def _body(region: Region | Block | None) -> Region:
    if isinstance(region, Region):
        return region
    return Region([Block() if region is None else region])


def make_manual_computation(
    operands: Sequence[Value],
    result_types: Iterable[Type],
    in_shardings: Iterable[TensorSharding],
    out_shardings: Iterable[TensorSharding],
    manual_axes: Iterable[str],
    body: Region | Block | None = None,
    location: Location = UNKNOWN,
) -> Operation:
    """Return ``sdy.manual_computation(%operands) …``; the body is empty by default."""
    return Operation(
        "sdy.manual_computation",
        operands,
        result_types,
        properties={
            "in_shardings": TensorShardingPerValue(tuple(in_shardings)),
            "out_shardings": TensorShardingPerValue(tuple(out_shardings)),
            "manual_axes": ManualAxes(tuple(manual_axes)),
        },
        regions=[_body(body)],
        location=location,
    )


def make_collective(
    name: str,
    value: Value,
    axes: SdyAttribute | None,
    out_sharding: TensorSharding,
    location: Location = UNKNOWN,
    reduction_op: ReductionOp = ReductionOp.SUM,
) -> Operation:
    """Return ``sdy.name axes %value out_sharding=…``.

    Args:
        name: Full name of the collective.
        value: The operand.
        axes: Axes, of the kind that the collective has; None for a collective_permute.
        out_sharding: The sharding of the result.
        location: Location of the operation.
        reduction_op: The operator of an all_reduce or reduce_scatter. Default: SUM.
    """
    kind = COLLECTIVES[name]
    properties: dict[str, Attribute] = {} if kind is None or axes is None else {kind: axes}
    if name in REDUCING:
        properties["reduction_op"] = IntegerAttr(int(reduction_op), IntegerType(32))
    return _identity(name, value, location, {**properties, "out_sharding": out_sharding})
