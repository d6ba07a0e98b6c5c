"""Combine runs of elements of several PEs into one: the inner loop of reductions.

All arguments are integers: dtype and operation are numbers, sources and targets addresses. The loop
goes block by block, and a block is small enough to stay in the L1 cache while every source is
added to it, in the order given. Thus a result depends on the sources and their order only, never
on how the work was cut.

What the operations mean:

* integers wrap; bool has or (``SUM``, ``MAX``) and and (``PROD``, ``MIN``);
* fp32 and fp64 are combined in their own precision, fp16 and bf16 in fp32 and rounded once at the end;
* ``MAX`` and ``MIN`` give NaN where any source holds NaN; of equal values the first counts;
* ``AVG`` is the sum divided by the number of sources, before that last rounding.
"""

from __future__ import annotations

import numpy as np

from emu.kernels.atomics import fence
from emu.kernels.core.address import as_pointer, move_bytes, prefetch_line
from emu.kernels.core.annotations import CArray
from emu.kernels.core.dtypes import (
    BFLOAT16,
    DTYPES,
    bf16_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.core.jit import carray, jit
from emu.kernels.stream import stream_bytes

SUM, PROD, MAX, MIN, AVG = range(5)
OPS: dict[str, int] = {"sum": SUM, "prod": PROD, "max": MAX, "min": MIN, "avg": AVG}
"""The operations by name."""

CODES: dict[np.dtype[np.generic], int] = {dtype: code for code, dtype in enumerate(DTYPES)}
"""Every dtype of the symmetric heap with its number here: unlike the arithmetic kinds of
``emu.kernels.core.dtypes.KINDS`` these tell signed from unsigned, as a maximum must."""

# Numba freezes these into the code.
_BOOL = CODES[np.dtype(np.bool_)]
_I8, _U8 = CODES[np.dtype(np.int8)], CODES[np.dtype(np.uint8)]
_I16, _U16 = CODES[np.dtype(np.int16)], CODES[np.dtype(np.uint16)]
_I32, _U32 = CODES[np.dtype(np.int32)], CODES[np.dtype(np.uint32)]
_I64, _U64 = CODES[np.dtype(np.int64)], CODES[np.dtype(np.uint64)]
_F16, _BF16 = CODES[np.dtype(np.float16)], CODES[BFLOAT16]
_F32, _F64 = CODES[np.dtype(np.float32)], CODES[np.dtype(np.float64)]

BLOCK = 2048
"""Elements combined at a time."""

_PIECE, _LINE = 256, 64
"""Elements between two rounds of prefetches, and bytes of a cache line."""

SCRATCH_BYTES = 8 * BLOCK + 2 * BLOCK
"""Private memory a reduction needs: a block of accumulators, and one of rounded results."""


def supports(op: int, dtype: np.dtype[np.generic]) -> bool:
    """Return whether ``op`` is defined for ``dtype``: ``AVG`` is for floating point only."""
    return op != AVG or dtype == BFLOAT16 or dtype.kind == "f"


@jit()
def _combine(op: int, d: CArray, s: CArray, count: int) -> None:
    if op == PROD:
        for i in range(count):
            d[i] *= s[i]
    elif op == MAX:
        for i in range(count):
            a, b = d[i], s[i]
            d[i] = b if (b > a) | (b != b) else a  # noqa: PLR0124 - true for NaN
    elif op == MIN:
        for i in range(count):
            a, b = d[i], s[i]
            d[i] = b if (b < a) | (b != b) else a  # noqa: PLR0124 - true for NaN
    else:
        for i in range(count):
            d[i] += s[i]


@jit()
def _combine_integers(code: int, op: int, d: int, s: int, n: int) -> None:
    # Sums and products wrap alike with and without a sign.
    alike = op in (SUM, PROD)
    if code == _BOOL:
        bit = MAX if op in (SUM, MAX) else MIN
        _combine(
            bit, carray(as_pointer(d), (n,), np.uint8), carray(as_pointer(s), (n,), np.uint8), n
        )
    elif code == _I8 or (code == _U8 and alike):
        _combine(op, carray(as_pointer(d), (n,), np.int8), carray(as_pointer(s), (n,), np.int8), n)
    elif code == _U8:
        _combine(
            op, carray(as_pointer(d), (n,), np.uint8), carray(as_pointer(s), (n,), np.uint8), n
        )
    elif code == _I16 or (code == _U16 and alike):
        _combine(
            op, carray(as_pointer(d), (n,), np.int16), carray(as_pointer(s), (n,), np.int16), n
        )
    elif code == _U16:
        _combine(
            op, carray(as_pointer(d), (n,), np.uint16), carray(as_pointer(s), (n,), np.uint16), n
        )
    elif code == _I32 or (code == _U32 and alike):
        _combine(
            op, carray(as_pointer(d), (n,), np.int32), carray(as_pointer(s), (n,), np.int32), n
        )
    elif code == _U32:
        _combine(
            op, carray(as_pointer(d), (n,), np.uint32), carray(as_pointer(s), (n,), np.uint32), n
        )
    elif code == _I64 or (code == _U64 and alike):
        _combine(
            op, carray(as_pointer(d), (n,), np.int64), carray(as_pointer(s), (n,), np.int64), n
        )
    elif code == _U64:
        _combine(
            op, carray(as_pointer(d), (n,), np.uint64), carray(as_pointer(s), (n,), np.uint64), n
        )


@jit()
def _widen(code: int, target: int, source: int, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.float32)
    s = carray(as_pointer(source), (n,), np.uint16)
    if code == _F16:
        for i in range(n):
            d[i] = f16_to_f32(s[i])
    else:
        for i in range(n):
            d[i] = bf16_to_f32(s[i])


@jit()
def _round(code: int, target: int, source: int, n: int) -> None:
    d = carray(as_pointer(target), (n,), np.uint16)
    s = carray(as_pointer(source), (n,), np.float32)
    if code == _F16:
        for i in range(n):
            d[i] = f32_to_f16(s[i])
    else:
        for i in range(n):
            d[i] = f32_to_bf16(s[i])


@jit()
def _prefetch(address: int, nbytes: int) -> None:
    for line in range(0, nbytes, _LINE):
        prefetch_line(address + line)


@jit()
def _combine_piece(
    code: int, op: int, scratch: int, source: int, size: int, n: int, is_first: bool
) -> None:
    """Combine ``n`` elements at ``source`` with the accumulators at ``scratch``; the first are copied."""
    if is_first:
        move_bytes(scratch, source, n * size)
    elif code == _F32:
        d32 = carray(as_pointer(scratch), (n,), np.float32)
        _combine(op, d32, carray(as_pointer(source), (n,), np.float32), n)
    elif code == _F64:
        d64 = carray(as_pointer(scratch), (n,), np.float64)
        _combine(op, d64, carray(as_pointer(source), (n,), np.float64), n)
    else:
        _combine_integers(code, op, scratch, source, n)


@jit()
def _reduce_block(
    code: int, op: int, sources: CArray, offset: int, size: int, n: int, scratch: int
) -> int:
    """Reduce ``n`` elements at byte ``offset`` of every source; return where the result is.

    What is needed next, the same elements of the next source, is far from what was needed last: the
    processor does not foresee it, and is told.
    """
    half = code in (_F16, _BF16)
    wide = scratch + 4 * BLOCK  # where a 16-bit source is widened to
    for index in range(sources.size):
        source = sources[index] + offset
        following = offset if index + 1 < sources.size else offset + n * size
        following += sources[(index + 1) % sources.size]
        for first in range(0, n, _PIECE):
            count = min(_PIECE, n - first)
            _prefetch(following + first * size, count * size)
            if half:
                target = (scratch if index == 0 else wide) + 4 * first
                _widen(code, target, source + first * size, count)
                if index > 0:
                    d = carray(as_pointer(scratch + 4 * first), (count,), np.float32)
                    _combine(op, d, carray(as_pointer(target), (count,), np.float32), count)
            else:
                begin = first * size
                _combine_piece(code, op, scratch + begin, source + begin, size, count, index == 0)
    if op == AVG:
        if code == _F64:
            d64 = carray(as_pointer(scratch), (n,), np.float64)
            for i in range(n):
                d64[i] /= np.float64(sources.size)
        else:
            d32 = carray(as_pointer(scratch), (n,), np.float32)
            for i in range(n):
                d32[i] /= np.float32(sources.size)
    if half:
        _round(code, scratch + 8 * BLOCK, scratch, n)
        return scratch + 8 * BLOCK
    return scratch


@jit()
def reduce_run(
    code: int,
    op: int,
    sources: CArray,
    targets: CArray,
    size: int,
    count: int,
    scratch: int,
    stream: int,
) -> None:
    """Reduce ``count`` elements at every source address and write the result to every target.

    A target may be one of the sources (the same address, not a shifted one).

    Args:
        code: Number of the dtype (:data:`CODES`).
        op: ``SUM``, ``PROD``, ``MAX``, ``MIN`` or ``AVG``.
        sources: Addresses, ``int64[n]``, in the order of combination; at least one.
        targets: Addresses, ``int64[m]``.
        size: Bytes of an element.
        count: Number of elements.
        scratch: Address of :data:`SCRATCH_BYTES` bytes that nobody else uses, aligned to 64.
        stream: 1: write past the caches, which pays where targets are no sources and large.
    """
    for start in range(0, count, BLOCK):
        n = min(BLOCK, count - start)
        result = _reduce_block(code, op, sources, start * size, size, n, scratch)
        for index in range(targets.size):
            if stream != 0:
                stream_bytes(targets[index] + start * size, result, n * size)
            else:
                move_bytes(targets[index] + start * size, result, n * size)
    if stream != 0:
        fence()


__all__ = [
    "AVG",
    "BLOCK",
    "CODES",
    "MAX",
    "MIN",
    "OPS",
    "PROD",
    "SCRATCH_BYTES",
    "SUM",
    "reduce_run",
    "supports",
]
