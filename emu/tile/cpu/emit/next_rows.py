"""How far the rows of a loop's next round are from those of this round, so that they can be prefetched.

A program that takes every 264th row of a matrix reads a row where no prefetcher of the CPU expects it: each begins with misses. Where the
address follows from the index of the loop by arithmetic alone, that of the next round is computed at the beginning of this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from emu.tile import ops
from emu.tile.cpu.emit.frame import Frame, is_tile
from emu.tile.cpu.emit.loop_nest import RUN
from emu.tile.cpu.emit.point_reader import ZERO, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import is_view, vector_axis
from emu.tile.ir import Operation, Region, Value
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import element_of

_LONGEST = 16384
"""Bytes of the longest row that is prefetched: the first-level cache holds this one and the next."""

# No quotients: behind the last round there may be a division by 0, which the program never does.
_PURE = ops.ELEMENTWISE - {Code.DIV, Code.REM} | ops.LAUNCH | {Code.CONSTANT}
_INLINE = _PURE | {Code.SPLAT, Code.ARANGE}


def emit_distances(
    frame: Frame,
    body: Region,
    rounds: tuple[Register, Register],
    emit_scalar: Callable[[Operation], None],
) -> None:
    """Emit the distances (i64), in bytes, for the loads and stores of a loop's body, and note them in the frame.

    A distance is 0 where the next row lies beside this one: the CPU's prefetchers find it.

    Args:
        frame: The function; its builder is at the beginning of the body.
        body: Of a FOR.
        rounds: Index of this round and of the next, in registers of the index's type.
        emit_scalar: Emits an operation on scalars.
    """
    found: dict[Operation, list[Operation]] = {}
    for access in body.operations:
        needed = _scalars_of(frame, body, access)
        if needed:
            found[access] = needed
    if not found:
        return
    here, there = (_addresses(frame, body, index, found, emit_scalar) for index in rounds)
    builder = frame.builder
    for access in found:
        near = 2 * math.prod(access.operands[0].shape) * size_of(access)
        distance = builder.sub(there[access], here[access])
        moved = builder.add(distance, r.number(r.I64, near))
        beside = builder.icmp_unsigned("<=", moved, r.number(r.I64, 2 * near))
        frame.next_rows[access] = builder.select(beside, r.number(r.I64, 0), distance)


def size_of(access: Operation) -> int:
    """Return the bytes of an element that a load or store moves."""
    moved = access.result if access.code is Code.LOAD else access.operands[1]
    return element_of(moved.type).bytes


def _addresses(
    frame: Frame,
    body: Region,
    index: Register,
    found: dict[Operation, list[Operation]],
    emit_scalar: Callable[[Operation], None],
) -> dict[Operation, Register]:
    """Emit the addresses of the first elements that loads read in the round of an index."""
    with frame.other_scalars():
        frame.set_scalar(body.arguments[0], index)
        needed = {operation for operations in found.values() for operation in operations}
        for operation in body.operations:
            if operation in needed:
                emit_scalar(operation)
        reader = PointReader(frame, [frame.builder])
        pointers = {access: access.operands[0] for access in found}
        return {
            access: reader.read_short(pointer, (ZERO,) * len(pointer.shape))
            for access, pointer in pointers.items()
        }


def _scalars_of(frame: Frame, body: Region, access: Operation) -> list[Operation]:
    """Return the operations on scalars of the body from which the addresses of a load or store follow; of others none."""
    if access.code not in (Code.LOAD, Code.STORE) or not is_tile(access.operands[0]):
        return []
    analysis, pointer = frame.analysis, access.operands[0]
    shape = pointer.shape
    size, axis = size_of(access), vector_axis(shape)
    is_row = math.prod(shape) == shape[axis] and RUN * size < shape[axis] * size <= _LONGEST
    if not is_row or not analysis.is_inline(pointer) or analysis.step(pointer, axis) != size:
        return []
    found: dict[Operation, None] = {}
    seen: set[Value] = set()
    waiting, depends = [pointer], False
    while waiting:
        value = waiting.pop()
        operation = value.owner
        if value in seen:
            continue
        seen.add(value)
        if operation is None:
            if value in body.arguments[1:]:  # what the round before yields
                return []
            depends = depends or value is body.arguments[0]
        elif analysis.region_of[operation] is body:
            scalar = not is_tile(value)
            if operation.code not in (_PURE if scalar else _INLINE) and not is_view(operation):
                return []
            if scalar:
                found[operation] = None
            waiting += operation.operands
    return list(found) if depends else []
