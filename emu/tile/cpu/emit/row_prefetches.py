"""Prefetches of the rows that a reduction or the next round of a loop reads.

A program that walks along a matrix in blocks of some rows and some columns reads a short stretch of one row, then
one of the next. The CPU's own prefetchers follow a row within its page, so they see each stretch
only once its first lines are asked for, and the loop waits for memory at the beginning of each. What comes next is known here.
"""

from __future__ import annotations

from llvmlite import ir

from emu.tile.cpu.emit import memory, next_rows
from emu.tile.cpu.emit.addressing import as_register
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import RUN
from emu.tile.cpu.emit.point_reader import (
    ORIGIN_RUN,
    ZERO,
    Coordinate,
    Point,
    PointReader,
    moved_to,
)
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import vector_axis
from emu.tile.cpu.plan.schedule import Group
from emu.tile.cpu.tuning import choices
from emu.tile.ir import Operation
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import element_of

_PICKED_AHEAD = 2
"""Rows that lie between one that indices pick and the one that is prefetched with it."""

_LONGEST = 4096
"""Bytes of the longest row that is prefetched: the CPU's prefetchers follow one that spans pages."""


class RowPrefetches:
    """Emitter of the prefetches of one group; it emits none where they would not pay.

    They pay in a loop of the program, for loads of neighbouring elements that are reduced along their rows. Behind
    the tile's last row they bring what the next program mostly reads; a prefetch never faults. And they pay where rows
    that indices pick are stored: no prefetcher of the CPU can know the next one.

    Args:
        frame: The function.
        group: The loop nest.
    """

    def __init__(self, frame: Frame, group: Group) -> None:
        self._frame = frame
        self._axis = vector_axis(group.shape)
        outer = [axis for axis in range(self._axis) if group.shape[axis] > 1]
        self._rows = outer[-1] if outer else -1
        self._loads: list[Operation] = []
        own = [] if group.is_serial else group.operations
        self._next = [o for o in own if o in frame.next_rows]
        copies = outer and any(o.code is Code.STORE for o in own)
        self._picked = [o for o in own if copies and self._is_picked(o, group)]
        if not outer or group.is_serial or not self._is_reduced_in_loop(group):
            return
        loads = [o for o in group.operations if o.code is Code.LOAD]
        self._loads = [o for o in loads if o.result.shape == group.shape and self._pays(o)]

    def _is_picked(self, load: Operation, group: Group) -> bool:
        """Return whether an operation loads rows that indices pick, so that nothing but the index says where the next one is."""
        if load.code is not Code.LOAD or load.result.shape != group.shape:
            return False
        analysis, pointer = self._frame.analysis, load.operands[0]
        size = element_of(load.result.type).bytes
        return (
            analysis.is_inline(pointer)
            and analysis.step(pointer, self._axis) == size
            and analysis.step(pointer, self._rows) is None
            and RUN * size < group.shape[self._axis] * size <= _LONGEST
        )

    def _is_reduced_in_loop(self, group: Group) -> bool:
        analysis = self._frame.analysis
        reductions = [o for o in group.operations if o.code is Code.REDUCE]
        if not any(o.attributes["axis"] == self._axis for o in reductions):
            return False
        around = analysis.owner_of.get(id(analysis.region_of[reductions[0]]))
        return around is not None and around.code in (Code.FOR, Code.WHILE)

    def _pays(self, load: Operation) -> bool:
        analysis, pointer = self._frame.analysis, load.operands[0]
        size = element_of(load.result.type).bytes
        return (
            analysis.is_inline(pointer)
            and analysis.step(pointer, self._axis) == size
            and analysis.step(pointer, self._rows) not in (None, 0)
            and RUN * size <= load.result.shape[self._axis] * size <= _LONGEST
        )

    def at(self, reader: PointReader, point: Point, count: int | None) -> None:
        """Emit the prefetches that belong to a point: none, unless it has a full run."""
        if count != RUN:
            return
        builder, here = reader.builder(point), point[self._axis].start
        for load in self._next:
            if load in reader.streamed:  # its lines do not come into the caches
                continue
            row = moved_to(point, self._axis, ORIGIN_RUN)
            start, _ = reader.linear(load.operands[0], row, self._axis)
            start = reader.builder(row).add(start, self._frame.next_rows[load])
            size = next_rows.size_of(load)
            self._bring(builder, start, here, size, to_write=load.code is Code.STORE)
        for load in self._picked:
            size = element_of(load.result.type).bytes
            row = moved_to(point, self._axis, ORIGIN_RUN)
            builder_of_row, index = reader.builder(row), point[self._rows]
            later = builder_of_row.add(index.start, r.number(r.I64, _PICKED_AHEAD))
            last = r.number(r.I64, load.result.shape[self._rows] - 1)
            inside = builder_of_row.icmp_unsigned("<", later, last)
            later = builder_of_row.select(inside, later, last)
            there = moved_to(row, self._rows, Coordinate(later, 0, index.depth))
            start, _ = reader.linear(load.operands[0], there, self._axis)
            self._bring(builder, start, here, size)
        for load in self._loads:
            size = element_of(load.result.type).bytes
            row = moved_to(point, self._axis, ORIGIN_RUN)
            start, _ = reader.linear(load.operands[0], row, self._axis)
            # Of the row's builder: the address does not change within a walk along it.
            start = reader.builder(row).add(start, self._distance(reader, load))
            self._bring(builder, start, here, size, level=choices().rows_level)

    @staticmethod
    def _bring(
        builder: ir.IRBuilder,
        start: Register,
        here: Register,
        size: int,
        to_write: bool = False,
        level: int = 1,
    ) -> None:
        """Emit the prefetches of a run of elements of some bytes, ``here`` elements behind the beginning of its row."""
        place = builder.add(start, builder.mul(here, r.number(r.I64, size)))
        for offset in range(0, RUN * size, memory.LINE):
            memory.prefetch(builder, builder.add(place, r.number(r.I64, offset)), to_write, level)

    def _distance(self, reader: PointReader, load: Operation) -> Register:
        """Return how many bytes lie between a row and the one to prefetch with it."""
        shape = load.result.shape
        length = shape[self._axis] * element_of(load.result.type).bytes
        rows = min(max(choices().rows_ahead // length, 1), shape[self._rows])
        along = moved_to((ZERO,) * len(shape), self._rows, ORIGIN_RUN)
        _, step = reader.linear(load.operands[0], along, self._rows)
        return reader.builder(along).mul(as_register(step), r.number(r.I64, rows))
