"""Conversion of collectives of ``sdy`` to those of StableHLO, on local tensors.

StableHLO's collectives work along one dimension. If one of ``sdy`` works along
several, the pieces are moved to a leading dimension, one collective is applied
there, and transposes and reshapes move the pieces to their places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from emu.mlir.attributes import Attribute, DenseElementsAttr, IntegerAttr, UnitAttr
from emu.mlir.ir import Operation, OpResult, Value
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    ListOfAxisRefLists,
    Mesh,
    TensorSharding,
)
from emu.sdy.dialect.axes import contains, ordered_axes, total_size
from emu.sdy.passes.builder import Builder, integer_attribute, tensor
from emu.sdy.passes.export.local.localization import Axes, CannotLocalize, Localization
from emu.sdy.passes.export.local.sums import (
    combining_operation,
    reason_not_to_add,
)
from emu.sdy.rules.reading import attribute
from emu.stablehlo.syntax import array_of_ints

AxesPerDim = Sequence[tuple[AxisRef, ...]]


def _target(op: Operation) -> TensorSharding:
    return attribute(op, "out_sharding", TensorSharding)


def _static_shape(value: Value) -> tuple[int, ...]:
    type_ = tensor(value)
    if not type_.is_static:
        raise CannotLocalize("dynamic shape not supported")
    return type_.static_shape


# Gathering


def localize_all_gather(state: Localization, op: Operation) -> None:
    """Convert to one ``stablehlo.all_gather``, or one per dimension."""
    axes_per_dim = attribute(op, "gathering_axes", ListOfAxisRefLists).lists
    mesh = state.mesh(_target(op))
    value = state.current(op.operands[0])
    dims = [dim for dim, axes in enumerate(axes_per_dim) if axes]
    # The last dimension first, as in Shardy.
    if state.options.per_dim_all_gather or len(dims) == 1:
        for dim in reversed(dims):
            value = _gather(state, op, value, axes_per_dim[dim], dim)
    else:
        value = _gather_together(state, op, value, axes_per_dim, mesh)
    state.replace(op, [value])


def _gather(state: Localization, op: Operation, value: Value, axes: Axes, dim: int) -> Value:
    return gathered_along(state, op, value, _target(op), axes, dim)


def gathered_along(
    state: Localization,
    op: Operation,
    value: Value,
    sharding: TensorSharding,
    axes: Axes,
    dim: int,
) -> Value:
    """Return a value with one dimension gathered.

    Args:
        state: State of the conversion.
        op: The operation being replaced.
        value: The shard.
        sharding: A sharding on the mesh of the axes.
        axes: Axes along which the dimension is sharded.
        dim: The dimension.
    """
    groups, size = state.groups(axes, state.mesh(sharding), sharding.mesh)
    shape = list(tensor(value).shape)
    known = shape[dim]
    shape[dim] = None if known is None else known * size
    properties: dict[str, Attribute] = {
        "all_gather_dim": integer_attribute(dim),
        "replica_groups": groups,
        "channel_handle": state.channel(),
        "use_global_device_ids": UnitAttr(),
    }
    type_ = TensorType(tuple(shape), tensor(value).element)
    return Builder.before(op).op("all_gather", [value], [type_], properties).result


def _gather_together(
    state: Localization, op: Operation, value: Value, axes_per_dim: AxesPerDim, mesh: Mesh
) -> Value:
    """Gather along several dimensions in one leading dimension."""
    build = Builder.before(op)
    shape = _static_shape(value)
    dims = [dim for dim, axes in enumerate(axes_per_dim) if axes]
    factors = {dim: total_size(axes_per_dim[dim], mesh) for dim in dims}
    all_axes = [axis for axes in axes_per_dim for axis in axes]
    value = _gather(state, op, build.reshape(value, (1, *shape)), all_axes, 0)
    # Leading dimensions in the order of ``dims``; each goes before the dimension it extends.
    value = build.reshape(value, (*factors.values(), *shape))
    permutation = []
    for dim in range(len(shape)):
        if dim in factors:
            permutation.append(dims.index(dim))
        permutation.append(dim + len(dims))
    value = build.transpose(value, permutation)
    return build.reshape(value, [size * factors.get(dim, 1) for dim, size in enumerate(shape)])


# Slicing


def dynamic_slice_along(
    state: Localization,
    op: Operation,
    value: Value,
    mesh: Mesh,
    axes_per_dim: AxesPerDim,
    type_: TensorType,
) -> Value:
    """Return the device's shard of a tensor.

    Args:
        state: State of the conversion.
        op: The operation being replaced.
        value: The tensor.
        mesh: The mesh of the axes.
        axes_per_dim: Axes along which each dimension is sharded.
        type_: Type of the shard.
    """
    build = Builder.before(op)
    sizes = type_.static_shape
    starts = []
    for axes, size in zip(axes_per_dim, sizes, strict=True):
        if axes:
            starts.append(
                state.by_device(build, [i * size for i in state.shard_indices(op, mesh, axes)])
            )
        else:
            starts.append(build.scalar(0))
    return build.dynamic_slice(value, starts, sizes)


def localize_all_slice(state: Localization, op: Operation) -> None:
    """Convert to a slice: each device takes its shard of its operand."""
    axes = attribute(op, "slicing_axes", ListOfAxisRefLists).lists
    mesh = state.mesh(_target(op))
    value = state.current(op.operands[0])
    state.replace(
        op, [dynamic_slice_along(state, op, value, mesh, axes, state.local_tensor(op.result))]
    )


# All to all


def localize_all_to_all(state: Localization, op: Operation) -> None:
    """Convert to one ``stablehlo.all_to_all``, between two dimensions or in a leading one."""
    params = attribute(op, "params", AllToAllParamList).params
    mesh = state.mesh(_target(op))
    value = state.current(op.operands[0])
    if len(params) == 1:
        (param,) = params
        value = _all_to_all(state, op, value, param.tgt_dim, param.src_dim, param.axes)
    else:
        value = _all_to_all_together(state, op, value, params, mesh)
    state.replace(op, [value])


def _all_to_all(
    state: Localization, op: Operation, value: Value, split: int, concat: int, axes: Axes
) -> Value:
    target = _target(op)
    groups, size = state.groups(axes, state.mesh(target), target.mesh)
    shape = list(_static_shape(value))
    if shape[split] % size:
        raise CannotLocalize("dimension not divisible by num devices per group")
    shape[concat] *= size
    shape[split] //= size
    properties: dict[str, Attribute] = {
        "split_dimension": integer_attribute(split),
        "concat_dimension": integer_attribute(concat),
        "split_count": integer_attribute(size),
        "replica_groups": groups,
        "channel_handle": state.channel(),
    }
    type_ = TensorType(tuple(shape), tensor(value).element)
    return Builder.before(op).op("all_to_all", [value], [type_], properties).result


def _split_to_front(
    build: Builder, value: Value, factors: Mapping[int, int], message: str
) -> Value:
    """Split dimensions, and move the factors to the front, in the order of the dimensions.

    Args:
        build: Inserts the operations.
        value: The tensor.
        factors: By dimension, the major part of it that goes to the front.
        message: The error where a factor does not divide its dimension.
    """
    split_shape: list[int] = []
    front: list[int] = []
    for dim, size in enumerate(_static_shape(value)):
        factor = factors.get(dim)
        if factor is None:
            split_shape.append(size)
            continue
        if size % factor:
            raise CannotLocalize(message)
        front.append(len(split_shape))
        split_shape += (factor, size // factor)
    value = build.reshape(value, split_shape)
    return build.transpose(value, front + [i for i in range(len(split_shape)) if i not in front])


def _all_to_all_together(
    state: Localization, op: Operation, value: Value, params: Sequence[AllToAllParam], mesh: Mesh
) -> Value:
    """Split all target dimensions, exchange in dimension 0, and join the source dimensions."""
    build = Builder.before(op)
    params = sorted(params, key=lambda param: param.tgt_dim)
    factors = {param.tgt_dim: total_size(param.axes, mesh) for param in params}
    rank, count = tensor(value).rank, len(params)
    message = "dynamic shape or dimension not divisible by num devices per param"
    value = _split_to_front(build, value, factors, message)
    # All target dimensions' pieces are now in front, and are exchanged as one dimension.
    moved = _static_shape(value)
    value = build.reshape(value, (math.prod(moved[:count]), *moved[count:]))
    value = _all_to_all(state, op, value, 0, 0, [axis for param in params for axis in param.axes])
    value = build.reshape(value, moved)
    # Each piece goes before its source dimension, which it makes longer.
    back = [dim + count for dim in range(rank)]
    for place, param in enumerate(params):
        back.insert(back.index(param.src_dim + count), place)
    value = build.transpose(value, back)
    joined: list[int] = []
    factor = 1
    for place, size in zip(back, _static_shape(value), strict=True):
        if place < count:
            factor *= size
        else:
            joined.append(factor * size)
            factor = 1
    return build.reshape(value, joined)


# Permuting


def localize_collective_permute(state: Localization, op: Operation) -> None:
    """Convert: every device sends its shard to the device that has it afterwards."""
    target = _target(op)
    source = state.sharding(op.operands[0])
    if source is None or source == target:
        raise CannotLocalize("the collective permutes nothing", illegal=False)
    to_mesh, from_mesh = state.mesh(target), state.mesh(source)
    if to_mesh.total_size != from_mesh.total_size:
        raise CannotLocalize(
            "collective-permute between meshes of different sizes is not supported.",
            illegal=False,
        )
    # Devices are matched by the index of their shard, counted along all axes, also along
    # those that shard nothing: so each device sends to exactly one.
    pieces = ordered_axes([*source.all_axes(), *target.all_axes()], to_mesh)
    receivers = state.shard_indices(op, to_mesh, _all_pieces(target, pieces))
    device_of = {index: device for device, index in enumerate(receivers)}
    senders = state.shard_indices(op, from_mesh, _all_pieces(source, pieces))
    pairs = [end for device, index in enumerate(senders) for end in (device, device_of[index])]
    value = state.current(op.operands[0])
    properties: dict[str, Attribute] = {
        "source_target_pairs": DenseElementsAttr.of(pairs, (len(senders), 2)),
        "channel_handle": state.channel(),
    }
    new = Builder.before(op).op("collective_permute", [value], [value.type], properties)
    state.replace(op, new.results)


def _all_pieces(sharding: TensorSharding, pieces: Sequence[AxisRef]) -> list[AxisRef]:
    """Return all pieces of the mesh's axes: those of the dimensions first, in their order."""
    found: dict[AxisRef, None] = {}
    for dim in sharding.dims:
        for axis in dim.axes:
            found.update(dict.fromkeys(piece for piece in pieces if contains(axis, piece)))
    found.update(dict.fromkeys(pieces))
    return list(found)


# Reducing

_DECLARED = {1: "maximum", 2: "minimum"}


def _combiner(state: Localization, op: Operation, value: Value) -> str | None:
    """Return the operation that combines partial results; None for the reduction's whole body."""
    declared = _DECLARED.get(_declared(op))
    why = reason_not_to_add(value)
    if why is None:
        return declared or "add"
    name = combining_operation(value)
    joint = name is None and isinstance(value, OpResult) and value.owner.name == "stablehlo.reduce"
    if not state.options.fix_wrong_results or (name is None and not joint):
        return declared or _warned(state, op, why)
    return name


def _declared(op: Operation) -> int:
    """Return the number of the operator that a collective says, 0 for a sum."""
    stored = op.properties.get("reduction_op")
    return stored.value if isinstance(stored, IntegerAttr) else 0


def _warned(state: Localization, op: Operation, why: str) -> str:
    """Warn that partial results are added nevertheless, and return ``"add"``."""
    state.warn(op, f"{why}: the program gives other results than the one with global shapes")
    return "add"


def _reduce_properties(state: Localization, groups: Attribute) -> dict[str, Attribute]:
    return {
        "replica_groups": groups,
        "channel_handle": state.channel(),
        "use_global_device_ids": UnitAttr(),
    }


def localize_all_reduce(state: Localization, op: Operation) -> None:
    """Convert to a ``stablehlo.all_reduce`` that adds, or combines as the reduction before it."""
    target = _target(op)
    axes = attribute(op, "reduction_axes", AxisRefList).axes
    groups, size = state.groups(axes, state.mesh(target), target.mesh)
    value = state.current(op.operands[0])
    name = _combiner(state, op, value)
    if name is None:
        state.replace(op, [_combined_jointly(state, op, value, groups, size)])
        return
    type_ = state.local_tensor(op.result)
    state.replace(op, [_all_reduce(state, op, value, type_, groups, name)])


def _all_reduce(
    state: Localization,
    op: Operation,
    value: Value,
    type_: TensorType,
    groups: Attribute,
    name: str,
) -> Value:
    build = Builder.before(op)
    new = build.op("all_reduce", [value], [type_], _reduce_properties(state, groups))
    build.add_body(new, type_.element, name)
    return new.result


def _combined_jointly(
    state: Localization, op: Operation, value: Value, groups: Attribute, size: int
) -> Value:
    """Gather the partial results of a reduction, and reduce them in the same way.

    For all its results at once, such as the greatest element and its index.
    """
    assert isinstance(value, OpResult)
    reduction = value.owner
    # All results of the reduction are combined at once, when the first of them is reduced.
    key = (reduction, f"{groups} {op.parent}")
    if key not in state.joint:
        count = len(reduction.results)
        gathered = [_all_partial(state, op, part, groups, size) for part in reduction.results]
        new = Builder.before(op).op(
            "reduce",
            [*gathered, *reduction.operands[count:]],
            [part.type for part in reduction.results],
            {"dimensions": array_of_ints([0])},
        )
        state.joint[key] = new
    return state.joint[key].results[value.index]


def _all_partial(
    state: Localization, op: Operation, part: Value, groups: Attribute, size: int
) -> Value:
    """Return the partial results of all devices of a group, along a leading dimension."""
    build = Builder.before(op)
    shape = _static_shape(part)
    properties: dict[str, Attribute] = {
        "all_gather_dim": integer_attribute(0),
        **_reduce_properties(state, groups),
    }
    type_ = TensorType((size, *shape), tensor(part).element)
    return build.op("all_gather", [build.reshape(part, (1, *shape))], [type_], properties).result


def localize_reduce_scatter(state: Localization, op: Operation) -> None:
    """Convert to a ``stablehlo.reduce_scatter``, or to an all-reduce and a slice."""
    axes_per_dim = attribute(op, "reduce_scatter_axes", ListOfAxisRefLists).lists
    source = state.sharding(op.operands[0]) or _target(op)
    mesh = state.mesh(source)
    value = state.current(op.operands[0])
    name = _combiner(state, op, value)
    dims = [dim for dim, axes in enumerate(axes_per_dim) if axes]
    all_axes = [axis for axes in axes_per_dim for axis in axes]
    groups, size = state.groups(all_axes, mesh, source.mesh)
    type_ = state.local_tensor(op.result)
    if name is not None and len(dims) == 1:
        value = _reduce_scatter(state, op, value, dims[0], type_, groups, name)
    elif name is not None and state.options.combine_multi_dimension_reduce_scatter:
        value = _reduce_scatter_together(state, op, value, axes_per_dim, groups, name)
    else:
        if name is None:
            value = _combined_jointly(state, op, value, groups, size)
        else:
            value = _all_reduce(state, op, value, tensor(value), groups, name)
        value = dynamic_slice_along(state, op, value, mesh, axes_per_dim, type_)
    state.replace(op, [value])


def _reduce_scatter(
    state: Localization,
    op: Operation,
    value: Value,
    dim: int,
    type_: TensorType,
    groups: Attribute,
    name: str,
) -> Value:
    build = Builder.before(op)
    properties = {
        "scatter_dimension": integer_attribute(dim),
        **_reduce_properties(state, groups),
    }
    new = build.op("reduce_scatter", [value], [type_], properties)
    build.add_body(new, type_.element, name)
    return new.result


def _reduce_scatter_together(
    state: Localization,
    op: Operation,
    value: Value,
    axes_per_dim: AxesPerDim,
    groups: Attribute,
    name: str,
) -> Value:
    """Split all scattered dimensions, and scatter along a leading one."""
    build = Builder.before(op)
    mesh = state.mesh(state.sharding(op.operands[0]), _target(op))
    factors = {dim: total_size(axes, mesh) for dim, axes in enumerate(axes_per_dim) if axes}
    message = "dimension not divisible by scattering factor"
    value = _split_to_front(build, value, factors, message)
    type_ = state.local_tensor(op.result)
    value = build.reshape(value, (math.prod(factors.values()), *type_.shape))
    scattered = TensorType((1, *type_.shape), type_.element)
    value = _reduce_scatter(state, op, value, 0, scattered, groups, name)
    return build.reshape(value, type_.shape)
