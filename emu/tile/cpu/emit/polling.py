"""Polling code of long loops, through which signals, timeouts and the stop of a world reach a running kernel.

``while`` loops and the loop over the programs of a grid count their rounds down. At zero they read the clock and,
if 20 ms have passed (less where programs take turns), ask Python whether to go on. A round costs a decrement and a branch; the count adapts so that
the clock is read every few milliseconds.

A loop whose condition depends on memory waits as long as it reads the same values: it also reports what it read, and
where.
"""

from __future__ import annotations

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu import call
from emu.tile.cpu.emit.atomic import to_integer
from emu.tile.cpu.emit.frame import Frame, is_tile
from emu.tile.cpu.emit.table import read, write
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.reports import LOOP_CODES, Loop, Read
from emu.tile.ir import Operation, Region, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.ops import Code
from emu.tile.types import DType, Pointer, element_of

_POINTER = ir.PointerType()
_TICK = ir.FunctionType(r.I64, [_POINTER, _POINTER])
_SHORT, _LONG = 3, 1
"""Between two questions the clock is read 2 (at most 8) times: 2 to these powers."""
_MOST_ROUNDS = 1 << 20
_LIGHT, _HEAVY = 256, 16
"""Rounds before the clock is read first: of a loop that computes scalars only, and of others."""

_MONOTONIC = 1


def emit_tick(module: ir.Module) -> ir.Function:
    """Emit the function that a loop calls at count zero; it returns the next count, or 0 if the loop must stop."""
    function = ir.Function(module, _TICK, "tick")
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("optnone")  # it runs seldom, and is compiled with every kernel
    table, record = function.args
    begin, running, first, measured, ask = (function.append_basic_block() for _ in range(5))
    builder = ir.IRBuilder(begin)
    now = _clock(module, builder)
    ended = builder.icmp_signed("==", read(builder, record, call.LOOP), r.number(r.I64, call.ENDED))
    builder.cbranch(ended, ask, running)
    builder.position_at_end(running)
    asked = read(builder, record, call.ASKED)
    budget = read(builder, record, call.BUDGET)
    builder.cbranch(builder.icmp_signed("==", asked, r.number(r.I64, 0)), first, measured)
    builder.position_at_end(first)
    for which in (call.ASKED, call.SEEN):
        write(builder, record, which, now)
    doubled = builder.shl(budget, r.number(r.I64, 1))
    write(builder, record, call.BUDGET, doubled)
    builder.ret(doubled)
    builder.position_at_end(measured)
    spent = builder.sub(now, read(builder, record, call.SEEN))
    write(builder, record, call.SEEN, now)
    interval = read(builder, table, call.INTERVAL)
    adapted = _adapted(builder, budget, spent, interval)
    write(builder, record, call.BUDGET, adapted)
    due = builder.icmp_signed(">=", builder.sub(now, asked), interval)
    go_on = function.append_basic_block()
    builder.cbranch(due, ask, go_on)
    builder.position_at_end(go_on)
    builder.ret(adapted)
    builder.position_at_end(ask)
    write(builder, record, call.ASKED, now)
    write(builder, record, call.CALLED, 1)
    _emit_question(function, builder, table, record)
    return function


def _clock(module: ir.Module, builder: ir.IRBuilder) -> Register:
    kind = ir.FunctionType(r.I32, [r.I32, _POINTER])
    clock = ir.Function(module, kind, "clock_gettime")
    time = builder.alloca(r.I64, 2)
    builder.call(clock, [r.number(r.I32, _MONOTONIC), time])
    seconds = builder.mul(read(builder, time, 0), r.number(r.I64, 10**9))
    return builder.add(seconds, read(builder, time, 1))


def _adapted(
    builder: ir.IRBuilder, budget: Register, spent: Register, interval: Register
) -> Register:
    """Return the number of rounds until the next read of the clock, given how long the last ones took."""
    few, many = r.number(r.I64, 1), r.number(r.I64, _MOST_ROUNDS)
    more = builder.shl(budget, few)
    more = builder.select(builder.icmp_signed(">", more, many), many, more)
    fewer = builder.lshr(budget, r.number(r.I64, 2))
    fewer = builder.select(builder.icmp_signed("<", fewer, few), few, fewer)
    short = builder.icmp_signed("<", spent, builder.lshr(interval, r.number(r.I64, _SHORT)))
    long = builder.icmp_signed(">", spent, builder.lshr(interval, r.number(r.I64, _LONG)))
    return builder.select(short, more, builder.select(long, fewer, budget))


def _emit_question(
    function: ir.Function, builder: ir.IRBuilder, table: IrPointer, record: IrPointer
) -> None:
    """Ask Python whether to go on, where the thread's launches ask at all."""
    nobody = ir.Constant(_POINTER, None)
    question, no_answer = (function.append_basic_block() for _ in range(2))
    watch = read(builder, table, call.WATCH, _POINTER)
    builder.cbranch(builder.icmp_unsigned("==", watch, nobody), no_answer, question)
    builder.position_at_end(question)
    kind = ir.FunctionType(ir.VoidType(), [])
    write(builder, table, call.ACTIVE, 0)  # a crash in there is Python's
    builder.call(r.Callee(read(builder, table, call.GUARD, _POINTER), kind), [])
    asking = ir.FunctionType(r.I64, [r.I64])
    answer = builder.call(r.Callee(watch, asking), [builder.ptrtoint(record, r.I64)])
    write(builder, table, call.ACTIVE, 1)
    stop = builder.icmp_signed("!=", answer, r.number(r.I64, 0))
    budget = read(builder, record, call.BUDGET)
    builder.ret(builder.select(stop, r.number(r.I64, 0), budget))
    builder.position_at_end(no_answer)
    builder.ret(read(builder, record, call.BUDGET))


class Polls:
    """Collector of the ``while`` loops of a kernel while they are emitted.

    Args:
        table: Register with the address of the call table.
        tick: The function of :func:`emit_tick`.
        before: Collector of the functions that were emitted before; the numbers go on.
    """

    def __init__(self, table: IrPointer, tick: ir.Function, before: Polls | None = None) -> None:
        self.loops: list[Loop] = [] if before is None else before.loops
        self.table = table
        self._tick = tick

    def begin(self, frame: Frame, operation: Operation) -> LoopPoll:
        """Emit the code before a loop."""
        waits = _waited_for(operation)
        record = frame.entry.alloca(r.I64, call.PAIRS + 2 * len(waits))
        poll = LoopPoll(frame, operation, self.table, self._tick, record, waits)
        self.loops.append(poll.loop)
        poll.number = len(self.loops)
        return poll


class LoopPoll:
    """Polling code of one ``while`` loop."""

    def __init__(
        self,
        frame: Frame,
        operation: Operation,
        table: IrPointer,
        tick: ir.Function,
        record: IrPointer,
        waits: list[Operation],
    ) -> None:
        self.number = 0
        self.loop = Loop(str(operation.location or "unknown place"), tuple(map(_read_of, waits)))
        self._frame = frame
        self._table, self._tick, self._record = table, tick, record
        self._waits = waits
        self._rounds = _HEAVY if _is_heavy(operation) else _LIGHT
        # Both stay in registers: a loop of few rounds pays for nothing else.
        self._left, self._late = frame.variable(r.I64), frame.variable(r.BIT)
        frame.builder.store(r.number(r.I64, self._rounds), self._left)
        frame.builder.store(r.number(r.BIT, 0), self._late)

    def repeat(self, head: ir.Block) -> None:
        """Emit the jump back to the head of the loop."""
        frame = self._frame
        builder = frame.builder
        left = builder.sub(builder.load(self._left, typ=r.I64), r.number(r.I64, 1))
        builder.store(left, self._left)
        due, first, tick = frame.block("due"), frame.block("first"), frame.block("tick")
        again = frame.block("again")
        builder.cbranch(builder.icmp_signed(">", left, r.number(r.I64, 0)), head, due)
        builder = ir.IRBuilder(due)
        builder.cbranch(builder.load(self._late, typ=r.BIT), tick, first)
        builder = ir.IRBuilder(first)
        builder.store(r.number(r.BIT, 1), self._late)
        for which, value in ((call.ASKED, 0), (call.BUDGET, self._rounds), (call.CALLED, 0)):
            write(builder, self._record, which, value)
        builder.branch(tick)
        frame.start_block(tick)
        builder = frame.builder
        write(builder, self._record, call.LOOP, self.number)
        write(builder, self._record, call.COUNT, len(self._waits))
        for n, operation in enumerate(self._waits):
            address, bits = self._seen(operation)
            write(builder, self._record, call.PAIRS + 2 * n, address)
            write(builder, self._record, call.PAIRS + 2 * n + 1, bits)
        self._ask(again)
        frame.start_block(again)
        frame.builder.branch(head)

    def end(self) -> None:
        """Emit the code after the loop: report the end of a wait that was reported."""
        frame = self._frame
        late, said, after = frame.block("late"), frame.block("said"), frame.block("after")
        frame.builder.cbranch(frame.builder.load(self._late, typ=r.BIT), late, after)
        frame.start_block(late)
        asked = read(frame.builder, self._record, call.CALLED)
        frame.builder.cbranch(
            frame.builder.icmp_signed("==", asked, r.number(r.I64, 0)), after, said
        )
        frame.start_block(said)
        write(frame.builder, self._record, call.LOOP, call.ENDED)
        self._ask(after)
        frame.start_block(after)

    def _ask(self, go_on: ir.Block) -> None:
        frame = self._frame
        rounds = frame.builder.call(self._tick, [self._table, self._record])
        frame.builder.store(rounds, self._left)
        stop = frame.block("stop")
        frame.builder.cbranch(
            frame.builder.icmp_signed(">", rounds, r.number(r.I64, 0)), go_on, stop
        )
        ir.IRBuilder(stop).ret(r.number(r.I64, LOOP_CODES + self.number))

    def _seen(self, operation: Operation) -> tuple[int | Register, Register]:
        """Return the address that an operation read, or 0, and what was there."""
        frame, builder = self._frame, self._frame.builder
        value = operation.results[0]
        bits = to_integer(builder, element_of(value.type), frame.scalar(value))
        if bits.type.width < 64:
            bits = builder.zext(bits, r.I64)
        if operation.code not in ops.READS:
            return 0, bits
        return frame.scalar(operation.operands[0]), bits


def _read_of(operation: Operation) -> Read:
    element = element_of(operation.results[0].type)
    by_address = operation.code in ops.READS
    name = "" if isinstance(element, Pointer) else element.name
    return Read(str(operation.location or "unknown place"), name, by_address)


def _operations(region: Region) -> list[Operation]:
    found = []
    for operation in region.operations:
        found.append(operation)
        for inner in operation.regions:
            found.extend(_operations(inner))
    return found


def _is_heavy(operation: Operation) -> bool:
    """Return whether a round may take long: it has tiles, or loops."""
    return any(
        inner.code in (Code.WHILE, Code.FOR)
        or any(is_tile(v) for v in (*inner.operands, *inner.results))
        for region in operation.regions
        for inner in _operations(region)
    )


def _waited_for(operation: Operation) -> list[Operation]:
    """Return the operations of a loop whose scalar results come from memory and decide its condition."""
    own = [o for region in operation.regions for o in region.operations]
    # Of nested operations the one that stands in the loop itself counts.
    outermost = {id(o): o for o in own}
    for outer in own:
        for region in outer.regions:
            outermost.update((id(inner), outer) for inner in _operations(region))
    deciding = _deciding(operation, outermost)
    return [o for o in own if id(o) in deciding and _brings(o)]


def _deciding(loop: Operation, outermost: dict[int, Operation]) -> set[int]:
    """Return the ids of the operations of a loop on which its condition depends, in any round.

    Args:
        loop: A WHILE.
        outermost: The operation of the loop's regions in which each operation stands, by the latter's id.
    """
    before, after = loop.regions
    # What a carried value comes from is what the other region yields for it.
    carried = dict(zip(before.arguments, after.terminator.operands, strict=False))
    carried.update(zip(after.arguments, before.terminator.operands[1:], strict=False))
    found: set[int] = set()
    pending, seen = [before.terminator.operands[0]], set[Value]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in carried:
            pending.append(carried[value])
        operation = outermost.get(id(value.owner))
        if operation is not None and id(operation) not in found:
            found.add(id(operation))
            inner = [o for region in operation.regions for o in _operations(region)]
            pending.extend(v for o in (operation, *inner) for v in o.operands)
    return found


def _brings(operation: Operation) -> bool:
    """Return whether an operation has one scalar result, which comes from memory or from a tile."""
    results = operation.results
    if len(results) != 1 or not isinstance(results[0].type, DType | Pointer):
        return False
    inner = [o for region in operation.regions for o in _operations(region)]
    touches = any(o.code in ops.READS for o in (operation, *inner))
    return touches or any(is_tile(v) for v in operation.operands)
