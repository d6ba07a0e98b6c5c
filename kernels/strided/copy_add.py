"""Copy and add tiles of any strides at raw addresses, as ``emu.kernels.strided.access_plan`` says.

The leaves are loops over two axes: contiguous runs, elements at two strides, or squares of elements
that are transposed in vector registers, a cache line wide. Nothing is called or divided for an
element. No address has to be aligned, but for runs that are added; nothing tears an aligned element.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.address import as_pointer, move_bytes
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
from emu.kernels.core.jit import carray, intrinsic, jit
from emu.kernels.strided import vector_ops
from emu.kernels.strided.access_plan import (
    BLOCK,
    COLUMNS,
    FILL,
    FORM,
    LEAVES,
    MAX_AXES,
    OUTER,
    RANK,
    REVERSE,
    ROWS,
    RUNS,
    SECOND,
    SOURCE_SHIFT,
    STRIDED,
    TARGET_SHIFT,
    TRANSPOSED,
    WIDTH,
    WORDS,
)
from emu.kernels.strided.contiguous import add_run
from emu.kernels.strided.vector_ops import peek, poke

_LINE = 64
_SQUARE = 64  # elements along the side of what is transposed into scratch, to be added from there
_GATHERED = 1024  # elements that are gathered into scratch at a time
_WORTHWHILE = 16  # elements from which on it is worth it


def _stack(nbytes: int) -> Any:
    """Make the intrinsic that returns the address of memory of the calling function's own."""

    @intrinsic
    def stack(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.ArrayType(ir.IntType(8), nbytes)
            with builder.goto_entry_block():
                memory = builder.alloca(kind)
            memory.align = _LINE
            return builder.ptrtoint(memory, ir.IntType(64))

        return types.int64(), codegen

    return stack


stack_counters = _stack(8 * MAX_AXES)
_stack_square = _stack(8 * _SQUARE * _SQUARE)
_stack_gathered = _stack(8 * _GATHERED)


@jit()
def plan_words(plan: int) -> Any:
    """Return the words of the plan at an address."""
    return carray(as_pointer(plan), (WORDS,), np.int64)


@jit()
def set_odometer(counters: int, plan: int, index: int) -> Any:
    """Set the odometer to leaf ``index``; return (target, source) byte offsets of that leaf."""
    words = plan_words(plan)
    digits = carray(as_pointer(counters), (MAX_AXES,), np.int64)
    target = words[TARGET_SHIFT]
    source = words[SOURCE_SHIFT]
    for axis in range(words[RANK] - 1, -1, -1):
        digit = index
        if index:
            digit = index % words[OUTER + 3 * axis]
            index //= words[OUTER + 3 * axis]
        digits[axis] = digit
        target += digit * words[OUTER + 3 * axis + 1]
        source += digit * words[OUTER + 3 * axis + 2]
    return target, source


@jit()
def advance(counters: int, plan: int, target: int, source: int) -> Any:
    """Step the odometer on; after the last leaf comes the first."""
    words = plan_words(plan)
    digits = carray(as_pointer(counters), (MAX_AXES,), np.int64)
    axis = words[RANK] - 1
    while axis >= 0:
        extent = words[OUTER + 3 * axis]
        target += words[OUTER + 3 * axis + 1]
        source += words[OUTER + 3 * axis + 2]
        digits[axis] += 1
        if digits[axis] < extent:
            break
        digits[axis] = 0
        target -= extent * words[OUTER + 3 * axis + 1]
        source -= extent * words[OUTER + 3 * axis + 2]
        axis -= 1
    return target, source


@jit()
def _copy_elements(
    width: int,
    target: int,
    source: int,
    rows: int,
    target_row: int,
    source_row: int,
    columns: int,
    target_column: int,
    source_column: int,
) -> None:
    for _ in range(rows):
        t, s = target, source
        if width == 4:
            for _ in range(columns):
                vector_ops.move_4(t, s)
                t += target_column
                s += source_column
        elif width == 2:
            for _ in range(columns):
                vector_ops.move_2(t, s)
                t += target_column
                s += source_column
        elif width == 1:
            for _ in range(columns):
                vector_ops.move_1(t, s)
                t += target_column
                s += source_column
        elif width == 8:
            for _ in range(columns):
                vector_ops.move_8(t, s)
                t += target_column
                s += source_column
        elif width == 16:
            for _ in range(columns):
                vector_ops.move_16(t, s)
                t += target_column
                s += source_column
        else:
            for _ in range(columns):
                vector_ops.move_32(t, s)
                t += target_column
                s += source_column
        target += target_row
        source += source_row


@jit()
def _copy_blocks(words: Any, width: int, target: int, source: int) -> None:
    """Copy single elements, so many columns of all rows at a time."""
    rows, target_row, source_row = words[ROWS], words[ROWS + 1], words[ROWS + 2]
    columns, target_column, source_column = words[COLUMNS], words[COLUMNS + 1], words[COLUMNS + 2]
    block = words[BLOCK]
    for first in range(0, columns, block):
        _copy_elements(
            width,
            target + first * target_column,
            source + first * source_column,
            rows,
            target_row,
            source_row,
            min(block, columns - first),
            target_column,
            source_column,
        )


@jit()
def _vector_step(form: int, width: int, target: int, source: int) -> None:
    if form == FILL:
        if width == 4:
            vector_ops.fill_4(target, source)
        elif width == 2:
            vector_ops.fill_2(target, source)
        elif width == 1:
            vector_ops.fill_1(target, source)
        else:
            vector_ops.fill_8(target, source)
    elif form == REVERSE:
        if width == 4:
            vector_ops.reverse_4(target, source)
        elif width == 2:
            vector_ops.reverse_2(target, source)
        elif width == 1:
            vector_ops.reverse_1(target, source)
        else:
            vector_ops.reverse_8(target, source)
    elif width == 4:
        vector_ops.second_4(target, source)
    elif width == 2:
        vector_ops.second_2(target, source)
    elif width == 1:
        vector_ops.second_1(target, source)
    else:
        vector_ops.second_8(target, source)


@jit()
def _copy_vectors(
    form: int, width: int, target: int, source: int, columns: int, source_column: int
) -> None:
    """Copy a row that is dense in the target, a vector at a time; the last one may overlap."""
    lanes = vector_ops.VECTOR // width
    last = columns - lanes
    for column in range(0, last, lanes):
        _vector_step(form, width, target + column * width, source + column * source_column)
    _vector_step(form, width, target + last * width, source + last * source_column)


@jit()
def _transpose_square(
    width: int, target: int, target_row: int, source: int, source_column: int
) -> None:
    if width == 4:
        vector_ops.transpose_4(target, target_row, source, source_column)
    elif width == 2:
        vector_ops.transpose_2(target, target_row, source, source_column)
    elif width == 1:
        vector_ops.transpose_1(target, target_row, source, source_column)
    else:
        vector_ops.transpose_8(target, target_row, source, source_column)


@jit()
def _transpose(
    width: int,
    target: int,
    source: int,
    rows: int,
    target_row: int,
    columns: int,
    source_column: int,
    side: int,
) -> None:
    """Copy what is dense along the columns in the target and along the rows in the source."""
    line = _LINE // width
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    # Squares one line wide, along a row of them: lines of the target are filled one after another.
    for first_row in range(0, whole_rows, line):
        for first_column in range(0, whole_columns, line):
            for row in range(first_row, min(first_row + line, whole_rows), side):
                for column in range(first_column, min(first_column + line, whole_columns), side):
                    _transpose_square(
                        width,
                        target + row * target_row + column * width,
                        target_row,
                        source + row * width + column * source_column,
                        source_column,
                    )
    if whole_columns < columns:
        _copy_elements(
            width,
            target + whole_columns * width,
            source + whole_columns * source_column,
            whole_rows,
            target_row,
            width,
            columns - whole_columns,
            width,
            source_column,
        )
    if whole_rows < rows:
        _copy_elements(
            width,
            target + whole_rows * target_row,
            source + whole_rows * width,
            rows - whole_rows,
            target_row,
            width,
            columns,
            width,
            source_column,
        )


@jit()
def copy_grid(target: int, source: int, plan: int) -> None:
    """Copy a tile.

    Args:
        target: Address of the first element to write.
        source: Address of the first element to read. Only a tile that is one run may overlap the
            target.
        plan: Address of a :func:`emu.kernels.strided.access_plan.copy_plan`.
    """
    words = plan_words(plan)
    form, width = words[FORM], words[WIDTH]
    rows, target_row, source_row = words[ROWS], words[ROWS + 1], words[ROWS + 2]
    counters = stack_counters()
    t, s = set_odometer(counters, plan, 0)
    t += target
    s += source
    for _ in range(words[LEAVES]):
        if form == RUNS:
            for row in range(rows):
                move_bytes(t + row * target_row, s + row * source_row, width)
        elif form == STRIDED:
            _copy_blocks(words, width, t, s)
        elif form == TRANSPOSED:
            columns, source_column, side = words[COLUMNS], words[COLUMNS + 2], words[BLOCK]
            _transpose(width, t, s, rows, target_row, columns, source_column, side)
        else:
            columns, source_column = words[COLUMNS], words[COLUMNS + 2]
            for row in range(rows):
                at, origin = t + row * target_row, s + row * source_row
                _copy_vectors(form, width, at, origin, columns, source_column)
        t, s = advance(counters, plan, t, s)


@jit()
def _add_numbers(
    like: Any,
    target: int,
    source: int,
    rows: int,
    target_row: int,
    source_row: int,
    columns: int,
    target_column: int,
    source_column: int,
) -> None:
    for _ in range(rows):
        t, s = target, source
        for _ in range(columns):
            poke(t, peek(t, like) + peek(s, like), like)
            t += target_column
            s += source_column
        target += target_row
        source += source_row


@jit()
def _add_others(
    kind: int,
    target: int,
    source: int,
    rows: int,
    target_row: int,
    source_row: int,
    columns: int,
    target_column: int,
    source_column: int,
) -> None:
    half = np.uint16(0)
    byte = np.uint8(0)
    for _ in range(rows):
        t, s = target, source
        if kind == BF16:
            for _ in range(columns):
                total = bf16_to_f32(peek(t, half)) + bf16_to_f32(peek(s, half))
                poke(t, f32_to_bf16(total), half)
                t += target_column
                s += source_column
        elif kind == F16:
            for _ in range(columns):
                total = f16_to_f32(peek(t, half)) + f16_to_f32(peek(s, half))
                poke(t, f32_to_f16(total), half)
                t += target_column
                s += source_column
        elif kind == BOOL:
            for _ in range(columns):
                poke(t, peek(t, byte) | peek(s, byte), byte)
                t += target_column
                s += source_column
        target += target_row
        source += source_row


@jit()
def _add_elements(
    kind: int,
    target: int,
    source: int,
    rows: int,
    target_row: int,
    source_row: int,
    columns: int,
    target_column: int,
    source_column: int,
) -> None:
    t, s, m, n = target, source, rows, columns
    tr, sr, tc, sc = target_row, source_row, target_column, source_column
    if kind == F32:
        _add_numbers(np.float32(0), t, s, m, tr, sr, n, tc, sc)
    elif kind == F64:
        _add_numbers(np.float64(0), t, s, m, tr, sr, n, tc, sc)
    elif kind == I32:
        _add_numbers(np.int32(0), t, s, m, tr, sr, n, tc, sc)
    elif kind == I64:
        _add_numbers(np.int64(0), t, s, m, tr, sr, n, tc, sc)
    elif kind == I16:
        _add_numbers(np.int16(0), t, s, m, tr, sr, n, tc, sc)
    elif kind == I8:
        _add_numbers(np.int8(0), t, s, m, tr, sr, n, tc, sc)
    else:
        _add_others(kind, t, s, m, tr, sr, n, tc, sc)


@jit()
def copy_row(
    width: int, target: int, source: int, count: int, target_stride: int, source_stride: int
) -> None:
    """Copy ``count`` elements of 1, 2, 4 or 8 bytes between addresses that advance by strides."""
    vectors = target_stride == width and source_stride in (0, -width, 2 * width)
    if vectors and count * width >= vector_ops.VECTOR:
        form = FILL if source_stride == 0 else REVERSE if source_stride < 0 else SECOND
        _copy_vectors(form, width, target, source, count, source_stride)
    else:
        _copy_elements(width, target, source, 1, 0, 0, count, target_stride, source_stride)


@jit()
def _add_gathered(kind: int, width: int, target: int, source: int, count: int, stride: int) -> None:
    scratch = _stack_gathered()
    for first in range(0, count, _GATHERED):
        n = min(_GATHERED, count - first)
        copy_row(width, scratch, source + first * stride, n, width, stride)
        add_run(kind, target + first * width, scratch, n)


@jit()
def add_row(
    kind: int,
    width: int,
    target: int,
    source: int,
    count: int,
    target_stride: int,
    source_stride: int,
) -> None:
    """Add ``count`` elements of ``width`` bytes at two strides, in bytes.

    What it means to add is said at :func:`emu.kernels.strided.contiguous.add_run`.
    """
    if target_stride != width or (count < _WORTHWHILE and source_stride != width):
        _add_elements(kind, target, source, 1, 0, 0, count, target_stride, source_stride)
    elif source_stride == width:
        add_run(kind, target, source, count)
    else:
        _add_gathered(kind, width, target, source, count, source_stride)


@jit()
def _add_blocks(kind: int, words: Any, target: int, source: int) -> None:
    """Add rows that are dense in the target by vectors, and all else by single elements."""
    width, rows = words[WIDTH], words[ROWS]
    target_row, source_row = words[ROWS + 1], words[ROWS + 2]
    columns, target_column, source_column = words[COLUMNS], words[COLUMNS + 1], words[COLUMNS + 2]
    block = words[BLOCK]
    dense = words[FORM] == RUNS or (words[FORM] == STRIDED and target_column == width)
    for first in range(0, columns, block):
        n = min(block, columns - first)
        t = target + first * target_column
        s = source + first * source_column
        if not dense or (words[FORM] != RUNS and n < _WORTHWHILE):
            tr, sr, tc, sc = target_row, source_row, target_column, source_column
            _add_elements(kind, t, s, rows, tr, sr, n, tc, sc)
            continue
        for _ in range(rows):
            add_row(kind, width, t, s, n, target_column, source_column)
            t += target_row
            s += source_row


@jit()
def _add_transposed(kind: int, words: Any, target: int, source: int) -> None:
    """Transpose a square of the source into scratch and add it from there, row by row."""
    scratch = _stack_square()
    width = words[WIDTH]
    rows, target_row = words[ROWS], words[ROWS + 1]
    columns, source_column = words[COLUMNS], words[COLUMNS + 2]
    pitch = _SQUARE * width
    for first_row in range(0, rows, _SQUARE):
        height = min(_SQUARE, rows - first_row)
        for first in range(0, columns, _SQUARE):
            n = min(_SQUARE, columns - first)
            origin = source + first_row * width + first * source_column
            _transpose(width, scratch, origin, height, pitch, n, source_column, words[BLOCK])
            t = target + first_row * target_row + first * width
            for row in range(height):
                add_run(kind, t + row * target_row, scratch + row * pitch, n)


@jit()
def add_grid(kind: int, target: int, source: int, plan: int) -> None:
    """Add a tile, element by element, to what is there; plain loads and stores.

    Args:
        kind: Arithmetic kind of the elements (:mod:`emu.kernels.core.dtypes`); what it means to add is
            said at :func:`emu.kernels.strided.contiguous.add_run`.
        target: Address of the first element to change.
        source: Address of the first element to add; the two do not overlap.
        plan: Address of an :func:`emu.kernels.strided.access_plan.add_plan`.
    """
    words = plan_words(plan)
    form = words[FORM]
    counters = stack_counters()
    t, s = set_odometer(counters, plan, 0)
    t += target
    s += source
    for _ in range(words[LEAVES]):
        if form == TRANSPOSED:
            _add_transposed(kind, words, t, s)
        else:
            _add_blocks(kind, words, t, s)
        t, s = advance(counters, plan, t, s)
