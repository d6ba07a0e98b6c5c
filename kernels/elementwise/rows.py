"""Rows of 16-bit matrices, chosen by index: weighted sums of them, and scaled rows of products.

Arithmetic is fp32, each operation rounded by itself; the result is rounded once to its dtype. A block
of a row stays in the L1 cache between the first operation on it and that rounding.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emu.kernels.cast import narrow
from emu.kernels.core.address import aligned_data, array_data, as_pointer, move_bytes
from emu.kernels.core.annotations import Array, CArray, EntryPoint, Number, Real
from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import F16, F32, bf16_to_f32, f16_to_f32, kinds_of
from emu.kernels.core.jit import annotated_entry, carray, jit
from emu.kernels.errors import ArgumentError
from emu.kernels.strided.operands import check_operand, output

_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
_VALUES = kinds_of("float16", "bfloat16", "float32")
_BLOCK = 2048
_SCRATCH_BYTES = 4 * _BLOCK + 64


def weighted_row_sum(
    rows: Array,
    index: Array,
    weights: Array,
    *,
    extra: Array | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``sum(weights[t, j] * rows[index[t, j]] for j) + extra[t]`` for each ``t``.

    The sum starts at +0 in fp32 and goes in the order of j; each product and each sum is rounded to
    fp32; ``extra`` comes last; then the result is rounded to the dtype of ``rows``. A place whose index
    is -1 adds nothing, whatever its weight.

    Args:
        rows: [n, h] of fp16, bf16 or fp32, dense.
        index: [m, k] of int32, dense, each -1 or a row.
        weights: [m, k] of fp32, dense.
        extra: [m, h] of the dtype of ``rows``, dense. Default: nothing.
        out: [m, h] of that dtype, dense. Default: a new array.

    Returns:
        The sums, [m, h]; ``out`` where that is given.

    Raises:
        ArgumentError: A wrong dtype, shape, layout or index, or ``out`` overlaps another argument.
    """
    kind = _kind("rows.dtype", check_operand("rows", rows).dtype)
    _check("rows", rows, ("n", "h"), rows.dtype)
    _check("index", index, ("m", "k"), _INT32)
    n, h = rows.shape
    m, k = index.shape
    _check("weights", weights, (m, k), _FLOAT32)
    sources = {"rows": rows, "index": index, "weights": weights}
    if extra is not None:
        _check("extra", extra, (m, h), rows.dtype)
        sources["extra"] = extra
    low, high = (int(index.min()), int(index.max())) if index.size else (-1, -1)
    if low < -1 or high >= n:
        wrong = low if low < -1 else high
        raise ArgumentError(f"index must be -1 or in [0, {n}), a row of rows, but got {wrong}")
    result = output("out", out, (m, h), rows.dtype, sources)
    _check("out", result, (m, h), rows.dtype)
    if result.size:
        scratch = np.empty(_SCRATCH_BYTES, np.uint8)
        added = 0 if extra is None else id(extra)
        arrays = (id(rows), id(index), id(weights), added, id(result))
        _sums_entry()(kind, (m, k, h), arrays, id(scratch))
    return result


def scale_product(
    product: Array,
    columns: Array,
    rows: Array | None = None,
    *,
    dtype: npt.DTypeLike = np.float16,
    out: Array | None = None,
) -> Array:
    """Return ``(product * columns) * rows[:, None]``: what an int8 product stands for.

    The int32 sums are rounded to fp32, each multiplication is rounded to fp32, and the result once to
    its dtype.

    Args:
        product: [m, n] of int32, dense.
        columns: [n] of fp32, dense: scales of the columns.
        rows: [m] of fp32, dense: scales of the rows. Default: none.
        dtype: dtype of the result, fp16, bf16 or fp32. Default: that of ``out``, else fp16.
        out: [m, n] of that dtype, dense. Default: a new array.

    Returns:
        The scaled product, [m, n]; ``out`` where that is given.

    Raises:
        ArgumentError: A wrong dtype, shape or layout, or ``out`` overlaps another argument.
    """
    _check("product", product, ("m", "n"), _INT32)
    m, n = product.shape
    _check("columns", columns, (n,), _FLOAT32)
    sources = {"product": product, "columns": columns}
    if rows is not None:
        _check("rows", rows, (m,), _FLOAT32)
        sources["rows"] = rows
    wanted = check.dtype("dtype", dtype) if out is None else check_operand("out", out).dtype
    kind = _kind("dtype" if out is None else "out.dtype", wanted)
    result = output("out", out, (m, n), wanted, sources)
    _check("out", result, (m, n), wanted)
    if result.size:
        scratch = np.empty(_SCRATCH_BYTES, np.uint8)
        scales = 0 if rows is None else id(rows)
        _scale_rows(kind, m, n, id(product), id(columns), scales, id(result), id(scratch))
    return result


def _kind(name: str, dtype: np.dtype[np.generic]) -> int:
    kind = _VALUES.get(dtype)
    if kind is None:
        names = ", ".join(str(known) for known in _VALUES)
        raise ArgumentError(f"{name} must be one of {names}, but got {dtype}")
    return kind


def _check(
    name: str, array: Array, shape: tuple[int | str, ...], dtype: np.dtype[np.generic]
) -> None:
    """Refuse what is no dense array of this dtype and shape; a letter stands for any extent."""
    check_operand(name, array)
    fits = array.ndim == len(shape) and all(
        isinstance(wanted, str) or wanted == extent
        for wanted, extent in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted_shape = ", ".join(str(n) for n in shape)
        raise ArgumentError(f"{name} must have shape [{wanted_shape}], but got {array.shape}")
    if array.dtype != dtype:
        raise ArgumentError(f"{name} must have dtype {dtype}, but got {array.dtype}")
    if not array.flags.c_contiguous:
        raise ArgumentError(f"{name} must be dense, but got strides {array.strides}")


@jit(inline="always")
def _add_scaled(kind: int, total: CArray, source: Number, weight: Real, n: int) -> None:
    """Add a block of a row, times its weight, to ``total``."""
    if kind == F32:
        values = carray(as_pointer(source), (n,), np.float32)
        for i in range(n):
            total[i] += values[i] * weight
        return
    bits = carray(as_pointer(source), (n,), np.uint16)
    if kind == F16:
        for i in range(n):
            total[i] += f16_to_f32(bits[i]) * weight
    else:
        for i in range(n):
            total[i] += bf16_to_f32(bits[i]) * weight


@jit()
def _store(kind: int, target: int, source: int, n: int) -> None:
    """Round a block of fp32 to its dtype."""
    if kind == F32:
        move_bytes(target, source, 4 * n)
    else:
        narrow(kind, target, source, n)


class _Arrays(NamedTuple):
    """The ``id()`` of the operands of a weighted sum; ``extra`` may be 0."""

    rows: int
    places: int
    weights: int
    extra: int
    out: int


@functools.cache
def _sums_entry() -> EntryPoint:
    return annotated_entry(_weighted_sums)


@jit()
def _weighted_sums(kind: int, extents: tuple[int, int, int], arrays: _Arrays, scratch: int) -> None:
    """:func:`weighted_row_sum` with extents m, k and h."""
    m, k, h = extents
    size = 4 if kind == F32 else 2
    block = aligned_data(scratch)
    places = carray(as_pointer(array_data(arrays.places)), (m, k), np.int32)
    factors = carray(as_pointer(array_data(arrays.weights)), (m, k), np.float32)
    source, target = array_data(arrays.rows), array_data(arrays.out)
    for t in range(m):
        for start in range(0, h, _BLOCK):
            n = min(_BLOCK, h - start)
            total = carray(as_pointer(block), (n,), np.float32)
            for i in range(n):
                total[i] = np.float32(0)
            for j in range(k):
                if places[t, j] >= 0:  # else nothing is added, not even a NaN weight times zero
                    row: Number = source + (np.int64(places[t, j]) * h + start) * size
                    _add_scaled(kind, total, row, factors[t, j], n)
            if arrays.extra != 0:
                row = array_data(arrays.extra) + (t * h + start) * size
                _add_scaled(kind, total, row, np.float32(1), n)
            _store(kind, target + (t * h + start) * size, block, n)


@jit()
def _scale_rows(
    kind: int, m: int, n: int, product: int, columns: int, rows: int, out: int, scratch: int
) -> None:
    """:func:`scale_product` of arrays given by their ``id()``."""
    size = 4 if kind == F32 else 2
    block = aligned_data(scratch)
    for t in range(m):
        for start in range(0, n, _BLOCK):
            width = min(_BLOCK, n - start)
            sums = carray(as_pointer(array_data(product) + (t * n + start) * 4), (width,), np.int32)
            scales = carray(as_pointer(array_data(columns) + start * 4), (width,), np.float32)
            values = carray(as_pointer(block), (width,), np.float32)
            if rows != 0:
                row = carray(as_pointer(array_data(rows)), (m,), np.float32)[t]
                for i in range(width):
                    values[i] = np.float32(sums[i]) * scales[i] * row
            else:
                for i in range(width):
                    values[i] = np.float32(sums[i]) * scales[i]
            _store(kind, array_data(out) + (t * n + start) * size, block, width)
