"""Pads and slices along sharded dimensions, by an exchange between neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.ir import Value
from emu.mlir.types import TensorType, is_static_tensor
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.export.permutation.halo import DimExchange, ManualBody, Site, exchange
from emu.sdy.passes.export.permutation.locality import (
    even_shape,
    is_local_slice_dim,
    size_of_shard,
)
from emu.stablehlo.syntax import ints


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far away are the elements that devices need along a dimension.

    Attributes:
        left: Number of shards before its own that a device may need.
        right: Number of shards after its own that a device may need.
        is_local: Whether each device has all that it needs.
    """

    left: int
    right: int
    is_local: bool

    def fits(self, count: int) -> bool:
        """Return whether fetching from neighbours is better than gathering all shards."""
        return self.left + self.right + 1 < count or max(self.left, self.right) <= 1


def _reach(count: int, size: int, made: int, low: int, dilation: int) -> _Reach:
    """Return how far away needed elements are.

    Args:
        count: Number of shards.
        size: Size of the operand's dimension.
        made: Size of a shard of the result.
        low: Padding before the first element; negative if elements are left out.
        dilation: Distance of elements in the result.
    """
    own = size_of_shard(size, count)
    left = right = 0
    is_local = True
    for shard in range(count):
        begin = shard * made - low
        begin = begin // dilation if begin >= 0 else -(-begin // dilation)
        first, last = max(0, begin), min(size - 1, begin + made - 1)
        if first > last:
            is_local = False
            continue
        is_local &= first // own == shard == last // own
        left = max(left, shard - first // own)
        right = max(right, last // own - shard)
    return _Reach(left, right, is_local)


def _plans(
    site: Site, lows: tuple[int, ...], interiors: tuple[int, ...], changed: frozenset[int]
) -> list[DimExchange] | None:
    """Return the exchanges; None if a neighbour is too far away, and no exchange if none is needed.

    Args:
        site: The operation.
        lows: Padding before the first element, by dimension.
        interiors: Padding between elements, by dimension.
        changed: Dimensions that are not as they were, even if no element changes shards.
    """
    made = tensor(site.op.result).static_shape
    plans = []
    is_local = True
    for dim, (size, new) in enumerate(zip(site.shape, made, strict=True)):
        axes = site.sharding.dims[dim].axes
        count = site.sharding.dims[dim].sharded_size(site.mesh)
        if count <= 1 or size == 0:
            continue
        part, dilation = size_of_shard(new, count), interiors[dim] + 1
        reach = _reach(count, size, part, lows[dim], dilation)
        if not reach.is_local and not reach.fits(count):
            return None
        is_local &= reach.is_local
        if not reach.is_local or dim in changed:
            plans.append(DimExchange(dim, axes, part, reach.left, reach.right, lows[dim], dilation))
    return [] if is_local else plans


def _sharded_dims(site: Site) -> Iterator[int]:
    for dim, sharding in enumerate(site.sharding.dims):
        if sharding.sharded_size(site.mesh) > 1:
            yield dim


def _manual_axes(site: Site) -> frozenset[str]:
    dims = _sharded_dims(site)
    return frozenset(axis.name for dim in dims for axis in site.sharding.dims[dim].axes)


def _can_exchange(site: Site) -> bool:
    result = site.op.result
    same = get_sharding(result) == site.sharding
    return same and is_static_tensor(result.type) and 0 not in tensor(result).static_shape


def _result(site: Site) -> TensorType:
    type_ = tensor(site.op.result)
    return TensorType(even_shape(type_.static_shape, site.sharding, site.mesh), type_.element)


def exchange_for_pad(site: Site) -> bool:
    """Replace a ``stablehlo.pad`` of shards that need elements of others.

    Returns:
        Whether it is done; False if all shards must be gathered.
    """
    op, shape = site.op, site.shape
    lows, highs, interiors = (
        ints(op.properties[name])
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    changed = frozenset(d for d in range(len(shape)) if lows[d] or highs[d] or interiors[d])
    if not _can_exchange(site):
        return False
    plans = _plans(site, lows, interiors, changed)
    if not plans:
        return plans is not None
    filler = op.operands[1]
    operand = site.pad_high(even_shape(shape, site.sharding, site.mesh), filler)
    whole = changed - frozenset(_sharded_dims(site))

    def finish(body: ManualBody, value: Value, around: Value) -> Value:
        if not whole:
            return value
        low, high, interior = (
            [each[dim] if dim in whole else 0 for dim in range(len(shape))]
            for each in (lows, highs, interiors)
        )
        sizes = body.local_shape(_result(site).static_shape, site.sharding)
        return body.sharded(site.sharding).pad(value, around, low, high, interior, sizes)

    made = exchange(
        site,
        plans,
        _manual_axes(site),
        operand,
        (filler, _is_zero(filler)),
        (_result(site), site.sharding),
        finish,
    )
    site.replace(made, site.sharding)
    return True


def _is_zero(value: Value) -> bool:
    """Return whether a scalar is known to have only zero bits."""
    constant = value.defining_op.properties.get("value") if value.defining_op is not None else None
    return isinstance(constant, DenseElementsAttr) and not any(constant.data)


def exchange_for_slice(site: Site) -> bool:
    """Replace a ``stablehlo.slice`` of shards that need elements of others.

    Returns:
        Whether it is done; False if all shards must be gathered.
    """
    op, shape = site.op, site.shape
    starts, limits, strides = (
        ints(op.properties[name]) for name in ("start_indices", "limit_indices", "strides")
    )
    sharded = frozenset(_sharded_dims(site))
    if not _can_exchange(site) or any(strides[dim] != 1 for dim in sharded):
        return False
    changed = frozenset(
        dim for dim in sharded if not is_local_slice_dim(op, dim, site.sharding, site.mesh)
    )
    plans = _plans(site, tuple(-start for start in starts), (0,) * len(shape), changed)
    if not plans:
        return plans is not None and not changed
    operand = site.pad_high(even_shape(shape, site.sharding, site.mesh))
    filler = Builder.before(op).zero(tensor(operand).element)
    cut = [
        dim
        for dim in range(len(shape))
        if dim not in sharded and (starts[dim], limits[dim], strides[dim]) != (0, shape[dim], 1)
    ]

    def finish(body: ManualBody, value: Value, around: Value) -> Value:
        if not cut:
            return value
        firsts, lasts = [0] * len(shape), list(tensor(value).static_shape)
        steps = [1] * len(shape)
        for dim in cut:
            firsts[dim], lasts[dim], steps[dim] = starts[dim], limits[dim], strides[dim]
        return body.sharded(site.sharding).slice(value, firsts, lasts, steps)

    result = (_result(site), site.sharding)
    made = exchange(site, plans, _manual_axes(site), operand, (filler, True), result, finish)
    site.replace(made, site.sharding)
    return True
