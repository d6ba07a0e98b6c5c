"""MACHINE_WORD and MACHINE_CALL: loads from the machine words, and calls of the functions whose addresses stand there."""

from __future__ import annotations

from llvmlite import ir

from emu.tile import machine
from emu.tile.cpu import call
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.table import read, write
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.reports import LOOP_CODES
from emu.tile.ir import Operation
from emu.tile.llvm import IrPointer, Register

_POINTER = ir.PointerType()


def _words(builder: ir.IRBuilder, table: IrPointer) -> IrPointer:
    facts = read(builder, table, call.FACTS, _POINTER)
    return read(builder, facts, call.MACHINE, _POINTER)


def emit_word(builder: ir.IRBuilder, table: IrPointer, operation: Operation) -> Register:
    """Emit the load of a machine word."""
    place = machine.WORDS[operation.attributes["what"]]
    return read(builder, _words(builder, table), place)


def _text(builder: ir.IRBuilder, text: str) -> IrPointer:
    """Return the address of a text that ends with a zero byte; of equal texts there is one."""
    module = builder.module
    content = bytearray(text.encode(errors="replace") + b"\0")
    kind = ir.ArrayType(ir.IntType(8), len(content))
    name = f"site.{text}"
    found = module.globals.get(name)
    if found is None:
        found = ir.GlobalVariable(module, kind, name)
        found.linkage, found.global_constant = "internal", True
        found.initializer = ir.Constant(kind, content)
    return found


def emit_call(frame: Frame, table: IrPointer, operation: Operation) -> None:
    """Emit a call of the machine; end the program if it has failed, or another thread of the launch was told to stop."""
    what, builder = operation.attributes["what"], frame.builder
    words = _words(builder, table)
    function = read(builder, words, machine.place_of_call(what), _POINTER)
    given = [builder.ptrtoint(words, r.I64), *(frame.scalar(v) for v in operation.operands)]
    kind = ir.FunctionType(r.I64, [r.I64] * len(given))
    if operation.location is not None:  # who listens to the call asks for it
        site = _text(builder, f"{operation.location.line}:{operation.location.file}")
        write(builder, table, call.SITE, builder.ptrtoint(site, r.I64))
    write(builder, table, call.ACTIVE, 0)  # a crash in there is not the kernel's
    result = builder.call(r.Callee(function, kind), given)
    write(builder, table, call.ACTIVE, 1)
    frame.set_scalar(operation.result, result)
    failed = builder.icmp_signed("!=", read(builder, table, call.STOPPED), r.number(r.I64, 0))
    stop, after = frame.block("stopped"), frame.block("after")
    builder.cbranch(failed, stop, after)
    stopping = ir.IRBuilder(stop)
    write(stopping, table, call.STOPPED, 0)
    stopping.ret(r.number(r.I64, LOOP_CODES))
    frame.start_block(after)
