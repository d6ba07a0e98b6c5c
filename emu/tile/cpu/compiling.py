"""From a module of the tile IR to a kernel: passes, emission, and the entry by which programs are run."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from emu.tile.cpu import native
from emu.tile.cpu import registers as r
from emu.tile.cpu.diagnosis import Diagnosis
from emu.tile.cpu.emitter import Emitter
from emu.tile.cpu.frame import Frame
from emu.tile.cpu.kernel import Kernel
from emu.tile.cpu.options import Options
from emu.tile.cpu.reports import CODE_BITS
from emu.tile.ir import Function, Module
from emu.tile.packing import slot
from emu.tile.passes import CarryOffsets, simplify
from emu.tile.types import DType, Pointer
from emu.tile.verify import verify

_POINTER = ir.PointerType()
_RUN = ir.FunctionType(r.I64, [_POINTER])
_PROGRAM = ir.FunctionType(r.I64, [_POINTER, *[r.I32] * 6, _POINTER, _POINTER])
_DEPTH = 50_000


def compile(module: Module, *, options: Options | None = None) -> Kernel:
    """Compile the kernel of a module; ``emu.tile.cpu.compile`` says what is promised."""
    with _deep():
        verify(module)
        module = simplify(module)
        CarryOffsets().apply(module)
        kernel = module.kernel
        text, frame, diagnosis = _emit(kernel, options or Options())
    symbol = f"{_ascii(kernel.name)}.{_digest(text)}"
    text = text.replace('@"emu.run"', f'@"{symbol}"')
    return Kernel(
        kernel.name,
        symbol,
        "".join(slot(argument.type) for argument in kernel.body.arguments),
        frame.scratch.size,
        tuple(diagnosis.asserts),
        tuple(diagnosis.prints),
        native.to_object(text),
        text,
    )


@contextmanager
def _deep() -> Iterator[None]:
    """Allow for chains of thousands of operations, along which facts are looked up recursively."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _digest(text: str) -> str:
    """Return what tells the code of one LLVM IR on one CPU from all other code."""
    target = native.host()
    return hashlib.sha256(f"{target.cpu} {target.features} {text}".encode()).hexdigest()[:24]


def _ascii(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


def _emit(kernel: Function, options: Options) -> tuple[str, Frame, Diagnosis]:
    """Return the LLVM IR of a kernel: a function for one program, and one for a stretch of the grid."""
    module = ir.Module("kernel")
    function = ir.Function(module, _PROGRAM, "program")
    function.linkage = "internal"
    for number in (0, 7):  # nothing that a program writes are its arguments, and scratch is its own
        function.args[number].add_attribute("noalias")
    frame = Frame(function, kernel.body, options)
    frame.scratch_base = function.args[7]
    arguments, *numbers = function.args
    diagnosis = Diagnosis(numbers[:3], function.args[8])
    frame.builder = ir.IRBuilder(frame.block("begin"))
    for n, argument in enumerate(kernel.body.arguments):
        type_ = argument.type
        assert isinstance(type_, (DType, Pointer))
        place = frame.builder.gep(arguments, [r.number(r.I64, 8 * n)], source_etype=r.BYTE)
        loaded = frame.builder.load(place, typ=r.memory_type(type_))
        frame.set_scalar(argument, r.from_memory(frame.builder, type_, loaded))
    begin = frame.builder.block
    Emitter(frame, numbers[:6], diagnosis).region(kernel.body)
    frame.builder.ret(r.number(r.I64, 0))
    frame.entry.branch(begin)
    _emit_run(module, function)
    return str(module), frame, diagnosis


def _emit_run(module: ir.Module, program: ir.Function) -> None:
    """Emit the entry: it runs the span that it is told, or takes one span after the other."""
    span = _emit_span(module, program)
    function = ir.Function(module, _RUN, "emu.run")
    blocks = [function.append_basic_block() for _ in range(6)]
    begin, alone, take, work, failed, done = blocks
    builder = ir.IRBuilder(begin)
    first, last = (_field(builder, function.args[0], n, r.I64) for n in (1, 2))
    counter = _field(builder, function.args[0], 8, _POINTER)
    step = _field(builder, function.args[0], 9, r.I64)
    nobody = ir.Constant(_POINTER, None)
    builder.cbranch(builder.icmp_unsigned("==", counter, nobody), alone, take)
    builder.position_at_end(alone)
    builder.ret(builder.call(span, [function.args[0], first, last]))
    builder.position_at_end(take)
    mine = builder.atomic_rmw("add", counter, step, "seq_cst")
    builder.cbranch(builder.icmp_signed("<", mine, last), work, done)
    builder.position_at_end(work)
    end = builder.add(mine, step)
    end = builder.select(builder.icmp_signed("<", end, last), end, last)
    status = builder.call(span, [function.args[0], mine, end])
    builder.cbranch(builder.icmp_signed("!=", status, r.number(r.I64, 0)), failed, take)
    builder.position_at_end(failed)
    builder.atomic_rmw("xchg", counter, last, "seq_cst")
    builder.ret(status)
    builder.position_at_end(done)
    builder.ret(r.number(r.I64, 0))


def _field(builder: ir.IRBuilder, call: Any, number: int, type_: Any) -> Any:
    """Return a field of what an entry is told."""
    place = builder.gep(call, [r.number(r.I64, 8 * number)], source_etype=r.BYTE)
    return builder.load(place, typ=type_)


def _emit_span(module: ir.Module, program: ir.Function) -> ir.Function:
    """Emit what runs programs from a first to before a last."""
    function = ir.Function(module, ir.FunctionType(r.I64, [_POINTER, r.I64, r.I64]), "span")
    function.linkage = "internal"
    call, first, last = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    arguments = _field(builder, call, 0, _POINTER)
    x, y, z = (_field(builder, call, n, r.I64) for n in (3, 4, 5))
    scratch_, callback = (_field(builder, call, n, _POINTER) for n in (6, 7))
    start, loop, failed, more, done = (function.append_basic_block() for _ in range(5))
    builder.cbranch(builder.icmp_signed("<", first, last), start, done)
    builder.position_at_end(start)
    plane = builder.udiv(first, x)
    origin = [first, builder.urem(first, x), builder.urem(plane, y), builder.udiv(plane, y)]
    builder.branch(loop)
    builder.position_at_end(loop)
    number, *indices = (builder.phi(r.I64) for _ in range(4))
    numbers = [builder.trunc(v, r.I32) for v in (*indices, x, y, z)]
    status = builder.call(program, [arguments, *numbers, scratch_, callback])
    builder.cbranch(builder.icmp_signed("!=", status, r.number(r.I64, 0)), failed, more)
    builder.position_at_end(more)
    following = _next_program(builder, number, indices, (x, y))
    for variable, at_first, later in zip((number, *indices), origin, following, strict=True):
        variable.add_incoming(at_first, start)
        variable.add_incoming(later, more)
    builder.cbranch(builder.icmp_signed("<", following[0], last), loop, done)
    builder.position_at_end(failed)
    shifted = builder.shl(number, r.number(r.I64, CODE_BITS))
    builder.ret(builder.or_(shifted, status))
    builder.position_at_end(done)
    builder.ret(r.number(r.I64, 0))
    return function


def _next_program(
    builder: ir.IRBuilder, number: Any, indices: list[Any], extents: tuple[Any, Any]
) -> list[Any]:
    """Return the number of the next program and its indices x, y, z: a division takes longer."""
    one, zero = r.number(r.I64, 1), r.number(r.I64, 0)
    following, carry = [builder.add(number, one)], one
    for index, extent in zip(indices, extents, strict=False):
        moved = builder.add(index, carry)
        ends = builder.icmp_unsigned("==", moved, extent)
        following.append(builder.select(ends, zero, moved))
        carry = builder.zext(ends, r.I64)
    return [*following, builder.add(indices[2], carry)]
