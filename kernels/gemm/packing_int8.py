"""Bring int8 operands into the 32-bit groups of the CPU's dot products.

A group holds ``microkernel.GROUP`` neighbouring values of k: four bytes for VNNI, two 16-bit values for
the multiply-add of pairs, one 32-bit value elsewhere. Beyond that the order is the one of
:mod:`emu.kernels.gemm.packing`: B in panels, A in rows.

VNNI takes unsigned bytes on one side. A is therefore stored with 128 added, and the driver takes 128 times
the sum of each column of B off again; modulo 2**32 that is exact. AMX takes signed bytes on both sides: its rows of
A are packed with ``shift`` 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import Bits, Intrinsic, IrBuilder, IrValue
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.gemm.microkernel import COLUMNS_32, GROUP
from emu.kernels.gemm.packing import SIDE, turn_rows

_I8, _I32 = ir.IntType(8), ir.IntType(32)
_BITS = 32 // GROUP

SHIFTED = GROUP == 4
"""A is packed with 128 added to each value."""

_FLIP = 0x80808080


def _along(builder: IrBuilder, source: IrValue, k_stride: IrValue) -> IrValue:
    """Read ``SIDE`` groups that are contiguous along k."""
    stored = ir.VectorType(_I8, SIDE * GROUP)
    row = builder.load(builder.inttoptr(source, stored.as_pointer()))
    row.align = 1
    if GROUP < 4:
        row = builder.sext(row, ir.VectorType(ir.IntType(_BITS), SIDE * GROUP))
    return builder.bitcast(row, ir.VectorType(_I32, SIDE))


def _across(builder: IrBuilder, source: IrValue, k_stride: IrValue) -> IrValue:
    """Read one group of each of ``SIDE`` neighbouring rows or columns, ``k_stride`` bytes from k to k."""
    wide = ir.VectorType(_I32, SIDE)
    total = None
    for value in range(GROUP):
        row = builder.load(builder.inttoptr(source, ir.VectorType(_I8, SIDE).as_pointer()))
        row.align = 1
        if value + 1 < GROUP:  # the last one fills the upper bits with its sign
            row = builder.zext(builder.sext(row, ir.VectorType(ir.IntType(_BITS), SIDE)), wide)
        else:
            row = builder.sext(row, wide)
        row = builder.shl(row, ir.Constant(wide, [value * _BITS] * SIDE))
        total = row if total is None else builder.or_(total, row)
        source = builder.add(source, k_stride)
    return total


def _turner(read: Callable[[IrBuilder, IrValue, IrValue], IrValue], flip: int) -> Intrinsic:
    """Make an intrinsic that reads ``SIDE`` vectors of groups and writes them as columns."""

    @fixed_intrinsic(types.void, *[types.int64] * 5)
    def turn(
        builder: IrBuilder,
        target: IrValue,
        target_stride: IrValue,
        source: IrValue,
        source_stride: IrValue,
        k_stride: IrValue,
    ) -> None:
        rows = []
        for _ in range(SIDE):
            rows.append(read(builder, source, k_stride))
            source = builder.add(source, source_stride)
        for row in turn_rows(builder, rows):
            if flip:
                row = builder.xor(row, ir.Constant(row.type, [flip] * SIDE))
            builder.store(row, builder.inttoptr(target, row.type.as_pointer())).align = 4
            target = builder.add(target, target_stride)

    return turn


_turn_along = _turner(_along, 0)  # columns of B that are contiguous along k
_turn_across = _turner(_across, 0)  # rows of A that are contiguous across k
_turn_shifted = _turner(_across, _FLIP)


@jit(inline="always")
def _group(source: int, k_stride: int, count: int) -> Bits:
    """Read one group of ``count`` values, the rest zero."""
    total = np.uint32(0)
    for i in range(GROUP):
        if i < count:
            value = carray(as_pointer(source + i * k_stride), (1,), np.int8)[0]
            bits = np.uint32(np.int32(value))
            if GROUP > 1:
                bits &= np.uint32((1 << _BITS) - 1)
            total |= np.uint32(bits << np.uint32(i * _BITS))
    return total


@jit()
def _pack_row(target: int, source: int, k_stride: int, start: int, count: int, shift: int) -> None:
    """Pack the groups of one row of A from k = ``start`` on."""
    groups = (count + GROUP - 1) // GROUP
    flip = np.uint32(_FLIP if shift else 0)
    d = carray(as_pointer(target), (groups,), np.uint32)
    for g in range(start // GROUP, groups):
        left = count - g * GROUP
        d[g] = _group(source + g * GROUP * k_stride, k_stride, left) ^ flip


@jit()
def _pack_contiguous_row(target: int, source: int, count: int, shift: int) -> None:
    s = carray(as_pointer(source), (count,), np.int8)
    if GROUP == 4:
        flip = np.int8(-128 if shift else 0)
        d8 = carray(as_pointer(target), (count,), np.int8)
        for i in range(count):
            d8[i] = s[i] ^ flip
    elif GROUP == 2:
        d16 = carray(as_pointer(target), (count,), np.int16)
        for i in range(count):
            d16[i] = s[i]
    else:
        d32 = carray(as_pointer(target), (count,), np.int32)
        for i in range(count):
            d32[i] = s[i]


@jit()
def pack_rows_int8(
    target: int,
    target_stride: int,
    source: int,
    row_stride: int,
    k_stride: int,
    rows: int,
    count: int,
    shift: int,
) -> None:
    """Pack ``rows`` rows of A, ``count`` values along k, into groups.

    Args:
        target: Address of the packed rows.
        target_stride: Bytes from packed row to packed row.
        source: Address of the first value.
        row_stride: Bytes from row to row of the source.
        k_stride: Bytes from one k to the next.
        rows: Number of rows.
        count: Values in a row.
        shift: 1 to add 128 to each value, 0 not to; :data:`SHIFTED` for the CPU's dot products.
    """
    whole = count // (SIDE * GROUP) * (SIDE * GROUP)
    turned = 0
    if k_stride == 1:
        whole = count // GROUP * GROUP
        for r in range(rows):
            _pack_contiguous_row(target + r * target_stride, source + r * row_stride, whole, shift)
        turned = rows
    elif row_stride == 1:
        turned = rows // SIDE * SIDE
        for k in range(0, whole, SIDE * GROUP):
            for r in range(0, turned, SIDE):
                to, at = target + r * target_stride + k // GROUP * 4, source + k * k_stride + r
                if shift:
                    _turn_shifted(to, target_stride, at, GROUP * k_stride, k_stride)
                else:
                    _turn_across(to, target_stride, at, GROUP * k_stride, k_stride)
    for r in range(rows):
        start = whole if r < turned else 0
        to, at = target + r * target_stride, source + r * row_stride
        _pack_row(to, at, k_stride, start, count, shift)


@jit()
def _pack_step(target: int, source: int, k_stride: int, count: int, columns: int) -> None:
    """Pack one group of each of ``columns`` contiguous columns of B."""
    d = carray(as_pointer(target), (columns,), np.uint32)
    if count < GROUP or GROUP == 1:
        for c in range(columns):
            d[c] = _group(source + c, k_stride, count)
    elif GROUP == 2:
        s0 = carray(as_pointer(source), (columns,), np.int8)
        s1 = carray(as_pointer(source + k_stride), (columns,), np.int8)
        for c in range(columns):
            low = np.uint32(np.int32(s0[c])) & np.uint32(0xFFFF)
            d[c] = low | np.uint32(np.uint32(np.int32(s1[c])) << np.uint32(16))
    else:
        u0 = carray(as_pointer(source), (columns,), np.uint8)
        u1 = carray(as_pointer(source + k_stride), (columns,), np.uint8)
        u2 = carray(as_pointer(source + 2 * k_stride), (columns,), np.uint8)
        u3 = carray(as_pointer(source + 3 * k_stride), (columns,), np.uint8)
        for c in range(columns):
            low = np.uint32(u0[c]) | np.uint32(np.uint32(u1[c]) << np.uint32(8))
            high = np.uint32(u2[c]) | np.uint32(np.uint32(u3[c]) << np.uint32(8))
            d[c] = low | np.uint32(high << np.uint32(16))


@jit()
def _pack_panel(
    panel: int, source: int, k_stride: int, column_stride: int, count: int, columns: int
) -> None:
    step = COLUMNS_32 * 4
    groups = (count + GROUP - 1) // GROUP
    if column_stride == 1:
        for g in range(groups):
            at = source + g * GROUP * k_stride
            if columns == COLUMNS_32:  # a constant width lets the compiler drop the loop
                _pack_step(panel + g * step, at, k_stride, count - g * GROUP, COLUMNS_32)
            else:
                _pack_step(panel + g * step, at, k_stride, count - g * GROUP, columns)
        return
    whole = turned = 0
    if k_stride == 1:
        whole = count // (SIDE * GROUP) * SIDE
        turned = columns // SIDE * SIDE
        for c in range(0, turned, SIDE):
            for g in range(0, whole, SIDE):
                _turn_along(
                    panel + g * step + c * 4,
                    step,
                    source + c * column_stride + g * GROUP,
                    column_stride,
                    1,
                )
    for c in range(columns):
        for g in range(whole if c < turned else 0, groups):
            at = source + c * column_stride + g * GROUP * k_stride
            group = _group(at, k_stride, count - g * GROUP)
            carray(as_pointer(panel + g * step + c * 4), (1,), np.uint32)[0] = group


@jit()
def pack_panels_int8(
    target: int,
    source: int,
    k_stride: int,
    column_stride: int,
    count: int,
    columns: int,
    depth: int,
) -> None:
    """Pack ``count`` rows and ``columns`` columns of B into panels of ``depth`` groups each.

    Args:
        target: Address of the first panel at the first of these k; the next panel is ``depth`` groups
            further.
        source: Address of the first value.
        k_stride: Bytes from one k to the next.
        column_stride: Bytes from column to column.
        count: Number of k.
        columns: Number of columns.
        depth: Groups that a whole panel has room for.
    """
    step = COLUMNS_32 * 4
    for start in range(0, columns, COLUMNS_32):
        panel = target + start // COLUMNS_32 * depth * step
        n = min(COLUMNS_32, columns - start)
        if n < COLUMNS_32:
            words = (count + GROUP - 1) // GROUP * COLUMNS_32
            d = carray(as_pointer(panel), (words,), np.uint32)
            for i in range(words):
                d[i] = np.uint32(0)
        _pack_panel(panel, source + start * column_stride, k_stride, column_stride, count, n)
