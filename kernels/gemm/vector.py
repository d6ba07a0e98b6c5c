"""Products of a vector and a matrix whose columns are contiguous along k, bound by memory alone.

The chains of neighbouring columns share vector registers, but what is contiguous belongs to one
column: blocks of 8 by 8 are turned over in registers on their way. Few columns are read at a time, far
along k, because CPUs' prefetchers recognise that order.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import CArray, Intrinsic, IrBuilder, IrType, IrValue
from emu.kernels.core.dtypes import F64
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.gemm.microkernel import F32 as F32_ELEMENT
from emu.kernels.gemm.microkernel import F64 as F64_ELEMENT
from emu.kernels.gemm.microkernel import Element, broadcast
from emu.kernels.gemm.operands import Matrix, Size
from emu.kernels.gemm.packing import SIDE, turn_rows

_I64 = ir.IntType(64)
_GROUPS = 2  # a chain of 8 multiply-adds waits for each; two of them hide some of that

COLUMNS = _GROUPS * SIDE
"""Columns that are multiplied at a time."""

SCRATCH_BYTES = (COLUMNS + 1) * SIDE * 8
"""Private memory that :func:`times_columns` needs."""


def _blocks(element: Element) -> Intrinsic:
    """Make ``blocks(a, b, b_step, count, c)``: continue ``COLUMNS`` chains for 8 * ``count`` k."""
    vector = ir.VectorType(element.kind, SIDE)

    @fixed_intrinsic(types.void, *[types.int64] * 5)
    def blocks(
        builder: IrBuilder, a: IrValue, b: IrValue, b_step: IrValue, count: IrValue, c: IrValue
    ) -> None:
        def constant(n: int) -> IrValue:
            return ir.Constant(_I64, n)

        def load(address: IrValue, kind: IrType) -> IrValue:
            value = builder.load(builder.inttoptr(address, kind.as_pointer()))
            value.align = element.size
            return value

        columns = [b]
        for _ in range(1, COLUMNS):
            columns.append(builder.add(columns[-1], b_step))
        places = [builder.add(c, constant(g * SIDE * element.size)) for g in range(_GROUPS)]
        first = [load(place, vector) for place in places]
        entry, loop = builder.block, builder.append_basic_block("loop")
        done = builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        block = builder.phi(_I64)
        block.add_incoming(constant(0), entry)
        sums = [builder.phi(vector) for _ in places]
        offset = builder.mul(block, constant(SIDE * element.size))
        factors = [
            broadcast(
                builder,
                load(builder.add(builder.add(a, offset), constant(i * element.size)), element.kind),
                vector,
            )
            for i in range(SIDE)
        ]
        new = []
        for g, total in enumerate(sums):
            rows = [
                load(builder.add(column, offset), vector)
                for column in columns[g * SIDE : (g + 1) * SIDE]
            ]
            value = total
            for factor, row in zip(factors, turn_rows(builder, rows), strict=True):
                value = element.multiply_add(builder, factor, row, value)
            new.append(value)
        following = builder.add(block, constant(1))
        block.add_incoming(following, loop)
        for total, begin, value in zip(sums, first, new, strict=True):
            total.add_incoming(begin, entry)
            total.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
        builder.position_at_end(done)
        for place, value in zip(places, new, strict=True):
            builder.store(value, builder.inttoptr(place, vector.as_pointer())).align = element.size

    return blocks


_blocks_f32, _blocks_f64 = _blocks(F32_ELEMENT), _blocks(F64_ELEMENT)


@jit(inline="always")
def _run(kind: int, a: int, b: int, b_step: int, count: int, c: int) -> None:
    if kind == F64:
        _blocks_f64(a, b, b_step, count, c)
    else:
        _blocks_f32(a, b, b_step, count, c)


@jit(inline="always")
def _fill_tail(a: CArray, b: CArray, tail_a: CArray, tail_b: CArray, column: int) -> None:
    """Copy the rest of one column and of the vector, padded with values that change no sum."""
    for i in range(SIDE):
        # Minus zero times zero is minus zero, and adding that leaves even a minus zero as it is.
        tail_a[i] = a[i] if i < a.size else -0.0
        tail_b[column * SIDE + i] = b[i] if i < b.size else 0.0


@jit()
def _tail(kind: int, a: int, b: int, b_step: int, count: int, scratch: int) -> None:
    n, offset = COLUMNS * SIDE, SIDE * 8
    for c in range(COLUMNS):
        if kind == F64:
            _fill_tail(
                carray(as_pointer(a), (count,), np.float64),
                carray(as_pointer(b + c * b_step), (count,), np.float64),
                carray(as_pointer(scratch), (SIDE,), np.float64),
                carray(as_pointer(scratch + offset), (n,), np.float64),
                c,
            )
        else:
            _fill_tail(
                carray(as_pointer(a), (count,), np.float32),
                carray(as_pointer(b + c * b_step), (count,), np.float32),
                carray(as_pointer(scratch), (SIDE,), np.float32),
                carray(as_pointer(scratch + offset), (n,), np.float32),
                c,
            )


@jit()
def times_columns(
    kind: int, size: Size, a: int, b: Matrix, c: int, accumulate: int, scratch: int
) -> int:
    """Multiply a vector by the first columns of a matrix, ``COLUMNS`` at a time.

    Args:
        kind: Arithmetic kind: F32 or F64.
        size: Number of columns, and length of the vector and of the columns; m is not used.
        a: Address of the vector, contiguous.
        b: The matrix; each column is contiguous.
        c: Address of the results, contiguous.
        accumulate: 1 if the sums start from what ``c`` holds.
        scratch: Address of :data:`SCRATCH_BYTES` bytes.

    Returns:
        Number of columns that are done; fewer than ``COLUMNS`` are left.
    """
    nbytes = 8 if kind == F64 else 4
    whole, blocks = size.n // COLUMNS * COLUMNS, size.k // SIDE
    done = blocks * SIDE
    for j in range(0, whole, COLUMNS):
        at, to = b.address + j * b.column, c + j * nbytes
        if not accumulate:
            words = carray(as_pointer(to), (COLUMNS * nbytes // 4,), np.int32)
            for i in range(words.size):
                words[i] = 0
        if blocks:
            _run(kind, a, at, b.column, blocks, to)
        if done < size.k:
            rest = size.k - done
            _tail(kind, a + done * nbytes, at + done * nbytes, b.column, rest, scratch)
            _run(kind, scratch, scratch + SIDE * 8, SIDE * nbytes, 1, to)
    return whole
