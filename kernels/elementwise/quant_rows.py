"""The compiled loops of quantisation: rows of values, each with its scale and its zero point.

All arithmetic is in fp32, each operation rounded by itself: a division or a multiplication, then an
addition, then rounding to an integer, half to even. Nothing is fused, and a division is not replaced
by a reciprocal. NaN becomes 0; what is too large, infinities too, becomes -128 or 127.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.atomics import fence
from emu.kernels.cast import widen
from emu.kernels.core.address import aligned_data, array_data, as_pointer, move_bytes
from emu.kernels.core.annotations import Array, Bits, EntryPoint, IrBuilder, IrValue, Real
from emu.kernels.core.caches import last_cache
from emu.kernels.core.dtypes import (
    BF16,
    F16,
    F32,
    FLOATS,
    bf16_to_f32,
    f16_to_f32,
    f32_bits_signed,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.core.jit import annotated_entry, carray, fixed_intrinsic, jit
from emu.kernels.elementwise.channel_scales import PAST_ALIGN, quantize_channels, tabulate
from emu.kernels.elementwise.one_scale import GROUP, Divisor, divisor_for, quantize_groups
from emu.kernels.strided.copy import copy_row
from emu.kernels.strided.operands import Planes, Sides, data, plane_offset, walk

DIVIDE, MULTIPLY, RESTORE = range(3)
"""Operations: quantise by dividing, by multiplying, or turn int8 back into values."""

BLOCK = 1024
"""Elements at a time where they are packed, or where one scale holds for all of them."""

SCRATCH_BYTES = (4 + 4 + 4 + 4 + 4 + 4) * BLOCK + 64
"""Private memory of the loops: scales, zero points, packed source, result to unpack, both parts of the scales'
reciprocals; a cache line to align them by."""

_WORTH = 4
"""Rows from which it pays to tabulate reciprocals of their scales."""

# Added to a value of at most 2**22, it leaves the nearest integer in the last bits of the sum, whose
# bit pattern, read as a signed integer, still grows with the value where that is larger or negative.
_MAGIC = np.float32(1.5 * 2**23)
_LOWEST, _HIGHEST = (np.int32(0x4B400000 + n) for n in (-128, 127))


def is_beyond_caches(nbytes: int) -> bool:
    """Return whether a result of so many bytes will not be found in the caches by whoever reads it."""
    return nbytes > last_cache() // 2


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


class Loop(NamedTuple):
    """One loop over target, source and scales: its extent, and the bytes from one step to the next.

    The scales advance by 4 bytes, or by 0 where one scale holds for all.
    """

    extent: int
    target: int
    source: int
    scale: int


class ScaledWalk(NamedTuple):
    """Walk of target, source and scales, as compiled code takes it.

    Attributes:
        copies: Copies of the scales to make, so that short rows can be walked as one.
        period: Scales there are for a row, after which they repeat.
        inner: Loop over the elements of a row.
        rows: Loop over the rows of a plane.
        planes: The axes around that.
    """

    copies: int
    period: int
    inner: Loop
    rows: Loop
    planes: Planes


class Scales(NamedTuple):
    """Addresses of the scales and zero points of a row, fp32, and the number of them before they repeat.

    ``past`` says that results go past the caches. ``high`` and ``low`` are the addresses of both parts of their reciprocals (:mod:`emu.kernels.elementwise.channel_scales`);
    0: values are scaled one by one.
    """

    scale: int
    zero: int
    period: int
    past: int
    high: int
    low: int


def scaled_walk(
    shape: tuple[int, ...],
    target: tuple[int, ...],
    source: tuple[int, ...],
    axis: int | None,
) -> tuple[tuple[object, ...], Array]:
    """Order the axes of a target and a source whose elements have scales along an axis.

    Args:
        shape: Common shape; no extent is 0.
        target: Strides of the target in bytes.
        source: Strides of the source in bytes.
        axis: Axis along which the scales lie, not negative; None where one scale holds for all.

    Returns:
        The fields of a :class:`ScaledWalk`, and the table that it points to: keep it as long.
    """
    strides = tuple(4 if i == axis else 0 for i in range(len(shape)))
    found = walk(shape, target, source, strides)
    inner, rows = found.inner, found.rows
    extent, t_step, s_step, p_step = inner
    copies = 1
    if p_step and not rows[3] and rows[1:3] == (extent * t_step, extent * s_step):
        # Rows that follow each other under the same scales are one row. Where they are short, some
        # copies of the scales let the inner loop run longer.
        copies = max(1, min(rows[0], BLOCK // extent))
        inner, rows = (extent * rows[0], t_step, s_step, p_step), (1, 0, 0, 0)
    return (copies, extent, inner, rows, found.planes), found.table


@jit(inline="always")
def _to_int8(value: Real) -> np.int8:
    total = value + _MAGIC if value == value else _MAGIC  # noqa: PLR0124 - false for NaN
    return np.int8(max(min(f32_bits_signed(total), _HIGHEST), _LOWEST))


@jit(inline="always")
def _scaled(op: int, value: Real, scale: Real) -> Real:
    return value / scale if op == DIVIDE else value * scale


@jit()
def _quantize(op: int, kind: int, target: int, source: int, scale: int, zero: int, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.int8)
    s16 = carray(as_pointer(source), (n,), np.uint16)
    s32 = carray(as_pointer(source), (n,), np.float32)
    a = carray(as_pointer(scale), (n,), np.float32)
    z = carray(as_pointer(zero), (n,), np.float32)
    if kind == BF16:
        for i in range(n):
            d[i] = _to_int8(_scaled(op, bf16_to_f32(s16[i]), a[i]) + z[i])
    elif kind == F16:
        for i in range(n):
            d[i] = _to_int8(_scaled(op, f16_to_f32(s16[i]), a[i]) + z[i])
    else:
        for i in range(n):
            d[i] = _to_int8(_scaled(op, s32[i], a[i]) + z[i])


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
def _block(
    op: int, kind: int, target: int, source: int, scales: Scales, first: int, n: int
) -> None:
    """Convert ``n`` dense elements, whose scales begin with number ``first``."""
    at = 4 * first
    scale, zero = scales.scale + at, scales.zero + at
    if op == RESTORE:
        _restore(kind, target, source, scale, zero, n)
        return
    done = 0
    if scales.high:
        size = 4 if kind == F32 else 2
        groups = n // GROUP
        group = 0
        while group < groups:
            done = group * GROUP
            by = at + 4 * done
            past = scales.past != 0 and (target + done) % PAST_ALIGN == 0
            tables = (scales.scale + by, scales.zero + by, scales.high + by, scales.low + by)
            s, t = source + done * size, target + done
            group += quantize_channels(op == DIVIDE, kind, t, s, groups - group, tables, past)
            if group < groups:  # it has a strange value
                by = 4 * group * GROUP
                s, t = source + group * GROUP * size, target + group * GROUP
                _quantize(op, kind, t, s, scale + by, zero + by, GROUP)
                group += 1
        done = groups * GROUP
        source, target = source + done * size, target + done
    if done < n:
        _quantize(op, kind, target, source, scale + 4 * done, zero + 4 * done, n - done)


@jit()
def _fill(target: int, value: Real, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.float32)
    for i in range(n):
        d[i] = value


@jit()
def _row(op: int, kind: int, sides: Sides, loop: Loop, scales: Scales, scratch: int) -> None:
    """Convert the elements of a row, which begins at the addresses of ``sides``."""
    t_size, s_size = sides.target_size, sides.source_size
    packed = scratch + 8 * BLOCK
    result = packed + 4 * BLOCK
    dense = loop.target == t_size and loop.source == s_size
    near = Scales(scales.scale, scales.zero, scales.period, 0, scales.high, scales.low)
    for start in range(0, loop.extent, scales.period):
        end = min(start + scales.period, loop.extent)
        if dense:
            t, s = sides.target + start * t_size, sides.source + start * s_size
            _block(op, kind, t, s, scales, 0, end - start)
            continue
        for first in range(start, end, BLOCK):
            m = min(BLOCK, end - first)
            s, t = sides.source + first * loop.source, sides.target + first * loop.target
            copy_row(s_size, packed, s, m, s_size, loop.source)
            _block(op, kind, result, packed, near, first - start, m)
            copy_row(t_size, t, result, m, loop.target, t_size)


@jit()
def _row_by_one(
    kind: int, inside: bool, sides: Sides, loop: Loop, by: Divisor, scratch: int
) -> None:
    """:func:`_row` where all elements are divided by one divisor that :func:`divisor_for` fits."""
    t_size, s_size, n = sides.target_size, sides.source_size, loop.extent
    packed = scratch + 8 * BLOCK
    result = packed + 4 * BLOCK
    if loop.target == t_size and loop.source == s_size:
        groups = n // GROUP
        quantize_groups(kind, inside, sides.target, sides.source, groups, by)
        done = groups * GROUP
        if done < n:
            move_bytes(packed, sides.source + done * s_size, (n - done) * s_size)
            quantize_groups(kind, inside, result, packed, 1, by)
            move_bytes(sides.target + done, result, n - done)
        return
    for first in range(0, n, BLOCK):
        m = min(BLOCK, n - first)
        s, t = sides.source + first * loop.source, sides.target + first * loop.target
        copy_row(s_size, packed, s, m, s_size, loop.source)
        quantize_groups(kind, inside, result, packed, (m + GROUP - 1) // GROUP, by)
        copy_row(t_size, t, result, m, loop.target, t_size)


@jit()
def repeated_scales(scale: int, zero: int, walk: ScaledWalk, past: int, scratch: int) -> Scales:
    """Return the scales and zero points in the arrays with these ``id()``.

    Where the walk wants copies of them, these are written to ``scratch`` first. ``past``: results go past the caches.
    """
    copies, period = walk.copies, walk.period
    a, z = array_data(scale), array_data(zero)
    if copies == 1:
        return Scales(a, z, period, past, 0, 0)
    for i in range(copies):
        move_bytes(scratch + 4 * i * period, a, 4 * period)
        move_bytes(scratch + 4 * (BLOCK + i * period), z, 4 * period)
    return Scales(scratch, scratch + 4 * BLOCK, copies * period, past, 0, 0)


@jit()
def scale_rows(
    op: int, kind: int, sides: Sides, scales: Scales, walk: ScaledWalk, scratch: int
) -> None:
    """Quantise or restore all rows of a walk.

    Args:
        op: ``DIVIDE``, ``MULTIPLY`` or ``RESTORE``.
        kind: Kind of the floating-point side (``F32``, ``F16``, ``BF16``); the other is int8.
        sides: Where the result goes, and what is converted.
        scales: The scales and zero points; where a row has one scale the period means nothing.
        walk: The walk.
        scratch: Address of ``SCRATCH_BYTES - 64`` bytes that nobody else uses, but that may begin with
            the scales and zero points of :func:`repeated_scales`.
    """
    filled = tabulated = -1
    by_one, by = divisor_for(np.float32(0.0), np.float32(0.0))
    inner, rows = walk.inner, walk.rows
    repeats = inner.extent * rows.extent * walk.planes.total // max(scales.period, 1)
    may_tabulate = op != RESTORE and inner.scale != 0 and scales.period <= BLOCK
    may_tabulate = may_tabulate and repeats >= _WORTH
    high, low = scratch + 16 * BLOCK, scratch + 20 * BLOCK
    has_tables = False
    for plane in range(walk.planes.total):
        t_plane = sides.target + plane_offset(walk.planes, plane, 3, 0)
        s_plane = sides.source + plane_offset(walk.planes, plane, 3, 1)
        p_plane = plane_offset(walk.planes, plane, 3, 2)
        for row in range(rows.extent):
            p = p_plane + row * rows.scale
            here = Scales(scales.scale + p, scales.zero + p, scales.period, scales.past, 0, 0)
            if may_tabulate:
                if p != tabulated:
                    n = min(scales.period, inner.extent)
                    has_tables = tabulate(op == DIVIDE, here.scale, here.zero, high, low, n)
                    tabulated = p
                if has_tables:
                    here = Scales(here.scale, here.zero, here.period, here.past, high, low)
            if inner.scale == 0:
                if p != filled:
                    a = carray(as_pointer(here.scale), (1,), np.float32)[0]
                    z = carray(as_pointer(here.zero), (1,), np.float32)[0]
                    if op == DIVIDE:
                        by_one, by = divisor_for(a, z)
                    if not by_one:
                        m = min(inner.extent, BLOCK)
                        _fill(scratch, a, m)
                        _fill(scratch + 4 * BLOCK, z, m)
                    filled = p
                here = Scales(scratch, scratch + 4 * BLOCK, BLOCK, 0, 0, 0)
            t, s = t_plane + row * rows.target, s_plane + row * rows.source
            part = Sides(t, s, sides.target_size, sides.source_size)
            if by_one:
                _row_by_one(kind, False, part, inner, by, scratch)
            else:
                _row(op, kind, part, inner, here, scratch)


@jit()
def _scale_arrays(
    op: int,
    kind: int,
    sides: Sides,
    scale: int,
    zero: int,
    scratch: int,
    walk: ScaledWalk,
    past: int,
) -> None:
    """:func:`scale_rows` of arrays given by their ``id()``."""
    room = aligned_data(scratch)
    scales = repeated_scales(scale, zero, walk, past, room)
    t, s = array_data(sides.target), array_data(sides.source)
    here = Sides(t, s, sides.target_size, sides.source_size)
    scale_rows(op, kind, here, scales, walk, room)
    if past:
        fence()  # others must not see what comes next before what was stored past the caches


@functools.cache
def scale_arrays() -> EntryPoint:
    """Return the entry of :func:`_scale_arrays`."""
    return annotated_entry(_scale_arrays)


@fixed_intrinsic(types.float32, types.float32, types.float32)
def _larger(builder: IrBuilder, top: IrValue, value: IrValue) -> IrValue:
    """Return the larger of a magnitude and that of a value; in LLVM's types, as Numba's would be 64 bits wide."""
    i32 = ir.IntType(32)
    a = builder.bitcast(top, i32)
    b = builder.and_(builder.bitcast(value, i32), ir.Constant(i32, 0x7FFFFFFF))
    return builder.bitcast(builder.select(builder.icmp_signed(">", a, b), a, b), ir.FloatType())


@jit()
def _largest(kind: int, source: int, n: int) -> Real:
    """Return the largest magnitude, NaN above all; magnitudes sort like their bit patterns."""
    if kind == F32:
        s32 = carray(as_pointer(source), (n,), np.float32)
        top32 = np.float32(0)
        for i in range(n):
            top32 = _larger(top32, s32[i])
        return top32
    s16 = carray(as_pointer(source), (n,), np.uint16)
    top16: Bits = np.uint16(0)
    for i in range(n):
        top16 = max(top16, np.uint16(s16[i] & np.uint16(0x7FFF)))
    return bf16_to_f32(top16) if kind == BF16 else f16_to_f32(top16)


@jit()
def _quantize_dynamic(
    kind: int, sides: Sides, scales: int, n: int, rows: Loop, planes: Planes, scratch: int
) -> None:
    """Give each dense row of ``n`` elements the scale ``largest magnitude / 127`` and quantise it.

    Args:
        kind: Kind of the source.
        sides: Where the result goes, and what is converted.
        scales: Address of the scales that are written, fp32.
        n: Elements in a row.
        rows: Loop over the rows of a plane; its scales are those written.
        planes: The axes around that.
        scratch: The ``id()`` of an array of ``SCRATCH_BYTES`` bytes.
    """
    room = aligned_data(scratch)
    zeros = room + 4 * BLOCK
    dense = Loop(n, 1, sides.source_size, 0)
    for plane in range(planes.total):
        t_plane = sides.target + plane_offset(planes, plane, 3, 0)
        s_plane = sides.source + plane_offset(planes, plane, 3, 1)
        p_plane = scales + plane_offset(planes, plane, 3, 2)
        for row in range(rows.extent):
            t, s = t_plane + row * rows.target, s_plane + row * rows.source
            scale = np.float32(_largest(kind, s, n) / np.float32(127.0))
            carray(as_pointer(p_plane + row * rows.scale), (1,), np.float32)[0] = scale
            part = Sides(t, s, 1, sides.source_size)
            fits, by = divisor_for(scale, np.float32(0.0))
            if fits:
                _row_by_one(kind, True, part, dense, by, room)
            else:
                _fill(room, scale, min(n, BLOCK))
                _fill(zeros, np.float32(0.0), min(n, BLOCK))
                _row(DIVIDE, kind, part, dense, Scales(room, zeros, BLOCK, 0, 0, 0), room)


@functools.cache
def quantize_dynamic() -> EntryPoint:
    """Return the entry of :func:`_quantize_dynamic`."""
    return annotated_entry(_quantize_dynamic)
