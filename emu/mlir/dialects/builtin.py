"""The builtin dialect: modules and casts that are left over from conversions."""

from __future__ import annotations

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import Attribute, StringAttr
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import Operation
from emu.mlir.registry import OpDefinition, define
from emu.mlir.symbols import symbol_problem
from emu.mlir.types import Type


def split_attributes(
    attributes: dict[str, Attribute], inherent: tuple[str, ...]
) -> dict[str, Attribute]:
    """Take the inherent attributes out of a dictionary, and return them."""
    return {name: attributes.pop(name) for name in inherent if name in attributes}


# builtin.module


def _parse_module(p: OpParser) -> Operation:
    properties: dict[str, Attribute] = {}
    name = p.optional_symbol()
    if name is not None:
        properties["sym_name"] = StringAttr(name)
    attributes = p.optional_attr_dict_with_keyword()
    properties.update(split_attributes(attributes, ("sym_name", "sym_visibility")))
    region = p.region()
    if not region.blocks:
        region.add_block()
    return Operation(
        "builtin.module", properties=properties, attributes=attributes, regions=[region]
    )


def _print_module(w: OpPrinter, op: Operation) -> None:
    w.op_name(op)
    name = op.symbol_name
    if name is not None:
        w.write(" ")
        w.symbol(name)
    w.attr_dict(op, elide=("sym_name",), with_keyword=True)
    w.write(" ")
    w.region(op.regions[0], entry_arguments=False)


def _verify_module(op: Operation, diagnostics: Diagnostics) -> bool:
    if len(op.regions) != 1:
        return op.emit_op_error(diagnostics, "requires one region")
    blocks = op.regions[0].blocks
    if any(block.arguments for block in blocks):
        return op.emit_op_error(diagnostics, "region should have no arguments")
    if len(blocks) > 1:
        return op.emit_op_error(diagnostics, "expects region #0 to have 0 or 1 blocks")
    if not blocks:
        message = "region #0 ('bodyRegion') failed to verify constraint: region with 1 blocks"
        return op.emit_op_error(diagnostics, message)
    for name in sorted(op.attributes):
        if "." not in name:
            message = f"can only contain attributes with dialect-prefixed names, found: '{name}'"
            return op.emit_op_error(diagnostics, message)
    problem = symbol_problem(op)
    return problem is None or op.emit_op_error(diagnostics, problem)


# builtin.unrealized_conversion_cast


def _parse_cast(p: OpParser) -> Operation:
    operands = []
    types: list[Type] = []
    place = p.here()
    if not p.peek_keyword("to"):
        operands = p.operands()
        p.expect(":")
        types = p.types()
    values = p.resolve_all(operands, types, place)
    p.expect_keyword("to")
    results = p.types()
    attributes = p.optional_attr_dict()
    return Operation("builtin.unrealized_conversion_cast", values, results, attributes=attributes)


def _print_cast(w: OpPrinter, op: Operation) -> None:
    w.op_name(op)
    if op.operands:
        w.write(" ")
        w.operands(op.operands)
        w.write(" : ")
        w.types([v.type for v in op.operands])
    w.write(" to ")
    w.types([r.type for r in op.results])
    w.attr_dict(op)


define(
    OpDefinition(
        "builtin.module",
        ("sym_name", "sym_visibility"),
        _parse_module,
        _print_module,
        _verify_module,
        isolated=True,
        symbol=True,
        symbol_table=True,
    )
)
define(OpDefinition("builtin.unrealized_conversion_cast", (), _parse_cast, _print_cast, pure=True))
