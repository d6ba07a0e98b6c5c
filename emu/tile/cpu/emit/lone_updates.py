"""Atomic updates without locks, where no one else can see the memory between the two steps of an update.

A locked update costs five to ten times what a load and a store do. A thread does without the lock while it is the only
one of its process that runs a kernel, for addresses that no other process sees; ``run.private_memory`` says how
both are known. Kernels that wait for something keep their locks: what they wait for may come from Python, from a thread that
runs no kernel. The order of the updates, and with it every bit, is the same either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from llvmlite import ir
from llvmlite.ir import instructions

from emu.tile import ops
from emu.tile.cpu import call
from emu.tile.cpu.emit import memory
from emu.tile.cpu.emit.assumptions import Assumptions
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import BLOCK, RUN, Hook, LoopNest
from emu.tile.cpu.emit.point_reader import ORIGIN_RUN, Point, PointReader
from emu.tile.cpu.emit.table import read, word
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import is_view, vector_axis
from emu.tile.cpu.plan.schedule import Group
from emu.tile.ir import Function, Operation, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.ops import Code
from emu.tile.types import Pointer, Tile, element_of

_FEWEST = 64
"""Elements of a tile for which it pays to find out whether the thread is alone: two locked instructions."""

_ORDER = "seq_cst"


def can_be_alone(operation: Operation) -> bool:
    """Return whether an operation updates a tile that is large enough."""
    return (
        operation.code is Code.ATOMIC_RMW
        and isinstance(operation.operands[0].type, Tile)
        and math.prod(operation.operands[0].shape) >= _FEWEST
    )


def updated_argument(kernel: Function, operation: Operation) -> int | None:
    """Return the number of the argument that points to what an operation updates, if it can do without locks."""
    if not can_be_alone(operation):
        return None
    value: Value = operation.operands[0]
    while value.owner is not None:
        owner = value.owner
        if not is_view(owner) and owner.code not in (Code.PTR_ADD, Code.SPLAT):
            return None
        value = owner.operands[0]
    arguments = kernel.body.arguments
    return arguments.index(value) if value in arguments else None


def enter(builder: ir.IRBuilder, table: IrPointer) -> ir.IRBuilder:
    """Count this thread among those that run a kernel; wait until no other updates without locks."""
    shared = _shared(builder, table)
    builder.atomic_rmw("add", word(builder, shared, call.RUNNING), r.number(r.I64, 1), _ORDER)
    function = builder.function
    wait, go = function.append_basic_block("wait"), function.append_basic_block("go")
    builder.branch(wait)
    builder.position_at_end(wait)
    holder = builder.load_atomic(word(builder, shared, call.ALONE), _ORDER, 8, typ=r.I64)
    # This thread's own mark is left from a launch that was ended by force.
    own = builder.icmp_unsigned("==", holder, builder.ptrtoint(table, r.I64))
    nobody = builder.icmp_unsigned("==", holder, r.number(r.I64, 0))
    builder.cbranch(builder.or_(own, nobody), go, wait)
    builder.position_at_end(go)
    return builder


def leave(builder: ir.IRBuilder, table: IrPointer) -> None:
    """Count this thread no more."""
    place = word(builder, _shared(builder, table), call.RUNNING)
    builder.atomic_rmw("sub", place, r.number(r.I64, 1), _ORDER)


def _shared(builder: ir.IRBuilder, table: IrPointer) -> IrPointer:
    facts = read(builder, table, call.FACTS, ir.PointerType())
    return read(builder, facts, call.LAUNCHES, ir.PointerType())


class LoneUpdates:
    """Emitter of the versions of a loop of updates.

    Args:
        frame: The function.
        operation: The atomic operation.
    """

    def __init__(self, frame: Frame, operation: Operation) -> None:
        self._frame = frame
        self._operation = operation
        self._table = frame.function.args[8]
        self._low = read(frame.builder, self._table, call.LOW)
        self._width = frame.builder.sub(read(frame.builder, self._table, call.HIGH), self._low)

    def emit(self, alone: Callable[[bool], None], locked: Callable[[], None]) -> None:
        """Emit the versions of a thread that is alone, and the one with locks.

        Args:
            alone: ``alone(masked)`` emits the loop of a thread that is alone, which asks the mask or does not.
            locked: Emits the loop with locks.
        """
        frame = self._frame
        asked, private = frame.block("asked"), frame.block("private")
        taken, lone = frame.block("taken"), frame.block("alone")
        release, other, after = frame.block("release"), frame.block("locked"), frame.block("after")
        known = frame.builder.icmp_unsigned("!=", self._width, r.number(r.I64, 0))
        frame.builder.cbranch(known, asked, other)
        frame.start_block(asked)
        all_private, all_on = self._look()
        frame.builder.cbranch(all_private, private, other)
        frame.start_block(private)
        shared = _shared(frame.builder, self._table)
        mark, zero = frame.builder.ptrtoint(self._table, r.I64), r.number(r.I64, 0)
        place = word(frame.builder, shared, call.ALONE)
        pair = frame.builder.cmpxchg(place, zero, mark, _ORDER, _ORDER)
        frame.builder.cbranch(frame.builder.extract_value(pair, 1), taken, other)
        frame.start_block(taken)
        # Only now: who comes later is counted, and waits.
        running = frame.builder.load_atomic(
            word(frame.builder, shared, call.RUNNING), _ORDER, 8, typ=r.I64
        )
        one = frame.builder.icmp_unsigned("==", running, r.number(r.I64, 1))
        frame.builder.cbranch(one, lone, release)
        frame.start_block(release)
        frame.builder.atomic_rmw("xchg", place, zero, _ORDER)
        frame.builder.branch(other)
        frame.start_block(lone)
        self._both(alone, all_on)
        # Who waits for the mark sees the updates, too: later steps need no order, and a locked one would await all stores.
        # llvmlite's method for it knows no opaque pointers.
        builder = frame.builder
        builder._insert(instructions.StoreAtomicInstr(builder.block, zero, place, "release", 8))
        frame.builder.branch(after)
        frame.start_block(other)
        locked()
        frame.builder.branch(after)
        frame.start_block(after)

    def _both(self, alone: Callable[[bool], None], all_on: Register | None) -> None:
        frame = self._frame
        if all_on is None:
            alone(False)
            return
        whole, part, done = frame.block("whole"), frame.block("part"), frame.block("done")
        frame.builder.cbranch(all_on, whole, part)
        for block, masked in ((whole, False), (part, True)):
            frame.start_block(block)
            alone(masked)
            frame.builder.branch(done)
        frame.start_block(done)

    def _reader(self) -> PointReader:
        return PointReader(self._frame, [])

    def _look(self) -> tuple[Register, Register | None]:
        """Emit the look at all addresses before the loop: a run takes little more than an element in it.

        Returns:
            Whether no other process sees any element that is updated (i1), and whether the mask is true in all lanes;
            ``None`` if there is no mask.
        """
        frame, given = self._frame, self._operation.operands[2:]
        if not given:
            return self._look_at([])[0], None
        assumed = Assumptions(frame, Group(given[0].shape, False, [self._operation]), frozenset())
        holds = assumed.emit_holds() if assumed.make_true(given[0]) else None
        # What a bound leaves out mostly lies behind the rest, and may be looked at as well.
        private, on = self._look_at([] if holds is not None else given)
        return private, on if holds is None else holds

    def _look_at(self, masks: Sequence[Value]) -> list[Register]:
        """Emit a loop over the addresses; return whether all that a mask leaves are private, and whether it leaves all."""
        frame, pointer = self._frame, self._operation.operands[0]
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        most = frame.builder.sub(self._width, r.number(r.I64, element.element.bytes))
        count = min(pointer.shape[vector_axis(pointer.shape)], RUN)
        wide = r.vector(r.I64, count)
        bits, on = frame.variable(wide), frame.variable(r.BIT)
        frame.builder.store(ir.Constant(wide, None), bits)
        frame.builder.store(r.number(r.BIT, 1), on)

        def body(reader: PointReader, point: Point, lanes: int | None) -> None:
            builder = reader.builder(point)
            address = reader.read(pointer, point)
            # Negative below the range, or beyond it; an address that is neither is in the range.
            above = builder.sub(address, _spread(builder, self._low, lanes))
            below = builder.sub(_spread(builder, most, lanes), above)
            found = builder.or_(above, below)
            for mask in masks:
                given = reader.read(mask, point)
                found = builder.select(given, found, ir.Constant(found.type, None))
                known = builder.load(on, typ=r.BIT)
                builder.store(builder.and_(known, _reduced(builder, "and", given)), on)
            if lanes != count:
                found = _spread(builder, _reduced(builder, "or", found), count)
            builder.store(builder.or_(builder.load(bits, typ=wide), found), bits)

        LoopNest(frame, pointer.shape, self._reader()).emit(body)
        found = _reduced(frame.builder, "or", frame.builder.load(bits, typ=wide))
        private = frame.builder.icmp_signed(">=", found, r.number(r.I64, 0))
        return [private, frame.builder.load(on, typ=r.BIT)]


def _spread(builder: ir.IRBuilder, value: Register, lanes: int | None) -> Register:
    return value if lanes is None else r.splat(builder, value, lanes)


def _reduced(builder: ir.IRBuilder, word: str, lanes: Register) -> Register:
    if r.lanes_of(lanes.type) is None:
        return lanes
    result = r.scalar_of(lanes.type)
    name = f"llvm.vector.reduce.{word}.{r.mangle(lanes.type)}"
    return builder.call(r.declare(builder, name, result, [lanes.type]), [lanes])


def emit_prefetches(frame: Frame, operation: Operation) -> Hook | None:
    """Return what emits, before each block of updates, the prefetch of as much of the tiles behind those it reads.

    The next program mostly reads them. Updates of one element at a time ask for nothing new, so the memory
    would rest meanwhile, and the next program's loads wait.
    """
    (extent, *others) = operation.operands[0].shape
    loads = _sources(frame, operation)
    if others or extent % BLOCK or not loads:
        return None
    reader = PointReader(frame, [frame.builder])
    starts = [
        (reader.linear(load.operands[0], (ORIGIN_RUN,), 0)[0], element_of(load.result.type).bytes)
        for load in loads
    ]

    def prefetch(reader: PointReader, point: Point) -> None:
        builder, (here,) = reader.builders[-1], point
        for start, size in starts:
            place = builder.add(start, builder.mul(here.start, r.number(r.I64, size)))
            for ahead in range(extent * size, (extent + BLOCK) * size, memory.LINE):
                memory.prefetch(builder, builder.add(place, r.number(r.I64, ahead)), level=2)

    return prefetch


def _sources(frame: Frame, operation: Operation) -> list[Operation]:
    """Return the loads of neighbouring elements from which the operands of an update are computed."""
    found: dict[Operation, None] = {}
    waiting = list(operation.operands)
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if owner is None or value.shape != operation.operands[0].shape:
            continue
        if owner.code is Code.LOAD:
            pointer = owner.operands[0]
            step = frame.analysis.step(pointer, 0)
            if step == element_of(value.type).bytes and frame.analysis.is_inline(pointer):
                found[owner] = None
        elif owner.code in ops.ELEMENTWISE or is_view(owner):
            waiting += owner.operands
    return list(found)
