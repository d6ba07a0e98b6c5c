"""Form of constants, which several dialects have."""

from __future__ import annotations

from emu.mlir.assembly import OpPrinter
from emu.mlir.ir import Operation
from emu.mlir.types import Type


def print_constant(w: OpPrinter, op: Operation, own: Type | None) -> None:
    """Write ``x.constant dense<…> : type``.

    Args:
        w: The printer.
        op: The constant; its value is the inherent attribute ``value``.
        own: The type of the value. Where the result has another one, MLIR writes the generic form
            without quotes.
    """
    value = op.properties["value"]
    w.write(op.name)
    if own == op.result.type:
        w.attr_dict(op, elide=("value",))
        w.write(" ")
        w.attribute(value)
        return
    w.write("() <{value = ")
    w.attribute(value)
    w.write("}>")
    w.attr_dict(op, elide=("value",))
    w.write(" : ")
    w.functional_type(op)
