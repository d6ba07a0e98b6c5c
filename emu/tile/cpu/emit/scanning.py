"""SCAN: from memory to memory, combining along one axis.

Along the vector axis a run of 32 lanes is scanned in registers, in five steps that combine each lane with the
one 1, 2, 4, 8 and 16 places before it; then all lanes are combined with what came before the run. Along
another axis, rows are combined one after the other, lane by lane.
"""

from __future__ import annotations

from llvmlite import ir

from emu.tile.cpu.emit.combining import Combiner, Registers
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import RUN, LoopNest, vector_axis
from emu.tile.cpu.emit.point_reader import Coordinate, Point, PointReader, moved_to, run_axis
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation
from emu.tile.llvm import Register
from emu.tile.types import element_of


def emit_scan(frame: Frame, operation: Operation) -> None:
    """Emit a SCAN of tiles in memory."""
    axis, shape = operation.attributes["axis"], operation.results[0].shape
    extent = shape[axis]
    sources = [frame.memory_of(v) for v in operation.operands]
    in_runs = axis == vector_axis(shape) and extent % min(extent, RUN) == 0
    if in_runs and extent > 1 and all(source.strides[axis] == 1 for source in sources):
        _RowScan(frame, operation).emit()
    else:
        _scan_across(frame, operation)


class _RowScan:
    """A scan along the vector axis."""

    def __init__(self, frame: Frame, operation: Operation) -> None:
        self._frame = frame
        self._operation = operation
        self._axis: int = operation.attributes["axis"]
        self._reverse = bool(operation.attributes.get("reverse"))
        self._combiner = Combiner(frame, operation.regions[0])
        self._elements = [element_of(v.type) for v in operation.operands]
        shape = operation.results[0].shape
        self._count = min(RUN, shape[self._axis])
        self._runs = shape[self._axis] // self._count
        self._carried = [frame.variable(r.register_type(e)) for e in self._elements]

    def emit(self) -> None:
        for value in self._operation.results:
            self._frame.remember(value)
        shape = list(self._operation.results[0].shape)
        shape[self._axis] = self._runs
        LoopNest(self._frame, tuple(shape), PointReader(self._frame, []), single=True).emit(
            self._run
        )

    def _run(self, reader: PointReader, point: Point, count: int | None) -> None:
        frame, operation, builder = self._frame, self._operation, reader.builders[-1]
        reader.count = self._count
        number = point[self._axis].start
        place = number
        if self._reverse:
            place = builder.sub(r.number(r.I64, self._runs - 1), number)
        start = builder.mul(place, r.number(r.I64, self._count))
        run = Coordinate(start, 1, len(reader.builders) - 1)
        here = moved_to(point, self._axis, run)
        values = [
            reader.load_from(frame.memory_of(v), here, e)
            for v, e in zip(operation.operands, self._elements, strict=True)
        ]
        values = self._in_registers(builder, values)
        if self._runs > 1:
            values = self._with_before(builder, number, values)
        for target, element, value in zip(operation.results, self._elements, values, strict=True):
            reader.store_to(frame.memories[target], here, element, value)

    def _in_registers(self, builder: ir.IRBuilder, values: Registers) -> Registers:
        distance = 1
        while distance < self._count:
            order = [self._before(lane, distance) for lane in range(self._count)]
            mask = ir.Constant(r.vector(r.I32, self._count), [max(n, 0) for n in order])
            has = [int(n >= 0) for n in order]
            chosen = ir.Constant(r.vector(r.BIT, self._count), has)
            moved = [
                builder.shuffle_vector(v, ir.Constant(v.type, ir.Undefined), mask) for v in values
            ]
            mixed = self._combiner.emit(builder, moved, values)
            values = [builder.select(chosen, m, v) for m, v in zip(mixed, values, strict=True)]
            distance *= 2
        return values

    def _before(self, lane: int, distance: int) -> int:
        """Return the lane that comes so many places before another; -1 if there is none."""
        other = lane + distance if self._reverse else lane - distance
        return other if 0 <= other < self._count else -1

    def _with_before(self, builder: ir.IRBuilder, number: Register, values: Registers) -> Registers:
        """Combine a run with all runs before it."""
        types = [r.register_type(e) for e in self._elements]
        old = [builder.load(v, typ=t) for v, t in zip(self._carried, types, strict=True)]
        spread = [r.splat(builder, v, self._count) for v in old]
        mixed = self._combiner.emit(builder, spread, values)
        first = builder.icmp_signed("==", number, r.number(r.I64, 0))
        values = [builder.select(first, v, m) for v, m in zip(values, mixed, strict=True)]
        last = r.number(r.I32, 0 if self._reverse else self._count - 1)
        for variable, value in zip(self._carried, values, strict=True):
            builder.store(builder.extract_element(value, last), variable)
        return values


def _scan_across(frame: Frame, operation: Operation) -> None:
    """Scan along an axis one index after the other, the other axes in runs of lanes."""
    axis: int = operation.attributes["axis"]
    shape = operation.results[0].shape
    combiner = Combiner(frame, operation.regions[0])
    elements = [element_of(v.type) for v in operation.operands]
    sources = [frame.memory_of(v) for v in operation.operands]
    targets = [frame.remember(v) for v in operation.results]
    order = [axis, *(a for a in range(len(shape)) if a != axis)]

    def place(point: Point) -> Point:
        turned = dict(zip(order, point, strict=True))
        return tuple(turned[a] for a in range(len(shape)))

    def reversed_point(reader: PointReader, point: Point) -> Point:
        if not operation.attributes.get("reverse"):
            return point
        c = point[0]
        last = r.number(r.I64, shape[axis] - 1)
        start = reader.builders[c.depth].sub(last, c.start)
        return (Coordinate(start, -c.step, c.depth), *point[1:])

    def before(reader: PointReader, point: Point) -> Point:
        c = point[0]
        back = r.number(r.I64, 1 if operation.attributes.get("reverse") else -1)
        start = reader.builders[c.depth].add(c.start, back)
        return (Coordinate(start, c.step, c.depth), *point[1:])

    def body(reader: PointReader, point: Point, count: int | None) -> None:
        here = reversed_point(reader, point)
        builder = reader.builders[-1]
        at = place(here)
        values = [reader.load_from(m, at, e) for m, e in zip(sources, elements, strict=True)]
        if run_axis(at) is not None:  # what is broadcast along the run was read once
            values = [
                v if r.lanes_of(v.type) else r.splat(builder, v, reader.count) for v in values
            ]
        # The first of a chain has none before it: it reads itself, and what that gives is not taken.
        first = builder.icmp_signed("==", point[0].start, r.number(r.I64, 0))
        previous = before(reader, here)[0]
        start = builder.select(first, here[0].start, previous.start)
        there = place((Coordinate(start, previous.step, len(reader.builders) - 1), *here[1:]))
        old = [reader.load_from(m, there, e) for m, e in zip(targets, elements, strict=True)]
        mixed = combiner.emit(builder, old, values)
        for target, element, value, both in zip(targets, elements, values, mixed, strict=True):
            chosen = builder.select(first, value, both)
            reader.store_to(target, at, element, chosen)

    turned_shape = tuple(shape[a] for a in order)
    if all(n == 1 for n in turned_shape[1:]):  # one chain
        LoopNest(frame, turned_shape, PointReader(frame, []), single=True).emit(body)
    else:
        LoopNest(frame, turned_shape, PointReader(frame, [])).emit(body)
