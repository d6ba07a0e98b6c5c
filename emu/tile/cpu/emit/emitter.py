"""The body of a kernel: stretches of operations between control flow, and the control flow.

Scalars are LLVM registers; what a loop carries lies in local variables, which LLVM turns into registers.
Tiles that a loop carries have memory for as long as the loop runs, their *slot*. The value that a body yields is
written straight into the slot if nothing reads the old value any more (``plan.reuse``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu.emit import (
    byte_products,
    direct_updates,
    machine_calls,
    memory,
    product_loops,
    products,
)
from emu.tile.cpu.emit.atomic import emit_one
from emu.tile.cpu.emit.diagnosis import Diagnosis
from emu.tile.cpu.emit.frame import Frame, is_tile
from emu.tile.cpu.emit.groups import GroupEmitter, copy_bytes, copy_tile, take_over
from emu.tile.cpu.emit.histogram import emit_histogram
from emu.tile.cpu.emit.in_place import loads_in_place, place
from emu.tile.cpu.emit.memory import Memory
from emu.tile.cpu.emit.next_rows import emit_distances
from emu.tile.cpu.emit.point_reader import Coordinate, Point, PointReader
from emu.tile.cpu.emit.polling import Polls
from emu.tile.cpu.emit.product_loops import ProductLoop
from emu.tile.cpu.emit.scanning import emit_scan
from emu.tile.cpu.emit.sorting import emit_sort
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.reuse import may_overwrite
from emu.tile.cpu.plan.schedule import Schedule
from emu.tile.ir import Operation, Region, TileError, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.ops import Code
from emu.tile.types import DTYPES, DType, element_of

_I64 = DTYPES["i64"]
_BORDERS = frozenset(
    {Code.FOR, Code.WHILE, Code.IF, Code.PRINT, Code.BARRIER, Code.CALL, Code.OBSERVE}
    | {Code.MACHINE_CALL}
)


def _element(index: int) -> Point:
    return (Coordinate(r.number(r.I64, index), 0, 0),)


class Slot:
    """Memory or variable of a loop-carried value, or of a result of an IF.

    Attributes:
        value: Its value inside of the region; ``None`` for a result.
        memory: Of a tile.
        variable: Of a scalar: address of the local variable.
    """

    def __init__(self, frame: Frame, type_of: Value, value: Value | None) -> None:
        self.value = value
        self.type_of = type_of
        self.memory: Memory | None = None
        self.variable: IrPointer | None = None
        if is_tile(type_of):
            self.memory = frame.new_memory(type_of.shape, element_of(type_of.type), type_of)
        else:
            self.variable = frame.variable(r.register_type(element_of(type_of.type)))


class _Counter(NamedTuple):
    """What counts the rounds of a FOR.

    Attributes:
        position: Variable (i64) of the next round's index.
        end: Where it ends (i64).
        step: From round to round (i64).
        element: Dtype of the index.
    """

    position: IrPointer
    end: Register
    step: Register
    element: DType

    def read(self, frame: Frame) -> tuple[Register, Register]:
        """Return the next round's index, and an i1: whether there is such a round."""
        builder = frame.builder
        here = builder.load(self.position, typ=r.I64)
        signed = self.element.is_signed or self.element.bits < 64
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        up = builder.icmp_signed(">=", self.step, r.number(r.I64, 0))
        more = builder.select(up, compare("<", here, self.end), compare(">", here, self.end))
        return here, more


class Emitter:
    """Emitter of regions.

    Args:
        frame: The function.
        programs: Registers of the program's numbers and of the grid's extents (i32): x, y, z of each.
        diagnosis: What asserts and prints need.
        polls: What loops need.
        callees: Functions of the module that are called, by name.
    """

    def __init__(
        self,
        frame: Frame,
        programs: Sequence[Register],
        diagnosis: Diagnosis,
        polls: Polls,
        callees: Mapping[str, ir.Function],
    ) -> None:
        self._frame = frame
        self._programs = programs
        self._table = diagnosis.table
        self._diagnosis = diagnosis
        self._polls = polls
        self._callees = callees

    def region(self, region: Region, slots: Sequence[Slot] = ()) -> None:
        """Emit a region; leave what its terminator yields in the slots."""
        stretch: list[Operation] = []
        for operation in region.operations[:-1]:
            if operation.code in _BORDERS:
                self._stretch(stretch, region)
                stretch = []
                with self._frame.at(operation):
                    self._control(operation)
                self._release([operation], region)
            else:
                stretch.append(operation)
        self._stretch(stretch, region, region.terminator, slots)

    # ---- stretches

    def _stretch(
        self,
        operations: list[Operation],
        region: Region,
        terminator: Operation | None = None,
        slots: Sequence[Slot] = (),
    ) -> None:
        direct = direct_updates.find(self._frame, operations)
        if direct is not None and not slots:
            tiles = [o for o in operations if o.code in ops.ATOMIC or is_tile(o.result)]
            for operation in operations:
                if operation not in tiles:
                    with self._frame.at(operation):
                        self._item(operation)
            rest = functools.partial(self._scheduled, tiles, region, terminator)
            direct_updates.emit(self._frame, direct, rest)
            return
        self._scheduled(operations, region, terminator, slots)

    def _scheduled(
        self,
        operations: list[Operation],
        region: Region,
        terminator: Operation | None = None,
        slots: Sequence[Slot] = (),
    ) -> None:
        in_place = loads_in_place(self._frame, operations)
        schedule = Schedule(self._frame.analysis, operations, in_place)
        yielded = list(zip(terminator.operands, slots, strict=True)) if terminator and slots else []
        forwarded = self._forward(schedule, yielded, terminator)
        for stage in schedule.stages:
            for item in stage.items:
                if item.code is Code.SCAN:
                    for old, new in zip(item.operands, item.results, strict=True):
                        take_over(self._frame, schedule, new, element_of(new.type), [old])
                with self._frame.at(item):
                    self._item(item)
            for group in stage.groups:
                emitter = GroupEmitter(self._frame, group, schedule)
                emitter.emit()
                for operation, lanes in emitter.failures().items():
                    self._diagnosis.stop_if(self._frame, operation, lanes.has_failed(), lanes)
        self._fill_slots([pair for pair in yielded if pair[1] not in forwarded])
        for value in schedule.materialized_inline:  # written on this path of the control flow only
            self._frame.forget(value)
        self._release(operations, region)

    def _forward(
        self,
        schedule: Schedule,
        yielded: Sequence[tuple[Value, Slot]],
        terminator: Operation | None,
    ) -> list[Slot]:
        """Let yielded tiles be computed into their slots where that is safe; return those slots."""
        done: list[Slot] = []
        values = [value for value, _ in yielded]
        for value, slot in yielded:
            if slot.memory is None or values.count(value) > 1 or value in self._frame.memories:
                continue
            if terminator is not None and may_overwrite(
                self._frame.analysis, schedule, value, slot.value, terminator
            ):
                self._frame.memories[value] = slot.memory
                done.append(slot)
        return done

    def _fill_slots(self, yielded: Sequence[tuple[Value, Slot]]) -> None:
        """Write what is yielded into the slots, as if all at once."""
        frame = self._frame
        copies: list[tuple[Memory, Memory, int]] = []
        places: list[Value] = []
        scalars = [(s, frame.scalar(v)) for v, s in yielded if s.variable is not None]
        for slot, register in scalars:
            frame.builder.store(register, slot.variable)
        tiles = [(v, s.memory) for v, s in yielded if s.memory is not None and v is not s.value]
        for value, target in tiles:
            if len(tiles) == 1 and frame.analysis.is_inline(value):
                copy_tile(frame, value, target)
                continue
            between = frame.new_copy(value, target.element)
            places.append(value)
            copy_tile(frame, value, between)
            copies.append((target, between, math.prod(value.shape) * target.element.bytes))
        for target, between, count in copies:
            copy_bytes(frame.builder, target.base, between.base, count)
        for value in places:
            frame.release_copy(value)

    def _release(self, operations: Sequence[Operation], region: Region) -> None:
        """Release the memory of values of this region that no later operation needs."""
        frame, order = self._frame, {op: n for n, op in enumerate(region.operations)}
        if not operations:
            return
        now = max(order[operation] for operation in operations)
        for value in list(frame.memories):
            if frame.analysis.defined_in.get(value) is not region or value.owner is None:
                continue
            if frame.analysis.last_use(value, region, order) <= now:
                frame.release(value)

    def _item(self, operation: Operation) -> None:
        """Emit an operation that is not in a loop of its shape."""
        frame, code = self._frame, operation.code
        builder = frame.builder
        if code is Code.DOT:
            (byte_products if byte_products.is_covered(operation) else products).emit_dot(
                frame, operation
            )
        elif code is Code.LOAD and is_tile(operation.result):
            place(frame, operation)
        elif code is Code.SCAN:
            emit_scan(frame, operation)
        elif code is Code.HISTOGRAM:
            emit_histogram(frame, operation)
        elif code is Code.SORT:
            emit_sort(frame, operation)
        elif code is Code.ASSERT:
            failed = builder.not_(frame.scalar(operation.operands[0]))
            self._diagnosis.stop_if(frame, operation, failed)
        elif code is Code.STORE:
            pointer, value, *mask = (frame.scalar(v) for v in operation.operands)
            element = element_of(operation.operands[1].type)
            memory.store_one(builder, element, pointer, value, mask[0] if mask else None)
        elif code is Code.JOIN:
            self._join_pair(operation)
        elif code is not Code.JOIN_TOKENS:
            self._scalar(operation)

    def _scalar(self, operation: Operation) -> None:
        frame, code = self._frame, operation.code
        builder = frame.builder
        if code is Code.SPLIT:
            self._split_pair(operation)
            return
        result = operation.result
        if code is Code.CONSTANT:
            register = r.constant(element_of(result.type), operation.attributes["value"])
        elif code in (Code.PROGRAM_ID, Code.NUM_PROGRAMS):
            first = 0 if code is Code.PROGRAM_ID else 3
            register = self._programs[first + operation.attributes["axis"]]
        elif code is Code.MACHINE_WORD:
            register = machine_calls.emit_word(builder, self._table, operation)
        elif code is Code.LOAD:
            pointer, *rest = (frame.scalar(v) for v in operation.operands)
            mask, other = [*rest, None, None][:2]
            register = memory.load_one(builder, element_of(result.type), pointer, mask, other)
        elif code in ops.ATOMIC:
            values = [frame.scalar(v) for v in operation.operands]
            register = emit_one(frame, builder, operation, values)
        elif code is Code.AFTER:
            register = frame.scalar(operation.operands[0])
        elif code in ops.ELEMENTWISE:
            operands = [frame.scalar(v) for v in operation.operands]
            register = frame.apply(builder, operation, operands)
        else:
            raise TileError(f"{code.name.lower()} at {operation.location} cannot be compiled here")
        frame.set_scalar(result, register)

    def _join_pair(self, operation: Operation) -> None:
        """Write two scalars to the memory of a tile of shape (2,)."""
        stored, element = self._frame.remember(operation.result), element_of(operation.result.type)
        reader = PointReader(self._frame, [self._frame.builder])
        for which, operand in enumerate(operation.operands):
            reader.store_to(stored, _element(which), element, self._frame.scalar(operand))

    def _split_pair(self, operation: Operation) -> None:
        """Load the two elements of a tile of shape (2,) into registers."""
        reader = PointReader(self._frame, [self._frame.builder])
        for which, result in enumerate(operation.results):
            point = _element(which)
            self._frame.set_scalar(result, reader.read_short(operation.operands[0], point))

    # ---- control flow

    def _control(self, operation: Operation) -> None:
        code = operation.code
        if code is Code.FOR:
            self._for(operation)
        elif code is Code.WHILE:
            self._while(operation)
        elif code is Code.IF:
            self._if(operation)
        elif code is Code.CALL:
            self._call(operation)
        elif code is Code.PRINT:
            self._diagnosis.print(self._frame, operation)
        elif code is Code.OBSERVE:
            self._diagnosis.observe(self._frame, operation)
        elif code is Code.MACHINE_CALL:
            machine_calls.emit_call(self._frame, self._table, operation)

    def _call(self, operation: Operation) -> None:
        """Call a function of the module; end the program if an assert fails in it, or it is told to stop."""
        frame, callee = self._frame, self._callees[operation.attributes["callee"]]
        types = [element_of(v.type) for v in operation.operands]
        given = [
            r.to_memory(frame.builder, type_, frame.scalar(value))
            for type_, value in zip(types, operation.operands, strict=True)
        ]
        places = [frame.variable(r.memory_type(element_of(v.type))) for v in operation.results]
        around = [*self._programs, frame.scratch_root, self._polls.table]
        status = frame.builder.call(callee, [*given, *around, *places])
        stop, after = frame.block("stop"), frame.block("after")
        frame.builder.cbranch(
            frame.builder.icmp_signed("!=", status, r.number(r.I64, 0)), stop, after
        )
        ir.IRBuilder(stop).ret(status)
        frame.start_block(after)
        for result, address in zip(operation.results, places, strict=True):
            type_ = element_of(result.type)
            loaded = frame.builder.load(address, typ=r.memory_type(type_))
            frame.set_scalar(result, r.from_memory(frame.builder, type_, loaded))

    def give_back(self, places: Sequence[IrPointer], terminator: Operation) -> None:
        """Write what a function returns to where its caller wants it."""
        frame = self._frame
        for address, value in zip(places, terminator.operands, strict=True):
            register = r.to_memory(frame.builder, element_of(value.type), frame.scalar(value))
            frame.builder.store(register, address)

    def _open_slots(self, arguments: Sequence[Value], initial: Sequence[Value]) -> list[Slot]:
        slots = [Slot(self._frame, argument, argument) for argument in arguments]
        self._fill_slots(list(zip(initial, slots, strict=True)))
        for slot in slots:
            if slot.memory is not None and slot.value is not None:
                self._frame.memories[slot.value] = slot.memory
        return slots

    def _load_scalars(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if slot.variable is not None and slot.value is not None:
                type_ = r.register_type(element_of(slot.type_of.type))
                register = self._frame.builder.load(slot.variable, typ=type_)
                self._frame.set_scalar(slot.value, register)

    def _take_results(self, results: Sequence[Value], slots: Sequence[Slot]) -> None:
        """Bind the results of a control operation to the slots."""
        for result, slot in zip(results, slots, strict=True):
            if slot.memory is not None:
                self._frame.memories[result] = slot.memory
                self._frame.hand_over(slot.type_of, result)
            else:
                type_ = r.register_type(element_of(result.type))
                self._frame.set_scalar(result, self._frame.builder.load(slot.variable, typ=type_))

    def _for(self, operation: Operation) -> None:
        frame, (body,) = self._frame, operation.regions
        start, end, step = (frame.scalar(v) for v in operation.operands[:3])
        index, *carried = body.arguments
        slots = self._open_slots(carried, operation.operands[3:])
        element = element_of(index.type)
        assert isinstance(element, DType)
        # 64 bits, so that no end is too near the greatest index of a narrower dtype.
        wide = [frame.convert(frame.builder, element, _I64, v) for v in (start, end, step)]
        position = frame.variable(r.I64)
        frame.builder.store(wide[0], position)
        head, inside, after = frame.block("head"), frame.block("body"), frame.block("after")
        frame.builder.branch(head)
        frame.start_block(head)
        loop = product_loops.find(frame, body)
        counter = _Counter(position, wide[1], wide[2], element)
        here, more = counter.read(frame)
        frame.builder.cbranch(more, inside, after)
        frame.start_block(inside)
        frame.set_scalar(index, frame.convert(frame.builder, _I64, element, here))
        self._load_scalars(slots)
        if loop is None:
            following = frame.convert(
                frame.builder, _I64, element, frame.builder.add(here, wide[2])
            )
            emit_distances(frame, body, (frame.scalar(index), following), self._scalar)
            self.region(body, slots)
            frame.builder.store(frame.builder.add(here, wide[2]), position)
        else:
            self._products(body, slots, counter, loop)
        frame.builder.branch(head)
        frame.start_block(after)
        self._take_results(operation.results, slots)

    def _products(
        self, body: Region, slots: Sequence[Slot], counter: _Counter, loop: ProductLoop
    ) -> None:
        """Emit as many rounds of a loop as make one product, and leave the loop's variables behind them."""
        frame, index = self._frame, body.arguments[0]
        self._scalars_of(body)
        conditions = [place(frame, load) for load in dict.fromkeys(loop.loads)]
        matrices = product_loops.operands(frame, loop)
        limit = r.number(r.I64, loop.rounds)
        for holds in conditions:
            if holds is not None:  # a round of copies is alone
                limit = frame.builder.select(holds, limit, r.number(r.I64, 1))
        self._advance(body, slots, counter)
        before, look = frame.builder.block, frame.block("look")
        check, accept, multiply = (frame.block(name) for name in ("check", "accept", "multiply"))
        frame.builder.branch(look)
        frame.start_block(look)
        rounds = frame.builder.phi(r.I64)
        rounds.add_incoming(r.number(r.I64, 1), before)
        here, more = counter.read(frame)
        more = frame.builder.and_(more, frame.builder.icmp_signed("<", rounds, limit))
        frame.builder.cbranch(more, check, multiply)
        frame.start_block(check)
        frame.set_scalar(index, frame.convert(frame.builder, _I64, counter.element, here))
        self._load_scalars(slots)
        self._scalars_of(body)
        follows = product_loops.follows(frame, loop, matrices, rounds)
        frame.builder.cbranch(follows, accept, multiply)
        frame.start_block(accept)
        self._advance(body, slots, counter)
        rounds.add_incoming(frame.builder.add(rounds, r.number(r.I64, 1)), frame.builder.block)
        frame.builder.branch(look)
        frame.start_block(multiply)
        product_loops.emit(frame, loop, matrices, rounds)
        frame.memories[loop.dot.result] = frame.memories[loop.dot.operands[2]]
        self._release(body.operations[:-1], body)

    def _scalars_of(self, body: Region) -> None:
        for operation in body.operations[:-1]:
            if not any(map(is_tile, operation.results)):
                self._scalar(operation)

    def _advance(self, body: Region, slots: Sequence[Slot], counter: _Counter) -> None:
        """Leave the scalars that a round yields, and the next round's number."""
        pairs = zip(body.terminator.operands, slots, strict=True)
        self._fill_slots([pair for pair in pairs if pair[1].variable is not None])
        builder = self._frame.builder
        here = builder.load(counter.position, typ=r.I64)
        builder.store(builder.add(here, counter.step), counter.position)

    def _while(self, operation: Operation) -> None:
        frame, (before, after) = self._frame, operation.regions
        slots = self._open_slots(before.arguments, operation.operands)
        passed = [Slot(frame, argument, argument) for argument in after.arguments]
        for slot in passed:
            if slot.memory is not None and slot.value is not None:
                frame.memories[slot.value] = slot.memory
        condition = Slot(frame, before.terminator.operands[0], None)
        poll = self._polls.begin(frame, operation)
        head, inside, done = frame.block("head"), frame.block("body"), frame.block("after")
        frame.builder.branch(head)
        frame.start_block(head)
        # A compiler fence: LLVM must load what a loop waits for anew in each round.
        frame.builder.fence("seq_cst", targetscope="singlethread")
        self._load_scalars(slots)
        self.region(before, [condition, *passed])
        frame.builder.cbranch(frame.builder.load(condition.variable, typ=r.BIT), inside, done)
        frame.start_block(inside)
        self._load_scalars(passed)
        self.region(after, slots)
        poll.repeat(head)
        frame.start_block(done)
        self._take_results(operation.results, passed)
        poll.end()

    def _if(self, operation: Operation) -> None:
        frame = self._frame
        slots = [Slot(frame, result, None) for result in operation.results]
        blocks = [frame.block("then"), frame.block("else")]
        after = frame.block("after")
        frame.builder.cbranch(frame.scalar(operation.operands[0]), *blocks)
        for block, region in zip(blocks, operation.regions, strict=True):
            frame.start_block(block)
            self.region(region, slots)
            frame.builder.branch(after)
        frame.start_block(after)
        self._take_results(operation.results, slots)
