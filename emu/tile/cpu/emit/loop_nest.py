"""Loop nests over the elements of a tile, a run of lanes at a time along one axis.

The vector axis is the last whose extent is not 1. It is walked in runs of 32 lanes, whatever the dtype
and the CPU: LLVM splits a run into the registers that there are. So the order in which a reduction combines
its elements is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.point_reader import ZERO, Coordinate, Point, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import vector_axis
from emu.tile.llvm import Register

RUN = 32
"""Lanes of a full run. The bits of sums depend on it: another number is another order of addition."""

BLOCK = 16
"""Elements between two calls of ``before``: a cache line of fp32."""


@dataclass(slots=True)
class _Loop:
    index: Register
    body: ir.Block
    before: ir.IRBuilder
    start: Register
    end: Register
    step: int


Body = Callable[[PointReader, Point, int | None], None]
Hook = Callable[[PointReader, Point], None]


def _nothing(reader: PointReader, point: Point) -> None:
    pass


class LoopNest:
    """Emitter of one loop nest at the frame's builder, which it leaves behind the nest.

    Args:
        frame: The function.
        shape: What to loop over.
        reader: Reads values; its builders are set here.
        single: One element at a time, no runs.
        before: With ``single``, of one axis whose extent is a multiple of 16: called before each 16 elements, at the
            first.
        end: Where full runs with lanes within a bound end (i64, see ``bounds``). Default: they all are.
    """

    def __init__(
        self,
        frame: Frame,
        shape: tuple[int, ...],
        reader: PointReader,
        single: bool = False,
        end: Register | None = None,
        before: Hook | None = None,
    ) -> None:
        self._end = end
        self._before = before
        self._frame = frame
        self._shape = shape
        self._reader = reader
        self._axis = len(shape) if single else vector_axis(shape)

    def emit(
        self,
        body: Body,
        begin: Hook = _nothing,
        end: Hook = _nothing,
        beyond: Callable[[PointReader, Point], Hook] | None = None,
    ) -> None:
        """Emit the nest.

        Args:
            body: Emits what is done at a point; the last argument is the number of lanes (``None``: the
                point has no run).
            begin: Emits what is done before each walk along the vector axis.
            end: Emits what is done after it.
            beyond: Emits, given the point of the last lane, what all lanes beyond the bound have in common,
                and returns what emits the work on a run of them.
        """
        reader, shape = self._reader, self._shape
        # In place, since the reader looks them up by depth: what depends on no inner loop is emitted outside of it.
        reader.builders[:] = [self._frame.builder]
        loops: list[_Loop] = []
        point: list[Coordinate] = [ZERO] * len(shape)
        for axis, extent in enumerate(shape):
            if axis != self._axis and extent > 1:
                start, stop = r.number(r.I64, 0), r.number(r.I64, extent)
                if self._before is not None:
                    loops.append(self._open(start, stop, BLOCK))
                    start = loops[-1].index
                    self._before(reader, (Coordinate(start, 0, 1),))
                    stop = reader.builders[-1].add(start, r.number(r.I64, BLOCK))
                loops.append(self._open(start, stop, 1))
                point[axis] = Coordinate(loops[-1].index, 0, len(loops))
        if self._axis < len(shape):
            begin(reader, tuple(point))
            if self._end is not None and beyond is not None:
                self._walk_to_bound(body, point, len(loops), beyond)
            else:
                self._walk(body, point, len(loops))
            end(reader, tuple(point))
        else:
            body(reader, tuple(point), None)
        for loop in reversed(loops):
            self._close(loop)
        self._frame.builder = reader.builders[0]

    def _walk(self, body: Body, point: list[Coordinate], depth: int) -> None:
        """Walk along the vector axis: full runs in a loop, then the rest."""
        reader, extent = self._reader, self._shape[self._axis]
        runs, rest = divmod(extent, RUN)
        if runs > 1:
            loop = self._open(r.number(r.I64, 0), r.number(r.I64, runs * RUN), RUN)
            point[self._axis] = Coordinate(loop.index, 1, depth + 1)
            reader.count = RUN
            body(reader, tuple(point), RUN)
            self._close(loop)
        elif runs == 1:
            self._run_at(body, point, 0, RUN, depth)
        if rest:
            self._run_at(body, point, runs * RUN, rest, depth)
        point[self._axis] = ZERO

    def _walk_to_bound(
        self,
        body: Body,
        point: list[Coordinate],
        depth: int,
        beyond: Callable[[PointReader, Point], Hook],
    ) -> None:
        """Walk in full runs as far as the bound, and then over the runs beyond it."""
        reader, axis = self._reader, self._axis
        extent = r.number(r.I64, self._shape[axis])
        reader.count = RUN
        loop = self._open(r.number(r.I64, 0), self._end, RUN)
        point[axis] = Coordinate(loop.index, 1, depth + 1)
        body(reader, tuple(point), RUN)
        self._close(loop)
        # Of this depth, so that what the lanes beyond have in common is computed once, before their loop.
        last = Coordinate(r.number(r.I64, self._shape[axis] - 1), 0, depth)
        point[axis] = last
        work = beyond(reader, tuple(point))
        # A loop runs at least once: where the bound is the extent, this one must be jumped over.
        before = reader.builders[-1]
        inside, after = self._frame.block("beyond"), self._frame.block("after")
        before.cbranch(before.icmp_signed("<", self._end, extent), inside, after)
        before.position_at_end(inside)
        loop = self._open(self._end, extent, RUN)
        point[axis] = Coordinate(loop.index, 1, depth + 1)
        work(reader, tuple(point))
        self._close(loop)
        before.branch(after)
        before.position_at_end(after)
        point[axis] = ZERO

    def _run_at(
        self, body: Body, point: list[Coordinate], start: int, count: int, depth: int
    ) -> None:
        alone = self._shape[self._axis] == 1
        begin = r.number(r.I64, start)
        point[self._axis] = ZERO if alone else Coordinate(begin, int(count > 1), depth)
        self._reader.count = count
        body(self._reader, tuple(point), None if count == 1 else count)

    def _open(self, start: Register, end: Register, step: int) -> _Loop:
        """Begin a loop from ``start`` to before ``end`` (i64); ``end`` must be greater."""
        builders = self._reader.builders
        before = builders[-1]
        block = self._frame.block("loop")
        builder = ir.IRBuilder(block)
        index = builder.phi(r.I64)
        builders.append(builder)
        return _Loop(index, block, before, start, end, step)

    def _close(self, loop: _Loop) -> None:
        """End a loop; enter it only now, so that loop-invariant code can be emitted before it."""
        builders = self._reader.builders
        builder = builders.pop()
        after = self._frame.block("after")
        following = builder.add(loop.index, r.number(r.I64, loop.step))
        more = builder.icmp_signed("<", following, loop.end)
        builder.cbranch(more, loop.body, after)
        loop.index.add_incoming(loop.start, loop.before.block)
        loop.index.add_incoming(following, builder.block)
        loop.before.branch(loop.body)
        loop.before.position_at_end(after)
        builders[-1] = loop.before
