"""Reshapes of uneven dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.ir import Value
from emu.mlir.types import TensorType, is_static_tensor
from emu.sdy.dialect.attributes import AxisRef, Mesh, TensorSharding
from emu.sdy.dialect.axes import add_or_merge, axis_set_difference
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.shardings import get_sharding, set_sharding
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.export.permutation.halo import DimExchange, ManualBody, Site, exchange
from emu.sdy.passes.export.permutation.locality import (
    ReshapeGroup,
    even_shape,
    is_contiguous,
    is_local_between,
    is_local_reshape,
    reshape_groups,
    size_of_shard,
)
from emu.sdy.passes.insertion_point import Place, replace_other_uses


def resolve_reshape(site: Site, *, enable_halo_exchange: bool) -> None:
    """Let a ``stablehlo.reshape`` of uneven dimensions work on shards.

    Where a dimension is split whose shards have different sizes, the shards of the
    result hold other elements than those of the operand.

    Args:
        site: The reshape.
        enable_halo_exchange: Whether devices may fetch elements from their neighbours.
            Otherwise such dimensions are made whole.
    """
    op = site.op
    target = get_sharding(op.result)
    if target is None or target.mesh != site.sharding.mesh or not is_static_tensor(op.result.type):
        return
    shape, new_shape = site.shape, op.result.type.static_shape
    if is_local_reshape(op, site.mesh):
        return
    groups = [
        group for group in reshape_groups(shape, new_shape) if _moves_elements(site, target, group)
    ]
    if not groups:
        return
    plans = None
    if enable_halo_exchange:
        plans = [_plan(site, target, group) for group in groups]
    if plans and None not in plans:
        found = [plan for plan in plans if plan is not None]
        _exchange(site, target, found, _names(site, target, groups))
    else:
        _replicate(site, target, groups)


def _part(sharding: TensorSharding, dims: range) -> TensorSharding:
    return TensorSharding(sharding.mesh, tuple(sharding.dims[dims.start : dims.stop]))


def _axes(sharding: TensorSharding, dims: range) -> list[AxisRef]:
    return [axis for dim in dims for axis in sharding.dims[dim].axes]


def _merged(axes: Sequence[AxisRef], mesh: Mesh) -> list[AxisRef]:
    merged: list[AxisRef] = []
    for axis in axes:
        add_or_merge(merged, axis, mesh)
    return merged


def _moves_elements(site: Site, target: TensorSharding, group: ReshapeGroup) -> bool:
    """Return whether elements along a group's dimensions change shards.

    Shardy asks only whether they are uneven, and has wrong results where shards of equal size
    hold other elements.
    """
    return not is_local_between(
        ([site.shape[dim] for dim in group.ins], _part(site.sharding, group.ins)),
        (
            [tensor(site.op.result).static_shape[dim] for dim in group.outs],
            _part(target, group.outs),
        ),
        site.mesh,
    )


def _names(site: Site, target: TensorSharding, groups: Sequence[ReshapeGroup]) -> frozenset[str]:
    return frozenset(
        axis.name
        for group in groups
        for axis in (*_axes(site.sharding, group.ins), *_axes(target, group.outs))
    )


def _plan(site: Site, target: TensorSharding, group: ReshapeGroup) -> DimExchange | None:
    """Return the exchange for a dimension that is split; None if it needs more than neighbours."""
    new_shape = tensor(site.op.result).static_shape
    sizes = [new_shape[dim] for dim in group.outs]
    if len(group.ins) != 1 or 1 in sizes or site.shape[group.ins[0]] == 1:
        return None
    dim = group.ins[0]
    size, axes, outs = site.shape[dim], site.sharding.dims[dim].axes, _part(target, group.outs)
    combined = _axes(target, group.outs)
    count = site.sharding.dims[dim].sharded_size(site.mesh)
    own = size_of_shard(size, count)
    part = 1
    for padded in even_shape(sizes, outs, site.mesh):
        part *= padded
    same_axes = _merged(axes, site.mesh) == _merged(combined, site.mesh)
    if not same_axes or part != own * count or not is_contiguous(sizes, outs, site.mesh):
        return None
    starts = [_start(shard, sizes, outs, site.mesh) for shard in range(count)]
    left = right = 0
    for shard, start in enumerate(starts):
        # What lies behind the last element is padding, and of no interest.
        if start < size:
            left = max(left, shard - start // own)
            right = max(right, min(start + own - 1, size - 1) // own - shard)
    if max(left, right) > 1:
        return None
    bounded = tuple(start if start < size else shard * own for shard, start in enumerate(starts))
    return DimExchange(dim, tuple(combined), own, left, right, starts=bounded)


def _start(shard: int, sizes: Sequence[int], sharding: TensorSharding, mesh: Mesh) -> int:
    """Return the position of a shard's first element among all elements."""
    position, stride = 0, 1
    for size, dim in zip(reversed(sizes), reversed(sharding.dims), strict=True):
        count = dim.sharded_size(mesh)
        shard, index = divmod(shard, count)
        position += index * size_of_shard(size, count) * stride
        stride *= size
    return position


def _exchange(
    site: Site, target: TensorSharding, plans: Sequence[DimExchange], names: frozenset[str]
) -> None:
    type_ = tensor(site.op.result)
    filler = Builder.before(site.op).zero(type_.element)
    shape = list(site.shape)
    for plan in plans:
        count = site.sharding.dims[plan.dim].sharded_size(site.mesh)
        shape[plan.dim] = plan.size * count
    padded = TensorType(even_shape(type_.static_shape, target, site.mesh), type_.element)
    operand = site.pad_high(shape)

    def finish(body: ManualBody, value: Value, around: Value) -> Value:
        return body.sharded(target).reshape(value, body.local_shape(padded.static_shape, target))

    needed = [plan for plan in plans if plan.left or plan.right or plan.starts is not None]
    made = exchange(site, needed, names, operand, (filler, True), (padded, target), finish)
    site.replace(made, target)


def _replicate(site: Site, target: TensorSharding, groups: Sequence[ReshapeGroup]) -> None:
    """Make the dimensions of some groups whole around the reshape."""
    op = site.op
    removed = [
        axis
        for group in groups
        for axis in (*_axes(site.sharding, group.ins), *_axes(target, group.outs))
    ]

    def without(sharding: TensorSharding) -> TensorSharding:
        return sharding.with_dims(
            [
                type(dim)(
                    tuple(axis_set_difference(dim.axes, removed, site.mesh)),
                    dim.is_closed,
                    dim.priority,
                )
                for dim in sharding.dims
            ]
        )

    whole = make_reshard(op.operands[0], without(site.sharding), op.location)
    op.set_operand(0, Place.before(op).insert(whole).result)
    set_sharding(op.result, without(target))
    restored = Place.after(op).insert(make_reshard(op.result, target, op.location))
    replace_other_uses(op.result, restored.result)
