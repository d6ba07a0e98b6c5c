"""Calls of C functions from compiled code: by their names, of Python and of the system; by their addresses, of any."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.core.annotations import (
    IrBuilder,
    IrValue,
    IrValues,
    Signature,
    TargetContext,
    Typed,
)
from emu.kernels.core.jit import intrinsic

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


def _call_at(typingctx: Any, function: Any, arguments: Any) -> Typed:
    """Call the C function at an address with a tuple of integers and addresses; return an integer.

    Of a function that returns an ``int`` only the low 32 bits of that count.
    """

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, values: IrValues
    ) -> IrValue:
        address, given = values
        words = [
            context.cast(builder, value, kind, types.int64)
            for value, kind in zip(cgutils.unpack_tuple(builder, given), arguments, strict=True)
        ]
        kind = ir.FunctionType(ADDRESS, [ADDRESS] * len(words))
        return builder.call(builder.inttoptr(address, kind.as_pointer()), words)

    return types.int64(types.int64, arguments), codegen


call_at = intrinsic(_call_at)
