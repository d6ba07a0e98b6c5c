"""HISTOGRAM: counts of small integers."""

from __future__ import annotations

from llvmlite import ir

from emu.tile.cpu.emit import groups, memory
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import LoopNest
from emu.tile.cpu.emit.point_reader import Point, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation
from emu.tile.types import DTYPES, element_of

_I64 = DTYPES["i64"]


def emit_histogram(frame: Frame, operation: Operation) -> None:
    """Emit a HISTOGRAM of a tile in memory; values that are no bin are counted in an extra place, which is not read."""
    values, *mask = operation.operands
    bins, element = operation.attributes["bins"], element_of(operation.result.type)
    target = frame.remember(operation.result)
    groups.fill(frame.builder, target.base, bins * element.bytes)
    elsewhere = frame.variable(r.register_type(element))

    def body(reader: PointReader, point: Point, count: int | None) -> None:
        builder: ir.IRBuilder = reader.builders[-1]
        value = frame.convert(builder, element_of(values.type), _I64, reader.read(values, point))
        counts = builder.icmp_unsigned("<", value, r.number(r.I64, bins))
        if mask:
            counts = builder.and_(counts, reader.read(mask[0], point))
        offset = builder.mul(value, r.number(r.I64, element.bytes))
        address = builder.add(builder.ptrtoint(target.base, r.I64), offset)
        address = builder.select(counts, address, builder.ptrtoint(elsewhere, r.I64))
        old = memory.load_one(builder, element, address, None, None)
        new = builder.add(old, r.number(old.type, 1))
        memory.store_one(builder, element, address, new, None)

    LoopNest(frame, values.shape, PointReader(frame, []), single=True).emit(body)
