"""SORT: unsigned integers along the last axis.

Where the CPU can pack lanes, 32 and 64 bits are sorted by partition (``partitioning``). Else elements are sorted by their
bytes from the lowest on: each pass counts how often each value of one byte occurs and moves the elements to their
places; equal bytes keep their order. All bytes are counted in one walk. A pass whose byte is the same in all elements
is left out. The code has one size, whatever the extent.

Where only the first few elements are read, the highest bytes are counted first: elements whose highest byte is too
large to be among the first are left out before the rest is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from emu.tile.cpu.emit import groups, partitioning
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import LoopNest
from emu.tile.cpu.emit.memory import Memory
from emu.tile.cpu.emit.point_reader import Point, PointReader, run_axis
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.ops import Code
from emu.tile.types import U32, Tile, element_of

_VALUES = 256  # of a byte

_PARTIAL = 4
"""A row is sorted in part if it is so many times as long as what is read of it."""

_INSERTED = 64
"""So many elements at most are sorted by insertion, in about as many steps as a quarter of their square."""


def emit_sort(frame: Frame, operation: Operation) -> None:
    """Emit a SORT of a tile in memory."""
    width = partitioning.lanes(element_of(operation.result.type).bytes)
    if width is not None:
        _emit_partitioned(frame, operation, width)
        return
    (source,) = operation.operands
    target = frame.remember(operation.result)
    _copy(frame, source, target)
    shape, element = source.shape, element_of(source.type)
    buffer = Value(Tile((shape[-1],), source.dtype))
    other = frame.new_copy(buffer, element)
    first = _first_read(frame, operation.result)
    tally = Value(Tile((_VALUES * element.bytes,), U32))
    counts = frame.new_copy(tally, U32)
    sorter = _Sorter(frame, element.bytes, shape[-1], other.base, counts.base)
    rows = math.prod(shape[:-1])

    def sort(row: IrPointer) -> None:
        if _PARTIAL * first <= shape[-1]:
            sorter.emit_first(row, first)
        else:
            sorter.emit(row)

    if rows == 1:
        sort(target.base)
    else:
        _repeat(frame, rows, lambda row: sort(sorter.row_of(target.base, row)))
    frame.release_copy(buffer)
    frame.release_copy(tally)


def _emit_partitioned(frame: Frame, operation: Operation, width: int) -> None:
    """Emit a SORT by partition: the first step reads the source where it lies, if its rows are dense."""
    (source,) = operation.operands
    target, stored = frame.remember(operation.result), frame.memory_of(source)
    shape, element = source.shape, element_of(source.type)
    extent, rows = shape[-1], math.prod(shape[:-1])
    if stored.strides != target.strides or stored.element != element:
        _copy(frame, source, target)
        stored = target
    buffer = Value(Tile((extent + width,), source.dtype))
    other = frame.new_copy(buffer, element)
    sort = partitioning.declare_sort(frame.builder.module, element.bytes)
    first = r.number(r.I64, _first_read(frame, operation.result))
    size = r.number(r.I64, extent * element.bytes)

    def body(row: Register) -> None:
        builder = frame.builder
        offset = builder.mul(row, size)
        start, to = (builder.gep(m.base, [offset], source_etype=r.BYTE) for m in (stored, target))
        end = builder.gep(to, [size], source_etype=r.BYTE)
        count, no = r.number(r.I64, extent), r.number(r.BIT, 0)
        builder.call(sort, [start, to, other.base, count, first, end, no])

    if rows == 1:
        body(r.number(r.I64, 0))
    else:
        _repeat(frame, rows, body)
    frame.release_copy(buffer)


def _first_read(frame: Frame, result: Value) -> int:
    """Return how many of the first elements of sorted rows are read: all, or those that GATHERs of a range take."""
    extent, most = result.shape[-1], 0
    for user in frame.analysis.users[result]:
        if user.code is not Code.GATHER or user.operands[0] is not result:
            return extent
        index, _ = frame.analysis.root(user.operands[1])
        if index.owner is None or index.owner.code is not Code.ARANGE:
            return extent
        start, end = index.owner.attributes["start"], index.owner.attributes["end"]
        if user.attributes["axis"] != len(result.shape) - 1 or start < 0 or end > extent:
            return extent
        most = max(most, end)
    return most or extent


def _copy(frame: Frame, source: Value, target: Memory) -> None:
    stored, element = frame.memory_of(source), element_of(source.type)

    def body(reader: PointReader, point: Point, count: int | None) -> None:
        value = reader.load_from(stored, point, element)
        if run_axis(point) is not None and r.lanes_of(value.type) is None:
            value = r.splat(reader.builders[-1], value, reader.count)
        reader.store_to(target, point, element, value)

    LoopNest(frame, source.shape, PointReader(frame, [])).emit(body)


def _repeat(frame: Frame, count: int | Register, body: Callable[[Register], None]) -> None:
    """Emit a loop from 0 to ``count`` (i64), which is at least 1."""
    end = r.number(r.I64, count) if isinstance(count, int) else count
    before = frame.builder.block
    inside, after = frame.block("sort"), frame.block("sorted")
    frame.builder.branch(inside)
    frame.start_block(inside)
    index = frame.builder.phi(r.I64)
    index.add_incoming(r.number(r.I64, 0), before)
    body(index)
    following = frame.builder.add(index, r.number(r.I64, 1))
    index.add_incoming(following, frame.builder.block)
    more = frame.builder.icmp_unsigned("<", following, end)
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
        self._sort(row, self._buffer, r.number(r.I64, self._extent))
        found = self._frame.builder.load(self._from, typ=ir.PointerType())
        elsewhere = self._frame.builder.icmp_unsigned("!=", found, row)
        with self._frame.when(elsewhere):
            groups.copy_bytes(self._frame.builder, row, found, self._extent * self._bytes)

    def emit_first(self, row: IrPointer, first: int) -> None:
        """Sort a row in place as far as its first elements; what lies behind them is undefined then."""
        frame = self._frame
        count = self._keep_low(row, self._highest(row, first))
        frame.builder.store(self._buffer, self._from)
        few = frame.builder.icmp_unsigned("<=", count, r.number(r.I64, _INSERTED))
        inserted, sorted_, after = frame.block("few"), frame.block("many"), frame.block("after")
        frame.builder.cbranch(few, inserted, sorted_)
        frame.start_block(inserted)
        self._insert(count)
        frame.builder.branch(after)
        frame.start_block(sorted_)
        self._sort(self._buffer, row, count)
        frame.builder.branch(after)
        frame.start_block(after)
        found = frame.builder.load(self._from, typ=ir.PointerType())
        elsewhere = frame.builder.icmp_unsigned("!=", found, row)
        with frame.when(elsewhere):
            groups.copy_bytes(frame.builder, row, found, first * self._bytes)

    def _highest(self, row: IrPointer, first: int) -> Register:
        """Return the greatest highest byte (i64) that an element among the first may have."""
        frame, top = self._frame, self._bytes - 1
        groups.fill(frame.builder, self._counts, 4 * _VALUES * self._bytes)
        _repeat(frame, self._extent, lambda i: self._count(row, i, top))
        head, after = frame.block("head"), frame.block("after")
        before = frame.builder.block
        frame.builder.branch(head)
        frame.start_block(head)
        builder = frame.builder
        value, total = builder.phi(r.I64), builder.phi(r.I32)
        place = builder.gep(
            self._counts, [builder.add(value, r.number(r.I64, _VALUES * top))], source_etype=r.I32
        )
        so_far = builder.add(total, builder.load(place, typ=r.I32))
        following = builder.add(value, r.number(r.I64, 1))
        for phi, start, later in ((value, 0, following), (total, 0, so_far)):
            phi.add_incoming(r.number(phi.type, start), before)
            phi.add_incoming(later, head)
        # All elements are counted, so that this ends at the last value at the latest.
        more = builder.icmp_unsigned("<", so_far, r.number(r.I32, first))
        builder.cbranch(more, head, after)
        frame.start_block(after)
        return value

    def _keep_low(self, row: IrPointer, highest: Register) -> Register:
        """Copy the elements up to a highest byte to the buffer; return their number (i64)."""
        frame = self._frame
        kept = frame.variable(r.I64)
        frame.builder.store(r.number(r.I64, 0), kept)
        limit = frame.builder.trunc(highest, self._key) if self._bytes < 8 else highest

        def body(index: Register) -> None:
            builder = frame.builder
            key = builder.load(self._at(row, index), typ=self._key)
            number = builder.load(kept, typ=r.I64)
            builder.store(
                key, self._at(self._buffer, number)
            )  # overwritten by the next if not kept
            byte = builder.lshr(key, ir.Constant(self._key, 8 * (self._bytes - 1)))
            low = builder.zext(builder.icmp_unsigned("<=", byte, limit), r.I64)
            builder.store(builder.add(number, low), kept)

        _repeat(frame, self._extent, body)
        return frame.builder.load(kept, typ=r.I64)

    def _insert(self, count: Register) -> None:
        """Sort the first elements of the buffer by insertion."""

        def body(index: Register) -> None:
            frame = self._frame
            key = frame.builder.load(self._at(self._buffer, index), typ=self._key)
            before = frame.builder.block
            head, move, after = frame.block("head"), frame.block("move"), frame.block("after")
            frame.builder.branch(head)
            frame.start_block(head)
            place = frame.builder.phi(r.I64)
            place.add_incoming(index, before)
            first = frame.builder.icmp_unsigned("==", place, r.number(r.I64, 0))
            look = frame.block("look")
            frame.builder.cbranch(first, after, look)
            frame.start_block(look)
            lower = frame.builder.sub(place, r.number(r.I64, 1))
            other = frame.builder.load(self._at(self._buffer, lower), typ=self._key)
            frame.builder.cbranch(frame.builder.icmp_unsigned(">", other, key), move, after)
            frame.start_block(move)
            frame.builder.store(other, self._at(self._buffer, place))
            place.add_incoming(lower, move)
            frame.builder.branch(head)
            frame.start_block(after)
            frame.builder.store(key, self._at(self._buffer, place))

        _repeat(self._frame, count, body)

    def _sort(self, row: IrPointer, buffer: IrPointer, extent: Register) -> None:
        """Sort a row by all of its bytes; leave in ``_from`` where it lies then, itself or the buffer."""
        frame = self._frame
        groups.fill(frame.builder, self._counts, 4 * _VALUES * self._bytes)
        _repeat(frame, extent, lambda i: self._count(row, i))
        frame.builder.store(row, self._from)
        frame.builder.store(buffer, self._to)
        for byte in range(self._bytes):
            self._pass(byte, extent)

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

    def _count(self, row: IrPointer, index: Register, lowest: int = 0) -> None:
        builder = self._frame.builder
        key = builder.load(self._at(row, index), typ=self._key)
        for byte in range(lowest, self._bytes):
            place = self._place(key, byte)
            count = builder.load(place, typ=r.I32)
            builder.store(builder.add(count, r.number(r.I32, 1)), place)

    def _pass(self, byte: int, extent: Register) -> None:
        frame, builder = self._frame, self._frame.builder
        source = builder.load(self._from, typ=ir.PointerType())
        target = builder.load(self._to, typ=ir.PointerType())
        first = builder.load(source, typ=self._key)
        same = builder.load(self._place(first, byte), typ=r.I32)
        differs = builder.icmp_unsigned("!=", same, builder.trunc(extent, r.I32))
        with frame.when(differs):
            self._to_places(byte)
            _repeat(frame, extent, lambda i: self._move(source, target, byte, i))
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
