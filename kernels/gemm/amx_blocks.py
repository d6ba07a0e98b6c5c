"""Loops around the micro-kernel of AMX: what :mod:`emu.kernels.gemm.blocks` is for vectors.

::

    pack the columns of B, all of k, into panels            (a few MiB: L3)
    for each block of rows
        pack the rows of A, all of k                        (L2)
        for each block of columns                           (BLOCK_COLUMNS; its sums stay in L2)
            for each block of k                             (BLOCK_STEPS)
                for each panel of B                         (L1)
                    for each ROWS rows: micro-kernel
            finish: alpha, beta, bias, rounding to the dtype of C

An instruction multiplies so fast that what it waits for is its operands: 64 bytes a cycle where all come from L2. So
k is cut into pieces short enough that a panel of B stays in L1 while the rows of A pass.

The registers are set up for the rows and columns that a tile has. So tiles at the edges are computed and stored as the
others are. Blocks of k are whole registers; so the bits depend on no block size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.address import as_pointer, move_bytes
from emu.kernels.core.annotations import Intrinsic, IrBuilder, IrValue
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.gemm import amx
from emu.kernels.gemm.amx import COLUMNS, DEPTH, PANEL_ROW, REGISTER_BYTES, ROWS, SIDE
from emu.kernels.gemm.finish import finish
from emu.kernels.gemm.microkernel import INT8_AMX, prefetch_to_l2
from emu.kernels.gemm.operands import (
    Matrix,
    Output,
    Rows,
    Size,
    Workspace,
    matrix_at,
    output_from,
)
from emu.kernels.gemm.packing_int8 import pack_panels_int8, pack_rows_int8
from emu.kernels.gemm.packing_pairs import pack_panels_pairs, pack_rows_pairs

_I64 = ir.IntType(64)

BLOCK_ROWS = 256
"""Most rows of A that are packed at a time."""

LEFT_BYTES = 1 << 20
"""Packed rows of A that a thread holds at a time, but at least ``_FEWEST`` rows."""

BLOCK_COLUMNS = 256
"""Columns of C whose sums are held at a time."""

BLOCK_STEPS = 8
"""Registers along k between two visits of a tile: a panel of that depth, and as much of A, fit L1."""

PANEL_BYTES = 16 << 20
"""Packed columns of B that a thread holds at a time."""

_FEWEST = 64
_TOGETHER = 256  # values of k that are packed at a time
_LINE = 64  # bytes of the caches
_PAD = 64  # bytes; rows whose distance is a power of two would share the same few cache sets
_SUMS_ROW = 4 * BLOCK_COLUMNS + _PAD
_WORDS = 16  # of 32 bits along k in a register


@jit(inline="always")
def _bytes(kind: int) -> int:
    """Return the bytes of a value of A and B."""
    return 1 if kind == INT8_AMX else 2


@jit(inline="always")
def words_of(kind: int, k: int) -> int:
    """Return the words of 32 bits along k that a panel has: those of whole registers."""
    return (k * _bytes(kind) + DEPTH - 1) // DEPTH * _WORDS


@jit(inline="always")
def _block_rows(depth: int) -> int:
    """Return the rows of A that are packed at a time, where k fills so many registers."""
    most = LEFT_BYTES // (depth * DEPTH) // ROWS * ROWS
    return min(max(most, _FEWEST), BLOCK_ROWS)


def column_bytes(size: int, k: int) -> int:
    """Return the bytes of a packed column of B, for values of ``size`` bytes."""
    return -(-k * size // DEPTH) * DEPTH


def block_columns(n: int, k: int, size: int) -> int:
    """Return the number of columns of B that are packed at a time: whole panels."""
    most = max(1, PANEL_BYTES // (column_bytes(size, k) * COLUMNS))
    return min(most, -(-n // COLUMNS)) * COLUMNS


def scratch_bytes(n: int, k: int, size: int) -> int:
    """Return the scratch memory that one thread needs for ``n`` columns and this ``k``."""
    column = column_bytes(size, k)
    rows = max(BLOCK_ROWS * DEPTH, _FEWEST * column, LEFT_BYTES)  # of A
    panels = block_columns(n, k, size) * column
    return amx.CONFIGURATION_BYTES + rows + BLOCK_ROWS * _SUMS_ROW + panels


def _row_copier(count: int) -> Intrinsic:
    """Make an intrinsic that copies a row of ``count`` registers that follow each other along k."""

    @fixed_intrinsic(types.void, *[types.int64] * 2)
    def copy(builder: IrBuilder, target: IrValue, source: IrValue) -> None:
        row = ir.VectorType(ir.IntType(8), DEPTH)
        for _ in range(count):
            value = builder.load(builder.inttoptr(source, row.as_pointer()))
            value.align = 1
            builder.store(value, builder.inttoptr(target, row.as_pointer())).align = DEPTH
            source = builder.add(source, ir.Constant(_I64, DEPTH))
            target = builder.add(target, ir.Constant(_I64, REGISTER_BYTES))

    return copy


_SEVERAL = 4
"""Registers that are packed at a time: rows are read in runs, for those a page apart share few sets of the caches."""

_copy_several, _copy_one = _row_copier(_SEVERAL), _row_copier(1)


@jit()
def _copy_registers(target: int, a: Matrix, count: int) -> None:
    """Copy ``count`` registers along k of 16 whole rows that lie side by side."""
    several = count // _SEVERAL * _SEVERAL
    for s in range(0, several, _SEVERAL):
        for r in range(SIDE):
            at = a.address + r * a.row + s * DEPTH
            _copy_several(target + s * REGISTER_BYTES + r * DEPTH, at)
    for s in range(several, count):
        for r in range(SIDE):
            _copy_one(target + s * REGISTER_BYTES + r * DEPTH, a.address + r * a.row + s * DEPTH)


@fixed_intrinsic(types.void, types.int64)
def _ask_for_line(builder: IrBuilder, address: IrValue) -> None:
    prefetch_to_l2(builder, address)


@jit(inline="always")
def _ask_for(address: int, count: int) -> None:
    """Bring ``count`` bytes of the next panel into the L2 cache in the meantime; they need not be the process's."""
    for offset in range(0, count, _LINE):
        _ask_for_line(address + offset)


@jit()
def _fill(target: int, words: int) -> None:
    found = carray(as_pointer(target), (words,), np.int32)
    for i in range(words):
        found[i] = 0


@jit()
def _pack_register(kind: int, target: int, a: Matrix, rows: int, count: int) -> None:
    """Pack what a register holds of A: at most 16 rows and 64 bytes, from anywhere."""
    if count * _bytes(kind) < DEPTH:
        _fill(target, REGISTER_BYTES // 4)
    if kind == INT8_AMX:
        pack_rows_int8(target, DEPTH, a.address, a.row, a.column, rows, count, 0)
    else:
        pack_rows_pairs(target, DEPTH, a.address, a.row, a.column, rows, count)


@jit()
def pack_rows(kind: int, target: int, a: Matrix, rows: int, count: int) -> None:
    """Pack rows of A into registers, those of 16 rows one after the other along k.

    Args:
        kind: Arithmetic kind: INT8_AMX or BF16_AMX.
        target: Address of the packed rows, aligned to 64.
        a: The matrix from its first row and value on.
        rows: Number of rows.
        count: Values along k.
    """
    each = DEPTH // _bytes(kind)
    steps = (count + each - 1) // each
    for r in range(0, rows, SIDE):
        height, copied = min(SIDE, rows - r), 0
        if height == SIDE and a.column == _bytes(kind):
            copied = count // each
            _copy_registers(target, matrix_at(a, r, 0), copied)
        for s in range(copied, steps):
            at, here = matrix_at(a, r, s * each), min(each, count - s * each)
            _pack_register(kind, target + s * REGISTER_BYTES, at, height, here)
        target += steps * REGISTER_BYTES


@jit()
def pack_panels(kind: int, target: int, b: Matrix, k: int, n: int) -> None:
    """Pack ``n`` columns of B, all of k, into panels that end with zeros where k does not fill a register.

    Args:
        kind: Arithmetic kind: INT8_AMX or BF16_AMX.
        target: Address of the panels, aligned to 64.
        b: The matrix from its first column on.
        k: Its rows.
        n: Number of columns.
    """
    group, depth = 4 // _bytes(kind), words_of(kind, k)
    for start in range(0, k, _TOGETHER):
        count = min(_TOGETHER, k - start)
        to, at = target + start // group * PANEL_ROW, b.address + start * b.row
        if kind == INT8_AMX:
            pack_panels_int8(to, at, b.row, b.column, count, n, depth)
        else:
            pack_panels_pairs(to, at, b.row, b.column, count, n, depth)
    words = (k + group - 1) // group
    if words < depth:
        for j in range(0, n, COLUMNS):
            end = target + (j // COLUMNS * depth + words) * PANEL_ROW
            _fill(end, (depth - words) * COLUMNS)


class _Pass(NamedTuple):
    """A block of k: packed rows of A and the bytes from 16 of them to the next, panels of B, how far k runs.

    ``further`` is 1 where the sums go on from what C holds.
    """

    rows: int
    below: int
    panels: int
    panel_bytes: int
    steps: int
    further: int


@jit()
def _tile(kind: int, large: tuple[int, int], now: _Pass, a: int, panel: int, c: Rows) -> None:
    """Multiply one tile; ``large`` is 1 where it has more than 16 rows, and more than 16 columns."""
    down, across = large
    to, stride, further = c.address, c.stride, now.further
    if kind == INT8_AMX:
        if down and across:
            amx.int8_whole(a, now.below, panel, now.steps, to, stride, further)
        elif down:
            amx.int8_narrow(a, now.below, panel, now.steps, to, stride, further)
        elif across:
            amx.int8_low(a, now.below, panel, now.steps, to, stride, further)
        else:
            amx.int8_small(a, now.below, panel, now.steps, to, stride, further)
    elif down and across:
        amx.bf16_whole(a, now.below, panel, now.steps, to, stride, further)
    elif down:
        amx.bf16_narrow(a, now.below, panel, now.steps, to, stride, further)
    elif across:
        amx.bf16_low(a, now.below, panel, now.steps, to, stride, further)
    else:
        amx.bf16_small(a, now.below, panel, now.steps, to, stride, further)


@jit()
def _multiply(kind: int, rows: int, n: int, now: _Pass, c: Rows, place: int) -> None:
    """Multiply packed rows by some panels: whole tiles, then those at the edges; ``place`` is for a configuration."""
    bottom, right = rows // ROWS * ROWS, n // COLUMNS * COLUMNS
    for edge in range(4):
        top, height = (bottom, rows - bottom) if edge & 2 else (0, bottom)
        left, width = (right, n - right) if edge & 1 else (0, right)
        if height == 0 or width == 0:
            continue
        tall, wide = min(ROWS, height), min(COLUMNS, width)
        amx.configure(place, tall, wide)
        large = (int(tall > SIDE), int(wide > SIDE))
        share = now.steps * SIDE * PANEL_ROW * tall // height
        for j in range(left, left + width, COLUMNS):
            panel = now.panels + j // COLUMNS * now.panel_bytes
            following = panel + now.panel_bytes
            for r in range(top, top + height, ROWS):
                _ask_for(following + (r - top) // ROWS * share, share)
                to = Rows(c.address + r * c.stride + 4 * j, c.stride)
                _tile(kind, large, now, now.rows + r // SIDE * now.below, panel, to)


@jit()
def multiply_block(
    kind: int, size: Size, a: Matrix, b: Matrix, c: Matrix, output: Output, room: Workspace
) -> None:
    """Multiply by a block of columns, at most ``room.block`` of them.

    Args:
        kind: Arithmetic kind: INT8_AMX or BF16_AMX.
        size: Extents; k is not 0.
        a: Left matrix.
        b: Right matrix, from the first of these columns on.
        c: Where the result goes.
        output: The factors, the bias, and the dtype of C.
        room: Private memory (:func:`scratch_bytes`), and the panels if they were packed before.
    """
    words = words_of(kind, size.k)
    depth = words // _WORDS
    sums = room.scratch + amx.CONFIGURATION_BYTES
    packed_a = sums + BLOCK_ROWS * _SUMS_ROW
    panels, height = room.packed, _block_rows(depth)
    if panels == 0:
        panels = packed_a + max(height, _FEWEST) * depth * DEPTH
        pack_panels(kind, panels, b, size.k, size.n)
    for i in range(0, size.m, height):
        rows = min(height, size.m - i)
        pack_rows(kind, packed_a, matrix_at(a, i, 0), rows, size.k)
        for j in range(0, size.n, BLOCK_COLUMNS):
            at = panels + j // COLUMNS * words * PANEL_ROW
            strip = _Pass(packed_a, depth * REGISTER_BYTES, at, words * PANEL_ROW, depth, 0)
            columns, here = min(BLOCK_COLUMNS, size.n - j), output_from(output, 4 * j)
            to = matrix_at(c, i, j)
            _block(kind, (rows, columns), strip, to, here, Rows(room.scratch, sums))
    amx.release()


@jit()
def _block(
    kind: int, extents: tuple[int, int], all_k: _Pass, c: Matrix, output: Output, room: Rows
) -> None:
    """Compute a block of C; ``room`` has the addresses of room for a configuration, and of the buffer for sums."""
    rows, columns = extents
    place, buffer = room.address, Rows(room.stride, _SUMS_ROW)
    in_place = output.direct and (all_k.steps <= BLOCK_STEPS)
    sums = Rows(c.address, c.row) if in_place else buffer
    further = output.accumulate
    if further and not in_place:
        _copy_rows(buffer, Rows(c.address, c.row), rows, 4 * columns)
    for s in range(0, all_k.steps, BLOCK_STEPS):
        now = _Pass(
            all_k.rows + s * REGISTER_BYTES,
            all_k.below,
            all_k.panels + s * SIDE * PANEL_ROW,
            all_k.panel_bytes,
            min(BLOCK_STEPS, all_k.steps - s),
            further,
        )
        _multiply(kind, rows, columns, now, sums, place)
        further = 1
    if output.direct and not in_place:
        _copy_rows(Rows(c.address, c.row), buffer, rows, 4 * columns)
    elif not output.direct:
        finish(buffer, rows, columns, c, output)


@jit()
def _copy_rows(target: Rows, source: Rows, rows: int, count: int) -> None:
    for r in range(rows):
        move_bytes(target.address + r * target.stride, source.address + r * source.stride, count)
