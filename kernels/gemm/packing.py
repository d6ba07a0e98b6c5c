"""Bring the operands of a matrix product into the order in which the micro-kernel reads them.

B becomes *panels*: ``columns`` neighbouring columns, k by k, so that a step of the micro-kernel reads
one aligned stretch; a panel that sticks out over the last column is filled with zeros. A becomes rows
that are contiguous along k. fp16 and bf16 are widened to fp32 on the way. (int8: :mod:`emu.kernels.gemm.packing_int8`.)

An operand may lie in memory either way round. Where it runs across the order that is wanted, blocks
of 8 by 8 are turned over in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.address import as_pointer, move_bytes
from emu.kernels.core.annotations import Intrinsic, IrBuilder, IrType, IrValue, Real
from emu.kernels.core.dtypes import BF16, F16, F32, F64, bf16_to_f32, f16_to_f32
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.gemm.microkernel import COLUMNS_32, COLUMNS_64, LAYOUT

_I32, _I64 = ir.IntType(32), ir.IntType(64)

Widen: TypeAlias = Callable[[IrBuilder, IrValue], IrValue]

SIDE = 8
"""Rows and columns of the blocks that are turned over at once."""


def turn_rows(builder: IrBuilder, rows: list[IrValue]) -> list[IrValue]:
    """Transpose ``SIDE`` vectors of ``SIDE`` elements by three rounds of shuffles of two vectors."""
    half = SIDE // 2
    while half:
        # Exchange the off-diagonal halves of each 2*half by 2*half block.
        keep = [i if not i & half else SIDE + (i ^ half) for i in range(SIDE)]
        swap = [i ^ half if not i & half else SIDE + i for i in range(SIDE)]
        turned = list(rows)
        for i in range(SIDE):
            if i & half:
                continue
            low, high = rows[i], rows[i | half]
            for target, lanes in ((i, keep), (i | half, swap)):
                mask = ir.Constant(ir.VectorType(_I32, SIDE), lanes)
                turned[target] = builder.shuffle_vector(low, high, mask)
        rows = turned
        half //= 2
    return rows


def _turner(stored: IrType, size: int, widen: Widen) -> Intrinsic:
    """Make an intrinsic that reads ``SIDE`` rows of ``SIDE`` elements and writes them as columns."""

    @fixed_intrinsic(types.void, *[types.int64] * 4)
    def turn(
        builder: IrBuilder,
        target: IrValue,
        target_stride: IrValue,
        source: IrValue,
        source_stride: IrValue,
    ) -> None:
        vector = ir.VectorType(stored, SIDE)
        rows = []
        for _ in range(SIDE):
            row = builder.load(builder.inttoptr(source, vector.as_pointer()))
            row.align = size
            rows.append(widen(builder, row))
            source = builder.add(source, source_stride)
        for row in turn_rows(builder, rows):
            builder.store(row, builder.inttoptr(target, row.type.as_pointer())).align = 4
            target = builder.add(target, target_stride)

    return turn


def _row_copier(stored: IrType, size: int, lanes: int, widen: Widen) -> Intrinsic:
    """Make an intrinsic that copies one row of a full panel."""

    @fixed_intrinsic(types.void, types.int64, types.int64)
    def copy(builder: IrBuilder, target: IrValue, source: IrValue) -> None:
        vector = ir.VectorType(stored, lanes)
        for _ in range(LAYOUT.vectors):
            row = builder.load(builder.inttoptr(source, vector.as_pointer()))
            row.align = size
            row = widen(builder, row)
            store = builder.store(row, builder.inttoptr(target, row.type.as_pointer()))
            store.align = LAYOUT.vector_bytes
            source = builder.add(source, ir.Constant(_I64, lanes * size))
            target = builder.add(target, ir.Constant(_I64, LAYOUT.vector_bytes))

    return copy


def _widen_f16(builder: IrBuilder, row: IrValue) -> IrValue:
    lanes = row.type.count
    half = builder.bitcast(row, ir.VectorType(ir.HalfType(), lanes))
    return builder.fpext(half, ir.VectorType(ir.FloatType(), lanes))


def _widen_bf16(builder: IrBuilder, row: IrValue) -> IrValue:
    wide = ir.VectorType(_I32, row.type.count)
    return builder.shl(builder.zext(row, wide), ir.Constant(wide, [16] * row.type.count))


def _as_it_is(builder: IrBuilder, row: IrValue) -> IrValue:
    return row


_turn_32 = _turner(_I32, 4, _as_it_is)
_turn_64 = _turner(_I64, 8, _as_it_is)
_turn_f16 = _turner(ir.IntType(16), 2, _widen_f16)
_turn_bf16 = _turner(ir.IntType(16), 2, _widen_bf16)

_TOGETHER = LAYOUT.together
_LANES_32, _LANES_64 = LAYOUT.vector_bytes // 4, LAYOUT.vector_bytes // 8
_row_32 = _row_copier(_I32, 4, _LANES_32, _as_it_is)
_row_64 = _row_copier(_I64, 8, _LANES_64, _as_it_is)
_row_f16 = _row_copier(ir.IntType(16), 2, _LANES_32, _widen_f16)
_row_bf16 = _row_copier(ir.IntType(16), 2, _LANES_32, _widen_bf16)


@jit(inline="always")
def _load_f32(kind: int, address: int) -> Real:
    """Read one element as fp32."""
    if kind == F32:
        return carray(as_pointer(address), (1,), np.float32)[0]
    bits = carray(as_pointer(address), (1,), np.uint16)[0]
    return f16_to_f32(bits) if kind == F16 else bf16_to_f32(bits)


@jit()
def _widen_run(kind: int, target: int, source: int, count: int) -> None:
    """Copy ``count`` contiguous elements, as fp32 unless they are fp64."""
    if kind == F32:
        move_bytes(target, source, 4 * count)
    elif kind == F64:
        move_bytes(target, source, 8 * count)
    else:
        d = carray(as_pointer(target), (count,), np.float32)
        s = carray(as_pointer(source), (count,), np.uint16)
        if kind == F16:
            for i in range(count):
                d[i] = f16_to_f32(s[i])
        else:
            for i in range(count):
                d[i] = bf16_to_f32(s[i])


@jit(inline="always")
def _turn_block(
    kind: int, target: int, target_stride: int, source: int, source_stride: int
) -> None:
    if kind == F32:
        _turn_32(target, target_stride, source, source_stride)
    elif kind == F16:
        _turn_f16(target, target_stride, source, source_stride)
    elif kind == BF16:
        _turn_bf16(target, target_stride, source, source_stride)
    else:
        _turn_64(target, target_stride, source, source_stride)


@jit(inline="always")
def _copy_element(kind: int, target: int, source: int) -> None:
    if kind == F64:
        carray(as_pointer(target), (1,), np.float64)[0] = carray(
            as_pointer(source), (1,), np.float64
        )[0]
    else:
        carray(as_pointer(target), (1,), np.float32)[0] = _load_f32(kind, source)


@jit()
def _transpose(
    kind: int,
    target: int,
    target_stride: int,
    source: int,
    source_stride: int,
    rows: int,
    count: int,
) -> None:
    """Write ``rows`` source rows of ``count`` contiguous elements as the columns of the target."""
    size = 8 if kind == F64 else 4
    stored = 8 if kind == F64 else 4 if kind == F32 else 2
    whole_rows, whole = rows // SIDE * SIDE, count // SIDE * SIDE
    for r in range(0, whole_rows, SIDE):
        for i in range(0, whole, SIDE):
            _turn_block(
                kind,
                target + i * target_stride + r * size,
                target_stride,
                source + r * source_stride + i * stored,
                source_stride,
            )
    for r in range(rows):
        for i in range(whole if r < whole_rows else 0, count):
            _copy_element(
                kind,
                target + i * target_stride + r * size,
                source + r * source_stride + i * stored,
            )


@jit()
def pack_rows(
    kind: int,
    target: int,
    target_stride: int,
    source: int,
    row_stride: int,
    k_stride: int,
    rows: int,
    count: int,
) -> None:
    """Pack ``rows`` rows of A, ``count`` elements along k; the result has ``target_stride`` bytes a row.

    Args:
        kind: Arithmetic kind of the source: F32, F16, BF16 (packed as fp32) or F64.
        target: Address of the packed rows.
        target_stride: Bytes from packed row to packed row.
        source: Address of the first element.
        row_stride: Bytes from row to row of the source.
        k_stride: Bytes from one k to the next.
        rows: Number of rows.
        count: Elements in a row.
    """
    size = 8 if kind == F64 else 4
    stored = 8 if kind == F64 else 4 if kind == F32 else 2
    if k_stride == stored:
        for r in range(rows):
            _widen_run(kind, target + r * target_stride, source + r * row_stride, count)
    elif row_stride == stored:
        _transpose(kind, target, target_stride, source, k_stride, count, rows)
    else:
        for r in range(rows):
            for i in range(count):
                _copy_element(
                    kind,
                    target + r * target_stride + i * size,
                    source + r * row_stride + i * k_stride,
                )


@jit()
def _fill(target: int, count: int) -> None:
    words = carray(as_pointer(target), (count,), np.int32)
    for i in range(count):
        words[i] = 0


@jit(inline="always")
def _copy_row(kind: int, target: int, source: int) -> None:
    """Copy one row of a full panel."""
    if kind == F32:
        _row_32(target, source)
    elif kind == F64:
        _row_64(target, source)
    elif kind == F16:
        _row_f16(target, source)
    else:
        _row_bf16(target, source)


@jit()
def pack_panels(
    kind: int,
    target: int,
    source: int,
    k_stride: int,
    column_stride: int,
    count: int,
    columns: int,
    depth: int,
) -> None:
    """Pack ``count`` rows and ``columns`` columns of B into panels of ``depth`` steps each.

    Args:
        kind: As for :func:`pack_rows`.
        target: Address of the first panel at the first of these k; the next panel is ``depth``
            steps further.
        source: Address of the first element.
        k_stride: Bytes from one k to the next.
        column_stride: Bytes from column to column.
        count: Number of k.
        columns: Number of columns.
        depth: Steps that a whole panel has room for.
    """
    size = 8 if kind == F64 else 4
    stored = 8 if kind == F64 else 4 if kind == F32 else 2
    wide = COLUMNS_64 if kind == F64 else COLUMNS_32
    step = wide * size
    done = 0
    if _TOGETHER > 1 and column_stride == stored:
        done = columns // (_TOGETHER * wide) * (_TOGETHER * wide)
        for start in range(0, done, _TOGETHER * wide):
            panel = target + start // wide * depth * step
            _copy_full_panels(kind, panel, depth * step, source + start * stored, k_stride, count)
    for start in range(done, columns, wide):
        panel = target + start // wide * depth * step
        n = min(wide, columns - start)
        # The micro-kernel reads whole panels; what lay there may be subnormal, and slow.
        if n < wide:
            _fill(panel, count * step // 4)
        at = source + start * column_stride
        if column_stride == stored:
            if n == wide:
                _copy_full_panel(kind, panel, at, k_stride, count)
            else:
                for k in range(count):
                    _widen_run(kind, panel + k * step, at + k * k_stride, n)
        elif k_stride == stored:
            _transpose(kind, panel, step, at, column_stride, n, count)
        else:
            for k in range(count):
                for c in range(n):
                    _copy_element(
                        kind, panel + k * step + c * size, at + k * k_stride + c * column_stride
                    )


@jit()
def _copy_full_panels(
    kind: int, panels: int, panel_bytes: int, source: int, k_stride: int, count: int
) -> None:
    """Pack ``_TOGETHER`` neighbouring panels at once."""
    step = COLUMNS_64 * 8 if kind == F64 else COLUMNS_32 * 4
    stored = 8 if kind == F64 else 4 if kind == F32 else 2
    across = (COLUMNS_64 if kind == F64 else COLUMNS_32) * stored
    for k in range(count):
        to, at = panels + k * step, source + k * k_stride
        for p in range(_TOGETHER):
            _copy_row(kind, to + p * panel_bytes, at + p * across)


@jit()
def _copy_full_panel(kind: int, panel: int, source: int, k_stride: int, count: int) -> None:
    step = COLUMNS_64 * 8 if kind == F64 else COLUMNS_32 * 4
    for k in range(count):
        _copy_row(kind, panel + k * step, source + k * k_stride)
