"""One fused loop: loads, arithmetic, stores and reductions over tiles of one shape.

A loop whose masks are bounds (``offsets < n``) is emitted twice. At run time, a few scalar instructions test
whether the block lies wholly inside. If so, the version without masks runs; in it, ``offsets // n``
is known to be one number, so that loads at ``offsets % n`` are contiguous.

A store may overlap what a load of the same loop has still to read, as in ``store(p + 1, load(p))``. Aliasing depends
on runtime pointers, so it is checked at run time; if they overlap, the load's tile is copied first and read from the
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu.emit import streaming
from emu.tile.cpu.emit.addressing import alternating, as_register
from emu.tile.cpu.emit.asserting import FailedLanes
from emu.tile.cpu.emit.assumptions import Assumptions
from emu.tile.cpu.emit.atomic import emit_atomic
from emu.tile.cpu.emit.bounds import TailAnalysis, candidates, emit_ends
from emu.tile.cpu.emit.combining import Reduction
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.lone_updates import LoneUpdates, can_be_alone, emit_prefetches
from emu.tile.cpu.emit.loop_nest import RUN, LoopNest
from emu.tile.cpu.emit.memory import Memory, Stride, dense_strides
from emu.tile.cpu.emit.overlaps import Overlaps
from emu.tile.cpu.emit.point_reader import (
    ORIGIN_RUN,
    ZERO,
    Point,
    PointReader,
    moved_to,
    run_axis,
)
from emu.tile.cpu.emit.row_prefetches import RowPrefetches
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import Bound, Step, is_view, vector_axis
from emu.tile.cpu.plan.reuse import may_take_over
from emu.tile.cpu.plan.schedule import Group, Schedule
from emu.tile.ir import Operation, Value
from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.ops import Code
from emu.tile.types import BF16, F16, F32, ScalarType, Tile, element_of

_NARROW = frozenset({F16, BF16})


class GroupEmitter:
    """Emitter of one group, of a schedule or by itself."""

    def __init__(self, frame: Frame, group: Group, schedule: Schedule | None = None) -> None:
        self._frame = frame
        self._group = group
        self._schedule = schedule
        self._alone: dict[str, bool] = {}  # how atomic operations are emitted
        kept = [v.owner for v in group.materialized if v.owner is not None]
        self._own = {*group.operations, *kept}
        self._axis = vector_axis(group.shape)
        self._reductions: list[Reduction] = []
        self._failed: dict[Operation, IrPointer] = {}
        self._copies: dict[Operation, tuple[Register, Memory]] = {}
        self._prefetches = RowPrefetches(frame, group)
        self._streamed: frozenset[Operation] = frozenset()

    def emit(self) -> None:
        """Emit the loop, in two versions if it has assumptions."""
        self._make_memory()
        self._find_overlaps()
        assumed = Assumptions(self._frame, self._group, self._own)
        holds = assumed.emit_holds()
        bound = self._find_bound(assumed.masks)
        if holds is None and self._can_be_alone():
            self._update_alone()
        elif holds is None:
            self._inside(assumed, bound)
        else:
            frame = self._frame
            inside, edge, after = frame.block("inside"), frame.block("edge"), frame.block("after")
            frame.builder.cbranch(holds, inside, edge)
            frame.start_block(inside)
            self._inside(assumed, None)
            frame.builder.branch(after)
            frame.start_block(edge)
            self._nest((), (), bound)
            frame.builder.branch(after)
            frame.start_block(after)
        for reduction in self._reductions:
            reduction.finish()

    def _inside(self, assumed: Assumptions, bound: Bound | None) -> None:
        """Emit the loop for where the assumptions hold: in two versions if its stores may go past the caches."""
        masks, divisions = assumed.masks, assumed.divisions
        stores = [] if bound is not None else streaming.find(self._frame, self._group, assumed)
        if not stores:
            self._nest(masks, divisions, bound)
            return
        frame = self._frame
        reader = PointReader(frame, [frame.builder], self._own, masks, divisions)
        worth = streaming.emit_worth(frame, self._group, stores, reader)
        frame.streams = True
        streamed, plain, after = (frame.block(name) for name in ("streamed", "plain", "after"))
        frame.builder.cbranch(worth, streamed, plain)
        for block, chosen in ((streamed, stores), (plain, [])):
            frame.start_block(block)
            self._streamed = frozenset(chosen)
            self._nest(masks, divisions, None)
            frame.builder.branch(after)
        frame.start_block(after)

    def _can_be_alone(self) -> bool:
        """Return whether this is an atomic operation that is worth doing without locks."""
        waits = any(o.code is Code.WHILE for o in self._frame.analysis.region_of)
        return self._group.is_serial and not waits and can_be_alone(self._group.operations[0])

    def _update_alone(self) -> None:
        def alone(masked: bool) -> None:
            self._alone = {"alone": True, "masked": masked}
            self._nest((), (), None)
            self._alone = {}

        lone = LoneUpdates(self._frame, self._group.operations[0])
        lone.emit(alone, lambda: self._nest((), (), None))

    def update_alone(self, assumed: Assumptions) -> None:
        """Emit the loop of an atomic operation and its operands for a thread that is alone, where the assumptions hold."""
        self._alone = {"alone": True, "masked": False}
        self._nest(assumed.masks, assumed.divisions, None)

    def failures(self) -> dict[Operation, FailedLanes]:
        """Return the variables that say whether and where each ASSERT of the group failed."""
        return self._failed

    # ---- loads in place

    def steps_in_place(self) -> list[Step] | None:
        """Return the steps of the group's load along each axis, if bounds and divisions that are checked at run time hold.

        ``None`` if it is not regular, or may have lanes that are off all the same.
        """
        (load,) = self._group.operations
        assumed = Assumptions(self._frame, self._group, self._own)
        pointer, divided = load.operands[0], frozenset(assumed.divisions)
        analysis = self._frame.analysis
        if not analysis.is_regular(pointer, divided):
            return None
        if not all(map(assumed.make_true, load.operands[1:2])):
            return None
        return [analysis.step(pointer, axis, divided) for axis in range(len(pointer.shape))]

    def found(self) -> tuple[Memory, Register | None]:
        """Return the memory that the group's load reads if an i1 is true; ``None``: it always does."""
        (load,) = self._group.operations
        assumed = Assumptions(self._frame, self._group, self._own)
        there = self._there(load, assumed.masks, assumed.divisions)
        return there, assumed.emit_holds()

    def place(self) -> Register | None:
        """Bind the result of the group's load to the memory that it reads; to a copy where a bound does not hold.

        Returns:
            An i1 that says whether it is that memory; ``None``: it always is.
        """
        (load,) = self._group.operations
        frame, value = self._frame, load.result
        masks = Assumptions(frame, self._group, self._own).masks
        there, holds = self.found()
        if holds is None:
            frame.memories[value] = there
            return None
        copy, after = frame.block("copy"), frame.block("after")
        before = frame.builder.block
        frame.builder.cbranch(holds, after, copy)
        frame.start_block(copy)
        here = frame.new_memory(value.shape, there.element, value)
        frame.memories[value] = here
        self._group.materialized.append(value)
        self._nest((), (), self._find_bound(masks))
        end = frame.builder.block
        frame.builder.branch(after)
        frame.start_block(after)

        def either(one: Register, other: Register, type_: IrType) -> Register:
            chosen = frame.builder.phi(type_)
            chosen.add_incoming(one, before)
            chosen.add_incoming(other, end)
            return chosen

        base = either(there.base, here.base, ir.PointerType())
        strides: list[Stride] = []
        for stride, other in zip(there.strides, here.strides, strict=True):
            if isinstance(stride, int) and stride == other:
                strides.append(stride)
            else:
                strides.append(either(as_register(stride), as_register(other), r.I64))
        frame.memories[value] = Memory(base, there.element, tuple(strides))
        return holds

    def _there(
        self, load: Operation, masks: Sequence[Operation], divisions: Sequence[Operation]
    ) -> Memory:
        """Return the memory that a load reads, if bounds hold and divisions change nothing."""
        frame, builder = self._frame, self._frame.builder
        reader = PointReader(frame, [builder], self._own, masks, divisions)
        pointer, element = load.operands[0], element_of(load.result.type)
        origin = (ZERO,) * len(pointer.shape)
        start = reader.read_short(pointer, origin)
        strides: list[Stride] = []
        for axis in range(len(pointer.shape)):
            _, step = reader.linear(pointer, moved_to(origin, axis, ORIGIN_RUN), axis)
            if isinstance(step, int) and step % element.bytes == 0:
                strides.append(step // element.bytes)
            else:
                step = r.number(r.I64, step) if isinstance(step, int) else step
                size = r.number(r.I64, element.bytes)
                strides.append(builder.sdiv(step, size, flags=["exact"]))
        return Memory(builder.inttoptr(start, ir.PointerType()), element, tuple(strides))

    # ---- preparation

    def _make_memory(self) -> None:
        frame = self._frame
        for value in self._group.materialized:
            element = self._stored_element(value)
            if self._schedule is not None:
                read = [old for operation in self._group.operations for old in operation.operands]
                take_over(frame, self._schedule, value, element, read)
            frame.remember(value, element)
        for operation in self._group.operations:
            code = operation.code
            if code in (*ops.ATOMIC, Code.REDUCE, Code.JOIN):
                for result in operation.results:
                    unread = code in ops.ATOMIC and not frame.analysis.users[result]
                    if isinstance(result.type, Tile) and not unread:
                        self._remember(result)
            if code is Code.REDUCE:
                self._reductions.append(Reduction(frame, operation, self._axis))
            if code is Code.ASSERT:
                self._failed[operation] = FailedLanes(frame, operation)

    def _remember(self, result: Value) -> None:
        """Allocate a result; of a JOIN that is read with its pairs turned outwards, in that order of axes."""
        frame, rank = self._frame, len(result.shape)
        is_new = result not in frame.memories
        stored = frame.remember(result)
        users = frame.analysis.users[result]
        turned = (*range(rank - 2), rank - 1, rank - 2)
        owner = result.owner
        if owner is None or owner.code is not Code.JOIN or rank < 2 or not users or not is_new:
            return
        if all(u.code is Code.PERMUTE and u.attributes["order"] == turned for u in users):
            strides = dense_strides(tuple(result.shape[axis] for axis in turned))
            strides = tuple(strides[axis] for axis in turned)
            frame.memories[result] = Memory(stored.base, stored.element, strides)

    def _stored_element(self, value: Value) -> ScalarType:
        """Return the dtype of a value in memory: operands of products alone are widened once."""
        element = element_of(value.type)
        if element not in _NARROW:
            return element
        users = list(self._frame.analysis.users[value])
        while users:
            user = users.pop()
            if is_view(user):
                users += [u for result in user.results for u in self._frame.analysis.users[result]]
            elif user not in self._own and user.code is not Code.DOT:
                return element
        return F32

    # ---- loads that a store of the same loop may overwrite

    def _find_overlaps(self) -> None:
        frame = self._frame
        if frame.options.disjoint:
            return
        for load, clash in Overlaps(frame, self._group, self._own).emit().items():
            copy = frame.new_memory(load.result.shape, element_of(load.result.type), load.result)
            with frame.when(clash):
                self._copy(load, copy)
            self._copies[load] = (clash, copy)

    def _copy(self, load: Operation, copy: Memory) -> None:
        reader = PointReader(self._frame, [], self._own)
        element = element_of(load.result.type)

        def body(reader: PointReader, point: Point, count: int | None) -> None:
            reader.store_to(copy, point, element, reader.read(load.result, point))

        LoopNest(self._frame, self._group.shape, reader).emit(body)

    # ---- bounds

    def _find_bound(self, masks: Sequence[Operation]) -> Bound | None:
        """Return a bound beyond which one lane can be computed for all; ``None`` if there is none."""
        group, extent = self._group, self._group.shape[self._axis]
        if group.is_serial or extent % RUN or extent < 2 * RUN:
            return None
        read = [operand for operation in group.operations for operand in operation.operands]
        for bound in candidates(self._frame, masks, read):
            beyond = TailAnalysis(self._frame, bound, self._own)
            if all(self._ends_with(beyond, operation) for operation in group.operations) and all(
                beyond.is_uniform(value, self._axis) for value in group.materialized
            ):
                for value in group.materialized:
                    self._frame.beyond.setdefault(value, set()).add(bound)
                return bound
        return None

    def _ends_with(self, beyond: TailAnalysis, operation: Operation) -> bool:
        """Return whether an operation does nothing of its own in a lane beyond a bound."""
        code = operation.code
        if code is Code.STORE:
            mask = operation.operands[2:]
            return bool(mask) and beyond.is_off(mask[0], self._axis)
        if code is Code.REDUCE:
            reduction = next(one for one in self._reductions if one.operation is operation)
            return reduction.in_registers and all(
                beyond.is_uniform(value, self._axis) for value in operation.operands
            )
        return code not in (Code.JOIN, Code.ASSERT)

    # ---- the loop

    def _beyond(self, reader: PointReader, last: Point) -> Callable[[PointReader, Point], None]:
        """Emit the value that the lanes beyond the bound share; return a function that emits the work on a run of them."""
        builder = reader.builders[-1]
        reduced = [reduction.uniform(reader, last) for reduction in self._reductions]
        kept = [
            r.splat(builder, reader.read_short(value, last), RUN)
            for value in self._group.materialized
        ]

        def work(reader: PointReader, point: Point) -> None:
            for reduction, values in zip(self._reductions, reduced, strict=True):
                reduction.repeat(reader, point, values)
            for value, register in zip(self._group.materialized, kept, strict=True):
                stored = self._frame.memories[value]
                reader.store_to(stored, point, element_of(value.type), register)

        return work

    def _nest(
        self,
        masks: Sequence[Operation],
        divisions: Sequence[Operation],
        bound: Bound | None,
    ) -> None:
        group = self._group
        reader = PointReader(self._frame, [], self._own, masks, divisions)
        reader.copies = self._copies
        reader.streamed = self._streamed

        def begin(reader: PointReader, point: Point) -> None:
            for reduction in self._reductions:
                reduction.begin(reader, point)

        def end(reader: PointReader, point: Point) -> None:
            for reduction in self._reductions:
                reduction.end(reader, point)

        ends = None
        if bound is not None:
            ends = emit_ends(self._frame, bound, group.shape[self._axis])
        ahead = None
        if self._alone.get("masked") is False:
            ahead = emit_prefetches(self._frame, group.operations[-1])
        nest = LoopNest(self._frame, group.shape, reader, group.is_serial, ends, ahead)
        nest.emit(self._body, begin, end, self._beyond)

    def _body(self, reader: PointReader, point: Point, count: int | None) -> None:
        reductions = iter(self._reductions)
        function = self._frame.function
        before = function.location
        for operation in self._group.operations:
            code = operation.code
            function.locate(operation.location)
            if code is Code.STORE:
                reader.store(operation, point)
            elif code is Code.REDUCE:
                next(reductions).at(reader, point, count)
            elif code is Code.JOIN:
                self._join(reader, operation, point)
            elif code is Code.ASSERT:
                self._failed[operation].at(reader, point)
            elif code in ops.ATOMIC:
                emit_atomic(self._frame, reader, operation, point, **self._alone)
            else:  # in program order, so that a long chain is no deep recursion
                reader.read_short(operation.result, point)
        function.location = before
        self._prefetches.at(reader, point, count)
        for value in self._group.materialized:
            register = reader.read(value, point)
            reader.store_to(self._frame.memories[value], point, element_of(value.type), register)

    def _join(self, reader: PointReader, operation: Operation, point: Point) -> None:
        stored = self._frame.memories[operation.result]
        element, axis = element_of(operation.result.type), run_axis(point)
        values = [reader.read(operand, point) for operand in operation.operands]
        if (
            axis is not None
            and (point[axis].step, stored.strides[axis], stored.strides[-1]) == (1, 2, 1)
            and stored.element == element
        ):
            pairs = alternating(reader.builder(point), *values)
            reader.store_side_by_side(stored, point, element, pairs)
            return
        for which, value in enumerate(values):
            offset = r.number(r.I64, which * stored.strides[-1] * stored.element.bytes)
            base = self._frame.entry.gep(stored.base, [offset], source_etype=r.BYTE)
            half = Memory(base, stored.element, stored.strides[:-1])
            reader.store_to(half, point, element, value)


def take_over(
    frame: Frame, schedule: Schedule, value: Value, element: ScalarType, read: Sequence[Value]
) -> None:
    """Let a value lie where one of those lay that are read for the last time: less memory stays in the cache."""
    if value in frame.memories:
        return
    for old in read:
        stored = frame.memories.get(old)
        if (
            stored is not None
            and old.shape == value.shape
            and stored.element == element
            and frame.owns_memory(old)
            and may_take_over(frame.analysis, schedule, value, old)
        ):
            frame.memories[value] = stored
            frame.hand_over(old, value)
            return


def copy_tile(frame: Frame, value: Value, target: Memory) -> None:
    """Write a value to memory, wherever it comes from."""

    def body(reader: PointReader, point: Point, count: int | None) -> None:
        reader.store_to(target, point, element_of(value.type), reader.read(value, point))

    LoopNest(frame, value.shape, PointReader(frame, [])).emit(body)


def fill(builder: ir.IRBuilder, target: IrPointer, count: int) -> None:
    """Set bytes to zero."""
    name = "llvm.memset.p0.i64"
    kinds = (ir.PointerType(), r.BYTE, r.I64, r.BIT)
    function = r.declare(builder, name, ir.VoidType(), kinds)
    builder.call(
        function, [target, r.number(r.BYTE, 0), r.number(r.I64, count), r.number(r.BIT, 0)]
    )


def copy_bytes(builder: ir.IRBuilder, target: IrPointer, source: IrPointer, count: int) -> None:
    """Copy bytes that do not overlap."""
    kinds = (ir.PointerType(), ir.PointerType(), r.I64, r.BIT)
    function = r.declare(builder, "llvm.memcpy.p0.p0.i64", ir.VoidType(), kinds)
    builder.call(function, [target, source, r.number(r.I64, count), r.number(r.BIT, 0)])
