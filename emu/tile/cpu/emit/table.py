"""Words of 64 bits in the tables that kernels and Python share, see ``call``."""

from __future__ import annotations

from llvmlite import ir

from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.llvm import IrPointer, IrType, Register


def word(builder: ir.IRBuilder, base: IrPointer, number: int) -> IrPointer:
    """Return the address of a word of a table."""
    return builder.gep(base, [r.number(r.I64, 8 * number)], source_etype=r.BYTE)


def read(builder: ir.IRBuilder, base: IrPointer, number: int, type_: IrType = r.I64) -> Register:
    """Return a word of a table."""
    return builder.load(word(builder, base, number), typ=type_)


def write(builder: ir.IRBuilder, base: IrPointer, number: int, value: int | Register) -> None:
    """Set a word of a table."""
    register = r.number(r.I64, value) if isinstance(value, int) else value
    builder.store(register, word(builder, base, number))
