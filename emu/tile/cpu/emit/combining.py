"""Reductions: combine regions on registers, one element or many lanes at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import RUN
from emu.tile.cpu.emit.point_reader import Point, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation, Region, TileError, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.ops import Code
from emu.tile.types import DType, Kind, ScalarType, element_of

Registers = list[Any]


class Combiner:
    """Emitter of a combine region.

    Args:
        frame: The function.
        region: Of a REDUCE or SCAN; its operations are element-wise, or IFs of such.
    """

    def __init__(self, frame: Frame, region: Region) -> None:
        self._frame = frame
        self._region = region
        self.count = len(region.arguments) // 2

    def emit(self, builder: ir.IRBuilder, left: Registers, right: Registers) -> Registers:
        """Return what two sides combine to; registers are scalars, or vectors of one number of lanes."""
        known = dict(zip(self._region.arguments, (*left, *right), strict=True))
        return self._run(builder, self._region, known, r.lanes_of(left[0].type))

    def _run(
        self, builder: ir.IRBuilder, region: Region, known: dict[Value, Register], lanes: int | None
    ) -> Registers:
        for operation in region.operations[:-1]:
            self._one(builder, operation, known, lanes)
        return [self._get(builder, v, known, lanes) for v in region.terminator.operands]

    def _get(
        self, builder: ir.IRBuilder, value: Value, known: dict[Value, Register], lanes: int | None
    ) -> Register:
        if value in known:
            return known[value]
        return r.splat(builder, self._frame.scalar(value), lanes)  # from outside of the region

    def _one(
        self,
        builder: ir.IRBuilder,
        operation: Operation,
        known: dict[Value, Register],
        lanes: int | None,
    ) -> None:
        code = operation.code
        if code is Code.CONSTANT:
            element = element_of(operation.result.type)
            known[operation.result] = r.constant(element, operation.attributes["value"], lanes)
        elif code in ops.ELEMENTWISE:
            operands = [self._get(builder, v, known, lanes) for v in operation.operands]
            known[operation.result] = self._frame.apply(builder, operation, operands)
        elif code is Code.IF:
            condition = self._get(builder, operation.operands[0], known, lanes)
            sides = [self._run(builder, nested, known, lanes) for nested in operation.regions]
            for result, one, other in zip(operation.results, *sides, strict=True):
                known[result] = builder.select(condition, one, other)
        elif code is Code.AFTER:
            known[operation.result] = self._get(builder, operation.operands[0], known, lanes)
        elif code not in (Code.ASSERT, Code.JOIN_TOKENS, Code.BARRIER):
            raise TileError(
                f"a combine function must be made of element-wise operations, but has "
                f"{code.name.lower()} at {operation.location}"
            )

    def horizontal(self, builder: ir.IRBuilder, registers: Registers) -> Registers:
        """Combine the lanes of vectors to scalars: halve the vectors until one lane is left."""
        lanes = r.lanes_of(registers[0].type)
        if lanes is None:
            return registers
        odd: list[Registers] = []
        while lanes > 1:
            half = lanes // 2
            if lanes % 2:
                odd.append([_extract(builder, v, lanes - 1) for v in registers])
            low = [_slice(builder, v, 0, half) for v in registers]
            high = [_slice(builder, v, half, half) for v in registers]
            registers, lanes = self.emit(builder, low, high), half
        scalars = [_extract(builder, v, 0) for v in registers]
        for left_over in reversed(odd):
            scalars = self.emit(builder, scalars, left_over)
        return scalars

    def identity(self, elements: Sequence[ScalarType]) -> list[float] | None:
        """Return the neutral element of the region, if it is known."""
        operations = self._region.operations
        if self.count != 1 or len(operations) != 2:
            return None
        (operation, end), arguments = operations, self._region.arguments
        if set(operation.operands) != set(arguments) or end.operands[0] is not operation.result:
            return None
        element = elements[0]
        if not isinstance(element, DType):
            return None
        value = _identity(operation, element)
        return None if value is None else [value]


def _identity(operation: Operation, element: DType) -> float | int | None:
    code, real = operation.code, element.is_float
    if code is Code.ADD:
        return -0.0 if real else 0  # 0.0 would make 0.0 of a sum of -0.0
    if code is Code.MUL:
        return 1
    if code in (Code.OR, Code.XOR):
        return 0
    if code is Code.AND:
        return -1 if element.kind is not Kind.BOOL else 1
    if code in (Code.MAX, Code.MIN) and real and not operation.attributes.get("propagate_nan"):
        return float("nan")  # the number wins, whatever it is; an infinity would win over NaN alone
    if code in (Code.MAX, Code.MIN) and element.is_integer:
        least, greatest = element.limits
        return least if code is Code.MAX else greatest
    return None


def _extract(builder: ir.IRBuilder, vector: Register, lane: int) -> Register:
    return builder.extract_element(vector, r.number(r.I32, lane))


def _slice(builder: ir.IRBuilder, vector: Register, start: int, count: int) -> Register:
    nothing = ir.Constant(vector.type, ir.Undefined)
    return _shuffle(builder, vector, nothing, range(start, start + count))


def _shuffle(builder: ir.IRBuilder, a: Register, b: Register, order: Sequence[int]) -> Register:
    mask = ir.Constant(r.vector(r.I32, len(order)), list(order))
    return builder.shuffle_vector(a, b, mask)


class Reduction:
    """One REDUCE in a loop nest.

    Args:
        frame: The function.
        operation: The REDUCE.
        vector_axis: Axis along which the nest walks in runs.
    """

    def __init__(self, frame: Frame, operation: Operation, vector_axis: int) -> None:
        self._frame = frame
        self.operation = operation
        self._axis: int = operation.attributes["axis"]
        self._combiner = Combiner(frame, operation.regions[0])
        self._elements = [element_of(v.type) for v in operation.operands]
        self._along = self._axis == vector_axis
        self._extent = operation.operands[0].shape[vector_axis]
        self._identity = self._combiner.identity(self._elements)
        self._running: list[IrPointer] = []
        self._done: Registers = []
        full = self._along and self._extent >= RUN
        if full:
            types = [r.register_type(e, RUN) for e in self._elements]
            self._running = [frame.variable(t) for t in types]
        self._scalars = []
        if not operation.results[0].shape:
            self._scalars = [frame.variable(r.register_type(e)) for e in self._elements]

    def begin(self, reader: PointReader, point: Point) -> None:
        """Emit the code before a walk along the vector axis."""
        self._done = []
        if self._running and self._identity is not None:
            for variable, element, value in zip(
                self._running, self._elements, self._identity, strict=True
            ):
                reader.builders[-1].store(r.constant(element, value, RUN), variable)

    def at(self, reader: PointReader, point: Point, count: int | None) -> None:
        """Emit the combination of the operands at a point."""
        values = [reader.read(v, point) for v in self.operation.operands]
        if not self._along:
            self._into_memory(reader, point, values)
        elif count == RUN and self._running:
            self._into_running(reader, point, values)
        else:
            self._rest(reader, values)

    @property
    def in_registers(self) -> bool:
        """Whether full runs are combined lane by lane: what ``repeat`` needs."""
        return bool(self._running)

    def uniform(self, reader: PointReader, point: Point) -> Registers:
        """Return the operands at a point without a run, repeated for a full run."""
        values = [reader.read_short(v, point) for v in self.operation.operands]
        return [r.splat(reader.builders[-1], v, RUN) for v in values]

    def repeat(self, reader: PointReader, point: Point, values: Registers) -> None:
        """Emit the combination of values that do not depend on the point."""
        self._into_running(reader, point, values)

    def _into_running(self, reader: PointReader, point: Point, values: Registers) -> None:
        builder = reader.builders[-1]
        mixed = self._combiner.emit(builder, self._accumulated(builder), values)
        if self._identity is None:
            first = builder.icmp_signed("==", point[self._axis].start, r.number(r.I64, 0))
            mixed = [builder.select(first, v, m) for v, m in zip(values, mixed, strict=True)]
        for variable, value in zip(self._running, mixed, strict=True):
            builder.store(value, variable)

    def _accumulated(self, builder: ir.IRBuilder) -> Registers:
        types = [r.register_type(e, RUN) for e in self._elements]
        return [builder.load(v, typ=t) for v, t in zip(self._running, types, strict=True)]

    def _rest(self, reader: PointReader, values: Registers) -> None:
        """Combine the rest of the vector axis with the first of the 32 accumulators."""
        builder = reader.builders[-1]
        if not self._running:
            self._done = values
            return
        old = self._accumulated(builder)
        count = r.lanes_of(values[0].type) or 1
        wide = [r.splat(builder, v, 1) if count == 1 else v for v in values]
        low = [_slice(builder, v, 0, count) for v in old]
        mixed = self._combiner.emit(builder, low, wide)
        for variable, total, part in zip(self._running, old, mixed, strict=True):
            spread = _shuffle(builder, part, part, [min(n, count - 1) for n in range(RUN)])
            order = [RUN + n if n < count else n for n in range(RUN)]
            builder.store(_shuffle(builder, total, spread, order), variable)

    def end(self, reader: PointReader, point: Point) -> None:
        """Emit the code after a walk along the vector axis."""
        if not self._along:
            return
        builder = reader.builders[-1]
        values = self._done
        if self._running:
            values = self._accumulated(builder)
        values = self._combiner.horizontal(builder, values)
        self._write(reader, point, values)

    def _write(self, reader: PointReader, point: Point, values: Registers) -> None:
        if self._scalars:
            for variable, value in zip(self._scalars, values, strict=True):
                reader.builders[-1].store(value, variable)
            return
        there = (*point[: self._axis], *point[self._axis + 1 :])
        for result, element, value in zip(
            self.operation.results, self._elements, values, strict=True
        ):
            reader.store_to(self._frame.memories[result], there, element, value)

    def _into_memory(self, reader: PointReader, point: Point, values: Registers) -> None:
        """Combine with the result's memory: the reduced axis is an outer loop."""
        builder = reader.builder(point)
        there = (*point[: self._axis], *point[self._axis + 1 :])
        results = self.operation.results
        old = [
            reader.load_from(self._frame.memories[v], there, e)
            for v, e in zip(results, self._elements, strict=True)
        ]
        first = builder.icmp_signed("==", point[self._axis].start, r.number(r.I64, 0))
        mixed = self._combiner.emit(builder, old, values)
        values = [builder.select(first, v, m) for v, m in zip(values, mixed, strict=True)]
        self._write(reader, point, values)

    def finish(self) -> None:
        """Load scalar results into registers, after the nest."""
        if not self._scalars:
            return
        for variable, result, element in zip(
            self._scalars, self.operation.results, self._elements, strict=True
        ):
            register = self._frame.builder.load(variable, typ=r.register_type(element))
            self._frame.set_scalar(result, register)
