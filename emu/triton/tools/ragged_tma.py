"""Ragged descriptors: parts of a tensor's rows, of lengths that only the running kernel knows.

A descriptor's bounds are those of the whole tensor. Here two more axes stand before the tensor's own, so that the
bound lies at the end of a part instead. Along the ragged axis the descriptor says that there are ``ROWS`` rows, and
row ``r`` of a part of n rows has the index ``ROWS - n + r``: in bounds as long as r is less than n. The axes in front
move the address back by ``ROWS`` rows, and forward by the row at which the part ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emu.kernels.core.messages import shown
from emu.triton.language.blocks import Scalars, scalar, sequence
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.conversion import constant
from emu.triton.language.descriptors import tensor_descriptor
from emu.triton.language.shapes import reshape
from emu.triton.language.types import int32
from emu.triton.language.values import tensor
from emu.triton.runtime import checks
from emu.triton.tools.tensor_descriptor import (
    DescriptorError,
    TensorDescriptor,
    integers,
    strides_of,
)

ROWS = 1 << 30
"""Extent of the ragged axis; a tensor must not have more rows."""

MAX_RANK = 3
_UNBOUNDED = 2**31 - 1


def create_ragged_descriptor(
    T: Any, block_shape: Sequence[int], ragged_dim: int = 0
) -> TensorDescriptor:
    """Return a descriptor of parts of a tensor, for the functions of this module.

    Args:
        T: A tensor or array of 2 or 3 axes.
        block_shape: Extents of a block, one an axis.
        ragged_dim: The axis along which the parts lie; not the last.

    Raises:
        DescriptorError: The tensor has more axes, the axis is the last or none, or it has more than 2**30 rows.
        TypeError: ``T`` is not a tensor, or another argument is not of integers.
    """
    if isinstance(T, type) or not isinstance(getattr(T, "shape", None), Sequence):
        raise TypeError(f"T must be a tensor or array, but got {shown(T, with_type=True)}")
    shape, block = list(T.shape), list(integers("block_shape", block_shape))
    rank, axis = len(shape), checks.as_integer("ragged_dim", ragged_dim)
    axis += rank if axis < 0 else 0
    if rank > MAX_RANK:
        raise DescriptorError(f"T must have at most {MAX_RANK} axes, but got {rank}")
    if not 0 <= axis < rank - 1:
        raise DescriptorError(
            f"ragged_dim must be an axis of T other than the last, but got {ragged_dim} of {rank} axes"
        )
    if len(block) != rank:
        raise DescriptorError(
            f"block_shape must have {rank} extents, as T has axes, but got {block}"
        )
    if shape[axis] > ROWS:
        raise DescriptorError(f"T must have at most {ROWS} rows, but got {shape[axis]}")
    shape[axis] = ROWS
    strides = strides_of(T)
    return TensorDescriptor(
        T,
        [_UNBOUNDED, _UNBOUNDED, *shape],
        [-strides[axis], strides[axis], *strides],
        [1, 1, *block],
    )


def to_ragged_indices(slice_off: object, slice_size: object, row: object) -> Scalars:
    """Return the indices along the two axes in front and along the ragged axis.

    Args:
        slice_off: First row of the part.
        slice_size: Number of its rows.
        row: Row of the part.
    """
    offset, size = scalar("slice_off", slice_off, int32), scalar("slice_size", slice_size, int32)
    rows = constant(ROWS, int32)
    return rows, offset + size, rows - size + scalar("row", row, int32)


def load_ragged(
    TMA: tensor_descriptor,
    slice_off: object,
    slice_size: object,
    coords: object,
    ragged_dim: ConstexprLike[int] = 0,
) -> tensor:
    """Return a block of the rows ``slice_off : slice_off + slice_size``; beyond them it is padding.

    Args:
        TMA: A descriptor that :func:`create_ragged_descriptor` made.
        slice_off: First row of the part.
        slice_size: Number of its rows.
        coords: Index of the block's first element within the part.
        ragged_dim: The axis along which the parts lie.
    """
    at = _indices(TMA, slice_off, slice_size, coords, ragged_dim)
    found = TMA.load(at)
    return reshape(found, TMA.block_shape[2:])


def store_ragged(
    TMA: tensor_descriptor,
    slice_off: object,
    slice_size: object,
    coords: object,
    data: tensor,
    ragged_dim: ConstexprLike[int] = 0,
) -> tensor:
    """Write a block to the rows ``slice_off : slice_off + slice_size``; what is beyond them is dropped.

    Args:
        TMA: As of :func:`load_ragged`, and the next three.
        slice_off: First row of the part.
        slice_size: Number of its rows.
        coords: Index of the block's first element within the part.
        data: The block.
        ragged_dim: The axis along which the parts lie.
    """
    at = _indices(TMA, slice_off, slice_size, coords, ragged_dim)
    return TMA.store(at, reshape(data, (1, 1, *data.extents)))


def atomic_add_ragged(
    TMA: tensor_descriptor,
    slice_off: object,
    slice_size: object,
    coords: object,
    data: tensor,
    ragged_dim: ConstexprLike[int] = 0,
) -> tensor:
    """Add a block to the rows that :func:`store_ragged` writes, each element atomically."""
    at = _indices(TMA, slice_off, slice_size, coords, ragged_dim)
    return TMA.atomic_add(at, reshape(data, (1, 1, *data.extents)))


def _indices(
    TMA: tensor_descriptor,
    slice_off: object,
    slice_size: object,
    coords: object,
    ragged_dim: ConstexprLike[int],
) -> list[object]:
    """Return the index of a block's first element within the descriptor's tensor."""
    if not isinstance(TMA, tensor_descriptor):
        raise TypeError(f"TMA must be a ragged descriptor, but got {TMA}")
    inside, axis = sequence("coords", coords), unwrap(ragged_dim)
    rank = TMA.type.rank - 2
    if len(inside) != rank:
        raise ValueError(
            f"coords must be {rank}, two less than {TMA} has axes, but got {len(inside)}"
        )
    if not isinstance(axis, int) or not -rank <= axis < rank - 1:
        raise ValueError(f"ragged_dim must be in [0, {rank - 1}), but got {axis!r}")
    back, end, row = to_ragged_indices(slice_off, slice_size, inside[axis])
    inside[axis] = row
    return [back, end, *inside]
