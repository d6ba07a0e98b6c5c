"""Strided sums of tiles at raw addresses, as an access plan says; plain loads and stores.

Rows that are contiguous in the target are added by vectors, with the source gathered or transposed into
scratch memory first; all else goes element by element. Contiguous rows must be aligned to their elements.
"""

from __future__ import annotations

import numpy as np

from emu.kernels.core.annotations import Number
from emu.kernels.core.dtypes import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    bf16_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.core.jit import jit
from emu.kernels.strided.access_plan import CONTIGUOUS, STRIDED, TRANSPOSED, Axis, InnerLoop
from emu.kernels.strided.contiguous import add_contiguous
from emu.kernels.strided.copy import copy_row, transpose
from emu.kernels.strided.odometer import (
    advance,
    first_run,
    inner_loop,
    repeats,
    stack_counters,
    stack_memory,
)
from emu.kernels.strided.vector_ops import load, store

_SIDE = 64  # elements along the side of what is transposed into scratch at a time
_GATHERED = 1024  # elements that are gathered into scratch at a time
_WORTH_VECTORS = 16  # elements in a row from which vectors pay

_stack_square = stack_memory(8 * _SIDE * _SIDE)
_stack_gathered = stack_memory(8 * _GATHERED)


@jit()
def _add_numbers(element: Number, target: int, source: int, rows: Axis, columns: Axis) -> None:
    for _ in range(rows.extent):
        t, s = target, source
        for _ in range(columns.extent):
            store(t, load(t, element) + load(s, element), element)
            t += columns.target
            s += columns.source
        target += rows.target
        source += rows.source


@jit()
def _add_others(kind: int, target: int, source: int, rows: Axis, columns: Axis) -> None:
    half = np.uint16(0)
    byte = np.uint8(0)
    for _ in range(rows.extent):
        t, s = target, source
        if kind == BF16:
            for _ in range(columns.extent):
                total = bf16_to_f32(load(t, half)) + bf16_to_f32(load(s, half))
                store(t, f32_to_bf16(total), half)
                t += columns.target
                s += columns.source
        elif kind == F16:
            for _ in range(columns.extent):
                total = f16_to_f32(load(t, half)) + f16_to_f32(load(s, half))
                store(t, f32_to_f16(total), half)
                t += columns.target
                s += columns.source
        elif kind == BOOL:
            for _ in range(columns.extent):
                store(t, load(t, byte) | load(s, byte), byte)
                t += columns.target
                s += columns.source
        target += rows.target
        source += rows.source


@jit()
def _add_elements(kind: int, target: int, source: int, rows: Axis, columns: Axis) -> None:
    if kind == F32:
        _add_numbers(np.float32(0), target, source, rows, columns)
    elif kind == F64:
        _add_numbers(np.float64(0), target, source, rows, columns)
    elif kind == I32:
        _add_numbers(np.int32(0), target, source, rows, columns)
    elif kind == I64:
        _add_numbers(np.int64(0), target, source, rows, columns)
    elif kind == I16:
        _add_numbers(np.int16(0), target, source, rows, columns)
    elif kind == I8:
        _add_numbers(np.int8(0), target, source, rows, columns)
    else:
        _add_others(kind, target, source, rows, columns)


@jit()
def _add_gathered(kind: int, width: int, target: int, source: int, count: int, stride: int) -> None:
    scratch = _stack_gathered()
    for first in range(0, count, _GATHERED):
        n = min(_GATHERED, count - first)
        copy_row(width, scratch, source + first * stride, n, width, stride)
        add_contiguous(kind, target + first * width, scratch, n)


@jit()
def add_row(kind: int, width: int, target: int, source: int, columns: Axis) -> None:
    """Add a row of elements of ``width`` bytes at two strides.

    :func:`emu.kernels.strided.contiguous.add_contiguous` says what addition is for each kind.
    """
    if columns.target != width or (columns.extent < _WORTH_VECTORS and columns.source != width):
        _add_elements(kind, target, source, Axis(1, 0, 0), columns)
    elif columns.source == width:
        add_contiguous(kind, target, source, columns.extent)
    else:
        _add_gathered(kind, width, target, source, columns.extent, columns.source)


@jit()
def _add_blocks(kind: int, loop: InnerLoop, target: int, source: int) -> None:
    """Add rows that are dense in the target by vectors, and all else by single elements."""
    rows, columns = loop.rows, loop.columns
    # A misaligned tile (UNALIGNED) is never dense: the vector loops need aligned elements.
    dense = loop.form == CONTIGUOUS or (loop.form == STRIDED and columns.target == loop.width)
    for first in range(0, columns.extent, loop.block):
        part = Axis(min(loop.block, columns.extent - first), columns.target, columns.source)
        t, s = target + first * columns.target, source + first * columns.source
        if not dense or (loop.form != CONTIGUOUS and part.extent < _WORTH_VECTORS):
            _add_elements(kind, t, s, rows, part)
            continue
        for _ in range(rows.extent):
            add_row(kind, loop.width, t, s, part)
            t += rows.target
            s += rows.source


@jit()
def _add_transposed(kind: int, loop: InnerLoop, target: int, source: int) -> None:
    """Transpose a square of the source into scratch and add it from there, row by row."""
    scratch = _stack_square()
    rows, columns, pitch = loop.rows, loop.columns, _SIDE * loop.width
    for first_row in range(0, rows.extent, _SIDE):
        height = min(_SIDE, rows.extent - first_row)
        for first in range(0, columns.extent, _SIDE):
            n = min(_SIDE, columns.extent - first)
            down, across = Axis(height, pitch, rows.source), Axis(n, loop.width, columns.source)
            square = InnerLoop(TRANSPOSED, loop.width, down, across, loop.block)
            transpose(square, scratch, source + first_row * rows.source + first * columns.source)
            t = target + first_row * rows.target + first * columns.target
            for row in range(height):
                add_contiguous(kind, t + row * rows.target, scratch + row * pitch, n)


@jit()
def add_strided(kind: int, target: int, source: int, plan: int) -> None:
    """Add a tile, element by element, to what is there.

    Args:
        kind: Arithmetic kind of the elements (:mod:`emu.kernels.core.dtypes`);
            :func:`emu.kernels.strided.contiguous.add_contiguous` says what addition is for each.
        target: Address of the first element to change.
        source: Address of the first element to add; the two do not overlap.
        plan: Address of an :func:`emu.kernels.strided.access_plan.add_plan`.
    """
    loop, counters = inner_loop(plan), stack_counters()
    t, s = first_run(counters, plan, target, source)
    for _ in range(repeats(plan)):
        if loop.form == TRANSPOSED:
            _add_transposed(kind, loop, t, s)
        else:
            _add_blocks(kind, loop, t, s)
        t, s = advance(counters, plan, t, s)
