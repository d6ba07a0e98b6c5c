"""Loads of a loop that a store of the same loop may overwrite: what decides it when the kernel runs.

Of each pointer tile the span of addresses is known before the loop: the corners of a regular tile tell it, and of a
tile of rows (a range of columns in rows that are picked by indices) a loop over the beginnings of the rows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from emu.tile.cpu.emit.assumptions import emit_steps, extended
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import LoopNest
from emu.tile.cpu.emit.point_reader import ZERO, Point, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import vector_axis
from emu.tile.cpu.plan.schedule import Group
from emu.tile.ir import Operation, Value
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import Pointer, element_of


class _Span(NamedTuple):
    """The addresses of a pointer tile, i64.

    Attributes:
        low: The least.
        high: What follows the greatest byte.
        start: Address of the element at the origin.
        steps: Of a regular tile along the axes on which it moves; ``None`` of a tile of rows.
        size: Bytes of an element.
    """

    low: Register
    high: Register
    start: Register
    steps: list[Register] | None
    size: int


class Overlaps:
    """Emitter of the question whether the stores of a group overwrite what its loads have still to read.

    Args:
        frame: The function; the code goes to its builder.
        group: The loads and stores.
        own: Operations whose values the group's loop computes.
    """

    def __init__(self, frame: Frame, group: Group, own: Collection[Operation]) -> None:
        self._frame = frame
        self._group = group
        self._own = own
        self._spans: dict[Value, _Span] = {}

    def emit(self) -> dict[Operation, Register]:
        """Emit an i1 for each load that a later store may overwrite: whether one does."""
        found: dict[Operation, Register] = {}
        loads: list[Operation] = []
        for operation in self._group.operations:
            if operation.code is Code.LOAD:
                loads.append(operation)
            if operation.code is not Code.STORE:
                continue
            for load in loads:
                clash = self._clash(load.operands[0], operation.operands[0])
                if clash is not None:
                    known = found.get(load)
                    found[load] = clash if known is None else self._frame.builder.or_(known, clash)
        return found

    def _clash(self, loaded: Value, stored: Value) -> Register | None:
        """Return an i1: whether a store overwrites what another lane loads; ``None``: it never does."""
        if loaded is stored:
            return None if self._moves(loaded) else r.number(r.BIT, 1)
        one, other = self._span(loaded), self._span(stored)
        builder = self._frame.builder
        below = builder.icmp_unsigned("<", one.low, other.high)
        above = builder.icmp_unsigned("<", other.low, one.high)
        overlap = builder.and_(below, above)
        if one.steps is None or other.steps is None or one.size != other.size:
            return overlap
        if not (self._moves(loaded) and self._moves(stored)):
            return overlap
        same = builder.icmp_unsigned("==", one.start, other.start)
        for step, other_step in zip(one.steps, other.steps, strict=True):
            same = builder.and_(same, builder.icmp_unsigned("==", step, other_step))
        return builder.and_(overlap, builder.not_(same))

    def _moves(self, pointer: Value) -> bool:
        """Return whether a tile is regular and moves along all axes: one of rows may hold the same row twice."""
        analysis = self._frame.analysis
        return analysis.is_regular(pointer) and all(
            extent == 1 or analysis.step(pointer, axis) != 0
            for axis, extent in enumerate(pointer.shape)
        )

    def _span(self, pointer: Value) -> _Span:
        if pointer not in self._spans:
            is_regular = self._frame.analysis.is_regular(pointer)
            find = self._span_of_corners if is_regular else self._span_of_rows
            self._spans[pointer] = find(pointer)
        return self._spans[pointer]

    def _span_of_corners(self, pointer: Value) -> _Span:
        frame, builder = self._frame, self._frame.builder
        reader = PointReader(frame, [builder], self._own)
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        size = element.element.bytes
        start = reader.read_short(pointer, (ZERO,) * len(pointer.shape))
        steps = emit_steps(frame, reader, pointer, element)
        end = builder.add(start, r.number(r.I64, size))
        low, high = extended(builder, (start, end), steps)
        return _Span(low, high, start, [step for step, _ in steps], size)

    def _span_of_rows(self, pointer: Value) -> _Span:
        frame, axis = self._frame, vector_axis(pointer.shape)
        element, step = element_of(pointer.type), frame.analysis.step(pointer, axis)
        assert isinstance(element, Pointer)
        assert isinstance(step, int)
        along, size = step * (pointer.shape[axis] - 1), element.element.bytes
        low, high = frame.variable(r.I64), frame.variable(r.I64)
        frame.builder.store(r.number(r.I64, -1), low)
        frame.builder.store(r.number(r.I64, 0), high)

        def body(reader: PointReader, point: Point, count: int | None) -> None:
            builder = reader.builder(point)
            starts = reader.read_short(pointer, point)
            for word, variable in (("min", low), ("max", high)):
                found = starts
                if r.lanes_of(starts.type) is not None:
                    name = f"llvm.vector.reduce.u{word}.{r.mangle(starts.type)}"
                    found = builder.call(r.declare(builder, name, r.I64, [starts.type]), [starts])
                known = builder.load(variable, typ=r.I64)
                found = r.intrinsic(builder, f"u{word}", [known, found])
                builder.store(found, variable)

        rows = (*pointer.shape[:axis], 1, *pointer.shape[axis + 1 :])
        LoopNest(frame, rows, PointReader(frame, [], self._own)).emit(body)
        builder = frame.builder
        first = builder.load(low, typ=r.I64)
        last = builder.load(high, typ=r.I64)
        least = builder.add(first, r.number(r.I64, min(along, 0)))
        greatest = builder.add(last, r.number(r.I64, max(along, 0) + size))
        return _Span(least, greatest, first, None, size)
