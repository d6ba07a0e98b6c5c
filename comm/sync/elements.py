"""Loads, stores and atomic operations of elements of a PE's heap, on behalf of a kernel on another host.

The meaning is that of a compiled kernel's own: one element after the other, in the order in which they are given, so that
the last of those with one address wins. An element is as many low bytes of a 64-bit word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from emu.comm.layout import B_HEAPS, B_STRIDE
from emu.comm.sync.element_numbers import (
    ADD,
    AND,
    BFLOAT,
    CAS,
    EXCHANGE,
    FLOAT,
    LOAD,
    MAX,
    OR,
    STORE,
    UNSIGNED,
    XOR,
)
from emu.comm.sync.locks import word
from emu.comm.sync.signals import ring
from emu.kernels.atomics import (
    compare_exchange_i32,
    compare_exchange_i64,
    compare_exchange_u16,
    fence,
    load_i32,
    load_i64,
    load_u16,
)
from emu.kernels.core.address import as_pointer
from emu.kernels.core.dtypes import (
    bf16_to_f32,
    bits_f32,
    f16_to_f32,
    f32_bits,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.core.jit import carray, entry_when_called, fixed_intrinsic, jit

_bits_f64 = fixed_intrinsic(types.float64, types.int64)(lambda b, v: b.bitcast(v, ir.DoubleType()))
_f64_bits = fixed_intrinsic(types.int64, types.float64)(lambda b, v: b.bitcast(v, ir.IntType(64)))


@jit()
def _read(address: int, size: int) -> Any:
    if size == 1:
        return np.int64(carray(as_pointer(address), (1,), np.uint8)[0])
    if size == 2:
        return np.int64(load_u16(address))
    if size == 4:
        return np.int64(load_i32(address))
    return load_i64(address)


@jit()
def _write(address: int, size: int, bits: int | np.int64) -> None:
    if size == 1:
        carray(as_pointer(address), (1,), np.uint8)[0] = np.uint8(bits & 0xFF)
    elif size == 2:
        carray(as_pointer(address), (1,), np.uint16)[0] = np.uint16(bits & 0xFFFF)
    elif size == 4:
        carray(as_pointer(address), (1,), np.int32)[0] = np.int32(bits)
    else:
        carray(as_pointer(address), (1,), np.int64)[0] = bits


@jit()
def _swap(address: int, size: int, expected: int | np.int64, bits: int | np.int64) -> Any:
    if size == 2:
        found = compare_exchange_u16(
            address, np.uint16(expected & 0xFFFF), np.uint16(bits & 0xFFFF)
        )
        return np.int64(found)
    if size == 4:
        return np.int64(compare_exchange_i32(address, np.int32(expected), np.int32(bits)))
    return compare_exchange_i64(address, expected, bits)


@jit()
def _sum(kind: int, size: int, old: int | np.int64, value: int | np.int64) -> Any:
    if kind == BFLOAT:
        total = bf16_to_f32(np.uint16(old & 0xFFFF)) + bf16_to_f32(np.uint16(value & 0xFFFF))
        return np.int64(f32_to_bf16(total))
    if kind != FLOAT:
        return old + value
    if size == 8:
        return _f64_bits(_bits_f64(old) + _bits_f64(value))
    if size == 4:
        first, second = (
            bits_f32(np.uint32(old & 0xFFFFFFFF)),
            bits_f32(np.uint32(value & 0xFFFFFFFF)),
        )
        return np.int64(f32_bits(first + second))
    total = f16_to_f32(np.uint16(old & 0xFFFF)) + f16_to_f32(np.uint16(value & 0xFFFF))
    return np.int64(f32_to_f16(total))


@jit()
def _rank(kind: int, size: int, bits: int | np.int64) -> Any:
    """Return a number that orders elements: floats by their bits, so that a NaN is beyond the infinity of its sign."""
    if size == 8:
        wide = np.int64(bits)
    elif kind == UNSIGNED:
        return bits & 0xFFFFFFFF if size == 4 else bits & 0xFFFF
    else:
        wide = np.int64(np.int32(bits))
    if kind == UNSIGNED:
        return wide ^ np.int64(-(2**63))
    if kind == FLOAT:
        return wide ^ ((wide >> 63) & ((np.int64(1) << (8 * size - 1)) - 1))
    return wide


@jit()
def _combined(
    operation: int, kind: int, size: int, old: int | np.int64, value: int | np.int64
) -> Any:
    if operation == ADD:
        return _sum(kind, size, old, value)
    if operation == AND:
        return old & value
    if operation == OR:
        return old | value
    if operation == XOR:
        return old ^ value
    if operation == EXCHANGE:
        return value
    here, there = _rank(kind, size, old), _rank(kind, size, value)
    wins = there > here if operation == MAX else there < here
    return value if wins else old


@jit()
def access(me: int, pe: int, lists: int, count: int, operation: int, kind: int, size: int) -> None:
    """Do an operation on elements of PE ``pe``.

    Args:
        me: Address of the block of the PE that asks.
        pe: The PE whose memory it is.
        lists: Address of 64-bit words: offsets in the heap, then values, in whose place stands what was found afterwards (not
            after a store), then, for ``CAS``, what is expected.
        count: Number of elements.
        operation: As in :mod:`emu.comm.sync.element_numbers`.
        kind: Likewise.
        size: Bytes of an element: 1, 2, 4 or 8; of an atomic operation not 1.
    """
    heap = word(me, B_HEAPS) + pe * word(me, B_STRIDE)
    words = carray(as_pointer(lists), (3 * count,), np.int64)
    for i in range(count):
        address, value = heap + words[i], words[count + i]
        if operation == LOAD:
            words[count + i] = _read(address, size)
        elif operation == STORE:
            _write(address, size, value)
        elif operation == CAS:
            words[count + i] = _swap(address, size, words[2 * count + i], value)
        else:
            seen = _read(address, size)
            while True:
                old = seen
                seen = _swap(address, size, old, _combined(operation, kind, size, old, value))
                if seen == old:
                    break
            words[count + i] = old
    if operation != LOAD:
        fence()
        ring(me, pe)


access_elements: Callable[..., None] = entry_when_called(access, 7)
