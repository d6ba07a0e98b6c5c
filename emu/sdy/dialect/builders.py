"""Builders of the dialect's operations, which are not yet in a block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from emu.mlir.attributes import Attribute, StringAttr
from emu.mlir.diagnostics import UNKNOWN, Location
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.types import IntegerType, Type
from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    ListOfAxisRefLists,
    ManualAxes,
    Mesh,
    TensorSharding,
    TensorShardingPerValue,
)

_I32 = IntegerType(32)
_I64 = IntegerType(64)
AxesPerDim = Sequence[Sequence[AxisRef]]
"""A list of axes for each dimension."""


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


# Collectives


def _lists(axes: AxesPerDim) -> ListOfAxisRefLists:
    return ListOfAxisRefLists(tuple(tuple(each) for each in axes))


def make_all_gather(
    value: Value,
    gathering_axes: AxesPerDim,
    out_sharding: TensorSharding,
    location: Location = UNKNOWN,
) -> Operation:
    """Return ``sdy.all_gather [{…}, …] %value out_sharding=…``."""
    properties = {"gathering_axes": _lists(gathering_axes), "out_sharding": out_sharding}
    return _identity("sdy.all_gather", value, location, properties)


def make_all_slice(
    value: Value,
    slicing_axes: AxesPerDim,
    out_sharding: TensorSharding,
    location: Location = UNKNOWN,
) -> Operation:
    """Return ``sdy.all_slice [{…}, …] %value out_sharding=…``."""
    properties = {"slicing_axes": _lists(slicing_axes), "out_sharding": out_sharding}
    return _identity("sdy.all_slice", value, location, properties)


def make_all_to_all(
    value: Value,
    params: Iterable[AllToAllParam],
    out_sharding: TensorSharding,
    location: Location = UNKNOWN,
) -> Operation:
    """Return ``sdy.all_to_all [{…}: 0->1, …] %value out_sharding=…``."""
    properties = {"params": AllToAllParamList(tuple(params)), "out_sharding": out_sharding}
    return _identity("sdy.all_to_all", value, location, properties)


def make_collective_permute(
    value: Value, out_sharding: TensorSharding, location: Location = UNKNOWN
) -> Operation:
    """Return ``sdy.collective_permute %value out_sharding=…``."""
    return _identity("sdy.collective_permute", value, location, {"out_sharding": out_sharding})


def make_all_reduce(
    value: Value,
    reduction_axes: Iterable[AxisRef],
    out_sharding: TensorSharding,
    location: Location = UNKNOWN,
) -> Operation:
    """Return ``sdy.all_reduce {…} %value out_sharding=…``."""
    axes = AxisRefList(tuple(reduction_axes))
    properties = {"reduction_axes": axes, "out_sharding": out_sharding}
    return _identity("sdy.all_reduce", value, location, properties)


def make_reduce_scatter(
    value: Value,
    reduce_scatter_axes: AxesPerDim,
    out_sharding: TensorSharding,
    location: Location = UNKNOWN,
) -> Operation:
    """Return ``sdy.reduce_scatter [{…}, …] %value out_sharding=…``."""
    axes = _lists(reduce_scatter_axes)
    properties = {"reduce_scatter_axes": axes, "out_sharding": out_sharding}
    return _identity("sdy.reduce_scatter", value, location, properties)


def make_sharded_to_unreduced(
    value: Value, axes: AxesPerDim, out_sharding: TensorSharding, location: Location = UNKNOWN
) -> Operation:
    """Return ``sdy.sharded_to_unreduced [{…}, …] %value out_sharding=…``."""
    properties = {"axes": _lists(axes), "out_sharding": out_sharding}
    return _identity("sdy.sharded_to_unreduced", value, location, properties)


def make_replicated_to_unreduced(
    value: Value,
    axes: Iterable[AxisRef],
    out_sharding: TensorSharding,
    location: Location = UNKNOWN,
) -> Operation:
    """Return ``sdy.replicated_to_unreduced {…} %value out_sharding=…``."""
    properties = {"axes": AxisRefList(tuple(axes)), "out_sharding": out_sharding}
    return _identity("sdy.replicated_to_unreduced", value, location, properties)
