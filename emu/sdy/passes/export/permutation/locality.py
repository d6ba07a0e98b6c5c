"""Whether operations leave each element on its device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.ir import Operation
from emu.mlir.types import is_static_tensor
from emu.sdy.dialect.attributes import AxisRef, Mesh, TensorSharding
from emu.sdy.dialect.axes import can_merge, merge
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.passes.builder import tensor
from emu.stablehlo.syntax import ints


def size_of_shard(size: int, count: int) -> int:
    """Return the size of the first of ``count`` shards of a dimension, rounded up."""
    return -(-size // count)


def is_local_slice_dim(op: Operation, dim: int, sharding: TensorSharding, mesh: Mesh) -> bool:
    """Return whether a slice along a dimension leaves each element on its device.

    That is so if the dimension is not sharded, or if only its end is cut off and the
    size of shards stays the same.

    Args:
        op: The ``stablehlo.slice``.
        dim: The dimension.
        sharding: The operand's sharding.
        mesh: The sharding's mesh.
    """
    count = sharding.dims[dim].sharded_size(mesh)
    if count <= 1:
        return True
    size, kept = (tensor(value).shape[dim] for value in (op.operands[0], op.result))
    if size is None or kept is None:
        return False
    if size == kept:
        return True
    starts, strides = ints(op.properties["start_indices"]), ints(op.properties["strides"])
    if starts[dim] != 0 or strides[dim] != 1:
        return False
    return size_of_shard(size, count) == size_of_shard(kept, count)


def is_local_pad_dim(op: Operation, dim: int, sharding: TensorSharding, mesh: Mesh) -> bool:
    """Return whether a ``stablehlo.pad`` along a dimension leaves each element on its device.

    What makes uneven shards even counts as elements: it is padded like them afterwards.

    Args:
        op: The ``stablehlo.pad``.
        dim: The dimension.
        sharding: The operand's sharding.
        mesh: The sharding's mesh.
    """
    count = sharding.dims[dim].sharded_size(mesh)
    if count <= 1:
        return True
    size, padded = (tensor(value).shape[dim] for value in (op.operands[0], op.result))
    if ints(op.properties["interior_padding"])[dim] != 0 or size is None or padded is None:
        return False
    low = ints(op.properties["edge_padding_low"])[dim]
    own, made = size_of_shard(size, count), size_of_shard(padded, count)
    for shard in range(count):
        first = max(0, shard * made - low)
        last = min(own * count - 1, shard * made - low + made - 1)
        if first <= last and (first // own != shard or last // own != shard):
            return False
    return True


# Reshapes


@dataclass(frozen=True, slots=True)
class ReshapeGroup:
    """Adjacent dimensions that a reshape makes of as many elements, and no fewer.

    Attributes:
        ins: Dimensions of the operand.
        outs: Dimensions of the result.
    """

    ins: range
    outs: range


def reshape_groups(shape: Sequence[int], new_shape: Sequence[int]) -> list[ReshapeGroup]:
    """Return the groups of a reshape, in order."""
    groups = []
    here, there = 0, 0
    while here < len(shape) or there < len(new_shape):
        ins, outs = here, there
        old = new = 1
        if here < len(shape):
            old, here = shape[here], here + 1
        if there < len(new_shape):
            new, there = new_shape[there], there + 1
        while old != new:
            if old < new and here < len(shape):
                old, here = old * shape[here], here + 1
            elif new < old and there < len(new_shape):
                new, there = new * new_shape[there], there + 1
            else:
                break
        groups.append(ReshapeGroup(range(ins, here), range(outs, there)))
    return groups


def _strides(
    shape: Sequence[int], sharding: TensorSharding, mesh: Mesh
) -> list[tuple[AxisRef, int]]:
    """Return each axis with the distance between its devices' first elements, minor axes first.

    In elements of the tensor without padding. Neighbouring parts of an axis are merged.
    """
    found: list[tuple[AxisRef, int]] = []
    inner = 1
    for size, dim in zip(reversed(shape), reversed(sharding.dims), strict=True):
        stride = inner * size_of_shard(size, dim.sharded_size(mesh))
        for axis in reversed(dim.axes):
            if axis.size(mesh) > 1:
                found.append((axis, stride))
            stride *= axis.size(mesh)
        inner *= size
    found.sort(key=lambda each: each[1])
    merged: list[tuple[AxisRef, int]] = []
    for axis, stride in found:
        if merged:
            last, smaller = merged[-1]
            if can_merge(axis, last) and stride == smaller * last.size(mesh):
                merged[-1] = (merge(axis, last, mesh), smaller)
                continue
        merged.append((axis, stride))
    return merged


def is_local_reshape(op: Operation, mesh: Mesh) -> bool:
    """Return whether a ``stablehlo.reshape`` leaves each element on its device.

    Also with padding at the end of uneven dimensions, which then stays at the end.
    """
    value, result = op.operands[0], op.result
    old, new = get_sharding(value), get_sharding(result)
    if old is None or new is None or old.mesh != new.mesh:
        return False
    if not is_static_tensor(value.type) or not is_static_tensor(result.type):
        return False
    shape, new_shape = value.type.static_shape, result.type.static_shape
    return is_local_between((shape, old), (new_shape, new), mesh)


def is_local_between(
    before: tuple[Sequence[int], TensorSharding],
    after: tuple[Sequence[int], TensorSharding],
    mesh: Mesh,
) -> bool:
    """Return whether shards before and after a reshape hold the same elements.

    Args:
        before: Shape and sharding before.
        after: Shape and sharding after.
        mesh: The mesh of both.
    """
    if 0 in before[0]:
        return True
    sizes = [math.prod(even_shape(*each, mesh)) for each in (before, after)]
    counts = [math.prod(dim.sharded_size(mesh) for dim in each[1].dims) for each in (before, after)]
    # Strides alone do not tell [2, 1] from [2, 1] with its second dimension over two devices.
    if sizes[0] * counts[1] != sizes[1] * counts[0]:
        return False
    return _strides(*before, mesh) == _strides(*after, mesh)


def has_uneven_dims(shape: Sequence[int], sharding: TensorSharding, mesh: Mesh) -> bool:
    """Return whether shards of a tensor would have different sizes."""
    sizes = zip(shape, sharding.dims, strict=True)
    return any(size % dim.sharded_size(mesh) for size, dim in sizes)


def even_shape(shape: Sequence[int], sharding: TensorSharding, mesh: Mesh) -> tuple[int, ...]:
    """Return a shape with its dimensions rounded up to even shards."""
    counts = [dim.sharded_size(mesh) for dim in sharding.dims]
    return tuple(
        size_of_shard(size, count) * count for size, count in zip(shape, counts, strict=True)
    )


def is_contiguous(shape: Sequence[int], sharding: TensorSharding, mesh: Mesh) -> bool:
    """Return whether each shard of a tensor is one run of its elements, but for padding."""
    counts = [dim.sharded_size(mesh) for dim in sharding.dims]
    local = [size_of_shard(size, count) for size, count in zip(shape, counts, strict=True)]
    outer = next((dim for dim, size in enumerate(local) if size > 1), len(local))
    return math.prod(counts[outer + 1 :]) == 1
