"""Strided copies of tiles at raw addresses, as an access plan says.

The inner loop goes over two axes: contiguous rows, elements at two strides, or squares of elements that are
transposed in vector registers, a cache line wide. Nothing is called or divided for an element. No address
has to be aligned; no aligned element is torn.
"""

from __future__ import annotations

from emu.kernels.core.address import move_bytes
from emu.kernels.core.annotations import Bits
from emu.kernels.core.jit import jit
from emu.kernels.strided import vector_ops
from emu.kernels.strided.access_plan import (
    CONTIGUOUS,
    FILL,
    REVERSE,
    STRIDE2,
    STRIDED,
    TRANSPOSED,
    Axis,
    InnerLoop,
)
from emu.kernels.strided.odometer import (
    advance,
    first_run,
    inner_loop,
    repeats,
    stack_counters,
)
from emu.kernels.strided.vector_ops import U8, U16, U32, U64, U128, U256

_LINE = 64


# Loops come once for each width, made by Numba from the type of `element`; behind each of them stands the
# function that chooses the version. LLVM keeps those three as calls, which keeps the code small.


@jit()
def _row(element: Bits, target: int, source: int, columns: Axis) -> None:
    # By index: steps of an address would wait for each other in the unrolled loop.
    for column in range(columns.extent):
        t, s = target + column * columns.target, source + column * columns.source
        vector_ops.move(t, s, element)


@jit()
def _elements(element: Bits, target: int, source: int, rows: Axis, columns: Axis) -> None:
    for row in range(rows.extent):
        _row(element, target + row * rows.target, source + row * rows.source, columns)


@jit()
def _copy_elements(width: int, target: int, source: int, rows: Axis, columns: Axis) -> None:
    """Copy single elements, row by row."""
    if width == 4:
        _elements(U32, target, source, rows, columns)
    elif width == 2:
        _elements(U16, target, source, rows, columns)
    elif width == 1:
        _elements(U8, target, source, rows, columns)
    elif width == 8:
        _elements(U64, target, source, rows, columns)
    elif width == 16:
        _elements(U128, target, source, rows, columns)
    else:
        _elements(U256, target, source, rows, columns)


@jit()
def _copy_blocks(loop: InnerLoop, target: int, source: int) -> None:
    """Copy single elements, ``loop.block`` columns of all rows at a time."""
    columns = loop.columns
    for first in range(0, columns.extent, loop.block):
        part = Axis(min(loop.block, columns.extent - first), columns.target, columns.source)
        t, s = target + first * columns.target, source + first * columns.source
        _copy_elements(loop.width, t, s, loop.rows, part)


@jit()
def _vectors(element: Bits, form: int, target: int, source: int, columns: Axis) -> None:
    width = vector_ops.width_of(element)
    lanes = vector_ops.VECTOR // width
    last = columns.extent - lanes
    t, s = target + last * width, source + last * columns.source
    # One loop per form: LLVM does not take the choice out of a common one.
    if form == FILL:
        for column in range(0, last, lanes):
            vector_ops.fill(target + column * width, source, element)
        vector_ops.fill(t, s, element)
    elif form == REVERSE:
        for column in range(0, last, lanes):
            vector_ops.reverse(target + column * width, source - column * width, element)
        vector_ops.reverse(t, s, element)
    else:
        for column in range(0, last, lanes):
            vector_ops.stride2(target + column * width, source + 2 * column * width, element)
        vector_ops.stride2(t, s, element)


@jit()
def _copy_vectors(form: int, width: int, target: int, source: int, columns: Axis) -> None:
    """Copy a row that is dense in the target, a vector at a time; the last one may overlap."""
    if width == 4:
        _vectors(U32, form, target, source, columns)
    elif width == 2:
        _vectors(U16, form, target, source, columns)
    elif width == 1:
        _vectors(U8, form, target, source, columns)
    else:
        _vectors(U64, form, target, source, columns)


@jit()
def _square(width: int, target: int, target_row: int, source: int, source_column: int) -> None:
    if width == 4:
        vector_ops.transpose(target, target_row, source, source_column, U32)
    elif width == 2:
        vector_ops.transpose(target, target_row, source, source_column, U16)
    elif width == 1:
        vector_ops.transpose(target, target_row, source, source_column, U8)
    else:
        vector_ops.transpose(target, target_row, source, source_column, U64)


@jit(optimize_first=True)
def transpose(loop: InnerLoop, target: int, source: int) -> None:
    """Copy what is dense along the columns in the target and along the rows in the source."""
    width, rows, columns, side = loop.width, loop.rows, loop.columns, loop.block
    line = _LINE // width
    whole_rows = rows.extent - rows.extent % side
    whole_columns = columns.extent - columns.extent % side
    # Squares one line wide, along a row of them: lines of the target are filled one after another.
    for first_row in range(0, whole_rows, line):
        for first_column in range(0, whole_columns, line):
            for row in range(first_row, min(first_row + line, whole_rows), side):
                for column in range(first_column, min(first_column + line, whole_columns), side):
                    t = target + row * rows.target + column * width
                    s = source + row * width + column * columns.source
                    _square(width, t, rows.target, s, columns.source)
    if whole_columns < columns.extent:
        t, s = target + whole_columns * width, source + whole_columns * columns.source
        right = Axis(columns.extent - whole_columns, width, columns.source)
        _copy_elements(width, t, s, Axis(whole_rows, rows.target, width), right)
    if whole_rows < rows.extent:
        t, s = target + whole_rows * rows.target, source + whole_rows * width
        below = Axis(rows.extent - whole_rows, rows.target, width)
        _copy_elements(width, t, s, below, Axis(columns.extent, width, columns.source))


@jit()
def copy_strided(target: int, source: int, plan: int) -> None:
    """Copy a tile.

    Args:
        target: Address of the first element to write.
        source: Address of the first element to read. Only a tile that is one contiguous stretch may
            overlap the target.
        plan: Address of a :func:`emu.kernels.strided.access_plan.copy_plan`.
    """
    loop, counters = inner_loop(plan), stack_counters()
    t, s = first_run(counters, plan, target, source)
    for _ in range(repeats(plan)):
        if loop.form == CONTIGUOUS:
            for row in range(loop.rows.extent):
                move_bytes(t + row * loop.rows.target, s + row * loop.rows.source, loop.width)
        elif loop.form == STRIDED:
            _copy_blocks(loop, t, s)
        elif loop.form == TRANSPOSED:
            transpose(loop, t, s)
        else:
            for row in range(loop.rows.extent):
                at, origin = t + row * loop.rows.target, s + row * loop.rows.source
                _copy_vectors(loop.form, loop.width, at, origin, loop.columns)
        t, s = advance(counters, plan, t, s)


@jit()
def copy_row(
    width: int, target: int, source: int, count: int, target_stride: int, source_stride: int
) -> None:
    """Copy ``count`` elements of 1, 2, 4 or 8 bytes between addresses that advance by strides."""
    columns = Axis(count, target_stride, source_stride)
    vectors = target_stride == width and source_stride in (0, -width, 2 * width)
    if vectors and count * width >= vector_ops.VECTOR:
        form = FILL if source_stride == 0 else REVERSE if source_stride < 0 else STRIDE2
        _copy_vectors(form, width, target, source, columns)
    elif width == 4:
        _row(U32, target, source, columns)
    elif width == 2:
        _row(U16, target, source, columns)
    elif width == 1:
        _row(U8, target, source, columns)
    else:
        _row(U64, target, source, columns)
