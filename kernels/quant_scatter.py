"""Quantised scatter: quantise updates and write them into segments of an int8 array, in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.kernels.address import array_data, as_pointer
from emu.kernels.dtypes import BF16, BFLOAT16, F16
from emu.kernels.errors import ArgumentError
from emu.kernels.jit import carray, jit
from emu.kernels.quant_rows import (
    BLOCK,
    DIVIDE,
    SCRATCH_BYTES,
    aligned_data,
    as_fp32,
    repeat_factors,
    scale_rows,
    scaled_walk,
)
from emu.kernels.strided import Array, is_operand, is_target

_INT8, _FLOAT16 = np.dtype(np.int8), np.dtype(np.float16)
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)

# Updates, and then scales and zero points that go with them.
_COMBINATIONS = {
    BFLOAT16: (BF16, BFLOAT16, BFLOAT16),
    _FLOAT16: (F16, _FLOAT32, _INT32),
}


def quant_scatter(
    target: Array,
    indices: Array,
    updates: Array,
    scales: Array,
    zero_points: Array | None = None,
    *,
    axis: int = -2,
    quant_axis: int = -1,
    align: int | None = 32,
    overlap: str = "refuse",
) -> Array:
    """Quantise ``updates`` and write them into ``target``, each row at its index.

    With ``q = clip(rint(updates / scales + zero_points), -128, 127)``, the arithmetic that of
    :func:`emu.kernels.quant.quantize`, row i becomes a segment of ``target`` whose run along ``axis``
    begins at the index: ``target[i, ..., indices[i] + k, ...] = q[i, ..., k, ...]`` for indices of one
    axis, ``target[indices[i, 0], ..., indices[i, 1] + k, ...] = q[i, ..., k, ...]`` for pairs.

    An empty ``updates`` changes nothing; its indices are not looked at.

    Args:
        target: int8, 3 to 8 axes, any strides; changed in place.
        indices: int32 or int64 of shape [n], or [n, 2], where n is the first extent of ``updates``.
        updates: As many axes as ``target``: the first extent at most that of ``target`` where indices
            have one axis, the extent along ``axis`` at most that of ``target``, the others equal. bf16
            or fp16.
        scales: As many elements as the last axis of ``updates``; bf16 for bf16 updates, fp32 for fp16.
        zero_points: As many elements; bf16 for bf16 updates, int32 for fp16. Default: none.
        axis: The axis along which segments begin at an index; neither the first nor the last.
        quant_axis: The axis of scales and zero points; must be the last.
        align: What the last extent of ``updates`` must be a multiple of; None for no such rule. The
            default is the hardware's: 32 bytes of int8.
        overlap: What to do where two rows write the same element: ``"refuse"``, or ``"last"``: the
            later row wins.

    Returns:
        ``target``.

    Raises:
        ArgumentError: An argument breaks one of these rules, an index does not leave room for its
            segment, or segments overlap and should not. ``target`` is unchanged.
    """
    along = _check_axes(target, updates, axis, quant_axis)
    combination = _COMBINATIONS.get(updates.dtype)
    if combination is None:
        raise ArgumentError(f"updates must be bfloat16 or float16, but got {updates.dtype}")
    kind, scale_dtype, zero_dtype = combination
    _check_indices_shape(indices, updates, target)
    _check_extents(target, updates, along, align)
    count = updates.shape[-1]
    scale = _vector("scales", scales, scale_dtype, updates.dtype, count)
    zero = np.zeros(count, _FLOAT32)
    if zero_points is not None:
        zero = _vector("zero_points", zero_points, zero_dtype, updates.dtype, count)
    if overlap not in ("refuse", "last"):
        raise ArgumentError(f"overlap must be 'refuse' or 'last', but got {overlap!r}")
    sources = {"indices": indices, "updates": updates, "scales": scales}
    is_target(
        "target",
        target,
        sources if zero_points is None else {**sources, "zero_points": zero_points},
    )
    if updates.size:
        offsets = _offsets(target, indices, updates.shape[along], along, overlap)
        _scatter(kind, target, offsets, updates, scale, zero)
    return target


def _check_axes(target: Array, updates: Array, axis: int, quant_axis: int) -> int:
    """Check ranks and axes; return ``axis`` counted from the first."""
    is_operand("target", target)
    is_operand("updates", updates)
    rank = target.ndim
    if target.dtype != _INT8:
        raise ArgumentError(f"target must have dtype int8, but got {target.dtype}")
    if not 3 <= rank <= 8:
        raise ArgumentError(f"target must have 3 to 8 axes, but got shape {target.shape}")
    if updates.ndim != rank:
        raise ArgumentError(
            f"updates must have {rank} axes as target has, but got shape {updates.shape}"
        )
    along = axis + rank if axis < 0 else axis
    if not 0 < along < rank - 1:
        raise ArgumentError(
            f"axis must be neither the first nor the last of {rank} axes "
            f"(1..{rank - 2} or {1 - rank}..-2), but got {axis}"
        )
    if quant_axis not in (-1, rank - 1):
        raise ArgumentError(
            f"quant_axis must be the last of {rank} axes (-1 or {rank - 1}), but got {quant_axis}"
        )
    return along


def _check_indices_shape(indices: Array, updates: Array, target: Array) -> None:
    is_operand("indices", indices)
    if indices.dtype not in (np.int32, np.int64):
        raise ArgumentError(f"indices must be int32 or int64, but got {indices.dtype}")
    if indices.ndim not in (1, 2) or (indices.ndim == 2 and indices.shape[1] != 2):
        raise ArgumentError(f"indices must have shape [n] or [n, 2], but got {indices.shape}")
    if updates.shape[0] != indices.shape[0]:
        raise ArgumentError(
            f"updates must have {indices.shape[0]} rows, one for each index, "
            f"but got shape {updates.shape}"
        )
    if indices.ndim == 1 and updates.shape[0] > target.shape[0]:
        raise ArgumentError(
            f"updates must have at most {target.shape[0]} rows, those of target, "
            f"but got shape {updates.shape}"
        )


def _check_extents(target: Array, updates: Array, along: int, align: int | None) -> None:
    if updates.shape[along] > target.shape[along]:
        raise ArgumentError(
            f"updates must have an extent of at most {target.shape[along]} along axis {along}, "
            f"that of target, but got shape {updates.shape}"
        )
    for other in range(1, target.ndim):
        if other != along and updates.shape[other] != target.shape[other]:
            raise ArgumentError(
                f"updates must have the extent {target.shape[other]} along axis {other}, "
                f"that of target, but got shape {updates.shape}"
            )
    if align is not None and align < 1:
        raise ArgumentError(f"align must be at least 1 or None, but got {align}")
    if align is not None and updates.shape[-1] % align:
        raise ArgumentError(
            f"updates must have a last extent that is a multiple of {align} (align), "
            f"but got shape {updates.shape}"
        )


def _vector(
    name: str, value: Array, dtype: np.dtype[Any], updates: np.dtype[Any], count: int
) -> Array:
    is_operand(name, value)
    if value.dtype != dtype:
        raise ArgumentError(f"{name} must be {dtype} for {updates} updates, but got {value.dtype}")
    if value.size != count:
        raise ArgumentError(
            f"{name} must have {count} elements, one for each along the last axis of updates, "
            f"but got shape {value.shape}"
        )
    return as_fp32(value.reshape(-1))


def _offsets(target: Array, indices: Array, length: int, along: int, overlap: str) -> Array:
    """Check the indices; return where each segment begins, in bytes from the first element."""
    wide = np.ascontiguousarray(indices, np.int64)
    offsets = np.empty(len(wide), np.int64)
    last = target.shape[along] - length
    strides = (target.strides[0], target.strides[along])
    row = _find_offsets(
        id(wide), wide.ndim, len(wide), id(offsets), target.shape[0] - 1, last, *strides
    )
    if row >= 0:
        _refuse_index(wide, row, target.shape[0] - 1, last)
    if wide.ndim == 2 and overlap == "refuse":
        _refuse_overlap(wide[:, 0], wide[:, 1], length)
    return offsets


@jit()
def _find_offsets(
    indices: int,
    ndim: int,
    count: int,
    offsets: int,
    last_batch: int,
    last: int,
    batch_stride: int,
    stride: int,
) -> int:
    """Write the offset of each segment; return the first row whose index is out of range, or -1."""
    table = carray(as_pointer(array_data(indices)), (count * ndim,), np.int64)
    found = carray(as_pointer(array_data(offsets)), (count,), np.int64)
    for i in range(count):
        batch = i if ndim == 1 else table[2 * i]
        start = table[i] if ndim == 1 else table[2 * i + 1]
        if batch < 0 or batch > last_batch or start < 0 or start > last:
            return i
        found[i] = batch * batch_stride + start * stride
    return -1


def _refuse_index(indices: Array, row: int, last_batch: int, last: int) -> None:
    if indices.ndim == 1:
        name, bound, found = "indices", last, indices[row]
    elif 0 <= indices[row, 0] <= last_batch:
        name, bound, found = "indices[:, 1]", last, indices[row, 1]
    else:
        name, bound, found = "indices[:, 0]", last_batch, indices[row, 0]
    raise ArgumentError(f"{name} must be in 0..{bound}, but got {found} in row {row}")


def _refuse_overlap(batches: Array, starts: Array, length: int) -> None:
    order = np.lexsort((starts, batches))
    batch, start = batches[order], starts[order]
    close = (batch[1:] == batch[:-1]) & (start[1:] - start[:-1] < length)
    if close.any():
        at = int(close.argmax())
        first, second = sorted((int(order[at]), int(order[at + 1])))
        raise ArgumentError(
            "indices must give segments that do not overlap, but got rows "
            f"{first} and {second} at [{batches[first]}, {starts[first]}] and "
            f"[{batches[second]}, {starts[second]}], each {length} long"
        )


def _scatter(
    kind: int, target: Array, offsets: Array, updates: Array, scale: Array, zero: Array
) -> None:
    # The walk's table of axes is read by its address and lives as long as this name.
    walked = scaled_walk(
        updates.shape[1:], target.strides[1:], updates.strides[1:], updates.ndim - 2
    )
    scratch = np.empty(SCRATCH_BYTES, np.uint8)
    arrays = (id(target), id(updates), updates.itemsize, id(scale), id(zero), id(scratch))
    rows = (id(offsets), updates.strides[0], offsets.size)
    arguments = (kind, *arrays, *rows, *walked.steps)
    _scatter_rows(*arguments)


@jit()
def _scatter_rows(
    kind: int,
    target: int,
    updates: int,
    size: int,
    scale: int,
    zero: int,
    scratch: int,
    offsets: int,
    stride: int,
    count: int,
    copies: int,
    period: int,
    n: int,
    t_step: int,
    s_step: int,
    p_step: int,
    rows: int,
    t_row: int,
    s_row: int,
    p_row: int,
    planes: int,
    outer: int,
    axes: int,
) -> None:
    """Quantise update i into the segment of ``target`` at byte ``offsets[i]``, in order.

    ``target``, ``updates``, ``scale``, ``zero``, ``scratch`` and ``offsets`` are the ``id()`` of arrays.
    """
    first, source, room = array_data(target), array_data(updates), aligned_data(scratch)
    table = carray(as_pointer(array_data(offsets)), (count,), np.int64)
    a, z = array_data(scale), array_data(zero)
    if copies > 1:
        repeat_factors(a, z, copies, period, room)
        a, z = room, room + 4 * BLOCK
    for i in range(count):
        scale_rows(
            DIVIDE,
            kind,
            first + table[i],
            source + i * stride,
            1,
            size,
            a,
            z,
            copies * period,
            n,
            t_step,
            s_step,
            p_step,
            rows,
            t_row,
            s_row,
            p_row,
            planes,
            outer,
            axes,
            room,
        )
