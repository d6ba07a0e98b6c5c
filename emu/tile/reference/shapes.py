"""Definition of the operations that move or count elements, or multiply matrices."""

from __future__ import annotations

import numpy as np

from emu.tile.ir import Operation
from emu.tile.ops import Code
from emu.tile.reference.elementwise import Pure, constant
from emu.tile.reference.rounding import Array, computing, fma, to_float
from emu.tile.types import F32, F64


def _shape(operation: Operation) -> tuple[int, ...]:
    return operation.results[0].shape


def _constant(operation: Operation) -> Array:
    return np.full(_shape(operation), constant(operation))


def _arange(operation: Operation) -> Array:
    start, end = operation.attributes["start"], operation.attributes["end"]
    return np.arange(start, end, dtype=np.int64).astype(np.int32)  # ``end`` may be 2**31


def _splat(operation: Operation, x: Array) -> Array:
    return np.full(_shape(operation), x)


def _broadcast(operation: Operation, x: Array) -> Array:
    return np.broadcast_to(x, _shape(operation))


def _reshape(operation: Operation, x: Array) -> Array:
    return x.reshape(_shape(operation))


def _permute(operation: Operation, x: Array) -> Array:
    return x.transpose(operation.attributes["order"])


def _join(operation: Operation, a: Array, b: Array) -> Array:
    return np.stack((a, b), -1)


def _cat(operation: Operation, a: Array, b: Array) -> Array:
    return np.concatenate((a, b), operation.attributes["axis"])


def _gather(operation: Operation, x: Array, index: Array) -> Array:
    """Gather; an index outside the axis is an error here, and undefined in compiled programs."""
    axis = operation.attributes["axis"]
    extent = x.shape[axis]
    if (index < 0).any() or (index >= extent).any():
        bad = index[(index < 0) | (index >= extent)].flat[0]
        raise IndexError(f"an index of gather must be 0 to {extent - 1}, but got {bad}")
    return np.take_along_axis(x, index.astype(np.int64), axis)


def _flip(operation: Operation, x: Array) -> Array:
    return np.flip(x, operation.attributes["axis"])


def _histogram(operation: Operation, x: Array, mask: Array | None = None) -> Array:
    bins = operation.attributes["bins"]
    counted = (x >= 0) & (x < bins)
    if mask is not None:
        counted &= mask
    return np.bincount(x[counted].astype(np.int64), minlength=bins).astype(np.int32)


def _dot(operation: Operation, a: Array, b: Array, c: Array) -> Array:
    """Multiply; each element is one chain: from c on, the products are added in the order of k."""
    dtype = operation.results[0].dtype
    if dtype.is_float:
        wide = F64 if dtype == F64 else F32
        a, b, total = (np.asarray(computing(x).astype(wide.numpy)) for x in (a, b, c))
    else:
        a, b, total = a.astype(dtype.numpy), b.astype(dtype.numpy), c
    if operation.attributes.get("native"):
        return _native_dot(a, b, total)
    # The order of k and the single rounding of each step are part of the meaning: compilers give the same bits.
    for k in range(a.shape[-1]):
        left, right = a[..., :, k, None], b[..., k, None, :]
        total = fma(left, right, total) if dtype.is_float else left * right + total
    return to_float(total, dtype) if dtype.is_float else total


def _native_dot(a: Array, b: Array, total: Array) -> Array:
    """Add pairs of products as AVX512-BF16 does: the second, then the first; subnormals are zero."""
    a, b, total = flushed(a), flushed(b), flushed(total)
    for k in range(0, a.shape[-1], 2):
        for i in (k + 1, k):
            total = flushed(fma(a[..., :, i, None], b[..., i, None, :], total))
    return total


def dot_in_registers(a: Array, b: Array, total: Array) -> Array:
    """Multiply fp32 values as AMX does: of each 32 values of k the even ones are one chain, the odd ones another.

    A CPU that has it does so where the extent of k is a multiple of 32, and that of the columns one of 16.
    """
    a, b, total = flushed(a), flushed(b), flushed(total)
    for k in range(0, a.shape[-1], 32):
        chains = [np.zeros_like(total), np.zeros_like(total)]
        for i in range(k, k + 32):
            left, right = a[..., :, i, None], b[..., i, None, :]
            chains[i % 2] = flushed(fma(left, right, chains[i % 2]))
        total = flushed(total + flushed(chains[0] + chains[1]))
    return total


def flushed(x: Array) -> Array:
    """Return fp32 with subnormals as zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def split(x: Array) -> tuple[Array, Array]:
    """Return the two halves of the last axis."""
    return np.asarray(x[..., 0]), np.asarray(x[..., 1])


def _sort(operation: Operation, x: Array) -> Array:
    return np.sort(x, axis=-1)


def _after(operation: Operation, x: Array, token: Array) -> Array:
    return x


def _join_tokens(operation: Operation, *values: Array) -> Array:
    return np.zeros((), np.bool_)


SHAPES: dict[Code, Pure] = {
    Code.CONSTANT: _constant,
    Code.ARANGE: _arange,
    Code.SPLAT: _splat,
    Code.BROADCAST: _broadcast,
    Code.RESHAPE: _reshape,
    Code.PERMUTE: _permute,
    Code.JOIN: _join,
    Code.CAT: _cat,
    Code.GATHER: _gather,
    Code.FLIP: _flip,
    Code.HISTOGRAM: _histogram,
    Code.SORT: _sort,
    Code.DOT: _dot,
    Code.AFTER: _after,
    Code.JOIN_TOKENS: _join_tokens,
}
"""Definition of each of them except SPLIT, which has two results."""
