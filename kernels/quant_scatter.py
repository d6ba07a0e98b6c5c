"""Quantised scatter: quantise updates and write them into segments of an int8 array, in place."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from emu.kernels.atomics import fence
from emu.kernels.core.address import aligned_data, array_data, as_pointer
from emu.kernels.core.annotations import Array, EntryPoint
from emu.kernels.core.dtypes import kinds_of
from emu.kernels.core.jit import annotated_entry, carray, jit
from emu.kernels.elementwise.quant_rows import (
    DIVIDE,
    SCRATCH_BYTES,
    ScaledWalk,
    as_fp32,
    is_beyond_caches,
    repeated_scales,
    scale_rows,
    scaled_walk,
)
from emu.kernels.elementwise.scatter_rules import (
    check_channels,
    check_scatter,
    colliding,
    refuse_index,
    refuse_overlap,
)
from emu.kernels.strided.operands import Sides, check_operand, check_target

_KINDS = kinds_of("bfloat16", "float16")


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

    An empty ``updates`` changes nothing; its indices are not checked.

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
    for name, value in (("target", target), ("updates", updates), ("indices", indices)):
        check_operand(name, value)
    along = check_scatter(target, indices, updates, axis, quant_axis, align, overlap)
    scale = _factor("scales", scales, updates)
    if zero_points is None:
        zero = np.zeros(updates.shape[-1], np.float32)
    else:
        zero = _factor("zero_points", zero_points, updates)
    sources = {"indices": indices, "updates": updates, "scales": scales}
    check_target(
        "target",
        target,
        sources if zero_points is None else {**sources, "zero_points": zero_points},
    )
    if updates.size:
        offsets = _offsets(target, indices, updates.shape[along], along, overlap)
        _scatter(_KINDS[updates.dtype], target, offsets, updates, scale, zero)
    return target


def _factor(name: str, value: Array, updates: Array) -> Array:
    check_operand(name, value)
    check_channels(name, value, updates)
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
        refuse_index(wide, row, target.shape[0] - 1, last)
    if wide.ndim == 2 and overlap == "refuse":
        rows = colliding(wide, length)
        if rows is not None:
            refuse_overlap(wide, rows, length)
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


def _scatter(
    kind: int, target: Array, offsets: Array, updates: Array, scale: Array, zero: Array
) -> None:
    # Compiled code reads the table by its address: it must live as long as this name.
    found, table = scaled_walk(
        updates.shape[1:], target.strides[1:], updates.strides[1:], updates.ndim - 2
    )
    scratch = np.empty(SCRATCH_BYTES, np.uint8)
    sides = (id(target), id(updates), 1, updates.itemsize)
    segments = (id(offsets), updates.strides[0], offsets.size)
    past = int(is_beyond_caches(updates.size))
    _scatter_entry()(kind, sides, id(scale), id(zero), id(scratch), segments, found, past)
    del table


class _Segments(NamedTuple):
    """Destinations of updates: the ``id()`` of their offsets in bytes, bytes between updates, their number."""

    offsets: int
    stride: int
    total: int


@functools.cache
def _scatter_entry() -> EntryPoint:
    return annotated_entry(_scatter_rows)


@jit()
def _scatter_rows(
    kind: int,
    sides: Sides,
    scale: int,
    zero: int,
    scratch: int,
    segments: _Segments,
    walk: ScaledWalk,
    past: int,
) -> None:
    """Quantise each update into its segment of the target, in order; arrays are given by their ``id()``."""
    first, source = array_data(sides.target), array_data(sides.source)
    room = aligned_data(scratch)
    table = carray(as_pointer(array_data(segments.offsets)), (segments.total,), np.int64)
    scales = repeated_scales(scale, zero, walk, past, room)
    for i in range(segments.total):
        part = Sides(first + table[i], source + i * segments.stride, 1, sides.source_size)
        scale_rows(DIVIDE, kind, part, scales, walk, room)
    if past:
        fence()  # others must not see what comes next before what was stored past the caches


__all__ = ["quant_scatter"]
