"""One fused loop: loads, arithmetic, stores and reductions over tiles of one shape.

A loop whose masks are bounds (``offsets < n``) is emitted twice. At run time, a few scalar instructions test
whether the block lies wholly inside. If so, the version without masks runs; in it, a remainder like
``offsets % n`` is known to change nothing, so that its loads are contiguous.

A store may overlap what a load of the same loop has still to read, as in ``store(p + 1, load(p))``. Aliasing depends
on runtime pointers, so it is checked at run time; if they overlap, the load's tile is copied first and read from the
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu.emit.asserting import FailedLanes
from emu.tile.cpu.emit.atomic import emit_atomic
from emu.tile.cpu.emit.bounds import TailAnalysis, candidates, emit_end
from emu.tile.cpu.emit.combining import Reduction
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import RUN, LoopNest, vector_axis
from emu.tile.cpu.emit.memory import Memory, Stride
from emu.tile.cpu.emit.point_reader import (
    ORIGIN_RUN,
    ZERO,
    Point,
    PointReader,
    moved_to,
)
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import Bound, Step, is_view
from emu.tile.cpu.plan.reuse import may_take_over
from emu.tile.cpu.plan.schedule import Group, Schedule
from emu.tile.ir import Operation, Value
from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.ops import Code
from emu.tile.types import BF16, DTYPES, F16, F32, DType, Pointer, ScalarType, Tile, element_of

_NARROW = frozenset({F16, BF16})
_I64 = DTYPES["i64"]


class GroupEmitter:
    """Emitter of one group, of a schedule or by itself."""

    def __init__(self, frame: Frame, group: Group, schedule: Schedule | None = None) -> None:
        self._frame = frame
        self._group = group
        self._schedule = schedule
        kept = [v.owner for v in group.materialized if v.owner is not None]
        self._own = {*group.operations, *kept}
        self._axis = vector_axis(group.shape)
        self._reductions: list[Reduction] = []
        self._failed: dict[Operation, IrPointer] = {}
        self._copies: dict[Operation, tuple[Register, Memory]] = {}

    def emit(self) -> None:
        """Emit the loop, in two versions if it has assumptions."""
        self._make_memory()
        self._find_overlaps()
        masks, remainders = self._assumptions()
        holds = self._holds(masks, remainders)
        bound = self._find_bound(masks)
        if holds is None:
            self._nest((), (), bound)
        else:
            frame = self._frame
            inside, edge, after = frame.block("inside"), frame.block("edge"), frame.block("after")
            frame.builder.cbranch(holds, inside, edge)
            frame.start_block(inside)
            self._nest(masks, remainders, None)
            frame.builder.branch(after)
            frame.start_block(edge)
            self._nest((), (), bound)
            frame.builder.branch(after)
            frame.start_block(after)
        for reduction in self._reductions:
            reduction.finish()

    def failures(self) -> dict[Operation, FailedLanes]:
        """Return the variables that say whether and where each ASSERT of the group failed."""
        return self._failed

    # ---- loads in place

    def steps_in_place(self) -> list[Step] | None:
        """Return the steps of the group's load along each axis, if bounds and remainders that are checked at run time hold.

        ``None`` if it is not regular, or may have lanes that are off all the same.
        """
        (load,) = self._group.operations
        masks, remainders = self._assumptions()
        pointer, assumed = load.operands[0], frozenset(remainders)
        steps = [self._frame.analysis.step(pointer, a, assumed) for a in range(len(pointer.shape))]
        if None in steps or not all(self._is_bound(mask, masks) for mask in load.operands[1:2]):
            return None
        return steps

    def _is_bound(self, mask: Value, known: Sequence[Operation]) -> bool:
        """Return whether a mask is true in all lanes if comparisons are."""
        operation = mask.owner
        if operation is None:
            return False
        if is_view(operation):
            return self._is_bound(operation.operands[0], known)
        if operation.code is Code.AND:
            return all(self._is_bound(operand, known) for operand in operation.operands)
        return operation in known

    def place(self) -> None:
        """Bind the result of the group's load to the memory that it reads; to a copy where a bound does not hold."""
        (load,) = self._group.operations
        frame, value = self._frame, load.result
        masks, remainders = self._assumptions()
        holds = self._holds(masks, remainders)
        there = self._there(load, masks, remainders)
        if holds is None:
            frame.memories[value] = there
            return
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
                strides.append(either(_register(stride), _register(other), r.I64))
        frame.memories[value] = Memory(base, there.element, tuple(strides))

    def _there(
        self, load: Operation, masks: Sequence[Operation], remainders: Sequence[Operation]
    ) -> Memory:
        """Return the memory that a load reads, if bounds hold and remainders change nothing."""
        frame, builder = self._frame, self._frame.builder
        reader = PointReader(frame, [builder], self._own, masks, remainders)
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
                    if isinstance(result.type, Tile):
                        frame.remember(result)
            if code is Code.REDUCE:
                self._reductions.append(Reduction(frame, operation, self._axis))
            if code is Code.ASSERT:
                self._failed[operation] = FailedLanes(frame, operation)

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

    def _assumptions(self) -> tuple[list[Operation], list[Operation]]:
        """Return the comparisons that may hold everywhere, and the remainders that may change nothing."""
        masks: dict[Operation, None] = {}
        remainders: dict[Operation, None] = {}
        if self._group.is_serial:
            return [], []
        for operation in self._group.operations:
            if operation.code is Code.LOAD:
                pointer, given = operation.operands[0], operation.operands[1:2]
            elif operation.code is Code.STORE:
                pointer, given = operation.operands[0], operation.operands[2:3]
            else:
                continue
            self._search_remainders(pointer, remainders)
            for mask in given:
                self._search_bounds(mask, masks)
        return list(masks), list(remainders)

    def _search_bounds(self, mask: Value, found: dict[Operation, None]) -> None:
        analysis, seen, waiting = self._frame.analysis, {mask}, [mask]
        while waiting:
            mask = waiting.pop()
            operation = mask.owner
            if operation is None:
                continue
            if is_view(operation) or operation.code is Code.AND:
                waiting += [v for v in reversed(operation.operands) if v not in seen]
                seen.update(operation.operands)
            elif (
                operation.code in ops.ORDERED_COMPARISONS
                and isinstance(mask.type, Tile)
                and self._is_bounded(operation)
                and all(map(analysis.is_regular, operation.operands))
            ):
                found[operation] = None

    @staticmethod
    def _is_bounded(operation: Operation) -> bool:
        element = element_of(operation.operands[0].type)
        return isinstance(element, DType) and (
            element.is_signed or (element.is_integer and element.bits <= 32)
        )

    def _search_remainders(self, pointer: Value, found: dict[Operation, None]) -> None:
        analysis, seen, waiting = self._frame.analysis, {pointer}, [pointer]
        while waiting:
            value = waiting.pop()
            operation = value.owner
            if operation is None or not isinstance(value.type, Tile):
                continue
            if operation.code is Code.REM:
                left, right = operation.operands
                uniform = all(analysis.step(right, axis) == 0 for axis in range(len(right.shape)))
                if self._is_bounded(operation) and uniform and analysis.is_regular(left):
                    found[operation] = None
            elif operation.code is not Code.LOAD:
                waiting += [v for v in reversed(operation.operands) if v not in seen]
                seen.update(operation.operands)

    # ---- conditions that are checked at run time

    def _holds(
        self, masks: Sequence[Operation], remainders: Sequence[Operation]
    ) -> Register | None:
        """Return an i1 that says whether all assumptions hold; ``None`` if there are none."""
        if not masks and not remainders:
            return None
        builder = self._frame.builder
        reader = PointReader(self._frame, [builder], self._own)
        conditions = []
        for operation in masks:
            left, right = operation.operands
            if operation.code in (Code.GT, Code.GE):
                left, right = right, left
            (_, most, safe), (least, _, safe_too) = (
                self._range(reader, left),
                self._range(reader, right),
            )
            word = "<" if operation.code in (Code.LT, Code.GT) else "<="
            conditions += [builder.icmp_signed(word, most, least), *safe, *safe_too]
        for operation in remainders:
            left, right = operation.operands
            least, most, safe = self._range(reader, left)
            bound, _, safe_too = self._range(reader, right)
            zero = r.number(r.I64, 0)
            conditions += [
                builder.icmp_signed(">=", least, zero),
                builder.icmp_signed("<", most, bound),
                *safe,
                *safe_too,
            ]
        holds = conditions[0]
        for condition in conditions[1:]:
            holds = builder.and_(holds, condition)
        return holds

    def _range(
        self, reader: PointReader, value: Value
    ) -> tuple[Register, Register, list[Register]]:
        """Return the least and the greatest element of a regular tile as i64.

        The last item lists conditions under which they are right: that no lane wraps.
        """
        builder, element = reader.builders[0], element_of(value.type)
        start = reader.read_short(value, (ZERO,) * len(value.shape))
        assert isinstance(element, DType)
        least = most = self._frame.convert(builder, element, _I64, start)
        steps = self._steps(reader, value, element)
        least, most = _extended(builder, (least, most), steps)
        if not steps or element.bits == 64:
            return least, most, []
        low, high = element.limits
        return (
            least,
            most,
            [
                builder.icmp_signed(">=", least, r.number(r.I64, low)),
                builder.icmp_signed("<=", most, r.number(r.I64, high)),
            ],
        )

    def _steps(
        self, reader: PointReader, value: Value, element: ScalarType
    ) -> list[tuple[Register, int]]:
        """Return the steps of a regular tile as i64 and the extents, of the axes along which it moves."""
        builder, found = reader.builders[0], []
        for axis, extent in enumerate(value.shape):
            if self._frame.analysis.step(value, axis) == 0:
                continue
            point: Point = tuple(
                ORIGIN_RUN if other == axis else ZERO for other in range(len(value.shape))
            )
            _, step = reader.linear(value, point, axis)
            if isinstance(step, int):
                step = r.number(r.I64, step)
            elif isinstance(element, DType):
                step = self._frame.convert(builder, element.as_signed(), _I64, step)
            found.append((step, extent))
        return found

    # ---- loads that a store of the same loop may overwrite

    def _find_overlaps(self) -> None:
        frame, seen = self._frame, []
        if frame.options.disjoint:
            return
        reader: PointReader | None = None
        overlaps: dict[Operation, Register] = {}
        for operation in self._group.operations:
            if operation.code is Code.LOAD:
                seen.append(operation)
            if operation.code is not Code.STORE:
                continue
            for load in seen:
                if load.operands[0] is operation.operands[0]:
                    continue
                reader = reader or PointReader(frame, [frame.builder], self._own)
                clash = self._clash(reader, load, operation)
                known = overlaps.get(load)
                overlaps[load] = clash if known is None else frame.builder.or_(known, clash)
        for load, clash in overlaps.items():
            copy = frame.new_memory(load.result.shape, element_of(load.result.type), load.result)
            with frame.when(clash):
                self._copy(load, copy)
            self._copies[load] = (clash, copy)

    def _clash(self, reader: PointReader, load: Operation, store: Operation) -> Register:
        builder = reader.builders[0]
        spans, shapes = [], []
        for operation in (load, store):
            pointer = operation.operands[0]
            element = element_of(pointer.type)
            assert isinstance(element, Pointer)
            start = reader.read_short(pointer, (ZERO,) * len(pointer.shape))
            end = builder.add(start, r.number(r.I64, element.element.bytes))
            steps = self._steps(reader, pointer, element)
            spans.append(_extended(builder, (start, end), steps))
            shapes.append((start, [step for step, _ in steps], element.element.bytes))
        (a, b), (c, d) = spans
        overlap = builder.and_(builder.icmp_unsigned("<", a, d), builder.icmp_unsigned("<", c, b))
        (start, steps_, size), (other, others, other_size) = shapes
        if size != other_size or len(steps_) != len(others):
            return overlap
        same = builder.icmp_unsigned("==", start, other)
        for step, other_step in zip(steps_, others, strict=True):
            same = builder.and_(same, builder.icmp_unsigned("==", step, other_step))
        return builder.and_(overlap, builder.not_(same))

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
        remainders: Sequence[Operation],
        bound: Bound | None,
    ) -> None:
        group = self._group
        reader = PointReader(self._frame, [], self._own, masks, remainders)
        reader.copies = self._copies

        def begin(reader: PointReader, point: Point) -> None:
            for reduction in self._reductions:
                reduction.begin(reader, point)

        def end(reader: PointReader, point: Point) -> None:
            for reduction in self._reductions:
                reduction.end(reader, point)

        stop = None
        if bound is not None:
            stop = emit_end(self._frame, bound, group.shape[self._axis])
        nest = LoopNest(self._frame, group.shape, reader, group.is_serial, stop)
        nest.emit(self._body, begin, end, self._beyond)

    def _body(self, reader: PointReader, point: Point, count: int | None) -> None:
        reductions = iter(self._reductions)
        for operation in self._group.operations:
            code = operation.code
            if code is Code.STORE:
                reader.store(operation, point)
            elif code is Code.REDUCE:
                next(reductions).at(reader, point, count)
            elif code is Code.JOIN:
                self._join(reader, operation, point)
            elif code is Code.ASSERT:
                self._failed[operation].at(reader, point)
            elif code in ops.ATOMIC:
                emit_atomic(self._frame, reader, operation, point)
            else:  # in program order, so that a long chain is no deep recursion
                reader.read_short(operation.result, point)
        for value in self._group.materialized:
            register = reader.read(value, point)
            reader.store_to(self._frame.memories[value], point, element_of(value.type), register)

    def _join(self, reader: PointReader, operation: Operation, point: Point) -> None:
        stored = self._frame.memories[operation.result]
        element = element_of(operation.result.type)
        for which, operand in enumerate(operation.operands):
            offset = r.number(r.I64, which * stored.element.bytes)
            base = self._frame.entry.gep(stored.base, [offset], source_etype=r.BYTE)
            half = Memory(base, stored.element, stored.strides[:-1])
            reader.store_to(half, point, element, reader.read(operand, point))


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


def _register(stride: Stride) -> Register:
    return r.number(r.I64, stride) if isinstance(stride, int) else stride


def _extended(
    builder: ir.IRBuilder, span: tuple[Register, Register], steps: Sequence[tuple[Register, int]]
) -> tuple[Register, Register]:
    """Return a span of i64, extended by steps (i64) that are repeated over extents."""
    low, high = span
    for step, extent in steps:
        zero, last = r.number(r.I64, 0), builder.mul(step, r.number(r.I64, extent - 1))
        falls = builder.icmp_signed("<", step, zero)
        low = builder.add(low, builder.select(falls, last, zero))
        high = builder.add(high, builder.select(falls, zero, last))
    return low, high


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
