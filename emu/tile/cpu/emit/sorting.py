"""SORT: unsigned integers along the last axis, by their bytes from the lowest on.

Each pass counts how often each value of one byte occurs and moves the elements to their places; equal bytes keep
their order. All bytes are counted in one walk. A pass whose byte is the same in all elements is left out. The code
has one size, whatever the extent.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from emu.tile.cpu.emit import groups
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import LoopNest
from emu.tile.cpu.emit.memory import Memory
from emu.tile.cpu.emit.point_reader import Point, PointReader, run_axis
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.types import U32, Tile, element_of

_VALUES = 256  # of a byte


def emit_sort(frame: Frame, operation: Operation) -> None:
    """Emit a SORT of a tile in memory."""
    (source,) = operation.operands
    target = frame.remember(operation.result)
    _copy(frame, source, target)
    shape, element = source.shape, element_of(source.type)
    buffer = Value(Tile((shape[-1],), source.dtype))
    other = frame.new_copy(buffer, element)
    tally = Value(Tile((_VALUES * element.bytes,), U32))
    counts = frame.new_copy(tally, U32)
    sorter = _Sorter(frame, element.bytes, shape[-1], other.base, counts.base)
    rows = math.prod(shape[:-1])
    if rows == 1:
        sorter.emit(target.base)
    else:
        _repeat(frame, rows, lambda row: sorter.emit(sorter.row_of(target.base, row)))
    frame.release_copy(buffer)
    frame.release_copy(tally)


def _copy(frame: Frame, source: Value, target: Memory) -> None:
    stored, element = frame.memory_of(source), element_of(source.type)

    def body(reader: PointReader, point: Point, count: int | None) -> None:
        value = reader.load_from(stored, point, element)
        if run_axis(point) is not None and r.lanes_of(value.type) is None:
            value = r.splat(reader.builders[-1], value, reader.count)
        reader.store_to(target, point, element, value)

    LoopNest(frame, source.shape, PointReader(frame, [])).emit(body)


def _repeat(frame: Frame, count: int, body: Callable[[Register], None]) -> None:
    """Emit a loop from 0 to ``count``, which is at least 1."""
    before = frame.builder.block
    inside, after = frame.block("sort"), frame.block("sorted")
    frame.builder.branch(inside)
    frame.start_block(inside)
    index = frame.builder.phi(r.I64)
    index.add_incoming(r.number(r.I64, 0), before)
    body(index)
    following = frame.builder.add(index, r.number(r.I64, 1))
    index.add_incoming(following, frame.builder.block)
    more = frame.builder.icmp_unsigned("<", following, r.number(r.I64, count))
    frame.builder.cbranch(more, inside, after)
    frame.start_block(after)


class _Sorter:
    """Emitter of the sort of one row.

    Args:
        frame: The function.
        bytes_: Of an element.
        extent: Number of elements.
        buffer: Memory for as many.
        counts: Memory for 256 numbers of 32 bits for each byte.
    """

    def __init__(
        self, frame: Frame, bytes_: int, extent: int, buffer: IrPointer, counts: IrPointer
    ) -> None:
        self._frame = frame
        self._bytes = bytes_
        self._extent = extent
        self._buffer = buffer
        self._key = ir.IntType(8 * bytes_)
        self._counts = counts
        self._from = frame.variable(ir.PointerType())
        self._to = frame.variable(ir.PointerType())

    def row_of(self, base: IrPointer, row: Register) -> IrPointer:
        """Return the address of a row."""
        offset = self._frame.builder.mul(row, r.number(r.I64, self._extent * self._bytes))
        return self._frame.builder.gep(base, [offset], source_etype=r.BYTE)

    def emit(self, row: IrPointer) -> None:
        """Sort a row in place."""
        frame = self._frame
        groups.fill(frame.builder, self._counts, 4 * _VALUES * self._bytes)
        _repeat(frame, self._extent, lambda i: self._count(row, i))
        frame.builder.store(row, self._from)
        frame.builder.store(self._buffer, self._to)
        for byte in range(self._bytes):
            self._pass(byte)
        found = frame.builder.load(self._from, typ=ir.PointerType())
        elsewhere = frame.builder.icmp_unsigned("!=", found, row)
        with frame.when(elsewhere):
            groups.copy_bytes(frame.builder, row, found, self._extent * self._bytes)

    def _at(self, base: IrPointer, index: Register) -> IrPointer:
        return self._frame.builder.gep(base, [index], source_etype=self._key)

    def _place(self, key: Register, byte: int) -> IrPointer:
        """Return the address of the count of a key's byte."""
        builder = self._frame.builder
        if byte:
            key = builder.lshr(key, ir.Constant(self._key, 8 * byte))
        if self._bytes > 1:
            key = builder.trunc(key, r.BYTE)
        index = builder.add(builder.zext(key, r.I64), r.number(r.I64, _VALUES * byte))
        return builder.gep(self._counts, [index], source_etype=r.I32)

    def _count(self, row: IrPointer, index: Register) -> None:
        builder = self._frame.builder
        key = builder.load(self._at(row, index), typ=self._key)
        for byte in range(self._bytes):
            place = self._place(key, byte)
            count = builder.load(place, typ=r.I32)
            builder.store(builder.add(count, r.number(r.I32, 1)), place)

    def _pass(self, byte: int) -> None:
        frame, builder = self._frame, self._frame.builder
        source = builder.load(self._from, typ=ir.PointerType())
        target = builder.load(self._to, typ=ir.PointerType())
        first = builder.load(source, typ=self._key)
        same = builder.load(self._place(first, byte), typ=r.I32)
        differs = builder.icmp_unsigned("!=", same, r.number(r.I32, self._extent))
        with frame.when(differs):
            self._to_places(byte)
            _repeat(frame, self._extent, lambda i: self._move(source, target, byte, i))
            frame.builder.store(target, self._from)
            frame.builder.store(source, self._to)

    def _to_places(self, byte: int) -> None:
        """Replace the counts of a byte by the places of the first element of each value."""
        frame = self._frame
        total = frame.variable(r.I32)
        frame.builder.store(r.number(r.I32, 0), total)

        def body(value: Register) -> None:
            builder = frame.builder
            index = builder.add(value, r.number(r.I64, _VALUES * byte))
            place = builder.gep(self._counts, [index], source_etype=r.I32)
            before = builder.load(total, typ=r.I32)
            count = builder.load(place, typ=r.I32)
            builder.store(before, place)
            builder.store(builder.add(before, count), total)

        _repeat(frame, _VALUES, body)

    def _move(self, source: IrPointer, target: IrPointer, byte: int, index: Register) -> None:
        builder = self._frame.builder
        key = builder.load(self._at(source, index), typ=self._key)
        place = self._place(key, byte)
        to = builder.load(place, typ=r.I32)
        builder.store(key, self._at(target, builder.zext(to, r.I64)))
        builder.store(builder.add(to, r.number(r.I32, 1)), place)
