"""Calls of C functions from compiled code, by their names: of Python, and of the system."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from emu.kernels.core.annotations import IrBuilder, IrValue

ADDRESS = ir.IntType(64)


def call_c(builder: IrBuilder, name: str, result: ir.Type, *arguments: IrValue) -> IrValue:
    """Emit a call of a function that takes addresses, or other integers of 64 bits."""
    kind = ir.FunctionType(result, [ADDRESS] * len(arguments))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def give_gil(builder: IrBuilder) -> IrValue:
    """Emit what lets other threads run Python; return what :func:`take_gil` needs."""
    return call_c(builder, "PyEval_SaveThread", ADDRESS)


def take_gil(builder: IrBuilder, state: IrValue) -> None:
    """Emit what waits until this thread may run Python again."""
    call_c(builder, "PyEval_RestoreThread", ir.VoidType(), state)
