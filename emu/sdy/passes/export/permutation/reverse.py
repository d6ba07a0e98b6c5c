"""Reverses shard by shard.

Whole shards change places: the devices reverse their own elements, and a mesh with
its devices in the opposite order describes where the shards are.

If the dimension is not sharded evenly, the last shards lack elements, whereas in the
reversed tensor the first ones would. So the tensor is padded to even shards, and its
elements are shifted up by the amount of padding: each device sends its last elements
to the next ones. The reversed tensor then has the padding at its end, where it is
removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emu.mlir.ir import Value
from emu.sdy.dialect.attributes import AxisRef, Mesh, TensorSharding
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.shardings import get_sharding, set_sharding
from emu.sdy.passes.builder import tensor
from emu.sdy.passes.export.permutation.halo import ManualBody, Site, trim_after
from emu.sdy.passes.export.permutation.locality import size_of_shard
from emu.sdy.passes.export.permutation.positions import reversed_mesh
from emu.sdy.passes.insertion_point import Place, replace_other_uses
from emu.stablehlo.syntax import ints


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan for reversing shard by shard.

    Attributes:
        axes: Axes along which reversed dimensions are sharded.
        manual_axes: Names of the axes along which one is sharded unevenly.
        shape: The shape with all of these dimensions padded.
    """

    axes: tuple[AxisRef, ...]
    manual_axes: frozenset[str]
    shape: tuple[int, ...]


def reverse_shards(site: Site, name_of: Callable[[Mesh, str], str]) -> None:
    """Let a ``stablehlo.reverse`` work on shards.

    Args:
        site: The reverse; its sharding refers to a mesh by name.
        name_of: Returns the name of a mesh, which may be based on another name.
    """
    op, sharding, type_ = site.op, site.sharding, tensor(site.op.operands[0])
    plan = _plan(site)
    target = get_sharding(op.result) or sharding
    if not plan.axes or not isinstance(sharding.mesh, str):
        return
    value = _move_padding_to_front(site, plan) if plan.manual_axes else op.operands[0]
    name = name_of(reversed_mesh(site.mesh, plan.axes), sharding.mesh)
    op.set_operand(0, value)
    set_sharding(
        op.result,
        TensorSharding(name, sharding.dims, sharding.replicated_axes, sharding.unreduced_axes),
    )
    op.result.change_type(value.type)
    back = Place.after(op).insert(make_reshard(op.result, target, op.location))
    replace_other_uses(op.result, back.result)
    if plan.manual_axes:
        trim_after(back, back.result, type_, sharding)


def _plan(site: Site) -> _Plan:
    reversed_dims = ints(site.op.properties["dimensions"])
    shape = list(site.shape)
    axes: list[AxisRef] = []
    manual: set[str] = set()
    for dim, dim_sharding in enumerate(site.sharding.dims):
        count = dim_sharding.sharded_size(site.mesh)
        if dim not in reversed_dims or count <= 1:
            continue
        axes += dim_sharding.axes
        if shape[dim] % count:
            manual.update(axis.name for axis in dim_sharding.axes)
            shape[dim] = size_of_shard(shape[dim], count) * count
    return _Plan(tuple(axes), frozenset(manual), tuple(shape))


def _move_padding_to_front(site: Site, plan: _Plan) -> Value:
    """Return the operand of a reverse, padded in front by a manual computation."""
    padded = site.pad_high(plan.shape)
    body = ManualBody(site, plan.manual_axes)
    value = body.argument(padded, site.sharding)
    for dim, (new, old) in enumerate(zip(plan.shape, site.shape, strict=True)):
        if new > old:
            value = _shift(body, value, dim, new - old)
    return body.close([(padded, site.sharding)], value, tensor(padded), site.sharding)


def _shift(body: ManualBody, value: Value, dim: int, count: int) -> Value:
    """Shift elements up along a dimension, across the borders of shards.

    Args:
        body: The manual computation's body.
        value: The shard.
        dim: The dimension.
        count: Distance in elements.
    """
    build = body.sharded(body.site.sharding)
    axes = body.site.sharding.dims[dim].axes
    shape = tensor(value).static_shape
    shards, rest = divmod(count, shape[dim])
    kept = shape[dim] - rest
    nearer = body.send(build, value, axes, shards)
    farther = body.send(build, value, axes, shards + 1)
    starts, limits = [0] * len(shape), list(shape)
    starts[dim] = limits[dim] = kept
    front = build.slice(farther, starts, shape)
    back = build.slice(nearer, [0] * len(shape), limits)
    return build.concatenate([front, back], shape, dim)
