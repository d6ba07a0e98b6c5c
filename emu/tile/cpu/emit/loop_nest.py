"""Loop nests over the elements of a tile, a run of lanes at a time along one axis.

The vector axis is the last whose extent is not 1. It is walked in runs of 32 lanes, whatever the dtype
and the CPU: LLVM splits a run into the registers that there are. So the order in which a reduction combines
its elements is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from llvmlite import ir

from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.point_reader import ZERO, Coordinate, Point, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import Bound, vector_axis
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


class Ends(NamedTuple):
    """Where runs within a bound end.

    Attributes:
        whole: Of the runs all of whose lanes are within it (i64): a multiple of 32, from 0 to ``some``.
        some: Of the runs that have a lane within it, the first in any case (i64): a multiple of 32, from 32 to the extent.
        bound: It is true in all lanes before ``whole``.
    """

    whole: Register
    some: Register
    bound: Bound


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
        ends: Where runs with lanes within a bound end. Default: there is no bound.
    """

    def __init__(
        self,
        frame: Frame,
        shape: tuple[int, ...],
        reader: PointReader,
        single: bool = False,
        ends: Ends | None = None,
        before: Hook | None = None,
    ) -> None:
        self._ends = ends
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
                step = 1 if self._before is None else BLOCK
                loops.append(self._open(r.number(r.I64, 0), r.number(r.I64, extent), step))
                point[axis] = Coordinate(loops[-1].index, 0, len(loops))
        if self._axis < len(shape):
            begin(reader, tuple(point))
            if self._ends is not None and beyond is not None:
                self._walk_to_bound(body, point, self._ends, beyond)
            else:
                self._walk(body, point, len(loops))
            end(reader, tuple(point))
        elif self._before is not None:
            self._before(reader, tuple(point))
            self._each_of_block(body, loops[-1].index, len(loops))
        else:
            body(reader, tuple(point), None)
        for loop in reversed(loops):
            self._close(loop)
        self._frame.builder = reader.builders[0]

    def _each_of_block(self, body: Body, start: Register, depth: int) -> None:
        """Emit the elements of a block one after the other: their addresses differ by what an instruction adds for nothing."""
        for n in range(BLOCK):
            index = self._reader.builders[-1].add(start, r.number(r.I64, n))
            body(self._reader, (Coordinate(index, 0, depth),), None)

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
        ends: Ends,
        beyond: Callable[[PointReader, Point], Hook],
    ) -> None:
        """Walk in full runs as far as the bound, and then over the runs beyond it.

        Runs wholly within it need no mask of it: as on CPUs whose masked stores are slow. Behind them comes one that is partly
        within, or none; all of them, where the range may wrap.
        """
        reader, axis = self._reader, self._axis
        depth = len(reader.builders) - 1
        extent = r.number(r.I64, self._shape[axis])
        reader.count = RUN
        loop = self._open(r.number(r.I64, 0), ends.whole, RUN)
        point[axis] = Coordinate(loop.index, 1, depth + 1)
        reader.within = ends.bound.comparison, ends.bound.axis, loop.index
        body(reader, tuple(point), RUN)
        reader.within = None
        self._close(loop, guarded=True)
        loop = self._open(ends.whole, ends.some, RUN)
        point[axis] = Coordinate(loop.index, 1, depth + 1)
        body(reader, tuple(point), RUN)
        self._close(loop, guarded=True)
        # Of this depth, so that what the lanes beyond have in common is computed once, before their loop.
        last = Coordinate(r.number(r.I64, self._shape[axis] - 1), 0, depth)
        point[axis] = last
        work = beyond(reader, tuple(point))
        loop = self._open(ends.some, extent, RUN)
        point[axis] = Coordinate(loop.index, 1, depth + 1)
        work(reader, tuple(point))
        self._close(loop, guarded=True)
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
        """Begin a loop from ``start`` to before ``end`` (i64)."""
        builders = self._reader.builders
        before = builders[-1]
        block = self._frame.block("loop")
        builder = ir.IRBuilder(block)
        index = builder.phi(r.I64)
        builders.append(builder)
        return _Loop(index, block, before, start, end, step)

    def _close(self, loop: _Loop, guarded: bool = False) -> None:
        """End a loop; enter it only now, so that loop-invariant code can be emitted before it.

        It runs at least once, unless it is ``guarded``: then not at all where there is nothing to walk over.
        """
        builders = self._reader.builders
        builder = builders.pop()
        after = self._frame.block("after")
        following = builder.add(loop.index, r.number(r.I64, loop.step))
        more = builder.icmp_signed("<", following, loop.end)
        builder.cbranch(more, loop.body, after)
        loop.index.add_incoming(loop.start, loop.before.block)
        loop.index.add_incoming(following, builder.block)
        if guarded:
            some = loop.before.icmp_signed("<", loop.start, loop.end)
            loop.before.cbranch(some, loop.body, after)
        else:
            loop.before.branch(loop.body)
        loop.before.position_at_end(after)
        builders[-1] = loop.before
