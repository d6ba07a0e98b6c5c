"""Conversion of whole arrays between the floating-point dtypes, with one rounding.

Everything passes through fp32, a block at a time that stays in the L1 cache: fp32 holds each value
of a narrower dtype exactly, and an fp64 value on its way to fewer than 22 bits of mantissa is cut to
fp32 in the manner that leaves the second rounding right (``emu.kernels.core.dtypes.f64_to_f32_odd``).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
from numba.core import config

from emu.kernels.core import dtypes
from emu.kernels.core.address import (
    array_data,
    as_pointer,
    move_bytes,
    prefetch_line,
    prefetch_line_to_write,
)
from emu.kernels.core.annotations import Array, CArray, EntryPoint, Number
from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import BF16, F8_E4M3FN, F16, F32, F64, FLOATS
from emu.kernels.core.float_groups import GROUP, narrow_groups, widen_groups
from emu.kernels.core.jit import annotated_entry, carray, jit
from emu.kernels.errors import ArgumentError
from emu.kernels.strided.access_plan import Axis
from emu.kernels.strided.copy import copy_row
from emu.kernels.strided.operands import (
    Planes,
    Sides,
    check_operand,
    output,
    plane_offset,
    walk_arrays,
)

_BLOCK = 1024
_LONG = 1 << 14  # elements that need not be in the L1 cache
# On Zen 4 the prefetches cost more than they bring, and a name such as x86-64-v3 says nothing of the CPU. Elsewhere they
# stay: they were chosen by measurement on another CPU.
_FETCHES = not (vars(config)["CPU_NAME"] or llvm.get_host_cpu_name()).startswith(
    ("znver", "x86-64")
)
_LINE, _AHEAD = 64, 2048  # bytes; the hardware's own prefetches stop at each page
_SHORT = 32  # so few lines, read across from row to row, stay in the cache: a transposition
_SCRATCH_BYTES = (8 + 4 + 8) * _BLOCK  # packed source, fp32 in between, result to unpack
_MAX_F32 = np.float32(np.finfo(np.float32).max)
_MAX_F64 = np.float64(np.finfo(np.float64).max)


def cast(
    source: Array, dtype: npt.DTypeLike, *, saturate: bool = False, out: Array | None = None
) -> Array:
    """Convert an array to another floating-point dtype, rounding to nearest, ties to even.

    Each element is rounded once, from fp64 too (``ml_dtypes`` goes from fp64 to bf16 and fp8 through
    fp32 and rounds twice). NaN stays NaN; its payload is not kept.

    Args:
        source: Any shape and strides; fp16, bf16, fp8 e4m3fn, fp8 e5m2, fp32 or fp64.
        dtype: One of the same dtypes.
        saturate: Where a value is too large for ``dtype``, or infinite, give the largest finite value
            of its sign. Otherwise such a value becomes an infinity, or NaN in fp8 e4m3fn, which has
            none.
        out: Where to put the result: the shape of ``source``, the dtype ``dtype``, any strides. It
            may be ``source`` itself if both dtypes have one size, and must not overlap it otherwise.
            Default: a new array whose axes lie in memory in the order of those of ``source``.

    Returns:
        The result, which is ``out`` where that is given.

    Raises:
        ArgumentError: A dtype is none of these, or ``out`` does not fit.
    """
    check_operand("source", source)
    wanted, clamp = check.dtype("dtype", dtype), check.flag("saturate", saturate)
    for name, found in (("source.dtype", source.dtype), ("dtype", wanted)):
        if found not in FLOATS:
            names = ", ".join(str(known) for known in FLOATS)
            raise ArgumentError(f"{name} must be one of {names}, but got {found}")
    result = output("out", out, source.shape, wanted, {"source": source}, source)
    if source.size == 0:
        return result
    if wanted == source.dtype and not clamp:
        np.copyto(result, source)
        return result
    kinds = (FLOATS[source.dtype], FLOATS[wanted], int(clamp))
    walk = walk_arrays(result, source)
    dense = source.flags.c_contiguous and result.flags.c_contiguous
    # A long cast is bound by memory, and each step of Python comes out of the cache slowly beside it.
    scratch = (
        result if dense and F32 in kinds[:2] and not clamp else np.empty(_SCRATCH_BYTES, np.uint8)
    )
    sides = (id(result), id(source), result.itemsize, source.itemsize)
    _entry()(kinds, sides, walk.inner, walk.rows, walk.planes, id(scratch))
    return result


@functools.cache
def _entry() -> EntryPoint:
    return annotated_entry(_cast_arrays)


class _Conversion(NamedTuple):
    """Floating-point kinds of both sides, and 1 where results are clamped to finite values."""

    source: int
    target: int
    saturate: int


@jit(inline="always")
def _fetch_ahead(target: int, source: int, target_bytes: int, source_bytes: int) -> None:
    for offset in range(0, source_bytes, _LINE):
        prefetch_line(source + _AHEAD + offset)
    for offset in range(0, target_bytes, _LINE):
        prefetch_line_to_write(target + _AHEAD // 2 + offset)


@jit()
def _widen_long(kind: int, target: int, source: int, groups: int) -> None:
    """Widen groups of 16-bit elements, fetching ahead."""
    for g in range(groups):
        t, s = target + g * 4 * GROUP, source + g * 2 * GROUP
        _fetch_ahead(t, s, 4 * GROUP, 2 * GROUP)
        widen_groups(kind, t, s, 1)


@jit()
def _narrow_long(kind: int, target: int, source: int, groups: int) -> None:
    """Round groups of fp32 elements to 16 bits, fetching ahead."""
    for g in range(groups):
        t, s = target + g * 2 * GROUP, source + g * 4 * GROUP
        _fetch_ahead(t, s, 2 * GROUP, 4 * GROUP)
        narrow_groups(kind, t, s, 1)


@jit()
def widen(kind: int, target: int, source: int, n: int) -> None:
    """Convert ``n`` elements of a kind narrower than fp32 to fp32; both addresses are dense."""
    done = 0
    if kind in (F16, BF16):
        done = n // GROUP * GROUP
        if _FETCHES and n >= _LONG:
            _widen_long(kind, target, source, n // GROUP)
        else:
            widen_groups(kind, target, source, n // GROUP)
    left = n - done
    d = carray(as_pointer(target + 4 * done), (left,), np.float32)
    s16 = carray(as_pointer(source + 2 * done), (left,), np.uint16)
    s8 = carray(as_pointer(source), (left,), np.uint8)
    if kind == F16:
        for i in range(left):
            d[i] = dtypes.f16_to_f32(s16[i])
    elif kind == BF16:
        for i in range(left):
            d[i] = dtypes.bf16_to_f32(s16[i])
    elif kind == F8_E4M3FN:
        for i in range(left):
            d[i] = dtypes.f8_e4m3fn_to_f32(s8[i])
    else:
        for i in range(left):
            d[i] = dtypes.f8_e5m2_to_f32(s8[i])


@jit()
def narrow(kind: int, target: int, source: int, n: int) -> None:
    """Round ``n`` elements of fp32 to a narrower kind; both addresses are dense."""
    done = 0
    if kind in (F16, BF16):
        done = n // GROUP * GROUP
        if _FETCHES and n >= _LONG:
            _narrow_long(kind, target, source, n // GROUP)
        else:
            narrow_groups(kind, target, source, n // GROUP)
    left = n - done
    s = carray(as_pointer(source + 4 * done), (left,), np.float32)
    d16 = carray(as_pointer(target + 2 * done), (left,), np.uint16)
    d8 = carray(as_pointer(target), (left,), np.uint8)
    if kind == F16:
        for i in range(left):
            d16[i] = dtypes.f32_to_f16(s[i])
    elif kind == BF16:
        for i in range(left):
            d16[i] = dtypes.f32_to_bf16(s[i])
    elif kind == F8_E4M3FN:
        for i in range(left):
            d8[i] = dtypes.f32_to_f8_e4m3fn(s[i])
    else:
        for i in range(left):
            d8[i] = dtypes.f32_to_f8_e5m2(s[i])


@jit()
def _narrow_saturated(kind: int, target: int, source: int, n: int) -> None:
    s = carray(as_pointer(source), (n,), np.float32)
    d16 = carray(as_pointer(target), (n,), np.uint16)
    d8 = carray(as_pointer(target), (n,), np.uint8)
    if kind == F16:
        for i in range(n):
            d16[i] = dtypes.f32_to_f16_saturated(s[i])
    elif kind == BF16:
        for i in range(n):
            d16[i] = dtypes.f32_to_bf16_saturated(s[i])
    elif kind == F8_E4M3FN:
        for i in range(n):
            d8[i] = dtypes.f32_to_f8_e4m3fn_saturated(s[i])
    else:
        for i in range(n):
            d8[i] = dtypes.f32_to_f8_e5m2_saturated(s[i])


@jit()
def _cut_f64(odd: bool, target: int, source: int, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.float32)
    s = carray(as_pointer(source), (n,), np.float64)
    if odd:
        for i in range(n):
            d[i] = dtypes.f64_to_f32_odd(s[i])
    else:
        for i in range(n):
            d[i] = np.float32(s[i])


@jit()
def _extend_f32(target: int, source: int, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.float64)
    s = carray(as_pointer(source), (n,), np.float32)
    for i in range(n):
        d[i] = np.float64(s[i])


@jit(inline="always")
def _bound(d: CArray, n: int, bound: Number) -> None:
    for i in range(n):
        value = d[i]
        value = min(value, bound)
        d[i] = max(value, -bound)


@jit()
def _cast_block(kinds: _Conversion, target: int, source: int, n: int, scratch: int) -> None:
    """Convert a dense block; ``scratch`` has room for it in fp32."""
    middle = target if kinds.target == F32 else scratch
    if kinds.source == F32 and kinds.target != F32:
        middle = source
    elif kinds.source == F64:
        if kinds.target != F64:
            _cut_f64(kinds.target != F32, middle, source, n)
    elif kinds.source == F32:
        move_bytes(target, source, 4 * n)
    else:
        widen(kinds.source, middle, source, n)
    if kinds.target == F64:
        if kinds.source == F64:
            move_bytes(target, source, 8 * n)
        else:
            _extend_f32(target, middle, n)
        if kinds.saturate:
            _bound(carray(as_pointer(target), (n,), np.float64), n, _MAX_F64)
    elif kinds.target == F32:
        if kinds.saturate:
            _bound(carray(as_pointer(target), (n,), np.float32), n, _MAX_F32)
    elif kinds.saturate:
        _narrow_saturated(kinds.target, target, middle, n)
    else:
        narrow(kinds.target, target, middle, n)


@jit()
def _cast_rows(
    kinds: _Conversion, sides: Sides, inner: Axis, rows: Axis, planes: Planes, scratch: int
) -> None:
    n, t_size, s_size = inner.extent, sides.target_size, sides.source_size
    middle = scratch + 8 * _BLOCK
    unpacked = middle + 4 * _BLOCK
    # Two passes over the elements must meet in the L1 cache.
    once = (kinds.source == F32 or kinds.target == F32) and not (kinds.saturate and t_size > 2)
    block = n if once and inner.target == t_size and inner.source == s_size else _BLOCK
    if rows.extent > 1 and inner.source != s_size and abs(rows.source) < abs(inner.source):
        block = _SHORT
    for plane in range(planes.total):
        t_plane = sides.target + plane_offset(planes, plane, 2, 0)
        s_plane = sides.source + plane_offset(planes, plane, 2, 1)
        for start in range(0, n, block):
            m = min(block, n - start)
            for row in range(rows.extent):
                s = s_plane + row * rows.source + start * inner.source
                t = t_plane + row * rows.target + start * inner.target
                if inner.source != s_size:
                    copy_row(s_size, scratch, s, m, s_size, inner.source)
                    s = scratch
                if inner.target == t_size:
                    _cast_block(kinds, t, s, m, middle)
                else:
                    _cast_block(kinds, unpacked, s, m, middle)
                    copy_row(t_size, t, unpacked, m, inner.target, t_size)


@jit()
def _cast_arrays(
    kinds: _Conversion, sides: Sides, inner: Axis, rows: Axis, planes: Planes, scratch: int
) -> None:
    """:func:`_cast_rows` of arrays given by their ``id()``."""
    t, s = array_data(sides.target), array_data(sides.source)
    here = Sides(t, s, sides.target_size, sides.source_size)
    _cast_rows(kinds, here, inner, rows, planes, array_data(scratch))


__all__ = ["cast"]
