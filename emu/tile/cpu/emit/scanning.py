"""SCAN: from memory to memory, combining along one axis.

Along the vector axis a run of 32 lanes is scanned in registers, in five steps that combine each lane with the
one 1, 2, 4, 8 and 16 places before it; then all lanes are combined with what came before the run. Along
another axis, rows are combined one after the other, lane by lane.
"""

from __future__ import annotations

from llvmlite import ir

from emu.tile.cpu.emit.combining import Combiner, Registers
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import RUN, LoopNest
from emu.tile.cpu.emit.point_reader import Coordinate, Point, PointReader, moved_to, run_axis
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import vector_axis
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
        _AcrossScan(frame, operation).emit()


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
        """Return the lane that comes ``distance`` places before another; -1 if there is none."""
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


class _AcrossScan:
    """A scan along an axis one index after the other, the other axes in runs of lanes."""

    def __init__(self, frame: Frame, operation: Operation) -> None:
        self._frame = frame
        self._axis: int = operation.attributes["axis"]
        self._reverse = bool(operation.attributes.get("reverse"))
        self._shape = operation.results[0].shape
        self._combiner = Combiner(frame, operation.regions[0])
        self._elements = [element_of(v.type) for v in operation.operands]
        self._sources = [frame.memory_of(v) for v in operation.operands]
        self._targets = [frame.remember(v) for v in operation.results]
        # The nest walks the scanned axis in its outermost loop, so that each index finds the one before it done.
        self._order = [self._axis, *(a for a in range(len(self._shape)) if a != self._axis)]

    def emit(self) -> None:
        shape = tuple(self._shape[a] for a in self._order)
        one_chain = all(n == 1 for n in shape[1:])
        reader = PointReader(self._frame, [])
        LoopNest(self._frame, shape, reader, single=one_chain).emit(self._body)

    def _place(self, point: Point) -> Point:
        """Return the point of the tile for one of the nest."""
        turned = dict(zip(self._order, point, strict=True))
        return tuple(turned[a] for a in range(len(self._shape)))

    def _in_direction(self, reader: PointReader, point: Point) -> Point:
        """Return a point of the nest, counted from the end in a reverse scan."""
        if not self._reverse:
            return point
        c = point[0]
        last = r.number(r.I64, self._shape[self._axis] - 1)
        start = reader.builders[c.depth].sub(last, c.start)
        return (Coordinate(start, -c.step, c.depth), *point[1:])

    def _body(self, reader: PointReader, point: Point, count: int | None) -> None:
        elements = self._elements
        here = self._in_direction(reader, point)
        builder = reader.builders[-1]
        at = self._place(here)
        values = [reader.load_from(m, at, e) for m, e in zip(self._sources, elements, strict=True)]
        if run_axis(at) is not None:  # what is broadcast along the run was read once
            values = [
                v if r.lanes_of(v.type) else r.splat(builder, v, reader.count) for v in values
            ]
        # The first of a chain has none before it: it reads itself, and what that gives is not taken.
        first = builder.icmp_signed("==", point[0].start, r.number(r.I64, 0))
        c = here[0]
        back = r.number(r.I64, 1 if self._reverse else -1)
        start = builder.select(first, c.start, reader.builders[c.depth].add(c.start, back))
        there = self._place((Coordinate(start, c.step, len(reader.builders) - 1), *here[1:]))
        old = [reader.load_from(m, there, e) for m, e in zip(self._targets, elements, strict=True)]
        mixed = self._combiner.emit(builder, old, values)
        for target, element, value, both in zip(
            self._targets, elements, values, mixed, strict=True
        ):
            reader.store_to(target, at, element, builder.select(first, value, both))
