"""Copies of matrices whose columns lie side by side: square blocks are transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from emu.tile.cpu.emit.addressing import counted, move
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.memory import Memory
from emu.tile.cpu.native import has_feature
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Value
from emu.tile.llvm import Register
from emu.tile.types import DType

_QUAD = 4
"""Elements of 128 bits, within which CPUs shuffle best."""


def _side() -> int:
    """Return the rows and columns of a block."""
    if has_feature("avx512f"):
        return 16
    return 8 if has_feature("avx2") else _QUAD


def can_transpose(element: DType, value: Value) -> bool:
    """Return whether :func:`transpose` can copy a tile."""
    side = _side()
    return (
        element.bytes == _QUAD and len(value.shape) == 2 and not any(n % side for n in value.shape)
    )


def transpose(frame: Frame, source: Memory, target: Memory, shape: Sequence[int]) -> None:
    """Copy a matrix of elements of 32 bits whose columns lie side by side to one whose rows do."""
    side, size, (rows, columns) = _side(), source.element.bytes, shape
    type_ = r.register_type(source.element, side)

    def of_columns(column: Register) -> None:
        builder = frame.builder
        first = builder.mul(column, r.number(r.I64, side))
        start = move(frame, source.base, first, source.step(builder, -1))
        to = move(frame, target.base, first, size)

        def of_rows(row: Register) -> None:
            builder = frame.builder
            at = move(frame, start, row, side * size)
            block = []
            for i in range(side):
                place = move(frame, at, r.number(r.I64, i), source.step(builder, -1))
                loaded = builder.load(place, typ=type_)
                loaded.align = size
                block.append(loaded)
            there = move(frame, to, row, side * columns * size)
            for i, vector in enumerate(_turned(builder, block)):
                place = move(frame, there, r.number(r.I64, i), columns * size)
                builder.store(vector, place).align = size

        counted(frame, rows // side, of_rows)

    counted(frame, columns // side, of_columns)


def _turned(builder: ir.IRBuilder, rows: Sequence[Register]) -> list[Register]:
    """Return the columns of a square block of 4, 8 or 16 rows."""
    quads = len(rows) // _QUAD
    # Each four rows: blocks of 4 by 4 within the quads of a register.
    parts = [_turned_in_quads(builder, rows[i : i + _QUAD]) for i in range(0, len(rows), _QUAD)]
    turned: list[list[Register]] = []
    for j in range(_QUAD):
        mixed = [part[j] for part in parts]
        distance = 1
        while distance < quads:
            mixed = _sifted(builder, mixed)
            distance *= 2
        turned.append(mixed)
    return [turned[j][quad] for quad in range(quads) for j in range(_QUAD)]


def _turned_in_quads(builder: ir.IRBuilder, rows: Sequence[Register]) -> list[Register]:
    a, b, c, d = rows
    low, high = _interleaved(builder, a, b), _interleaved(builder, c, d)
    found = []
    for one, other in zip(low, high, strict=True):
        found += [
            _picked(builder, one, other, (0, 1, "0", "1")),
            _picked(builder, one, other, (2, 3, "2", "3")),
        ]
    return found


def _interleaved(builder: ir.IRBuilder, a: Register, b: Register) -> tuple[Register, Register]:
    """Return the lower and the upper halves of the quads of two registers, lane by lane in turn."""
    return (
        _picked(builder, a, b, (0, "0", 1, "1")),
        _picked(builder, a, b, (2, "2", 3, "3")),
    )


def _picked(
    builder: ir.IRBuilder, a: Register, b: Register, order: Sequence[int | str]
) -> Register:
    """Return, in each quad, four lanes of that quad of two registers; those of the second are written as text."""
    lanes = int(a.type.count)
    return _shuffled(
        builder,
        a,
        b,
        [
            quad + (lane if isinstance(lane, int) else lanes + int(lane))
            for quad in range(0, lanes, _QUAD)
            for lane in order
        ],
    )


def _sifted(builder: ir.IRBuilder, registers: Sequence[Register]) -> list[Register]:
    """Return the even quads of each two registers side by side, and then the odd ones."""
    lanes = int(registers[0].type.count)
    found: list[list[Register]] = [[], []]
    for a, b in zip(registers[::2], registers[1::2], strict=True):
        for odd in (0, 1):
            quads = range(odd * _QUAD, 2 * lanes, 2 * _QUAD)
            order = [quad + lane for quad in quads for lane in range(_QUAD)]
            found[odd].append(_shuffled(builder, a, b, order))
    return found[0] + found[1]


def _shuffled(builder: ir.IRBuilder, a: Register, b: Register, order: Sequence[int]) -> Register:
    mask = ir.Constant(r.vector(r.I32, len(order)), list(order))
    return builder.shuffle_vector(a, b, mask)
