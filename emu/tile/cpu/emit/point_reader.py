"""Values of tiles at some of their coordinates, as LLVM registers: what all loops are made of.

A *point* gives each axis of a tile a coordinate: one index or, on at most one axis, a run of indices, one per lane.
Reading a value at a point emits just what is needed for it: an inline value is computed from its operands at the
same point, a view reads its operand at another point, a materialized value is loaded. Code that does not depend on
an inner loop is emitted outside of it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu.emit import memory
from emu.tile.cpu.emit.addressing import as_register, is_zero, times
from emu.tile.cpu.emit.memory import Memory
from emu.tile.cpu.emit.quotients import Divisor
from emu.tile.cpu.emit.regular_steps import combined
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import is_view, kept_axes
from emu.tile.ir import Operation, Value
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import DTYPES, F32, ScalarType, Tile, element_of

if TYPE_CHECKING:
    from emu.tile.cpu.emit.frame import Frame


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """Coordinate of a point on one axis.

    Attributes:
        start: Index of the (first) lane, an LLVM i64.
        step: Difference from lane to lane; 0: one index.
        depth: Number of loops around the code that computes it.
    """

    start: Register
    step: int
    depth: int


_I64_DTYPE = DTYPES["i64"]

ZERO = Coordinate(r.number(r.I64, 0), 0, 0)
ORIGIN_RUN = Coordinate(r.number(r.I64, 0), 1, 0)

Point: TypeAlias = tuple[Coordinate, ...]

Stride: TypeAlias = int | Register
"""Difference from lane to lane: known to the compiler, or a scalar register. Of pointers in bytes."""

_Key: TypeAlias = tuple[Hashable, ...]


def run_axis(point: Point) -> int | None:
    """Return the axis along which a point's lanes lie."""
    return next((axis for axis, c in enumerate(point) if c.step), None)


def moved_to(point: Point, axis: int, coordinate: Coordinate) -> Point:
    """Return a point with another coordinate on one axis."""
    return (*point[:axis], coordinate, *point[axis + 1 :])


class PointReader:
    """Reader of values in one loop nest.

    Args:
        frame: The function.
        builders: One per depth: where code for that depth goes.
        own: Operations of the loop, whose results are computed here, not read from memory.
        known_true: Comparisons that hold in every lane.
        divisions: Divisions and remainders that have one quotient in all lanes.
    """

    def __init__(
        self,
        frame: Frame,
        builders: list[ir.IRBuilder],
        own: Collection[Operation] = (),
        known_true: Collection[Operation] = (),
        divisions: Collection[Operation] = (),
    ) -> None:
        self.frame = frame
        self.builders = builders
        self.count = 1  # lanes of a run
        self.own = frozenset(own)
        self.known_true = frozenset(known_true)
        self.divisions = frozenset(divisions)
        # Of loads: an i1 that says to read a copy, and the copy.
        self.copies: dict[Operation, tuple[Register, Memory]] = {}
        # Of a walk within a bound: its comparison, the axis of that, and the index of the walk.
        self.within: tuple[Operation, int, Register] | None = None
        self.streamed: Collection[Operation] = ()  # stores of full runs past the caches
        self._memo: dict[_Key, Register] = {}
        self._linear_memo: dict[_Key, tuple[Register, Stride]] = {}
        self._divisors: dict[_Key, Divisor] = {}
        self._alive: list[Point] = []  # what the memo's keys name by id

    # ---- values

    def read(self, value: Value, point: Point) -> Register:
        """Return a value at a point; a vector if the point has a run, even of a uniform value."""
        register = self.read_short(value, point)
        axis = run_axis(point)
        if axis is not None and r.lanes_of(register.type) is None:
            return r.splat(self.builders[point[axis].depth], register, self.count)
        return register

    def read_short(self, value: Value, point: Point) -> Register:
        """Return a value at a point, as a scalar if it is known to be the same in every lane."""
        if not isinstance(value.type, Tile):
            return self.frame.scalar(value)
        point = self._normal(value, point)
        key = (value, *((id(c.start), c.step) for c in point), self.count)
        if key not in self._memo:
            self._alive.append(point)
            self._memo[key] = self._compute(value, point)
        return self._memo[key]

    def _normal(self, value: Value, point: Point) -> Point:
        point = tuple(ZERO if n == 1 else c for n, c in zip(value.shape, point, strict=True))
        axis = run_axis(point)
        if axis is None or not self.frame.analysis.is_inline(value):
            return point
        if self.frame.analysis.step(value, axis, self.divisions) == 0:  # in every lane: a scalar
            return moved_to(point, axis, ZERO)
        return point

    def builder(self, point: Point) -> ir.IRBuilder:
        """Return the builder of the outermost loop in which a point is known."""
        return self.builders[max((c.depth for c in point), default=0)]

    def _compute(self, value: Value, point: Point) -> Register:
        operation = value.owner
        stored = self.frame.memories.get(value)
        is_divided = (
            operation in self.divisions
        )  # what has one quotient is not read at one lane for all
        if stored is not None and operation not in self.own and not is_divided:
            return self.load_from(stored, point, element_of(value.type))
        assert operation is not None, "a tile argument has memory"
        if is_view(operation):
            return self.read_short(operation.operands[0], self._source(operation, value, point))
        run = run_axis(point)
        lanes = None if run is None else self.count
        code = operation.code
        if code is Code.CONSTANT:
            element = element_of(value.type)
            return r.constant(element, operation.attributes["value"], lanes)
        if code is Code.SPLAT:
            return self.frame.scalar(operation.operands[0])
        if code is Code.ARANGE:
            return self._arange(operation, point, lanes)
        if operation in self.known_true or self._is_within(operation, point):
            return r.number(r.vector(r.BIT, lanes), 1)
        if is_divided:
            return self._divided(operation, point)
        if code in ops.ELEMENTWISE:
            if code is Code.DIV and lanes is not None and element_of(value.type) is F32:
                return self._quotient(operation, point)
            operands = [self.read(operand, point) for operand in operation.operands]
            return self.frame.apply(self.builder(point), operation, operands)
        emit = {
            Code.GATHER: self._gather,
            Code.RESHAPE: self._reshaped,
            Code.CAT: self._concatenated,
            Code.LOAD: self.load,
        }[code]
        with self.frame.at(operation):
            return emit(operation, point)

    def _divided(self, operation: Operation, point: Point) -> Register:
        """Return a quotient or remainder at a point, the quotient being the same in all lanes."""
        one = self._one_of(operation)
        if operation.code is Code.DIV:
            return one
        dividend = self.read(operation.operands[0], point)
        builder, lanes = self.builder(point), r.lanes_of(dividend.type)
        return builder.sub(dividend, one if lanes is None else r.splat(builder, one, lanes))

    def _one_of(self, operation: Operation) -> Register:
        """Return the quotient of all lanes; of a remainder what it takes off the dividend in each."""
        key = (operation, "quotient")
        if key not in self._memo:
            origin: Point = (ZERO,) * len(operation.result.shape)
            operands = [self.read(operand, origin) for operand in operation.operands]
            found = self.frame.apply(self.builder(origin), operation, operands)
            if operation.code is Code.REM:
                found = self.builder(origin).sub(operands[0], found)
            self._memo[key] = found
        return self._memo[key]

    def _is_within(self, operation: Operation, point: Point) -> bool:
        """Return whether a comparison holds in all lanes because the walk is within its bound."""
        if self.within is None or operation is not self.within[0]:
            return False
        _, axis, index = self.within
        return point[axis].start is index and point[axis].step == 1

    def _quotient(self, operation: Operation, point: Point) -> Register:
        """Return the quotients of fp32 in a run: by one number, if all lanes are divided by the same."""
        left, right = operation.operands
        divisor = self.read_short(right, point)
        if r.lanes_of(divisor.type) is not None or isinstance(divisor, ir.Constant):
            operands = [self.read(operand, point) for operand in operation.operands]
            return self.frame.apply(self.builder(point), operation, operands)
        # A divisor is known where its own point is: what is derived from it is emitted there.
        axis = run_axis(point)
        assert axis is not None
        builder = self.builder(self._normal(right, moved_to(point, axis, ZERO)))
        key = (id(divisor), id(builder), "divisor")
        if key not in self._divisors:
            self._divisors[key] = Divisor(builder, divisor)
        return self._divisors[key].emit(self.builder(point), self.read(left, point))

    def _arange(self, operation: Operation, point: Point, lanes: int | None) -> Register:
        builder, (coordinate,) = self.builder(point), point
        type_ = element_of(operation.result.type)
        start = builder.trunc(coordinate.start, r.I32)
        start = builder.add(start, r.number(r.I32, operation.attributes["start"]))
        if lanes is None:
            return start
        offsets = r.iota(type_, lanes)
        row = r.splat(builder, start, lanes)
        return builder.add(row, offsets) if coordinate.step == 1 else builder.sub(row, offsets)

    def _source(self, operation: Operation, value: Value, point: Point) -> Point:
        """Return the point at which a view reads its operand."""
        code, operand = operation.code, operation.operands[0]
        if code is Code.BROADCAST:
            return tuple(ZERO if n == 1 else c for n, c in zip(operand.shape, point, strict=True))
        if code is Code.PERMUTE:
            order = operation.attributes["order"]
            return tuple(point[order.index(axis)] for axis in range(len(order)))
        if code is Code.RESHAPE:
            kept = iter([point[axis] for axis in kept_axes(value.shape)])
            return tuple(ZERO if n == 1 else next(kept) for n in operand.shape)
        if code is Code.SPLIT:
            which = operation.results.index(value)
            return (*point, Coordinate(r.number(r.I64, which), 0, 0))
        if code is Code.FLIP:
            axis = operation.attributes["axis"]
            c = point[axis]
            last = r.number(r.I64, operand.shape[axis] - 1)
            turned = Coordinate(self.builders[c.depth].sub(last, c.start), -c.step, c.depth)
            return moved_to(point, axis, turned)
        return point

    # ---- memory

    def address(self, stored: Memory, point: Point) -> Register:
        """Return the address (i64) of the first lane in scratch."""
        builder = self.builder(point)
        address = builder.ptrtoint(stored.base, r.I64)
        for axis, (c, stride) in enumerate(zip(point, stored.strides, strict=True)):
            if c is not ZERO and not is_zero(stride):
                step = as_register(stored.step(builder, axis))
                address = builder.add(address, builder.mul(c.start, step))
        return address

    def load_from(self, stored: Memory, point: Point, element: ScalarType) -> Register:
        """Load from scratch at a point, as registers of a dtype."""
        builder, axis = self.builder(point), run_axis(point)
        address = self.address(stored, point)
        step = 0 if axis is None else times(builder, stored.step(builder, axis), point[axis].step)
        if is_zero(step):
            value = memory.load_one(builder, stored.element, address, None, None)
        elif step == stored.element.bytes:
            value = memory.load_row(builder, stored.element, address, self.count, None, None)
        else:
            lanes = self.spread(builder, address, step)
            value = memory.load_lanes(builder, stored.element, lanes, self.count, None, None)
        return self.frame.convert(builder, stored.element, element, value)

    def store_to(self, stored: Memory, point: Point, element: ScalarType, value: Register) -> None:
        """Write registers of a dtype to scratch at a point."""
        builder, axis = self.builder(point), run_axis(point)
        value = self.frame.convert(builder, element, stored.element, value)
        address = self.address(stored, point)
        if axis is None:
            memory.store_one(builder, stored.element, address, value, None)
            return
        stride = stored.strides[axis] * point[axis].step
        if stride == 1:
            memory.store_row(builder, stored.element, address, value, None)
        else:
            lanes = self.spread(builder, address, stride * stored.element.bytes)
            memory.store_lanes(builder, stored.element, lanes, value, None)

    def store_side_by_side(
        self, stored: Memory, point: Point, element: ScalarType, value: Register
    ) -> None:
        """Write a register to scratch from a point on, whatever its number of lanes."""
        address = self.address(Memory(stored.base, element, stored.strides[:-1]), point)
        memory.store_row(self.builder(point), element, address, value, None)

    def spread(self, builder: ir.IRBuilder, start: Register, step: Stride) -> Register:
        """Return the vector of i64 that begins at ``start`` and goes on by ``step``, int or i64."""
        row = r.splat(builder, start, self.count)
        offsets = r.iota(_I64_DTYPE, self.count)
        if isinstance(step, int):
            step = r.number(r.I64, step)
        return builder.add(row, builder.mul(offsets, r.splat(builder, step, self.count)))

    def load(self, operation: Operation, point: Point) -> Register:
        """Emit a LOAD at a point; return its registers."""
        pointer, *rest = operation.operands
        element = element_of(operation.result.type)
        builder, axis = self.builder(point), run_axis(point)
        mask = self.read(rest[0], point) if rest else None
        other = self.read(rest[1], point) if len(rest) > 1 else None
        if axis is None:
            address = self._redirected(operation, point, self.read(pointer, point))
            return memory.load_one(builder, element, address, mask, other)
        step = self.frame.analysis.step(pointer, axis, self.divisions)
        if step is None:
            addresses = self.read(pointer, point)
            return memory.load_lanes(builder, element, addresses, self.count, mask, other)
        if step == 0 and (mask is None or self.frame.analysis.step(rest[0], axis) == 0):
            alone = moved_to(point, axis, ZERO)
            address = self._redirected(operation, alone, self.read(pointer, alone))
            if mask is None:
                return memory.load_one(self.builder(point), element, address, None, None)
        start, found = self._row(pointer, point, axis, operation)
        if isinstance(found, int) and found == element.bytes:
            return memory.load_row(builder, element, start, self.count, mask, other)
        addresses = self.spread(builder, start, found)
        return memory.load_lanes(builder, element, addresses, self.count, mask, other)

    def _row(
        self, pointer: Value, point: Point, axis: int, load: Operation | None = None
    ) -> tuple[Register, Stride]:
        """Return the address of the first lane of a point, and the step in bytes from lane to lane.

        It is the address at index 0 of the run's axis, which does not change within a walk along it, plus a
        multiple of the step: one addition a run.
        """
        c = point[axis]
        origin = moved_to(point, axis, ORIGIN_RUN)
        start, step = self.linear(pointer, origin, axis)
        if load in self.copies:
            start, step = self._redirected_row(load, origin, start, step)
        builder = self.builder(point)
        if c.start is not ZERO.start:
            factor = r.number(r.I64, step) if isinstance(step, int) else step
            start = builder.add(start, builder.mul(c.start, factor))
        return start, times(builder, step, c.step)

    def _redirected(self, operation: Operation, point: Point, address: Register) -> Register:
        """Return the address from which to load: of the copy, if a store overwrites the original."""
        if operation not in self.copies:
            return address
        overlaps, copy = self.copies[operation]
        point = tuple(
            ZERO if n == 1 else c for n, c in zip(operation.result.shape, point, strict=True)
        )
        return self.builder(point).select(overlaps, self.address(copy, point), address)

    def _redirected_row(
        self, operation: Operation, point: Point, start: Register, step: Stride
    ) -> tuple[Register, Stride]:
        overlaps, copy = self.copies[operation]
        axis = run_axis(point)
        assert axis is not None
        dense = copy.strides[axis] * copy.element.bytes
        start = self._redirected(operation, point, start)
        if isinstance(step, int):
            if step == dense:
                return start, step
            step = r.number(r.I64, step)
        return start, self.builder(point).select(overlaps, r.number(r.I64, dense), step)

    def store(self, operation: Operation, point: Point) -> None:
        """Emit a STORE at a point."""
        pointer, value, *rest = operation.operands
        element = element_of(value.type)
        builder, axis = self.builder(point), run_axis(point)
        mask = self.read(rest[0], point) if rest else None
        register = self.read(value, point)
        if axis is None:
            memory.store_one(builder, element, self.read(pointer, point), register, mask)
            return
        step = self.frame.analysis.step(pointer, axis, self.divisions)
        if step is None:
            memory.store_lanes(builder, element, self.read(pointer, point), register, mask)
            return
        start, found = self._row(pointer, point, axis)
        if operation in self.streamed:
            memory.stream_row(builder, element, start, register)
        elif isinstance(found, int) and found == element.bytes:
            memory.store_row(builder, element, start, register, mask)
        else:
            addresses = self.spread(builder, start, found)
            memory.store_lanes(builder, element, addresses, register, mask)

    # ---- tiles read elsewhere

    def _gather(self, operation: Operation, point: Point) -> Register:
        source, index = operation.operands
        axis = operation.attributes["axis"]
        builder, stored = self.builder(point), self.frame.memory_of(source)
        picked = self.frame.convert(
            builder, element_of(index.type), _I64_DTYPE, self.read(index, point)
        )
        run = run_axis(point)
        bound = r.number(picked.type, source.shape[axis] - 1)
        zero = r.number(picked.type, 0)
        picked = builder.select(builder.icmp_signed("<", picked, zero), zero, picked)
        picked = builder.select(builder.icmp_signed(">", picked, bound), bound, picked)
        size = stored.element.bytes
        here = tuple(ZERO if a == axis else c for a, c in enumerate(point))
        address = self.address(stored, here)
        offset = builder.mul(picked, r.number(picked.type, stored.strides[axis] * size))
        if run is None:
            value = memory.load_one(
                builder, stored.element, builder.add(address, offset), None, None
            )
        else:
            step = 0 if run == axis else stored.strides[run] * size * point[run].step
            addresses = builder.add(self.spread(builder, address, step), offset)
            value = memory.load_lanes(builder, stored.element, addresses, self.count, None, None)
        return self.frame.convert(builder, stored.element, element_of(operation.result.type), value)

    def _linear_index(self, shape: Sequence[int], point: Point) -> Register:
        """Return the row-major index of a point; a vector if it has a run."""
        builder, run = self.builder(point), run_axis(point)
        total, steps = r.number(r.I64, 0), memory.dense_strides(tuple(shape))
        for c, stride in zip(point, steps, strict=True):
            total = builder.add(total, builder.mul(c.start, r.number(r.I64, stride)))
        if run is None:
            return total
        return self.spread(builder, total, steps[run] * point[run].step)

    def _pick(
        self, stored: Memory, shape: Sequence[int], index: Register, point: Point
    ) -> Register:
        """Return the elements at row-major indices, one per lane or one in all."""
        builder = self.builder(point)
        address, offset = builder.ptrtoint(stored.base, r.I64), r.number(index.type, 0)
        size = stored.element.bytes
        if stored.strides == memory.dense_strides(tuple(shape)):
            offset = builder.mul(index, r.number(index.type, size))
        else:
            for extent, dense, stride in zip(
                shape, memory.dense_strides(tuple(shape)), stored.strides, strict=True
            ):
                along = builder.udiv(index, r.number(index.type, dense))
                along = builder.urem(along, r.number(index.type, extent))
                step = builder.mul(along, r.number(index.type, stride * size))
                offset = builder.add(offset, step)
        if r.lanes_of(index.type) is None:
            return memory.load_one(
                builder, stored.element, builder.add(address, offset), None, None
            )
        addresses = builder.add(r.splat(builder, address, self.count), offset)
        return memory.load_lanes(builder, stored.element, addresses, self.count, None, None)

    def _reshaped(self, operation: Operation, point: Point) -> Register:
        (source,) = operation.operands
        stored = self.frame.memory_of(source)
        if stored.strides == memory.dense_strides(source.shape):
            shape = operation.result.shape
            view = Memory(stored.base, stored.element, memory.dense_strides(shape))
            return self.load_from(view, point, element_of(operation.result.type))
        row = self._row_of(source.shape, operation.result.shape, point)
        if row is not None:
            return self.load_from(stored, row, element_of(operation.result.type))
        index = self._linear_index(operation.result.shape, point)
        value = self._pick(stored, source.shape, index, point)
        return self.frame.convert(
            self.builder(point), stored.element, element_of(operation.result.type), value
        )

    def _row_of(
        self, shape: tuple[int, ...], target: tuple[int, ...], point: Point
    ) -> Point | None:
        """Return the point of a tile whose run is that of a point of a reshaped tile; ``None`` if it is in several rows."""
        axis = run_axis(point)
        crosses = any(extent % self.count for extent in (shape[-1], target[-1]))
        if axis is None or point[axis].step != 1 or axis != len(target) - 1 or crosses:
            return None
        builder, depth = self.builder(point), max(c.depth for c in point)
        index = self._linear_index(target, moved_to(point, axis, replace(point[axis], step=0)))
        found: list[Coordinate] = []
        for extent in reversed(shape):
            inner = builder.urem(index, r.number(r.I64, extent))
            found.append(Coordinate(inner, int(not found), depth))
            index = builder.udiv(index, r.number(r.I64, extent))
        return tuple(reversed(found))

    def _concatenated(self, operation: Operation, point: Point) -> Register:
        axis, builder = operation.attributes["axis"], self.builder(point)
        first, second = (self.frame.memory_of(operand) for operand in operation.operands)
        element, run = element_of(operation.result.type), run_axis(point)
        border = operation.operands[0].shape[axis]
        c = point[axis]
        moved = Coordinate(builder.sub(c.start, r.number(r.I64, border)), c.step, c.depth)
        there = moved_to(point, axis, moved)
        addresses = [self.address(first, point), self.address(second, there)]
        if run is None:
            inside = builder.icmp_signed("<", c.start, r.number(r.I64, border))
            address = builder.select(inside, *addresses)
            value = memory.load_one(builder, first.element, address, None, None)
        else:
            steps = [m.strides[run] * m.element.bytes * point[run].step for m in (first, second)]
            rows = [self.spread(builder, a, s) for a, s in zip(addresses, steps, strict=True)]
            index = self.spread(builder, c.start, c.step)
            inside = builder.icmp_signed("<", index, r.number(index.type, border))
            addresses = builder.select(inside, *rows)
            value = memory.load_lanes(builder, first.element, addresses, self.count, None, None)
        return self.frame.convert(builder, first.element, element, value)

    # ---- steps

    def linear(self, value: Value, point: Point, axis: int) -> tuple[Register, Stride]:
        """Return a regular value along the run of a point: its first lane, and the step between lanes.

        Args:
            value: A tile of integers or pointers that has a step along the axis.
            point: Its run lies on ``axis``.
            axis: Of the value's shape.

        Returns:
            A scalar of the value's register type, and an int or such a scalar (of pointers: in bytes).
        """
        key = (value, *((id(c.start), c.step) for c in point), axis, self.count)
        if key not in self._linear_memo:
            self._alive.append(point)
            self._linear_memo[key] = self._linear(value, point, axis)
        return self._linear_memo[key]

    def _linear(self, value: Value, point: Point, axis: int) -> tuple[Register, Stride]:
        step = self.frame.analysis.step(value, axis, self.divisions)
        if step == 0 or point[axis].step == 0:
            alone = moved_to(point, axis, ZERO) if step == 0 else point
            return self.read_short(value, alone), 0
        operation = value.owner
        assert operation is not None
        builder, code = self.builder(point), operation.code
        if operation in self.divisions:  # a remainder: quotients have no step
            start, found = self.linear(operation.operands[0], point, axis)
            return builder.sub(start, self._one_of(operation)), found
        if code is Code.ARANGE:
            start = builder.trunc(point[0].start, r.I32)
            begin = r.number(r.I32, operation.attributes["start"])
            return builder.add(start, begin), point[0].step
        if is_view(operation):
            source = self._source(operation, value, point)
            run = run_axis(source)
            assert run is not None
            return self.linear(operation.operands[0], source, run)
        parts = [self.linear(operand, point, axis) for operand in operation.operands]
        return combined(self.frame, builder, operation, parts)
