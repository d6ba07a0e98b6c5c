"""Comparison of the shardings of two tensors of which one is a reshape of the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import AxisRef, Mesh, TensorSharding
from emu.sdy.dialect.axes import can_merge, merge


def is_equivalent_across_reshape(
    sharding: TensorSharding,
    type_: Type,
    other: TensorSharding,
    other_type: Type,
    mesh: Mesh,
    *,
    allow_non_divisible: bool = False,
) -> bool:
    """Return whether two shardings cut the elements, in row-major order, at the same places.

    Both types must be ranked tensors of static shape without encoding.

    Args:
        sharding: The sharding of one tensor.
        type_: Its type.
        other: The sharding of the other tensor.
        other_type: Its type.
        mesh: The mesh of ``sharding``; of ``other``, only the name is compared with it.
        allow_non_divisible: Whether to compare only along which dimensions the axes cut,
            so that with uneven shards the reshape takes padding and slices, but moves
            nothing else. Otherwise uneven shards that the reshape changes are different.
            Default: False.
    """
    if sharding == other and type_ == other_type:
        return True
    if (sharding.mesh, sharding.replicated_axes) != (other.mesh, other.replicated_axes):
        return False
    if not isinstance(type_, TensorType) or not isinstance(other_type, TensorType):
        return False
    if type_.encoding is not None or other_type.encoding is not None:
        return False
    if not type_.is_static or not other_type.is_static:
        return False
    cuts = _cuts(sharding, type_.static_shape, mesh, allow_non_divisible)
    other_cuts = _cuts(other, other_type.static_shape, mesh, allow_non_divisible)
    if [cut.axis for cut in cuts] != [cut.axis for cut in other_cuts]:
        return False
    # With even shards the one follows from the other. With fewer elements than shards the strides
    # alone, which are all that Shardy compares, may be the same for other elements.
    if [cut.repeated for cut in cuts] != [cut.repeated for cut in other_cuts]:
        return False
    return allow_non_divisible or [c.stride for c in cuts] == [c.stride for c in other_cuts]


@dataclass(slots=True)
class _Cut:
    """How an axis cuts a tensor.

    Attributes:
        axis: The axis.
        stride: Distance of the next shard along it, in elements.
        repeated: How often the cut is repeated: the number of index tuples before it.
        size: Size of the dimension that it cuts.
    """

    axis: AxisRef
    stride: Fraction
    repeated: int
    size: int


def _cuts(
    sharding: TensorSharding, shape: tuple[int, ...], mesh: Mesh, allow_non_divisible: bool
) -> list[_Cut]:
    """Return the cuts of all axes, minor first; sub-axes that continue each other are one."""
    cuts: list[_Cut] = []
    minor_size = 1  # elements per index of the current dimension
    for dim in reversed(range(len(sharding.dims))):
        axes, size = sharding.dims[dim].axes, shape[dim]
        repeated = math.prod(shape[:dim])
        shards = math.prod(axis.size(mesh) for axis in axes)
        # Rounding up makes uneven shards of different shapes differ.
        part = Fraction(size, shards) if allow_non_divisible else Fraction(-(-size // shards))
        stride = minor_size * part
        for axis in reversed(axes):
            shards //= axis.size(mesh)
            cuts.append(_Cut(axis, stride, repeated * shards, size))
            stride *= axis.size(mesh)
        minor_size *= size
    merged: list[_Cut] = []
    for cut in sorted(cuts, key=lambda cut: cut.stride):
        if merged and _continues(merged[-1], cut, mesh, allow_non_divisible):
            minor = merged[-1]
            minor.axis = merge(cut.axis, minor.axis, mesh)
            minor.repeated = min(minor.repeated, cut.repeated)
        else:
            merged.append(cut)
    return merged


def _continues(minor: _Cut, major: _Cut, mesh: Mesh, allow_non_divisible: bool) -> bool:
    """Return whether two cuts next to each other are one cut along one longer sub-axis."""
    if not can_merge(major.axis, minor.axis):
        return False
    if not allow_non_divisible:
        return major.stride == minor.stride * minor.axis.size(mesh)
    if minor.repeated == major.repeated:
        return True
    whole = major.axis.size(mesh) == major.size
    return whole and minor.repeated == major.repeated * major.size
