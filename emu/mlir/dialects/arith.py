"""The arith dialect: ``arith.constant``, the only operation of it that sharded programs have."""

from __future__ import annotations

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import Attribute, BoolAttr, DenseElementsAttr, FloatAttr, IntegerAttr
from emu.mlir.ir import Operation
from emu.mlir.registry import OpDefinition, define, known_dialects
from emu.mlir.types import IndexType, IntegerType, Type


def _type_of(value: Attribute) -> Type | None:
    if isinstance(value, BoolAttr):
        return IntegerType(1)
    if isinstance(value, IntegerAttr | FloatAttr | DenseElementsAttr):
        return value.type
    return None


def _parse(p: OpParser) -> Operation:
    attributes = p.optional_attr_dict()
    place = p.here()
    value = p.attribute()
    type_ = _type_of(value)
    if type_ is None:
        p.error("expected a number or elements", place)
    return Operation(
        "arith.constant", (), [type_], properties={"value": value}, attributes=attributes
    )


def _print(w: OpPrinter, op: Operation) -> None:
    w.write("arith.constant")
    w.attr_dict(op, elide=("value",))
    w.write(" ")
    w.attribute(op.properties["value"])


def _name(op: Operation) -> str:
    """Return the printed name: ``%true``, ``%c4``, ``%c4_i32`` or ``%cst``."""
    value = op.properties.get("value")
    if isinstance(value, BoolAttr):
        return "true" if value.value else "false"
    if isinstance(value, IntegerAttr):
        suffix = "" if isinstance(value.type, IndexType) else f"_{value.type}"
        return f"c{value.value}{suffix}"
    return "cst"


define(
    OpDefinition(
        "arith.constant",
        ("value",),
        parse=_parse,
        print=_print,
        pure=True,
        constant=True,
        result_name=_name,
    )
)
# Other operations of the dialect are no errors: they are read and written in generic form.
known_dialects.discard("arith")
