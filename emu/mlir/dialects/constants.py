"""Form of constants, which several dialects have."""

from __future__ import annotations

from collections.abc import Callable

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import Attribute
from emu.mlir.forms import Draft, Piece
from emu.mlir.ir import Operation
from emu.mlir.types import Type


class Elements(Piece):
    """Value of a constant; its type is that of the result.

    Args:
        type_of: Returns the type of a value, or None for an attribute that is no such value.
        message: The error about such an attribute.
    """

    writes = needs = ("value",)

    def __init__(self, type_of: Callable[[Attribute], Type | None], message: str) -> None:
        self.type_of = type_of
        self._message = message

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
        place = p.here()
        value = p.attribute()
        type_ = self.type_of(value)
        if type_ is None:
            p.error(self._message, place)
        draft.properties["value"] = value
        draft.result_types = [type_]

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        w.attribute(op.properties["value"])


class ConstantForm:
    """``x.constant dense<…> : type``, or the generic form without quotes.

    MLIR writes the latter where the value and the result have different types.

    Args:
        name: Full name of the operation.
        elements: Its value.
    """

    def __init__(self, name: str, elements: Elements) -> None:
        self._name = name
        self._elements = elements

    def parse(self, p: OpParser) -> Operation:
        """Read the operation behind its name."""
        draft = Draft(self._name)
        if not p.accept("("):
            draft.take(p.optional_attr_dict())
            self._elements.read(p, draft)
            return draft.finish(p)
        p.expect(")")
        if p.accept("<"):
            draft.take(p.optional_attr_dict())
            p.expect(">")
        draft.take(p.optional_attr_dict())
        p.expect(":")
        draft.take_signature(p.function_type())
        return draft.finish(p)

    def print(self, w: OpPrinter, op: Operation) -> None:
        """Write the operation."""
        value = op.properties.get("value")
        if value is None or len(op.results) != 1:
            w.generic_operation(op)
            return
        w.write(op.name)
        if self._elements.type_of(value) == op.result.type:
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
