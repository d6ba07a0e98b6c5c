"""Emission of ASSERTs of tiles: whether one failed, in how many lanes, and what the first of them compared."""

from __future__ import annotations

import math

from llvmlite import ir

from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.point_reader import Point, PointReader, run_axis
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.types import element_of

NO_LANE = (1 << 63) - 1
"""Number of the first lane that failed, where none did."""


class FailedLanes:
    """Variables of one ASSERT: the first lane that failed, how many did, and the values at the first.

    Args:
        frame: The function.
        operation: The ASSERT; the variables are set to "none" at the frame's builder.

    Attributes:
        first: Variable (i64): row-major number of the first lane, or ``NO_LANE``.
        count: Variable (i64): number of lanes.
        values: Variables of what the error shows.
    """

    def __init__(self, frame: Frame, operation: Operation) -> None:
        self._frame = frame
        self._operation = operation
        self.first: IrPointer = frame.variable(r.I64)
        self.count: IrPointer = frame.variable(r.I64)
        frame.builder.store(r.number(r.I64, NO_LANE), self.first)
        frame.builder.store(r.number(r.I64, 0), self.count)
        self.values: list[IrPointer] = [
            frame.variable(r.memory_type(element_of(value.type)))
            for value in operation.operands[1:]
        ]

    def has_failed(self) -> Register:
        """Emit and return whether a lane failed (i1)."""
        builder = self._frame.builder
        count = builder.load(self.count, typ=r.I64)
        return builder.icmp_signed("!=", count, r.number(r.I64, 0))

    def at(self, reader: PointReader, point: Point) -> None:
        """Emit the check at a point; only where a lane fails is more than a branch executed."""
        operation = self._operation
        condition = reader.read(operation.operands[0], point)
        # Before the branch: the reader knows them again later, so they must be computed on every path.
        shown = [reader.read_short(value, point) for value in operation.operands[1:]]
        builder = reader.builders[-1]
        lanes = r.lanes_of(condition.type)
        bits = condition if lanes is None else builder.bitcast(condition, ir.IntType(lanes))
        failing = builder.not_(bits)
        kind = failing.type
        hit, after = self._frame.block("failing"), self._frame.block("after")
        some = builder.icmp_unsigned("!=", failing, r.number(kind, 0))
        builder.cbranch(some, hit, after)
        builder.position_at_end(hit)
        lane = _count_bits(builder, "cttz", failing)
        self._add(builder, _count_bits(builder, "ctpop", failing))
        self._remember(builder, point, lane, shown)
        builder.branch(after)
        builder.position_at_end(after)

    def _add(self, builder: ir.IRBuilder, more: Register) -> None:
        before = builder.load(self.count, typ=r.I64)
        builder.store(builder.add(before, more), self.count)

    def _remember(
        self, builder: ir.IRBuilder, point: Point, lane: Register, shown: list[Register]
    ) -> None:
        """Emit the storing of a point's first lane that fails, if none before it in row-major order did."""
        number = self._number(builder, point, lane)
        earlier = builder.icmp_signed("<", number, builder.load(self.first, typ=r.I64))
        first, done = self._frame.block("first"), self._frame.block("after")
        builder.cbranch(earlier, first, done)
        builder.position_at_end(first)
        builder.store(number, self.first)
        for value, register, place in zip(
            self._operation.operands[1:], shown, self.values, strict=True
        ):
            builder.store(_one(builder, value, register, lane), place)
        builder.branch(done)
        builder.position_at_end(done)

    def _number(self, builder: ir.IRBuilder, point: Point, lane: Register) -> Register:
        """Return the row-major number of a point's lane."""
        shape = self._operation.operands[0].shape
        number = r.number(r.I64, 0)
        for axis, coordinate in enumerate(point):
            weight = r.number(r.I64, math.prod(shape[axis + 1 :]))
            index = coordinate.start
            if axis == run_axis(point):
                index = builder.add(index, lane)
            number = builder.add(number, builder.mul(index, weight))
        return number


def _one(builder: ir.IRBuilder, value: Value, register: Register, lane: Register) -> Register:
    """Return the value of one lane as it is stored in memory."""
    if r.lanes_of(register.type) is not None:
        register = builder.extract_element(register, lane)
    return r.to_memory(builder, element_of(value.type), register)


def _count_bits(builder: ir.IRBuilder, name: str, bits: Register) -> Register:
    """Return ``ctpop`` or ``cttz`` of an integer that is not 0, as an i64."""
    kind = bits.type
    types = [kind, r.BIT] if name == "cttz" else [kind]
    more = [r.number(r.BIT, 1)] if name == "cttz" else []
    function = r.declare(builder, f"llvm.{name}.i{kind.width}", kind, types)
    found = builder.call(function, [bits, *more])
    if kind.width == 64:
        return found
    return builder.trunc(found, r.I64) if kind.width > 64 else builder.zext(found, r.I64)
