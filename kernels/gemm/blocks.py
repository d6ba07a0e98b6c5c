"""Loops around the micro-kernel, which cut a product into blocks that stay in the caches.

``C = alpha * (A @ B) + beta * C + bias`` goes, for each block of columns, like this::

    pack the columns of B, all of k, into panels            (a few MiB: L3)
    for each block of rows                                  (BLOCK_ROWS)
        for each block of k                                 (BLOCK_STEPS)
            pack the rows of A, unless they can be read in place      (L2)
            for each panel of B                                       (L1)
                for each ROWS rows: micro-kernel
        finish: alpha, beta, bias, rounding to the dtype of C

A tile that is full, and needs no finishing, is written to C directly; its chains continue from there in
the next block of k. All others live in a small buffer until they are finished. Thus every element is one
chain of multiply-adds with k increasing, whatever the blocks, and the bits of the result depend on
neither the sizes here nor on how many threads share the work (see :mod:`emu.kernels.gemm.microkernel`).

Everything here takes addresses, and strides in bytes. The scratch memory of a thread is laid out by
:func:`scratch_bytes`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from emu.kernels.core.address import as_pointer, move_bytes
from emu.kernels.core.annotations import IrBuilder, IrValue
from emu.kernels.core.dtypes import F32, F64, I8
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.gemm import amx_blocks
from emu.kernels.gemm.finish import finish
from emu.kernels.gemm.microkernel import (
    BF16_AMX,
    BF16_PAIRS,
    COLUMNS_32,
    COLUMNS_64,
    FEW_ROWS,
    GROUP,
    INT8_AMX,
    LAYOUT,
    ROWS,
    WIDE_32,
    WIDE_64,
    prefetch_to_l2,
    row_f32,
    row_f64,
    tile_dot,
    tile_dot_few,
    tile_f32,
    tile_f32_few,
    tile_f64,
    tile_f64_few,
    tile_pairs,
    tile_pairs_few,
)
from emu.kernels.gemm.operands import (
    Matrix,
    Output,
    Rows,
    Size,
    Workspace,
    matrix_at,
    output_from,
    rows_at,
)
from emu.kernels.gemm.packing import pack_panels, pack_rows
from emu.kernels.gemm.packing_int8 import SHIFTED, pack_panels_int8, pack_rows_int8
from emu.kernels.gemm.packing_pairs import pack_panels_pairs, pack_rows_pairs
from emu.kernels.gemm.vector import times_columns

BLOCK_ROWS = LAYOUT.block[0] // ROWS * ROWS
BLOCK_STEPS = LAYOUT.block[1]
"""Steps of k between two visits of a tile: a panel of that depth fills most of the L1 cache."""

PANEL_BYTES = 4 << 20
"""Packed columns of B that a thread holds at a time."""

MAX_K = 1 << 14
"""Longest k of one call: even the narrowest block of columns then fits ``PANEL_BYTES``."""

_LINE = 64  # bytes of the caches
_AHEAD = LAYOUT.ahead
_PAD = 64  # bytes; rows whose distance is a power of two would share the same few cache sets
_A_ROW = BLOCK_STEPS * 8 + _PAD
_ALIGN = 64
_PAGE = 4096
_MANY_COLUMNS = 256  # fewer do not pay for the copy
_AS_STORED = (F32, F64, BF16_PAIRS)  # A's elements are what the micro-kernel reads


_PANEL_VALUES = {INT8_AMX: 1, BF16_AMX: 2}
"""Bytes of a value of B in AMX's panels."""


@jit(inline="always")
def _is_amx(kind: int) -> bool:
    return kind in (INT8_AMX, BF16_AMX)


@jit(inline="always")
def _columns(kind: int) -> int:
    return COLUMNS_64 if kind == F64 else COLUMNS_32


@jit(inline="always")
def _size(kind: int) -> int:
    """Return the bytes of a packed element, which are those of a sum."""
    return 8 if kind == F64 else 4


@jit(inline="always")
def _group(kind: int) -> int:
    """Return the values of k that one step of the micro-kernel takes."""
    return GROUP if kind == I8 else 2 if kind == BF16_PAIRS else 1


@jit(inline="always")
def _steps(kind: int, count: int) -> int:
    """Return the steps of the micro-kernel for ``count`` values of k; the words of 32 bits where k fills registers."""
    if _is_amx(kind):
        return amx_blocks.words_of(kind, count)
    group = _group(kind)
    return (count + group - 1) // group


def block_columns(n: int, k: int, kind: int) -> int:
    """Return the number of columns of B that are packed at a time: whole panels, about ``PANEL_BYTES``."""
    if kind in _PANEL_VALUES:
        return amx_blocks.block_columns(n, k, _PANEL_VALUES[kind])
    wide, size = (COLUMNS_64, 8) if kind == F64 else (COLUMNS_32, 4)
    return min(max(1, PANEL_BYTES // (max(k, 1) * size * wide)), -(-n // wide)) * wide


def scratch_bytes(n: int, k: int, kind: int) -> int:
    """Return the scratch memory that one thread needs for ``n`` columns and this ``k``."""
    if kind in _PANEL_VALUES:
        return amx_blocks.scratch_bytes(n, k, _PANEL_VALUES[kind])
    wide, size = block_columns(n, k, kind), 8 if kind == F64 else 4
    panels = wide * (k + GROUP) * size
    return panels + BLOCK_ROWS * (wide * size + _PAD) + BLOCK_ROWS * _A_ROW + 4 * _ALIGN + wide * 8


class _Panel(NamedTuple):
    """A panel of B, and the one after it: its address, and the bytes of it to ask for with each row of A."""

    rows: Rows
    next: int
    share: int


@fixed_intrinsic(types.void, types.int64)
def _ask_for_line(builder: IrBuilder, address: IrValue) -> None:
    prefetch_to_l2(builder, address)


@jit(inline="always")
def _ask_for(address: int, count: int) -> None:
    """Bring ``count`` bytes into the L2 cache in the meantime."""
    for offset in range(0, count, _LINE):
        _ask_for_line(address + offset)


@jit()
def _tiles(
    kind: int, a: Rows, count: int, panel: _Panel, steps: int, c: Rows, accumulate: int
) -> None:
    """Multiply ``count`` rows of A by one panel; rows are read and written in whole tiles."""
    r = 0
    while r < count:
        few = count - r <= FEW_ROWS
        if _AHEAD:
            _ask_for(panel.next + r * panel.share, ROWS * panel.share)
        at, to = rows_at(a, r, 0), rows_at(c, r, 0)
        if kind == F64:
            if few:
                tile_f64_few(at, panel.rows, steps, to, accumulate)
            else:
                tile_f64(at, panel.rows, steps, to, accumulate)
        elif kind == I8:
            if few:
                tile_dot_few(at, panel.rows, steps, to, accumulate)
            else:
                tile_dot(at, panel.rows, steps, to, accumulate)
        elif kind == BF16_PAIRS:
            if few:
                tile_pairs_few(at, panel.rows, steps, to, accumulate)
            else:
                tile_pairs(at, panel.rows, steps, to, accumulate)
        elif few:
            tile_f32_few(at, panel.rows, steps, to, accumulate)
        else:
            tile_f32(at, panel.rows, steps, to, accumulate)
        r += FEW_ROWS if few else ROWS


@jit()
def _copy_rows(target: Rows, source: Rows, rows: int, count: int) -> None:
    for r in range(rows):
        move_bytes(target.address + r * target.stride, source.address + r * source.stride, count)


@jit()
def _start_rows(c: Rows, initial: int, rows: int, count: int, accumulate: int) -> None:
    """Store the first row of sums, ``initial``, to ``rows`` rows, or add it to what they hold."""
    first = carray(as_pointer(initial), (count,), np.int32)
    for r in range(rows):
        row = carray(as_pointer(c.address + r * c.stride), (count,), np.int32)
        if accumulate:
            for j in range(count):
                row[j] += first[j]
        else:
            for j in range(count):
                row[j] = first[j]


@jit()
def _pack_a(kind: int, target: int, source: Matrix, rows: int, count: int) -> None:
    if kind == I8:
        at, shift = source.address, int(SHIFTED)
        pack_rows_int8(target, _A_ROW, at, source.row, source.column, rows, count, shift)
    elif kind == BF16_PAIRS:
        pack_rows_pairs(target, _A_ROW, source.address, source.row, source.column, rows, count)
    else:
        pack_rows(kind, target, _A_ROW, source.address, source.row, source.column, rows, count)


@jit()
def _pack_b(kind: int, target: int, b: Matrix, k: int, n: int) -> None:
    """Pack ``n`` columns, all of k, going through k in blocks: the source is read row by row."""
    depth = _steps(kind, k)
    row = _columns(kind) * _size(kind)
    for start in range(0, k, BLOCK_STEPS):
        count = min(BLOCK_STEPS, k - start)
        to, at = target + _steps(kind, start) * row, b.address + start * b.row
        if kind == I8:
            pack_panels_int8(to, at, b.row, b.column, count, n, depth)
        elif kind == BF16_PAIRS:
            pack_panels_pairs(to, at, b.row, b.column, count, n, depth)
        else:
            pack_panels(kind, to, at, b.row, b.column, count, n, depth)


@jit()
def _start_shifted(ones: int, panels: int, k: int, n: int, initial: int) -> None:
    """Write to ``initial`` what the sums of ``n`` columns begin at: minus 128 times the column sums."""
    depth = _steps(I8, k)
    row = COLUMNS_32 * 4
    a = carray(as_pointer(ones), (BLOCK_STEPS * 4,), np.uint8)
    for i in range(a.size):
        a[i] = 128
    for j in range(0, n, COLUMNS_32):
        panel = panels + j // COLUMNS_32 * depth * row
        for s in range(0, depth, BLOCK_STEPS):
            count = min(BLOCK_STEPS, depth - s)
            accumulate = 1 if s else 0
            # All rows of this tile are the same row of A, and are written to the same place.
            to = Rows(initial + j * 4, 0)
            tile_dot_few(Rows(ones, 0), Rows(panel + s * row, row), count, to, accumulate)
    sums = carray(as_pointer(initial), (n,), np.int32)
    for j in range(n):
        sums[j] = -sums[j]


@jit(inline="always")
def packed_before(kind: int, columns: int, k: int) -> int:
    """Return where in a packed B column ``columns`` begins, which begins a panel."""
    wide = _columns(kind)
    return columns // wide * _steps(kind, k) * wide * _size(kind)


def packed_bytes(n: int, k: int, kind: int) -> tuple[int, int]:
    """Return the memory that :func:`pack_whole` needs: for the panels, and for the sums."""
    wide, size = (COLUMNS_64, 8) if kind == F64 else (COLUMNS_32, 4)
    columns = -(-n // wide) * wide
    if kind in _PANEL_VALUES:
        return columns * amx_blocks.column_bytes(_PANEL_VALUES[kind], k), 0
    return columns * (k + GROUP) * size, columns * 4


@jit()
def pack_whole(kind: int, n: int, k: int, b: Matrix, packed: int, initial: int) -> None:
    """Pack all of B for products to come.

    Args:
        kind: Arithmetic kind of B; see :func:`multiply`.
        n: Columns of B.
        k: Rows of B; at most :data:`MAX_K`.
        b: The matrix.
        packed: Address of the memory for the panels (:func:`packed_bytes`), aligned to 64, with room for
            ``4 * BLOCK_STEPS`` more bytes.
        initial: Address of the memory for the sums, aligned to 64.
    """
    if _is_amx(kind):
        amx_blocks.pack_panels(kind, packed, b, k, n)
        return
    _pack_b(kind, packed, b, k, n)
    if kind == I8 and SHIFTED:
        columns = (n + COLUMNS_32 - 1) // COLUMNS_32 * COLUMNS_32
        _start_shifted(packed + packed_before(kind, columns, k), packed, k, n, initial)


@jit()
def multiply(
    kind: int, size: Size, a: Matrix, b: Matrix, c: Matrix, output: Output, room: Workspace
) -> None:
    """Multiply matrices on this thread.

    Args:
        kind: Arithmetic kind of A and B: F32, F16, BF16, BF16_PAIRS, F64, I8, INT8_AMX or BF16_AMX.
        size: Extents; k is at most :data:`MAX_K`, and not 0.
        a: Left matrix.
        b: Right matrix.
        c: Where the result goes.
        output: The factors, the bias, and the dtype of C.
        room: Private memory, and B if it was packed before.
    """
    nbytes = _size(kind)
    first = 0
    if (
        room.packed == 0
        and size.m == 1
        and output.direct
        and kind in (F32, F64)
        and a.column == nbytes
    ):
        if b.column == nbytes:
            first = _one_row(kind, size, a.address, b, c.address, output.accumulate)
        elif b.row == nbytes:
            first = times_columns(
                kind, size, a.address, b, c.address, output.accumulate, room.scratch
            )
    for j in range(first, size.n, room.block):
        panels = room.packed + packed_before(kind, j, size.k) if room.packed else 0
        part, right = Size(size.m, min(room.block, size.n - j), size.k), matrix_at(b, 0, j)
        to, here = matrix_at(c, 0, j), output_from(output, j * nbytes)
        rest = Workspace(room.block, room.scratch, panels, room.initial + j * 4)
        if _is_amx(kind):
            amx_blocks.multiply_block(kind, part, a, right, to, here, rest)
        else:
            _block_of_columns(kind, part, a, right, to, here, rest)


@jit()
def _one_row(kind: int, size: Size, a: int, b: Matrix, c: int, accumulate: int) -> int:
    """Multiply a vector by the columns of B that fill wide tiles; return the number of them."""
    row = Rows(a, 0)
    if kind == F64:
        for j in range(0, size.n - WIDE_64 + 1, WIDE_64):
            to = Rows(c + j * 8, 0)
            row_f64(row, Rows(b.address + j * 8, b.row), size.k, to, accumulate)
        return size.n // WIDE_64 * WIDE_64
    for j in range(0, size.n - WIDE_32 + 1, WIDE_32):
        to = Rows(c + j * 4, 0)
        row_f32(row, Rows(b.address + j * 4, b.row), size.k, to, accumulate)
    return size.n // WIDE_32 * WIDE_32


class _Block(NamedTuple):
    """A block of rows, and its part whose full tiles are written to C directly."""

    rows: int
    columns: int
    direct_rows: int
    direct_columns: int


class _Panels(NamedTuple):
    """The columns of B: the first ``in_place`` are read where they are, the others were packed."""

    packed: int
    source: Rows
    in_place: int


class _Buffers(NamedTuple):
    """Scratch memory of a block: packed rows of A, sums that need finishing, what int8 sums begin at."""

    packed_a: int
    sums: Rows
    initial: int


@jit()
def _block_of_columns(
    kind: int, size: Size, a: Matrix, b: Matrix, c: Matrix, output: Output, room: Workspace
) -> None:
    nbytes, n = _size(kind), size.n
    packed_a = room.scratch
    sums = Rows(packed_a + BLOCK_ROWS * _A_ROW, room.block * nbytes + _PAD)
    initial = sums.address + BLOCK_ROWS * sums.stride
    panels = initial + room.block * 8
    # With few rows each panel is used once or twice: then packing would cost more than it saves.
    few = room.packed == 0 and kind in (F32, F64) and b.column == nbytes and size.m <= 2 * ROWS
    whole = n // _columns(kind) * _columns(kind)
    in_place = whole if few else 0
    if room.packed:
        panels, initial = room.packed, room.initial
    elif in_place < n:
        _pack_b(kind, panels, matrix_at(b, 0, in_place), size.k, n - in_place)
    if kind == I8 and SHIFTED and room.packed == 0:
        _start_shifted(packed_a, panels, size.k, n, initial)
    full = whole if output.direct else 0  # columns of full tiles that are written to C directly
    buffers = _Buffers(packed_a, sums, initial)
    columns = _Panels(panels, Rows(b.address, b.row), in_place)
    for i in range(0, size.m, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, size.m - i)
        to = matrix_at(c, i, 0)
        block = _Block(rows, n, rows // ROWS * ROWS if output.direct else 0, full)
        part = matrix_at(a, i, 0)
        rows_of_c = Rows(to.address, to.row)
        _block_of_rows(kind, size.k, block, part, columns, rows_of_c, buffers, output.accumulate)
        if block.direct_rows < rows or full < n:
            if full < n:
                right = rows_at(sums, 0, full * nbytes)
                bias = output_from(output, full * nbytes)
                finish(right, block.direct_rows, n - full, matrix_at(to, 0, full), bias)
            below = rows_at(sums, block.direct_rows, 0)
            rest = rows - block.direct_rows
            finish(below, rest, n, matrix_at(to, block.direct_rows, 0), output)


@jit()
def _begin_sums(kind: int, block: _Block, c: Rows, buffers: _Buffers, accumulate: int) -> int:
    """Write the initial sums of a block where its tiles expect them; return 1 if tiles must load them."""
    nbytes, top, left = _size(kind), block.direct_rows, block.direct_columns
    tail, width = block.rows - top, block.columns - left
    right, below = rows_at(buffers.sums, 0, left * nbytes), rows_at(buffers.sums, top, 0)
    if accumulate:
        _copy_rows(right, rows_at(c, 0, left * nbytes), top, width * nbytes)
        _copy_rows(below, rows_at(c, top, 0), tail, block.columns * nbytes)
    if kind == I8 and SHIFTED:
        _start_rows(c, buffers.initial, top, left, accumulate)
        _start_rows(right, buffers.initial + left * nbytes, top, width, accumulate)
        _start_rows(below, buffers.initial, tail, block.columns, accumulate)
        return 1
    return accumulate


class _Split(NamedTuple):
    """Numbers of rows of a block: all, those read in place from A, and those written to C directly."""

    rows: int
    in_place: int
    direct: int


@jit()
def _tiles_of_panel(
    kind: int,
    split: _Split,
    a: Rows,
    panel: _Panel,
    steps: int,
    c: Rows,
    buffers: _Buffers,
    accumulate: int,
) -> None:
    """Multiply the rows of a block by one panel.

    The first ``split.in_place`` rows of A are read in place, the others packed; the first ``split.direct``
    rows of the result go to C, the others to the buffer: three groups of rows at most.
    """
    r = 0
    while r < split.rows:
        stop = split.rows
        if r < split.in_place:
            stop = min(stop, split.in_place)
        if r < split.direct:
            stop = min(stop, split.direct)
        at = rows_at(a if r < split.in_place else Rows(buffers.packed_a, _A_ROW), r, 0)
        to = rows_at(c if r < split.direct else buffers.sums, r, 0)
        rest = _Panel(panel.rows, panel.next + r * panel.share, panel.share)
        _tiles(kind, at, stop - r, rest, steps, to, accumulate)
        r = stop


@jit()
def _block_of_rows(
    kind: int,
    k: int,
    block: _Block,
    a: Matrix,
    b: _Panels,
    c: Rows,
    buffers: _Buffers,
    accumulate: int,
) -> None:
    """Compute the sums of a block: full tiles in C itself, the others in the buffer."""
    nbytes, columns, depth = _size(kind), _columns(kind), _steps(kind, k)
    group = _group(kind)
    row_bytes = columns * nbytes  # of a panel
    further = _begin_sums(kind, block, c, buffers, accumulate)
    # Whole tiles read the rows of A in place where these are contiguous and need no conversion.
    as_stored = kind in _AS_STORED and a.column * group == nbytes
    # Rows that begin at the same place of a page share few sets of the caches: copied side by side they stay there.
    apart = a.row % _PAGE != 0 or block.columns < _MANY_COLUMNS
    whole = block.rows // ROWS * ROWS if as_stored and apart else 0
    for s in range(0, depth, BLOCK_STEPS):
        steps = min(BLOCK_STEPS, depth - s)
        first = s * group  # of k
        count = min(steps * group, k - first)
        ready = whole if count == steps * group else 0  # a pair must not reach beyond its row
        at = matrix_at(a, 0, first)
        target = buffers.packed_a + ready * _A_ROW
        _pack_a(kind, target, matrix_at(at, ready, 0), block.rows - ready, count)
        share = -(-steps * row_bytes // block.rows)
        for j in range(0, block.columns, columns):
            if j < b.in_place:
                panel = _Panel(rows_at(b.source, first, j * nbytes), 0, 0)
            else:
                place = b.packed + ((j - b.in_place) // columns * depth + s) * row_bytes
                panel = _Panel(Rows(place, row_bytes), place + depth * row_bytes, share)
            direct = block.direct_rows if j < block.direct_columns else 0
            _tiles_of_panel(
                kind,
                _Split(block.rows, ready, direct),
                Rows(at.address, at.row),
                panel,
                steps,
                rows_at(c, 0, j * nbytes),
                _Buffers(buffers.packed_a, rows_at(buffers.sums, 0, j * nbytes), buffers.initial),
                further,
            )
        further = 1
