"""The end of a matrix product: from the sums to C, with factors, bias and rounding."""

from __future__ import annotations

import numpy as np

from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import CArray, Number, Real
from emu.kernels.core.dtypes import (
    F16,
    F32,
    F64,
    I32,
    bf16_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.core.jit import carray, jit
from emu.kernels.gemm.operands import Matrix, Output, Rows


@jit(inline="always")
def _load(kind: int, address: int) -> Number:
    if kind == F32:
        return carray(as_pointer(address), (1,), np.float32)[0]
    bits = carray(as_pointer(address), (1,), np.uint16)[0]
    return f16_to_f32(bits) if kind == F16 else bf16_to_f32(bits)


@jit()
def _add_old_f32(kind: int, row: CArray, c: int, c_step: int, beta: Real) -> None:
    for j in range(row.size):
        row[j] += beta * _load(kind, c + j * c_step)


@jit()
def _store_f32(kind: int, row: CArray, c: int, c_step: int) -> None:
    n = row.size
    if kind == F32:
        if c_step == 4:
            d = carray(as_pointer(c), (n,), np.float32)
            for j in range(n):
                d[j] = row[j]
        else:
            for j in range(n):
                carray(as_pointer(c + j * c_step), (1,), np.float32)[0] = row[j]
    elif c_step == 2:
        h = carray(as_pointer(c), (n,), np.uint16)
        if kind == F16:
            for j in range(n):
                h[j] = f32_to_f16(row[j])
        else:
            for j in range(n):
                h[j] = f32_to_bf16(row[j])
    else:
        for j in range(n):
            bits = f32_to_f16(row[j]) if kind == F16 else f32_to_bf16(row[j])
            carray(as_pointer(c + j * c_step), (1,), np.uint16)[0] = bits


@jit()
def _finish_f32(output: Output, sums: int, n: int, c: int, c_step: int) -> None:
    # The order alpha, beta, bias and the rounding after each define the bits of the result.
    row = carray(as_pointer(sums), (n,), np.float32)
    if output.alpha != 1.0:
        scale = np.float32(output.alpha)
        for j in range(n):
            row[j] *= scale
    if output.beta != 0.0:
        _add_old_f32(output.kind, row, c, c_step, np.float32(output.beta))
    if output.bias:
        more = carray(as_pointer(output.bias), (n,), np.float32)
        for j in range(n):
            row[j] += more[j]
    _store_f32(output.kind, row, c, c_step)


@jit()
def _finish_f64(output: Output, sums: int, n: int, c: int, c_step: int) -> None:
    row = carray(as_pointer(sums), (n,), np.float64)
    if output.alpha != 1.0:
        for j in range(n):
            row[j] *= output.alpha
    if output.beta != 0.0:
        for j in range(n):
            row[j] += output.beta * carray(as_pointer(c + j * c_step), (1,), np.float64)[0]
    if output.bias:
        more = carray(as_pointer(output.bias), (n,), np.float64)
        for j in range(n):
            row[j] += more[j]
    for j in range(n):
        carray(as_pointer(c + j * c_step), (1,), np.float64)[0] = row[j]


@jit()
def _finish_i32(output: Output, sums: int, n: int, c: int, c_step: int) -> None:
    row = carray(as_pointer(sums), (n,), np.int32)
    if output.alpha != 1.0:
        # Through 64 bits: a factor beyond int32 counts modulo 2**32, as the products do.
        scale = np.int32(np.int64(output.alpha))
        for j in range(n):
            row[j] *= scale
    if output.beta != 0.0:
        keep = np.int32(np.int64(output.beta))
        for j in range(n):
            row[j] += keep * carray(as_pointer(c + j * c_step), (1,), np.int32)[0]
    if output.bias:
        more = carray(as_pointer(output.bias), (n,), np.int32)
        for j in range(n):
            row[j] += more[j]
    for j in range(n):
        carray(as_pointer(c + j * c_step), (1,), np.int32)[0] = row[j]


@jit()
def finish(sums: Rows, rows: int, n: int, c: Matrix, output: Output) -> None:
    """Write ``alpha * sums + beta * C + bias`` to C; ``sums`` is used up.

    Every operation is rounded by itself, in the dtype of the sums; the result once more to that of C.

    Args:
        sums: The sums.
        rows: Number of rows.
        n: Number of columns.
        c: Where the result goes.
        output: The factors, the bias, and the dtype of C.
    """
    for r in range(rows):
        at, to = sums.address + r * sums.stride, c.address + r * c.row
        if output.kind == F64:
            _finish_f64(output, at, n, to, c.column)
        elif output.kind == I32:
            _finish_i32(output, at, n, to, c.column)
        else:
            _finish_f32(output, at, n, to, c.column)
