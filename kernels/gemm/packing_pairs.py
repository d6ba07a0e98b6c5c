"""Bring bf16 operands into the pairs of neighbours along k that the CPU's dot products take.

A pair is 32 bits: the values of k and of k + 1, the first in the lower half. A's rows stay contiguous along k, and an
odd count ends with a zero; a panel of B has one pair of each column a step. Beyond that the order is the one of
:mod:`emu.kernels.gemm.packing`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.address import as_pointer, move_bytes
from emu.kernels.core.annotations import Bits, IrBuilder, IrType, IrValue
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.gemm.microkernel import COLUMNS_32
from emu.kernels.gemm.packing import SIDE, turn_rows

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)


def _load(builder: IrBuilder, address: IrValue, kind: IrType) -> IrValue:
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 2
    return value


@fixed_intrinsic(types.void, *[types.int64] * 3)
def _zip_row(builder: IrBuilder, target: IrValue, first: IrValue, second: IrValue) -> None:
    """Write the pairs of two rows of a full panel."""
    kind = ir.VectorType(_I16, COLUMNS_32)
    order = [half * COLUMNS_32 + lane for lane in range(COLUMNS_32) for half in range(2)]
    mask = ir.Constant(ir.VectorType(_I32, 2 * COLUMNS_32), order)
    pairs = builder.shuffle_vector(_load(builder, first, kind), _load(builder, second, kind), mask)
    builder.store(pairs, builder.inttoptr(target, pairs.type.as_pointer())).align = 4


@fixed_intrinsic(types.void, *[types.int64] * 4)
def _turn_pairs(
    builder: IrBuilder,
    target: IrValue,
    target_stride: IrValue,
    source: IrValue,
    source_stride: IrValue,
) -> None:
    """Read ``SIDE`` rows of ``SIDE`` pairs and write them as columns."""
    rows = []
    for _ in range(SIDE):
        rows.append(_load(builder, source, ir.VectorType(_I32, SIDE)))
        source = builder.add(source, source_stride)
    for row in turn_rows(builder, rows):
        builder.store(row, builder.inttoptr(target, row.type.as_pointer())).align = 4
        target = builder.add(target, target_stride)


@fixed_intrinsic(types.void, *[types.int64] * 4)
def _turn_across(
    builder: IrBuilder,
    target: IrValue,
    target_stride: IrValue,
    source: IrValue,
    k_stride: IrValue,
) -> None:
    """Read ``SIDE`` pairs of k of ``SIDE`` neighbouring rows of A, and write these rows."""
    wide = ir.VectorType(_I32, SIDE)
    rows = []
    for _ in range(SIDE):
        halves = []
        for _ in range(2):
            row = _load(builder, source, ir.VectorType(_I16, SIDE))
            halves.append(builder.zext(row, wide))
            source = builder.add(source, k_stride)
        upper = builder.shl(halves[1], ir.Constant(wide, [16] * SIDE))
        rows.append(builder.or_(halves[0], upper))
    for row in turn_rows(builder, rows):
        builder.store(row, builder.inttoptr(target, row.type.as_pointer())).align = 4
        target = builder.add(target, target_stride)


@jit(inline="always")
def _half(address: int) -> Bits:
    return carray(as_pointer(address), (1,), np.uint16)[0]


@jit(inline="always")
def _pair(source: int, k_stride: int, count: int) -> Bits:
    """Read one pair; of the last value where ``count`` is 1, with zero."""
    upper = np.uint32(_half(source + k_stride)) if count > 1 else np.uint32(0)
    return np.uint32(_half(source)) | np.uint32(upper << np.uint32(16))


@jit()
def _pack_row(target: int, source: int, k_stride: int, start: int, count: int) -> None:
    """Pack the pairs of one row of A, or of one column, from k = ``start`` on."""
    pairs = (count + 1) // 2
    d = carray(as_pointer(target), (pairs,), np.uint32)
    for i in range(start // 2, pairs):
        d[i] = _pair(source + 2 * i * k_stride, k_stride, count - 2 * i)


@jit()
def pack_rows_pairs(
    target: int,
    target_stride: int,
    source: int,
    row_stride: int,
    k_stride: int,
    rows: int,
    count: int,
) -> None:
    """Pack ``rows`` rows of A, ``count`` values along k, into pairs.

    Args:
        target: Address of the packed rows.
        target_stride: Bytes from packed row to packed row.
        source: Address of the first value.
        row_stride: Bytes from row to row of the source.
        k_stride: Bytes from one k to the next.
        rows: Number of rows.
        count: Values in a row.
    """
    whole = count // (2 * SIDE) * (2 * SIDE)
    turned = 0
    if k_stride == 2:
        whole = count // 2 * 2
        for r in range(rows):
            move_bytes(target + r * target_stride, source + r * row_stride, 2 * whole)
        turned = rows
    elif row_stride == 2:
        turned = rows // SIDE * SIDE
        for k in range(0, whole, 2 * SIDE):
            for r in range(0, turned, SIDE):
                to, at = target + r * target_stride + 2 * k, source + k * k_stride + 2 * r
                _turn_across(to, target_stride, at, k_stride)
    for r in range(rows):
        start = whole if r < turned else 0
        _pack_row(target + r * target_stride, source + r * row_stride, k_stride, start, count)


@jit()
def _pack_panel(
    panel: int, source: int, k_stride: int, column_stride: int, count: int, columns: int
) -> None:
    step, steps = COLUMNS_32 * 4, (count + 1) // 2
    whole = turned = 0
    if column_stride == 2 and columns == COLUMNS_32:
        whole, turned = count // 2, columns
        for s in range(whole):
            at = source + 2 * s * k_stride
            _zip_row(panel + s * step, at, at + k_stride)
    elif k_stride == 2:
        whole, turned = count // (2 * SIDE) * SIDE, columns // SIDE * SIDE
        for c in range(0, turned, SIDE):
            for s in range(0, whole, SIDE):
                at = source + c * column_stride + 4 * s
                _turn_pairs(panel + s * step + c * 4, step, at, column_stride)
    for s in range(steps):
        row = carray(as_pointer(panel + s * step), (columns,), np.uint32)
        at = source + 2 * s * k_stride
        for c in range(turned if s < whole else 0, columns):
            row[c] = _pair(at + c * column_stride, k_stride, count - 2 * s)


@jit()
def pack_panels_pairs(
    target: int,
    source: int,
    k_stride: int,
    column_stride: int,
    count: int,
    columns: int,
    depth: int,
) -> None:
    """Pack ``count`` rows and ``columns`` columns of B into panels of ``depth`` pairs each.

    Args:
        target: Address of the first panel at the first of these k; the next panel is ``depth`` pairs
            further.
        source: Address of the first value.
        k_stride: Bytes from one k to the next.
        column_stride: Bytes from column to column.
        count: Number of k.
        columns: Number of columns.
        depth: Pairs that a whole panel has room for.
    """
    step = COLUMNS_32 * 4
    for start in range(0, columns, COLUMNS_32):
        panel = target + start // COLUMNS_32 * depth * step
        n = min(COLUMNS_32, columns - start)
        if n < COLUMNS_32:  # the micro-kernel reads whole panels
            words = (count + 1) // 2 * COLUMNS_32
            d = carray(as_pointer(panel), (words,), np.uint32)
            for i in range(words):
                d[i] = np.uint32(0)
        _pack_panel(panel, source + start * column_stride, k_stride, column_stride, count, n)
