"""The loops around the micro-kernel: cut a product into blocks that stay in the caches.

``C = alpha * (A @ B) + beta * C + bias`` goes, for each block of columns, like this::

    pack the columns of B, all of k, into panels            (a few MiB: L3)
    for each block of rows                                  (BLOCK_ROWS)
        for each block of k                                 (BLOCK_STEPS)
            pack the rows of A, unless they can be read in place      (L2)
            for each panel of B                                       (L1)
                for each ROWS rows: micro-kernel
        finish: alpha, beta, bias, rounding to the dtype of C

A tile that is full, and wants no finishing, is written to C directly; its chains go on from there in
the next block of k. All others live in a small buffer until they are finished. Thus every element is one
chain of multiply-adds with k increasing, whatever the blocks, and the bits of the result depend on
neither the sizes here nor on how many threads share the work (see :mod:`emu.kernels.gemm.microkernel`).

Everything here takes addresses, and strides in bytes. The scratch memory of a thread is laid out by
:func:`scratch_bytes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.kernels.core.address import as_pointer, move_bytes
from emu.kernels.core.dtypes import (
    F16,
    F32,
    F64,
    I8,
    I32,
    bf16_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.core.jit import carray, jit
from emu.kernels.gemm.microkernel import (
    COLUMNS_32,
    COLUMNS_64,
    FEW_ROWS,
    GROUP,
    ROWS,
    WIDE_32,
    WIDE_64,
    row_f32,
    row_f64,
    tile_dot,
    tile_dot_few,
    tile_f32,
    tile_f32_few,
    tile_f64,
    tile_f64_few,
)
from emu.kernels.gemm.packing import pack_panels, pack_rows
from emu.kernels.gemm.packing_int8 import SHIFTED, pack_panels_int8, pack_rows_int8
from emu.kernels.gemm.vector import times_columns

BLOCK_ROWS = 96 // ROWS * ROWS
BLOCK_STEPS = 256
"""Steps of k between two visits of a tile: a panel of that depth fills most of the L1 cache."""

PANEL_BYTES = 4 << 20
"""Packed columns of B that a thread holds at a time."""

MAX_K = 1 << 14
"""Longest k of one call: even the narrowest block of columns then fits ``PANEL_BYTES``."""

_PAD = 64  # bytes; rows whose distance is a power of two would share the same few cache sets
_A_ROW = BLOCK_STEPS * 8 + _PAD
_ALIGN = 64


@jit(inline="always")
def _columns(kind: int) -> Any:
    return COLUMNS_64 if kind == F64 else COLUMNS_32


@jit(inline="always")
def _size(kind: int) -> Any:
    """Bytes of a packed element and of a sum."""
    return 8 if kind == F64 else 4


@jit(inline="always")
def _steps(kind: int, count: int) -> Any:
    """Steps of the micro-kernel for ``count`` values of k."""
    return (count + GROUP - 1) // GROUP if kind == I8 else count


def block_columns(n: int, k: int, size: int) -> int:
    """Return how many columns of B are packed at a time: whole panels, about ``PANEL_BYTES``."""
    wide = COLUMNS_64 if size == 8 else COLUMNS_32
    return min(max(1, PANEL_BYTES // (max(k, 1) * size * wide)), -(-n // wide)) * wide


def scratch_bytes(n: int, k: int, size: int) -> int:
    """Return the scratch memory that one thread needs for ``n`` columns and this ``k``."""
    wide = block_columns(n, k, size)
    panels = wide * (k + GROUP) * size
    return panels + BLOCK_ROWS * (wide * size + _PAD) + BLOCK_ROWS * _A_ROW + 4 * _ALIGN + wide * 8


@jit()
def _tiles(
    kind: int,
    a: int,
    a_stride: int,
    rows: int,
    b: int,
    b_stride: int,
    steps: int,
    c: int,
    c_stride: int,
    go_on: int,
) -> None:
    """Multiply ``rows`` rows of A by one panel; rows are read and written in whole tiles."""
    r = 0
    while r < rows:
        few = rows - r <= FEW_ROWS
        at, to = a + r * a_stride, c + r * c_stride
        if kind == F64:
            if few:
                tile_f64_few(at, a_stride, b, b_stride, steps, to, c_stride, go_on)
            else:
                tile_f64(at, a_stride, b, b_stride, steps, to, c_stride, go_on)
        elif kind == I8:
            if few:
                tile_dot_few(at, a_stride, b, b_stride, steps, to, c_stride, go_on)
            else:
                tile_dot(at, a_stride, b, b_stride, steps, to, c_stride, go_on)
        elif few:
            tile_f32_few(at, a_stride, b, b_stride, steps, to, c_stride, go_on)
        else:
            tile_f32(at, a_stride, b, b_stride, steps, to, c_stride, go_on)
        r += FEW_ROWS if few else ROWS


@jit(inline="always")
def _load(kind: int, address: int) -> Any:
    if kind == F32:
        return carray(as_pointer(address), (1,), np.float32)[0]
    bits = carray(as_pointer(address), (1,), np.uint16)[0]
    return f16_to_f32(bits) if kind == F16 else bf16_to_f32(bits)


@jit()
def _add_old_f32(kind: int, row: Any, c: int, c_step: int, beta: Any) -> None:
    for j in range(row.size):
        row[j] += beta * _load(kind, c + j * c_step)


@jit()
def _store_f32(kind: int, row: Any, c: int, c_step: int) -> None:
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
def _finish_f32(
    kind: int, sums: int, n: int, c: int, c_step: int, alpha: float, beta: float, bias: int
) -> None:
    row = carray(as_pointer(sums), (n,), np.float32)
    if alpha != 1.0:
        scale = np.float32(alpha)
        for j in range(n):
            row[j] *= scale
    if beta != 0.0:
        _add_old_f32(kind, row, c, c_step, np.float32(beta))
    if bias:
        more = carray(as_pointer(bias), (n,), np.float32)
        for j in range(n):
            row[j] += more[j]
    _store_f32(kind, row, c, c_step)


@jit()
def _finish_f64(
    sums: int, n: int, c: int, c_step: int, alpha: float, beta: float, bias: int
) -> None:
    row = carray(as_pointer(sums), (n,), np.float64)
    if alpha != 1.0:
        for j in range(n):
            row[j] *= alpha
    if beta != 0.0:
        for j in range(n):
            row[j] += beta * carray(as_pointer(c + j * c_step), (1,), np.float64)[0]
    if bias:
        more = carray(as_pointer(bias), (n,), np.float64)
        for j in range(n):
            row[j] += more[j]
    for j in range(n):
        carray(as_pointer(c + j * c_step), (1,), np.float64)[0] = row[j]


@jit()
def _finish_i32(
    sums: int, n: int, c: int, c_step: int, alpha: float, beta: float, bias: int
) -> None:
    row = carray(as_pointer(sums), (n,), np.int32)
    if alpha != 1.0:
        scale = np.int32(np.int64(alpha))
        for j in range(n):
            row[j] *= scale
    if beta != 0.0:
        keep = np.int32(np.int64(beta))
        for j in range(n):
            row[j] += keep * carray(as_pointer(c + j * c_step), (1,), np.int32)[0]
    if bias:
        more = carray(as_pointer(bias), (n,), np.int32)
        for j in range(n):
            row[j] += more[j]
    for j in range(n):
        carray(as_pointer(c + j * c_step), (1,), np.int32)[0] = row[j]


@jit()
def finish(
    kind: int,
    sums: int,
    sums_stride: int,
    rows: int,
    n: int,
    c: int,
    c_stride: int,
    c_step: int,
    alpha: float,
    beta: float,
    bias: int,
) -> None:
    """Write ``alpha * sums + beta * C + bias`` to C; ``sums`` is used up.

    Every operation is rounded by itself, in the dtype of the sums; the result once more to that of C.

    Args:
        kind: Arithmetic kind of C. F32, F16 and BF16 take sums of fp32, F64 of fp64, I32 of int32.
        sums: Address of the sums.
        sums_stride: Bytes from row to row.
        rows: Number of rows.
        n: Number of columns.
        c: Address of C.
        c_stride: Bytes from row to row of C.
        c_step: Bytes from column to column of C.
        alpha: Factor of the product.
        beta: Factor of the old C, which is not read if this is zero.
        bias: Address of n elements of the dtype of the sums, or 0.
    """
    for r in range(rows):
        at, to = sums + r * sums_stride, c + r * c_stride
        if kind == F64:
            _finish_f64(at, n, to, c_step, alpha, beta, bias)
        elif kind == I32:
            _finish_i32(at, n, to, c_step, alpha, beta, bias)
        else:
            _finish_f32(kind, at, n, to, c_step, alpha, beta, bias)


@jit()
def _copy_rows(
    target: int, target_stride: int, source: int, source_stride: int, rows: int, count: int
) -> None:
    for r in range(rows):
        move_bytes(target + r * target_stride, source + r * source_stride, count)


@jit()
def _start_rows(c: int, c_stride: int, start: int, rows: int, count: int, go_on: int) -> None:
    """Let the sums of ``rows`` rows begin at ``start``, or go on with it added."""
    first = carray(as_pointer(start), (count,), np.int32)
    for r in range(rows):
        row = carray(as_pointer(c + r * c_stride), (count,), np.int32)
        if go_on:
            for j in range(count):
                row[j] += first[j]
        else:
            for j in range(count):
                row[j] = first[j]


@jit()
def _pack_a(
    kind: int, target: int, source: int, stride: int, step: int, rows: int, count: int
) -> None:
    if kind == I8:
        pack_rows_int8(target, _A_ROW, source, stride, step, rows, count)
    else:
        pack_rows(kind, target, _A_ROW, source, stride, step, rows, count)


@jit()
def _pack_b(kind: int, target: int, b: int, k_stride: int, step: int, k: int, n: int) -> None:
    """Pack ``n`` columns, all of k, going through k in blocks: the source is read row by row."""
    depth = _steps(kind, k)
    row = _columns(kind) * _size(kind)
    for start in range(0, k, BLOCK_STEPS):
        count = min(BLOCK_STEPS, k - start)
        to = target + _steps(kind, start) * row
        if kind == I8:
            pack_panels_int8(to, b + start * k_stride, k_stride, step, count, n, depth)
        else:
            pack_panels(kind, to, b + start * k_stride, k_stride, step, count, n, depth)


@jit()
def _start_shifted(ones: int, panels: int, k: int, n: int, start: int) -> None:
    """Write to ``start`` what the sums of ``n`` columns begin at: minus 128 times the column sums."""
    depth = _steps(I8, k)
    row = COLUMNS_32 * 4
    a = carray(as_pointer(ones), (BLOCK_STEPS * 4,), np.uint8)
    for i in range(a.size):
        a[i] = 128
    for j in range(0, n, COLUMNS_32):
        panel = panels + j // COLUMNS_32 * depth * row
        for s in range(0, depth, BLOCK_STEPS):
            count = min(BLOCK_STEPS, depth - s)
            go_on = 1 if s else 0
            # All rows of this tile are the same row of A, and are written to the same place.
            tile_dot_few(ones, 0, panel + s * row, row, count, start + j * 4, 0, go_on)
    sums = carray(as_pointer(start), (n,), np.int32)
    for j in range(n):
        sums[j] = -sums[j]


@jit(inline="always")
def packed_before(kind: int, columns: int, k: int) -> Any:
    """Return where in a packed B column ``columns`` begins, which begins a panel."""
    wide = _columns(kind)
    return columns // wide * _steps(kind, k) * wide * _size(kind)


def packed_bytes(n: int, k: int, size: int) -> tuple[int, int]:
    """Return the memory that :func:`pack_whole` needs: for the panels, and for the sums."""
    wide = COLUMNS_64 if size == 8 else COLUMNS_32
    columns = -(-n // wide) * wide
    return columns * (k + GROUP) * size, columns * 4


@jit()
def pack_whole(
    kind: int, n: int, k: int, b: int, b_stride: int, b_step: int, packed: int, starts: int
) -> None:
    """Pack all of B for products to come.

    Args:
        kind: See :func:`multiply`, like all up to ``b_step``.
        n: See there.
        k: See there; at most :data:`MAX_K`.
        b: See there.
        b_stride: See there.
        b_step: See there.
        packed: Address of the memory for the panels (:func:`packed_bytes`), aligned to 64, with room for
            ``4 * BLOCK_STEPS`` more bytes.
        starts: Address of the memory for the sums, aligned to 64.
    """
    _pack_b(kind, packed, b, b_stride, b_step, k, n)
    if kind == I8 and SHIFTED:
        columns = (n + COLUMNS_32 - 1) // COLUMNS_32 * COLUMNS_32
        _start_shifted(packed + packed_before(kind, columns, k), packed, k, n, starts)


@jit()
def multiply(
    kind: int,
    out_kind: int,
    m: int,
    n: int,
    k: int,
    a: int,
    a_stride: int,
    a_step: int,
    b: int,
    b_stride: int,
    b_step: int,
    c: int,
    c_stride: int,
    c_step: int,
    bias: int,
    direct: int,
    go_on: int,
    wide: int,
    scratch: int,
    packed: int,
    starts: int,
    alpha: float,
    beta: float,
) -> None:
    """Multiply matrices on this thread.

    Args:
        kind: Arithmetic kind of A and B: F32, F16, BF16, F64 or I8.
        out_kind: Arithmetic kind of C (:func:`finish`).
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A, rows of B.
        a: Address of A; ``a_stride`` from row to row, ``a_step`` along k.
        a_stride: See ``a``.
        a_step: See ``a``.
        b: Address of B; ``b_stride`` along k, ``b_step`` from column to column.
        b_stride: See ``b``.
        b_step: See ``b``.
        c: Address of C; ``c_stride`` from row to row, ``c_step`` from column to column.
        c_stride: See ``c``.
        c_step: See ``c``.
        bias: Address of n values of the dtype of the sums, or 0.
        direct: 1 if C has the dtype of the sums, contiguous rows, and wants no finishing.
        go_on: 1 if the chains go on from what C holds; needs ``direct``.
        wide: Columns of a block (:func:`block_columns`).
        scratch: Address of :func:`scratch_bytes` bytes, aligned to 64.
        packed: Address of B as :func:`pack_whole` leaves it, or 0; B itself is then not read.
        starts: Address of the sums that go with it.
        alpha: See :func:`finish`.
        beta: See :func:`finish`.
    """
    size = _size(kind)
    first = 0
    if packed == 0 and m == 1 and direct and kind in (F32, F64) and a_step == size:
        if b_step == size:
            first = _one_row(kind, n, k, a, b, b_stride, c, go_on)
        elif b_stride == size:
            first = times_columns(kind, n, k, a, b, b_step, c, go_on, scratch)
    for j in range(first, n, wide):
        more_bias = bias + j * size if bias else 0
        panels = packed + packed_before(kind, j, k) if packed else 0
        _block_of_columns(
            kind, out_kind, m, min(wide, n - j), k, a, a_stride, a_step, b + j * b_step, b_stride,
            b_step, c + j * c_step, c_stride, c_step, more_bias, direct, go_on, wide, scratch,
            panels, starts + j * 4, alpha, beta,
        )  # fmt: skip


@jit()
def _one_row(kind: int, n: int, k: int, a: int, b: int, b_stride: int, c: int, go_on: int) -> Any:
    """Multiply a vector by the columns of B that fill wide tiles; return how many they are."""
    if kind == F64:
        for j in range(0, n - WIDE_64 + 1, WIDE_64):
            row_f64(a, 0, b + j * 8, b_stride, k, c + j * 8, 0, go_on)
        return n // WIDE_64 * WIDE_64
    for j in range(0, n - WIDE_32 + 1, WIDE_32):
        row_f32(a, 0, b + j * 4, b_stride, k, c + j * 4, 0, go_on)
    return n // WIDE_32 * WIDE_32


@jit()
def _block_of_columns(
    kind: int, out_kind: int, m: int, n: int, k: int, a: int, a_stride: int, a_step: int, b: int,
    b_stride: int, b_step: int, c: int, c_stride: int, c_step: int, bias: int, direct: int,
    go_on: int, wide: int, scratch: int, packed: int, starts: int, alpha: float, beta: float,
) -> None:  # fmt: skip
    size = _size(kind)
    packed_a = scratch
    buffer = packed_a + BLOCK_ROWS * _A_ROW
    buffer_stride = wide * size + _PAD
    start = buffer + BLOCK_ROWS * buffer_stride
    panels = start + wide * 8
    # With few rows each panel is used once or twice: then packing would cost more than it saves.
    in_place = packed == 0 and kind in (F32, F64) and b_step == size and m <= 2 * ROWS
    whole = n // _columns(kind) * _columns(kind)
    if packed:
        panels, start = packed, starts
    elif not in_place:
        _pack_b(kind, panels, b, b_stride, b_step, k, n)
    elif whole < n:
        _pack_b(kind, panels, b + whole * b_step, b_stride, b_step, k, n - whole)
    if kind == I8 and SHIFTED and packed == 0:
        _start_shifted(packed_a, panels, k, n, start)
    full = whole if direct else 0  # columns of full tiles that are written to C directly
    for i in range(0, m, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, m - i)
        to = c + i * c_stride
        full_rows = rows // ROWS * ROWS if direct else 0
        _block_of_rows(
            kind, rows, full_rows, n, full, k, a + i * a_stride, a_stride, a_step, b, b_stride,
            panels, in_place, whole, to, c_stride, packed_a, buffer, buffer_stride, start, go_on,
        )  # fmt: skip
        if full_rows < rows or full < n:
            if full < n:
                finish(
                    out_kind, buffer + full * size, buffer_stride, full_rows, n - full,
                    to + full * c_step, c_stride, c_step, alpha, beta,
                    bias + full * size if bias else 0,
                )  # fmt: skip
            finish(
                out_kind, buffer + full_rows * buffer_stride, buffer_stride, rows - full_rows, n,
                to + full_rows * c_stride, c_stride, c_step, alpha, beta, bias,
            )  # fmt: skip


@jit()
def _begin_sums(
    kind: int, rows: int, full_rows: int, n: int, full: int, c: int, c_stride: int, buffer: int,
    buffer_stride: int, start: int, go_on: int,
) -> Any:  # fmt: skip
    """Put in place what the sums of a block begin at; return whether tiles must load it."""
    size, tail = _size(kind), rows - full_rows
    right, below = buffer + full * size, buffer + full_rows * buffer_stride
    if go_on:
        left = (n - full) * size
        _copy_rows(right, buffer_stride, c + full * size, c_stride, full_rows, left)
        _copy_rows(below, buffer_stride, c + full_rows * c_stride, c_stride, tail, n * size)
    if kind == I8 and SHIFTED:
        _start_rows(c, c_stride, start, full_rows, full, go_on)
        _start_rows(right, buffer_stride, start + full * size, full_rows, n - full, go_on)
        _start_rows(below, buffer_stride, start, tail, n, go_on)
        return 1
    return go_on


@jit()
def _tiles_of_panel(
    kind: int, rows: int, ready: int, direct_rows: int, a: int, a_stride: int, packed_a: int,
    panel: int, panel_stride: int, steps: int, c: int, c_stride: int, buffer: int,
    buffer_stride: int, go_on: int,
) -> None:  # fmt: skip
    """Multiply the rows of a block by one panel.

    The first ``ready`` rows of A are read in place, the others packed; the first ``direct_rows`` rows
    of the result go to C, the others to the buffer: three groups of rows at most.
    """
    r = 0
    while r < rows:
        stop = rows
        if r < ready:
            stop = min(stop, ready)
        if r < direct_rows:
            stop = min(stop, direct_rows)
        if r < ready:
            at, at_stride = a + r * a_stride, a_stride
        else:
            at, at_stride = packed_a + r * _A_ROW, _A_ROW
        if r < direct_rows:
            to, to_stride = c + r * c_stride, c_stride
        else:
            to, to_stride = buffer + r * buffer_stride, buffer_stride
        _tiles(kind, at, at_stride, stop - r, panel, panel_stride, steps, to, to_stride, go_on)
        r = stop


@jit()
def _block_of_rows(
    kind: int, rows: int, full_rows: int, n: int, full: int, k: int, a: int, a_stride: int,
    a_step: int, b: int, b_stride: int, panels: int, in_place: bool, whole: int, c: int,
    c_stride: int, packed_a: int, buffer: int, buffer_stride: int, start: int, go_on: int,
) -> None:  # fmt: skip
    """Compute the sums of a block: full tiles in C itself, the others in the buffer."""
    size, columns, depth = _size(kind), _columns(kind), _steps(kind, k)
    group = GROUP if kind == I8 else 1
    row_bytes = columns * size  # of a panel
    further = _begin_sums(
        kind, rows, full_rows, n, full, c, c_stride, buffer, buffer_stride, start, go_on
    )
    # Whole tiles read the rows of A in place where these are contiguous and need no conversion.
    ready = rows // ROWS * ROWS if kind in (F32, F64) and a_step == size else 0
    for s in range(0, depth, BLOCK_STEPS):
        steps = min(BLOCK_STEPS, depth - s)
        first = s * group  # of k
        count = min(steps * group, k - first)
        at, rest = a + first * a_step, rows - ready
        _pack_a(
            kind, packed_a + ready * _A_ROW, at + ready * a_stride, a_stride, a_step, rest, count
        )
        for j in range(0, n, columns):
            if in_place and j < whole:
                panel, panel_stride = b + j * size + first * b_stride, b_stride
            else:
                packed = 0 if in_place else j // columns  # in place, only the last one is packed
                panel, panel_stride = panels + (packed * depth + s) * row_bytes, row_bytes
            _tiles_of_panel(
                kind, rows, ready, full_rows if j < full else 0, at, a_stride, packed_a, panel,
                panel_stride, steps, c + j * size, c_stride, buffer + j * size, buffer_stride,
                further,
            )  # fmt: skip
        further = 1
