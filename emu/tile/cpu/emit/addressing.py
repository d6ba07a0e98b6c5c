"""Addresses that move by steps, counted loops, and lanes in turn: what products are made of."""

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
    return frame.builder.mul(index, as_register(step))


def as_register(number: Stride) -> Register:
    """Return a number of i64 as a register."""
    return r.number(r.I64, number) if isinstance(number, int) else number


def opaque(frame: Frame, pointer: IrPointer) -> IrPointer:
    """Return a pointer of which LLVM does not know where it comes from.

    It would compute neighbouring rows from each other in each step of a loop instead of keeping them in registers.
    """
    kind = ir.FunctionType(pointer.type, [pointer.type])
    return frame.builder.asm(kind, "", "=r,0", [pointer], False)


def counted(frame: Frame, count: Stride, body: Callable[[Register], None]) -> None:
    """Emit a loop over 0, 1, ... ``count - 1`` (i64); a count that is a register must be at least 1."""
    if isinstance(count, int) and count == 1:
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
    builder.cbranch(builder.icmp_signed("<", following, as_register(count)), loop, after)
    frame.start_block(after)


def alternating(builder: ir.IRBuilder, a: Register, b: Register) -> Register:
    """Emit the lanes of two vectors in turn."""
    count = int(a.type.count)
    order = [
        lane for pair in zip(range(count), range(count, 2 * count), strict=True) for lane in pair
    ]
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(r.I32, 2 * count), order))


def is_zero(step: Stride) -> bool:
    """Return whether a step is known to be 0."""
    return isinstance(step, int) and step == 0


def plus(builder: ir.IRBuilder, a: Stride, b: Stride) -> Stride:
    """Return the sum of two steps."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        return b if a == 0 else builder.add(r.number(b.type, a), b)
    if isinstance(b, int):
        return a if b == 0 else builder.add(a, r.number(a.type, b))
    return builder.add(a, b)


def times(builder: ir.IRBuilder, step: Stride, factor: Stride) -> Stride:
    """Return a step times an int or a register."""
    if isinstance(step, int):
        if isinstance(factor, int):
            return step * factor
        return factor if step == 1 else builder.mul(factor, r.number(factor.type, step))
    if isinstance(factor, int):
        return step if factor == 1 else builder.mul(step, r.number(step.type, factor))
    return builder.mul(step, factor)
