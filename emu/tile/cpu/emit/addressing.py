"""Addresses that move by steps, and counted loops: what products are made of."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.memory import Stride
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.llvm import IrPointer, Register


def move(frame: Frame, pointer: IrPointer, index: Register, step: Stride) -> IrPointer:
    """Emit an address moved by ``index`` steps of that many bytes."""
    return frame.builder.gep(pointer, [scaled(frame, index, step)], source_etype=r.BYTE)


def scaled(frame: Frame, index: Register, step: Stride) -> Register:
    """Emit ``index`` times a step."""
    return frame.builder.mul(index, r.number(r.I64, step) if isinstance(step, int) else step)


def opaque(frame: Frame, pointer: IrPointer) -> IrPointer:
    """Return a pointer of which LLVM does not know where it comes from.

    It would compute neighbouring rows from each other in each step of a loop instead of keeping them in registers.
    """
    kind = ir.FunctionType(pointer.type, [pointer.type])
    return frame.builder.asm(kind, "", "=r,0", [pointer], False)


def counted(frame: Frame, count: int, body: Callable[[Register], None]) -> None:
    """Emit a loop over 0, 1, ... ``count - 1`` (i64)."""
    if count == 1:
        body(r.number(r.I64, 0))
        return
    before, loop, after = frame.builder.block, frame.block("loop"), frame.block("after")
    frame.builder.branch(loop)
    frame.start_block(loop)
    index = frame.builder.phi(r.I64)
    index.add_incoming(r.number(r.I64, 0), before)
    body(index)
    builder = frame.builder
    following = builder.add(index, r.number(r.I64, 1))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, r.number(r.I64, count)), loop, after)
    frame.start_block(after)
