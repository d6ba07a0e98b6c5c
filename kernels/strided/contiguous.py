"""Sums of contiguous elements at raw addresses.

A contiguous stretch is all of a dense tile, or one row of a rectangle in a wider array. The functions here
add one stretch; their callers decide which locks to hold around it.
"""

from __future__ import annotations

import numpy as np

from emu.kernels.atomics import add_i32, add_i64
from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import CArray
from emu.kernels.core.dtypes import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    bf16_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.core.jit import carray, jit

# A loop of its own for each kind, so that LLVM vectorises it. Neither side is declared free of aliases,
# because the source may be the target itself.


@jit()
def _add_f16(target: int, source: int, count: int) -> None:
    d = carray(as_pointer(target), (count,), np.uint16)
    s = carray(as_pointer(source), (count,), np.uint16)
    for i in range(count):
        d[i] = f32_to_f16(f16_to_f32(d[i]) + f16_to_f32(s[i]))


@jit()
def _add_bf16(target: int, source: int, count: int) -> None:
    d = carray(as_pointer(target), (count,), np.uint16)
    s = carray(as_pointer(source), (count,), np.uint16)
    for i in range(count):
        d[i] = f32_to_bf16(bf16_to_f32(d[i]) + bf16_to_f32(s[i]))


@jit()
def _add_bool(target: int, source: int, count: int) -> None:
    d = carray(as_pointer(target), (count,), np.uint8)
    s = carray(as_pointer(source), (count,), np.uint8)
    for i in range(count):
        d[i] |= s[i]


@jit(inline="always")
def _add_plain(d: CArray, s: CArray, count: int) -> None:
    for i in range(count):
        d[i] += s[i]


@jit()
def add_contiguous(kind: int, target: int, source: int, count: int) -> None:
    """Add ``count`` elements at address ``source`` to those at ``target``; plain loads and stores.

    Args:
        kind: Arithmetic kind of the elements (:mod:`emu.kernels.core.dtypes`). Integers wrap, booleans
            are or-ed, fp16 and bf16 are added in fp32 and rounded once.
        target: Address of the first element to change.
        source: Address of the first element to add; may equal ``target``.
        count: Number of elements.
    """
    t, s, n = target, source, count
    if kind == F32:
        _add_plain(
            carray(as_pointer(t), (n,), np.float32),
            carray(as_pointer(s), (n,), np.float32),
            n,
        )
    elif kind == BF16:
        _add_bf16(t, s, n)
    elif kind == F16:
        _add_f16(t, s, n)
    elif kind == I32:
        _add_plain(
            carray(as_pointer(t), (n,), np.int32),
            carray(as_pointer(s), (n,), np.int32),
            n,
        )
    elif kind == F64:
        _add_plain(
            carray(as_pointer(t), (n,), np.float64),
            carray(as_pointer(s), (n,), np.float64),
            n,
        )
    elif kind == I64:
        _add_plain(
            carray(as_pointer(t), (n,), np.int64),
            carray(as_pointer(s), (n,), np.int64),
            n,
        )
    elif kind == I16:
        _add_plain(
            carray(as_pointer(t), (n,), np.int16),
            carray(as_pointer(s), (n,), np.int16),
            n,
        )
    elif kind == I8:
        _add_plain(
            carray(as_pointer(t), (n,), np.int8),
            carray(as_pointer(s), (n,), np.int8),
            n,
        )
    elif kind == BOOL:
        _add_bool(t, s, n)


@jit()
def add_contiguous_atomic(kind: int, target: int, source: int, count: int) -> None:
    """As :func:`add_contiguous` for 32- and 64-bit integers, each element by one atomic instruction."""
    if kind == I32:
        s32 = carray(as_pointer(source), (count,), np.int32)
        for i in range(count):
            add_i32(target + 4 * i, s32[i])
    elif kind == I64:
        s64 = carray(as_pointer(source), (count,), np.int64)
        for i in range(count):
            add_i64(target + 8 * i, s64[i])
