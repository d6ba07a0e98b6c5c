"""The compiled loops of quantisation: rows of values, each with its scale and its zero point.

All arithmetic is in fp32, each operation rounded by itself: a division or a multiplication, then an
addition, then rounding to an integer, half to even. Nothing is fused, and a division is not replaced
by a reciprocal. NaN becomes 0; what is too large, infinities too, becomes -128 or 127.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from emu.kernels.cast import widen
from emu.kernels.core.address import aligned_data, array_data, as_pointer, move_bytes
from emu.kernels.core.dtypes import (
    BF16,
    F16,
    F32,
    FLOATS,
    bf16_to_f32,
    bits_f32,
    f16_to_f32,
    f32_bits_signed,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.core.jit import carray, jit
from emu.kernels.strided.copy import copy_row
from emu.kernels.strided.operands import Array, data, plane_offset, walk

DIVIDE, MULTIPLY, RESTORE = range(3)
"""What to do: quantise by dividing, by multiplying, or turn int8 back into values."""

BLOCK = 1024
"""Elements at a time where they are packed, or where one scale holds for all of them."""

SCRATCH_BYTES = (4 + 4 + 4 + 4) * BLOCK + 64
"""Private memory of the loops: scales, zero points, packed source, result to unpack; a cache line to
align them by."""

# Added to a value of at most 2**22, it leaves the nearest integer in the last bits of the sum, whose
# bit pattern, read as a signed integer, still grows with the value where that is larger or negative.
_MAGIC = np.float32(1.5 * 2**23)
_LOWEST, _HIGHEST = (np.int32(0x4B400000 + n) for n in (-128, 127))


def as_fp32(vector: Array) -> Array:
    """Return scales or zero points as a dense fp32 vector; it may be the same array."""
    dense = np.ascontiguousarray(vector).reshape(-1)
    if dense.dtype == np.float32:
        return dense
    kind = FLOATS.get(dense.dtype)
    if kind is None:
        return dense.astype(np.float32)
    wide = np.empty(dense.size, np.float32)
    widen(kind, data(wide), data(dense), dense.size)
    return wide


class Scaled(NamedTuple):
    """A walk of target, source and scales."""

    outer: Array
    """The axes of the planes; the kernels read it by its address."""
    steps: tuple[int, ...]
    """What the loops take from ``copies`` to ``axes``."""


def scaled_walk(
    shape: tuple[int, ...],
    target: tuple[int, ...],
    source: tuple[int, ...],
    axis: int | None,
) -> Scaled:
    """Order the axes of a target and a source whose elements have scales along an axis.

    Args:
        shape: Their shape; no extent is 0.
        target: Strides of the target in bytes.
        source: Strides of the source in bytes.
        axis: Along which the scales lie, not negative; None where one scale holds for all.

    Returns:
        The walk.
    """
    strides = tuple(4 if i == axis else 0 for i in range(len(shape)))
    inner, rows, planes, outer = walk(shape, target, source, strides)
    period, copies = inner[0], 1
    if inner[3] and not rows[3] and rows[1:3] == (inner[0] * inner[1], inner[0] * inner[2]):
        # Rows that follow each other under the same scales are one row. Where they are short, some
        # copies of the scales let the inner loop run longer.
        copies = max(1, min(rows[0], BLOCK // inner[0]))
        inner, rows = (inner[0] * rows[0], *inner[1:]), (1, 0, 0, 0)
    steps = (copies, period, *inner, *rows, planes, data(outer), outer.size // 4)
    return Scaled(outer, steps)


@jit(inline="always")
def _to_int8(value: Any) -> Any:
    total = value + _MAGIC if value == value else _MAGIC  # noqa: PLR0124 - false for NaN
    return np.int8(max(min(f32_bits_signed(total), _HIGHEST), _LOWEST))


@jit()
def _divide(kind: int, target: int, source: int, scale: int, zero: int, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.int8)
    s16 = carray(as_pointer(source), (n,), np.uint16)
    s32 = carray(as_pointer(source), (n,), np.float32)
    a = carray(as_pointer(scale), (n,), np.float32)
    z = carray(as_pointer(zero), (n,), np.float32)
    if kind == BF16:
        for i in range(n):
            d[i] = _to_int8(bf16_to_f32(s16[i]) / a[i] + z[i])
    elif kind == F16:
        for i in range(n):
            d[i] = _to_int8(f16_to_f32(s16[i]) / a[i] + z[i])
    else:
        for i in range(n):
            d[i] = _to_int8(s32[i] / a[i] + z[i])


@jit()
def _multiply(kind: int, target: int, source: int, scale: int, zero: int, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.int8)
    s16 = carray(as_pointer(source), (n,), np.uint16)
    s32 = carray(as_pointer(source), (n,), np.float32)
    a = carray(as_pointer(scale), (n,), np.float32)
    z = carray(as_pointer(zero), (n,), np.float32)
    if kind == BF16:
        for i in range(n):
            d[i] = _to_int8(bf16_to_f32(s16[i]) * a[i] + z[i])
    elif kind == F16:
        for i in range(n):
            d[i] = _to_int8(f16_to_f32(s16[i]) * a[i] + z[i])
    else:
        for i in range(n):
            d[i] = _to_int8(s32[i] * a[i] + z[i])


@jit()
def _restore(kind: int, target: int, source: int, scale: int, zero: int, n: int) -> None:
    d16 = carray(as_pointer(target), (n,), np.uint16)
    d32 = carray(as_pointer(target), (n,), np.float32)
    s = carray(as_pointer(source), (n,), np.int8)
    a = carray(as_pointer(scale), (n,), np.float32)
    z = carray(as_pointer(zero), (n,), np.float32)
    if kind == BF16:
        for i in range(n):
            d16[i] = f32_to_bf16((np.float32(s[i]) + z[i]) * a[i])
    elif kind == F16:
        for i in range(n):
            d16[i] = f32_to_f16((np.float32(s[i]) + z[i]) * a[i])
    else:
        for i in range(n):
            d32[i] = (np.float32(s[i]) + z[i]) * a[i]


@jit()
def _block(op: int, kind: int, target: int, source: int, scale: int, zero: int, n: int) -> None:
    if op == DIVIDE:
        _divide(kind, target, source, scale, zero, n)
    elif op == MULTIPLY:
        _multiply(kind, target, source, scale, zero, n)
    else:
        _restore(kind, target, source, scale, zero, n)


@jit()
def _fill(target: int, value: Any, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.float32)
    for i in range(n):
        d[i] = value


@jit()
def _row(
    op: int,
    kind: int,
    target: int,
    source: int,
    t_size: int,
    s_size: int,
    n: int,
    t_step: int,
    s_step: int,
    scale: int,
    zero: int,
    period: int,
    scratch: int,
) -> None:
    """Convert ``n`` elements; scales and zero points repeat after ``period``."""
    packed = scratch + 8 * BLOCK
    result = packed + 4 * BLOCK
    dense = t_step == t_size and s_step == s_size
    for start in range(0, n, period):
        end = min(start + period, n)
        if dense:
            t, s = target + start * t_size, source + start * s_size
            _block(op, kind, t, s, scale, zero, end - start)
            continue
        for first in range(start, end, BLOCK):
            m = min(BLOCK, end - first)
            at = 4 * (first - start)
            copy_row(s_size, packed, source + first * s_step, m, s_size, s_step)
            _block(op, kind, result, packed, scale + at, zero + at, m)
            copy_row(t_size, target + first * t_step, result, m, t_step, t_size)


@jit()
def factors(scale: int, zero: int, copies: int, period: int, scratch: int) -> Any:
    """Return the addresses of the scales and zero points in the arrays with these ``id()``.

    Where ``copies`` of their ``period`` elements are asked for, these are written to ``scratch`` first.
    """
    a, z = array_data(scale), array_data(zero)
    if copies == 1:
        return a, z
    for i in range(copies):
        move_bytes(scratch + 4 * i * period, a, 4 * period)
        move_bytes(scratch + 4 * (BLOCK + i * period), z, 4 * period)
    return scratch, scratch + 4 * BLOCK


@jit()
def scale_rows(
    op: int,
    kind: int,
    target: int,
    source: int,
    t_size: int,
    s_size: int,
    scale: int,
    zero: int,
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
    scratch: int,
) -> None:
    """Quantise or restore a walk (``emu.kernels.strided.operands``) of target, source and scale.

    Args:
        op: ``DIVIDE``, ``MULTIPLY`` or ``RESTORE``.
        kind: Kind of the floating-point side (``F32``, ``F16``, ``BF16``); the other is int8.
        target: Address of the result.
        source: Address of what to convert.
        t_size: Bytes of an element of the target.
        s_size: Bytes of an element of the source.
        scale: Address of the scales, fp32.
        zero: Address of as many zero points, fp32.
        period: Scales there are for the elements of a row, which begin again after so many; where
            ``p_step`` is 0 it means nothing.
        n: Elements in a row.
        t_step: Bytes between them in the target.
        s_step: Bytes between them in the source.
        p_step: Bytes between their scales: 4, or 0 where a row has one scale.
        rows: Rows in a plane; ``t_row``, ``s_row`` and ``p_row`` are the bytes between them.
        t_row: See ``rows``.
        s_row: See ``rows``.
        p_row: See ``rows``.
        planes: Planes; ``outer`` is the address of their ``axes`` axes.
        outer: See ``planes``.
        axes: See ``planes``.
        scratch: Address of ``SCRATCH_BYTES - 64`` bytes that nobody else uses, but that may begin with
            the scales and zero points of :func:`factors`.
    """
    filled = -1
    for plane in range(planes):
        t_plane = target + plane_offset(plane, outer, axes, 3, 0)
        s_plane = source + plane_offset(plane, outer, axes, 3, 1)
        p_plane = plane_offset(plane, outer, axes, 3, 2)
        for row in range(rows):
            p = p_plane + row * p_row
            a, z, repeat = scale + p, zero + p, period
            if p_step == 0:
                if p != filled:
                    m = min(n, BLOCK)
                    _fill(scratch, carray(as_pointer(a), (1,), np.float32)[0], m)
                    _fill(scratch + 4 * BLOCK, carray(as_pointer(z), (1,), np.float32)[0], m)
                    filled = p
                a, z, repeat = scratch, scratch + 4 * BLOCK, BLOCK
            t, s = t_plane + row * t_row, s_plane + row * s_row
            _row(op, kind, t, s, t_size, s_size, n, t_step, s_step, a, z, repeat, scratch)


@jit()
def scale_arrays(
    op: int,
    kind: int,
    target: int,
    source: int,
    t_size: int,
    s_size: int,
    scale: int,
    zero: int,
    scratch: int,
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
    """:func:`scale_rows` of arrays: ``target`` to ``scratch`` are the ``id()`` of each."""
    t, s, room = array_data(target), array_data(source), aligned_data(scratch)
    a, z = factors(scale, zero, copies, period, room)
    scale_rows(
        op,
        kind,
        t,
        s,
        t_size,
        s_size,
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


@jit()
def _largest(kind: int, source: int, n: int) -> Any:
    """Return the largest magnitude, NaN above all; magnitudes sort like their bit patterns."""
    if kind == F32:
        s32 = carray(as_pointer(source), (n,), np.uint32)
        top32 = np.uint32(0)
        for i in range(n):
            top32 = max(top32, s32[i] & np.uint32(0x7FFFFFFF))
        return bits_f32(top32)
    s16 = carray(as_pointer(source), (n,), np.uint16)
    top16: Any = np.uint16(0)
    for i in range(n):
        top16 = max(top16, np.uint16(s16[i] & np.uint16(0x7FFF)))
    return bf16_to_f32(top16) if kind == BF16 else f16_to_f32(top16)


@jit()
def scale_and_quantize_rows(
    kind: int,
    target: int,
    source: int,
    s_size: int,
    scales: int,
    n: int,
    rows: int,
    t_row: int,
    s_row: int,
    p_row: int,
    planes: int,
    outer: int,
    axes: int,
    scratch: int,
) -> None:
    """Give each dense row of ``n`` elements the scale ``largest magnitude / 127`` and quantise it.

    The arguments are those of :func:`scale_rows`; ``p_row`` is the distance of the fp32 results
    that begin at ``scales``, and ``scratch`` the ``id()`` of an array.
    """
    m = min(n, BLOCK)
    room = aligned_data(scratch)
    zeros = room + 4 * BLOCK
    _fill(zeros, np.float32(0.0), m)
    for plane in range(planes):
        t_plane = target + plane_offset(plane, outer, axes, 3, 0)
        s_plane = source + plane_offset(plane, outer, axes, 3, 1)
        p_plane = scales + plane_offset(plane, outer, axes, 3, 2)
        for row in range(rows):
            t, s = t_plane + row * t_row, s_plane + row * s_row
            scale = np.float32(_largest(kind, s, n) / np.float32(127.0))
            carray(as_pointer(p_plane + row * p_row), (1,), np.float32)[0] = scale
            _fill(room, scale, m)
            _row(DIVIDE, kind, t, s, 1, s_size, n, 1, s_size, room, zeros, BLOCK, room)
