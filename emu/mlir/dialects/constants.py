"""How constants are written, which several dialects have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.mlir.ir import Operation
from emu.mlir.types import Type

if TYPE_CHECKING:
    from emu.mlir.text.printer import Printer

__all__ = ["print_constant"]


def print_constant(w: Printer, op: Operation, own: Type | None) -> None:
    """Write ``x.constant dense<…> : type``.

    Args:
        w: Where to.
        op: The constant; its value is the inherent attribute ``value``.
        own: The type of the value. Where the result has another, MLIR writes
            the generic form without quotes.
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
