"""Compilation of a module to a kernel: passes, emission, and the entry point that runs programs."""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu import call, native
from emu.tile.cpu.depth import deep
from emu.tile.cpu.emit.diagnosis import Diagnosis
from emu.tile.cpu.emit.emitter import Emitter
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.located import LocatedFunction, Places
from emu.tile.cpu.emit.lone_updates import enter, leave, updated_argument
from emu.tile.cpu.emit.polling import Polls, emit_tick
from emu.tile.cpu.emit.streaming import emit_fence
from emu.tile.cpu.emit.table import read, write
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.options import Options
from emu.tile.cpu.reports import CODE_BITS, HANDED_ON, LOOP_CODES, Loop
from emu.tile.cpu.run.kernel import Kernel
from emu.tile.cpu.tuning import choices
from emu.tile.ir import Function, Location, Module
from emu.tile.llvm import IrPointer, Register
from emu.tile.ops import Code
from emu.tile.packing import slot
from emu.tile.passes import KEEPING_CALLS, CarryOffsets, simplify
from emu.tile.types import element_of
from emu.tile.verify import verify

_POINTER = ir.PointerType()
_RUN = ir.FunctionType(r.I64, [_POINTER])
_PROGRAM = ir.FunctionType(r.I64, [_POINTER, *[r.I32] * 6, _POINTER, _POINTER])
_FIRST_PROGRAMS = 16
"""Number of programs of a grid after which the clock is read first."""

_LEFT = call.PAIRS
"""Word behind the poll record of the loop over programs: programs left until it reads the clock."""


def compile(module: Module, *, options: Options | None = None) -> Kernel:
    """Compile the kernel of a module; ``emu.tile.cpu.compile`` documents it."""
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"options must be Options, but got {type(options).__name__}")
    options = options or Options()
    with deep():
        verify(module)
        module = simplify(module, KEEPING_CALLS)
        CarryOffsets().apply(module)
        kernel = module.kernel
        text, scratch_bytes, diagnosis, loops, places = _emit(module, options)
    symbol = f"{_ascii(kernel.name)}.{_digest(text, options)}"
    text = text.replace('@"emu.run"', f'@"{symbol}"')
    return Kernel(
        kernel.name,
        symbol,
        "".join(slot(argument.type) for argument in kernel.body.arguments),
        scratch_bytes,
        tuple(diagnosis.asserts),
        tuple(diagnosis.prints),
        loops,
        tuple((argument.name, str(argument.type)) for argument in kernel.body.arguments),
        _place(kernel),
        _updated(kernel),
        _machine_calls(module),
        places,
        native.to_object(
            text, effort=native.Effort.FULL if options.optimise else native.Effort.QUICK
        ),
        text,
    )


def _updated(kernel: Function) -> tuple[int, int]:
    """Return what ``Kernel.updated`` holds."""
    regions = [kernel.body]
    while regions:
        for operation in regions.pop().operations:
            regions += operation.regions
            number = updated_argument(kernel, operation)
            if number is not None:
                return number, math.prod(operation.operands[0].shape)
    return -1, 0


def _machine_calls(module: Module) -> tuple[str, ...] | None:
    """Return what ``Kernel.machine_calls`` holds."""
    found: dict[str, None] = {}
    reads = False
    for function in _callees_first(module):
        for operation in function.body.walk():
            reads |= operation.code is Code.MACHINE_WORD
            if operation.code is Code.MACHINE_CALL:
                found[str(operation.attributes["what"])] = None
    return tuple(found) if found or reads else None


def _place(kernel: Function) -> str:
    """Return the file and the approximate line where a kernel begins; empty if unknown."""
    for operation in kernel.body.operations:
        location = operation.location
        while location is not None and location.caller is not None:
            location = location.caller
        if location is not None:
            return f"{location.file}:{location.line}"
    return ""


def _digest(text: str, options: Options) -> str:
    """Return a digest of the LLVM IR, the CPU that it is compiled for, and how."""
    target = native.default_target()
    whole = f"{target.cpu} {target.features} {options.optimise} {text}"
    return hashlib.sha256(whole.encode()).hexdigest()[:24]


def _ascii(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


_MUCH = frozenset({*ops.FLOAT_UNARY, *ops.FLOAT_BINARY, Code.DOT, Code.SORT, Code.SCAN})
"""Operations that are written for the widest vectors that the CPU has."""

_NARROW = ('"min-legal-vector-width"="0"', '"prefer-vector-width"="256"')


class _Emitted(NamedTuple):
    """LLVM IR of a module, and what its launches need.

    Attributes:
        text: A function for one program, those that it calls, and the entry point, which runs a span of the grid.
        scratch_bytes: Bytes of scratch of all functions.
        diagnosis: Asserts and prints.
        loops: WHILE loops.
        places: Places of the instructions, by the number of the line table.
    """

    text: str
    scratch_bytes: int
    diagnosis: Diagnosis
    loops: tuple[Loop, ...]
    places: tuple[Location, ...]


def _emit(module: Module, options: Options) -> _Emitted:
    made = ir.Module("kernel")
    places = Places()
    program = LocatedFunction(made, _PROGRAM, "program", places)
    tick = emit_tick(made)
    callees: dict[str, ir.Function] = {}
    diagnosis, polls = Diagnosis([], program.args[8]), Polls(program.args[8], tick)
    scratch, streams = 0, False
    # Callees first: each has scratch of its own, behind that of those before it. No function calls itself.
    for function in _callees_first(module):
        if function is module.kernel:
            emitted = program
        else:
            emitted = _declare(made, function, len(callees), places)
            callees[function.name] = emitted
        emitted.linkage = "internal"
        count = len(function.body.arguments)
        first = 1 if emitted is program else count
        programs, (root, table) = emitted.args[first : first + 6], emitted.args[first + 6 :][:2]
        diagnosis = Diagnosis(programs[:3], table, diagnosis)
        polls = Polls(table, tick, polls)
        frame = Frame(emitted, function.body, options)
        root.add_attribute("noalias")  # nothing else points to its scratch
        frame.scratch_root = frame.scratch_base = root
        if scratch:
            frame.scratch_base = frame.entry.gep(
                root, [r.number(r.I64, scratch)], source_etype=r.BYTE
            )
        frame.builder = ir.IRBuilder(frame.block("begin"))
        frame.grid = programs[3:] if emitted is program else ()
        given = _unpacked(frame, function) if emitted is program else list(emitted.args[:count])
        for argument, register in zip(function.body.arguments, given, strict=True):
            value = r.from_memory(frame.builder, element_of(argument.type), register)
            frame.set_scalar(argument, value)
        begin = frame.builder.block
        emitter = Emitter(frame, programs, diagnosis, polls, callees)
        emitter.region(function.body)
        emitter.give_back(emitted.args[first + 8 :], function.body.terminator)
        frame.builder.ret(r.number(r.I64, 0))
        frame.entry.branch(begin)
        scratch += frame.scratch.size
        streams = frame.streams  # the last is the kernel's
    _emit_run(made, program, tick, streams)
    if choices().width == 256 and _computes_little(module):
        for function in made.functions:
            if (
                not function.is_declaration
            ):  # in the set itself: llvmlite knows no attributes with values
                set.update(function.attributes, _NARROW)
    text = str(made) + places.text()
    return _Emitted(text, scratch, diagnosis, tuple(polls.loops), tuple(places.found))


def _computes_little(module: Module) -> bool:
    """Return whether the kernel is made of loads, stores and cheap arithmetic."""
    codes = {op.code for function in _callees_first(module) for op in function.body.walk()}
    return codes.isdisjoint(_MUCH)


def _callees_first(module: Module) -> list[Function]:
    """Return the functions, each behind all that it calls."""
    found: dict[str, None] = {}

    def visit(function: Function) -> None:
        for operation in function.body.walk():
            if operation.code is Code.CALL:
                callee = module.functions[operation.attributes["callee"]]
                if callee.name not in found:
                    visit(callee)
        found[function.name] = None

    visit(module.kernel)
    return [module.functions[name] for name in found]


def _declare(made: ir.Module, function: Function, number: int, places: Places) -> LocatedFunction:
    """Return the LLVM function of one that is called: it takes scalars, and addresses for what it returns."""
    kinds = [r.memory_type(element_of(a.type)) for a in function.body.arguments]
    kinds += [*[r.I32] * 6, _POINTER, _POINTER, *[_POINTER] * len(function.results)]
    kind = ir.FunctionType(r.I64, kinds)
    declared = LocatedFunction(made, kind, f"callee.{number}", places)
    declared.attributes.add("noinline")
    return declared


def _unpacked(frame: Frame, kernel: Function) -> list[Register]:
    """Return the arguments of a kernel, loaded from where its launch packed them."""
    packed = frame.function.args[0]
    packed.add_attribute("noalias")  # no program writes its packed arguments
    found = []
    for n, argument in enumerate(kernel.body.arguments):
        place = frame.builder.gep(packed, [r.number(r.I64, 8 * n)], source_etype=r.BYTE)
        found.append(frame.builder.load(place, typ=r.memory_type(element_of(argument.type))))
    return found


def _emit_run(module: ir.Module, program: ir.Function, tick: ir.Function, streams: bool) -> None:
    """Emit the entry point: it runs the span in the call table, or takes one span after the other."""
    span = _emit_span(module, program, tick)
    function = ir.Function(module, _RUN, "emu.run")
    blocks = [function.append_basic_block() for _ in range(6)]
    begin, alone, take, work, failed, done = blocks
    builder = ir.IRBuilder(begin)
    table = function.args[0]
    record = builder.alloca(r.I64, call.PAIRS + 1)
    for which, value in (
        (call.LOOP, call.PROGRAMS),
        (call.ASKED, 0),
        (call.BUDGET, _FIRST_PROGRAMS),
        (call.CALLED, 0),
        (call.COUNT, 0),
        (_LEFT, _FIRST_PROGRAMS),
    ):
        write(builder, record, which, value)
    builder = enter(builder, table)
    write(builder, table, call.ACTIVE, 1)
    first, last = read(builder, table, call.FIRST), read(builder, table, call.LAST)
    counter, step = read(builder, table, call.COUNTER, _POINTER), read(builder, table, call.STEP)
    nobody = ir.Constant(_POINTER, None)
    builder.cbranch(builder.icmp_unsigned("==", counter, nobody), alone, take)
    builder.position_at_end(alone)
    _leave(builder, table, builder.call(span, [table, first, last, record]), streams)
    builder.position_at_end(take)
    mine = builder.atomic_rmw("add", counter, step, "seq_cst")
    builder.cbranch(builder.icmp_signed("<", mine, last), work, done)
    builder.position_at_end(work)
    end = builder.add(mine, step)
    end = builder.select(builder.icmp_signed("<", end, last), end, last)
    status = builder.call(span, [table, mine, end, record])
    good = builder.icmp_signed("==", status, r.number(r.I64, 0))
    handed_on = builder.icmp_signed("==", status, r.number(r.I64, HANDED_ON))
    builder.cbranch(builder.or_(good, handed_on), take, failed)
    builder.position_at_end(failed)
    builder.atomic_rmw("xchg", counter, last, "seq_cst")
    _leave(builder, table, status, streams)
    builder.position_at_end(done)
    _leave(builder, table, r.number(r.I64, 0), streams)


def _leave(builder: ir.IRBuilder, table: IrPointer, status: Register, streams: bool) -> None:
    if streams:
        emit_fence(builder)
    write(builder, table, call.ACTIVE, 0)
    leave(builder, table)
    builder.ret(status)


def _emit_span(module: ir.Module, program: ir.Function, tick: ir.Function) -> ir.Function:
    """Emit the function that runs programs ``first`` to before ``last``, and polls now and then."""
    kind = ir.FunctionType(r.I64, [_POINTER, r.I64, r.I64, _POINTER])
    function = ir.Function(module, kind, "span")
    function.linkage = "internal"
    table, first, last, record = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    arguments = read(builder, table, call.ARGUMENTS, _POINTER)
    x, y, z = (read(builder, table, n) for n in (call.X, call.Y, call.Z))
    scratch_ = read(builder, table, call.SCRATCH, _POINTER)
    start, loop, failed, more, pause, due, done = (function.append_basic_block() for _ in range(7))
    write(builder, table, call.END, last)
    builder.cbranch(builder.icmp_signed("<", first, last), start, done)
    builder.position_at_end(start)
    plane = builder.udiv(first, x)
    origin = [first, builder.urem(first, x), builder.urem(plane, y), builder.udiv(plane, y)]
    horizon = builder.add(first, read(builder, record, _LEFT))
    begun = [horizon, _smaller(builder, horizon, last)]
    builder.branch(loop)
    builder.position_at_end(loop)
    number, *indices, clock, end = (builder.phi(r.I64) for _ in range(6))
    numbers = [builder.trunc(v, r.I32) for v in (*indices, x, y, z)]
    write(builder, table, call.NUMBER, number)
    status = builder.call(program, [arguments, *numbers, scratch_, table])
    builder.cbranch(builder.icmp_signed("!=", status, r.number(r.I64, 0)), failed, more)
    builder.position_at_end(more)
    following = _next_program(builder, number, indices, (x, y))
    # Read anew: the program may have waited, and others have been given the later ones.
    limit = read(builder, table, call.END)
    stop = _smaller(builder, end, limit)
    builder.cbranch(builder.icmp_signed("<", following[0], stop), loop, pause)
    builder.position_at_end(pause)
    write(builder, record, _LEFT, builder.sub(clock, following[0]))
    builder.cbranch(builder.icmp_signed("<", following[0], clock), done, due)
    builder.position_at_end(due)
    budget = builder.call(tick, [table, record])
    write(builder, record, _LEFT, budget)
    horizon = builder.add(following[0], budget)
    later = [horizon, _smaller(builder, horizon, last)]
    check = _stop_at_zero(builder, budget, number)
    limit = read(builder, table, call.END)
    builder.cbranch(builder.icmp_signed("<", following[0], limit), loop, done)
    variables = (number, *indices, clock, end)
    for block, values in (
        (start, origin + begun),
        (more, [*following, clock, end]),
        (check, following + later),
    ):
        for variable, value in zip(variables, values, strict=True):
            variable.add_incoming(value, block)
    builder.position_at_end(failed)
    builder.ret(_status(builder, number, status))
    builder.position_at_end(done)
    short = builder.icmp_signed("<", read(builder, table, call.END), last)
    builder.ret(builder.select(short, r.number(r.I64, HANDED_ON), r.number(r.I64, 0)))
    return function


def _stop_at_zero(builder: ir.IRBuilder, budget: Register, number: Register) -> ir.Block:
    """Emit a return that says that the loop over programs was stopped, if the poll gave 0; return the block behind it."""
    stop, check = builder.function.append_basic_block(), builder.function.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", budget, r.number(r.I64, 0)), check, stop)
    builder.position_at_end(stop)
    builder.ret(_status(builder, number, r.number(r.I64, LOOP_CODES)))
    builder.position_at_end(check)
    return check


def _status(builder: ir.IRBuilder, number: Register, code: Register) -> Register:
    """Return the status of a launch: the number of a program, above that of the assert or loop that ended it."""
    return builder.or_(builder.shl(number, r.number(r.I64, CODE_BITS)), code)


def _smaller(builder: ir.IRBuilder, a: Register, b: Register) -> Register:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _next_program(
    builder: ir.IRBuilder,
    number: Register,
    indices: list[Register],
    extents: tuple[Register, Register],
) -> list[Register]:
    """Return the number of the next program and its indices x, y, z, without a division."""
    one, zero = r.number(r.I64, 1), r.number(r.I64, 0)
    following, carry = [builder.add(number, one)], one
    for index, extent in zip(indices, extents, strict=False):
        moved = builder.add(index, carry)
        ends = builder.icmp_unsigned("==", moved, extent)
        following.append(builder.select(ends, zero, moved))
        carry = builder.zext(ends, r.I64)
    return [*following, builder.add(indices[2], carry)]
