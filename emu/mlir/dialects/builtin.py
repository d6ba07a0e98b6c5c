"""The builtin and func dialects: modules, functions, calls and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.mlir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, SymbolRefAttr, TypeAttr
from emu.mlir.ir import Operation
from emu.mlir.registry import OpDefinition, define
from emu.mlir.text.attribute_printer import RESOURCES
from emu.mlir.types import FunctionType, Type

if TYPE_CHECKING:
    from emu.mlir.text.parser import Argument, Parser
    from emu.mlir.text.printer import Printer

__all__ = ["function_type"]

_EMPTY = DictAttr(())
_FUNCTION_KEYS = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")
_VISIBILITIES = ("public", "private", "nested")


def function_type(func: Operation) -> FunctionType:
    """The type of a ``func.func``; raises ValueError where it has none."""
    attribute = func.properties.get("function_type")
    if isinstance(attribute, TypeAttr) and isinstance(attribute.type, FunctionType):
        return attribute.type
    raise ValueError(f"{func.name} has no function type")


def split_attributes(
    attributes: dict[str, Attribute], inherent: tuple[str, ...]
) -> dict[str, Attribute]:
    """Take the inherent attributes out of a dictionary; gives them."""
    return {name: attributes.pop(name) for name in inherent if name in attributes}


# builtin.module


def _parse_module(p: Parser) -> Operation:
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


def _print_module(w: Printer, op: Operation) -> None:
    w.op_name(op)
    name = op.symbol_name
    if name is not None:
        w.write(" ")
        w.symbol(name)
    w.attr_dict(op, elide=("sym_name", RESOURCES), with_keyword=True)
    w.write(" ")
    w.region(op.regions[0], entry_arguments=False)


# builtin.unrealized_conversion_cast


def _parse_cast(p: Parser) -> Operation:
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


def _print_cast(w: Printer, op: Operation) -> None:
    w.op_name(op)
    if op.operands:
        w.write(" ")
        w.operands(op.operands)
        w.write(" : ")
        w.types([v.type for v in op.operands])
    w.write(" to ")
    w.types([r.type for r in op.results])
    w.attr_dict(op)


# func.func


def _argument_or_type(p: Parser) -> tuple[Argument | None, Type, dict[str, Attribute]]:
    if p.tokens[p.index][:1] == "%":
        argument = p._argument()
        return argument, argument[1], argument[2] or {}
    type_ = p.type()
    attributes = p.optional_attr_dict()
    p.optional_location()
    return None, type_, attributes


def _signature(
    p: Parser,
) -> tuple[list[Argument], list[Type], list[dict[str, Attribute]]]:
    arguments: list[Argument] = []
    types: list[Type] = []
    attributes: list[dict[str, Attribute]] = []

    def one() -> None:
        named = p.tokens[p.index][:1] == "%"
        if types and named != bool(arguments):
            p.error(
                "expected type instead of SSA identifier" if named else "expected SSA identifier"
            )
        argument, type_, entries = _argument_or_type(p)
        if argument is not None:
            arguments.append(argument)
        types.append(type_)
        attributes.append(entries)

    p.comma_separated("(", ")", one)
    return arguments, types, attributes


def _results(p: Parser) -> tuple[list[Type], list[dict[str, Attribute]]]:
    if not p.accept("->"):
        return [], []
    if not p.peek("("):
        return [p.type()], [{}]
    types: list[Type] = []
    attributes: list[dict[str, Attribute]] = []

    def one() -> None:
        types.append(p.type())
        attributes.append(p.optional_attr_dict())

    p.comma_separated("(", ")", one)
    return types, attributes


def _dictionaries(attributes: list[dict[str, Attribute]]) -> ArrayAttr | None:
    if not any(attributes):
        return None
    return ArrayAttr(tuple(DictAttr.of(each) for each in attributes))


def _parse_func(p: Parser) -> Operation:
    properties: dict[str, Attribute] = {}
    for word in _VISIBILITIES:
        if p.accept_keyword(word):
            properties["sym_visibility"] = StringAttr(word)
            break
    properties["sym_name"] = StringAttr(p.symbol())
    arguments, inputs, argument_attributes = _signature(p)
    outputs, result_attributes = _results(p)
    properties["function_type"] = TypeAttr(FunctionType(tuple(inputs), tuple(outputs)))
    place = p.here()
    attributes = p.optional_attr_dict_with_keyword()
    for name in ("sym_visibility", "sym_name", "function_type"):
        if name in attributes:
            p.error(
                f"'{name}' is an inferred attribute and should not be specified in the "
                "explicit attribute dictionary",
                place,
            )
    properties.update(split_attributes(attributes, ("arg_attrs", "res_attrs", "no_inline")))
    found = {
        "arg_attrs": _dictionaries(argument_attributes),
        "res_attrs": _dictionaries(result_attributes),
    }
    properties.update((name, value) for name, value in found.items() if value is not None)
    regions = []
    if p.peek("{"):
        place = p.here()
        body = p.region(arguments)
        if not body.blocks:
            p.error("expected non-empty function body", place)
        regions.append(body)
    op = Operation("func.func", properties=properties, attributes=attributes, regions=regions)
    if not regions:
        op.add_region()
    return op


def _dictionary_at(op: Operation, name: str, index: int) -> DictAttr:
    attribute = op.properties.get(name)
    if isinstance(attribute, ArrayAttr) and index < len(attribute.elements):
        found = attribute.elements[index]
        return found if isinstance(found, DictAttr) else _EMPTY
    return _EMPTY


def _print_func(w: Printer, op: Operation) -> None:
    w.op_name(op)
    visibility = op.properties.get("sym_visibility")
    w.write(f" {visibility.value} " if isinstance(visibility, StringAttr) else " ")
    w.symbol(op.symbol_name or "")
    type_ = function_type(op)
    blocks = op.regions[0].blocks
    w.write("(")
    for index, input_ in enumerate(type_.inputs):
        if index:
            w.write(", ")
        attributes = _dictionary_at(op, "arg_attrs", index)
        if blocks:
            w.block_argument(blocks[0].arguments[index], attributes)
        else:
            w.type(input_)
            w.dictionary(attributes)
    w.write(")")
    _print_results(w, op, type_)
    w.attr_dict(op, elide=_FUNCTION_KEYS, with_keyword=True)
    if blocks:
        w.write(" ")
        w.region(op.regions[0], entry_arguments=False)


def _print_results(w: Printer, op: Operation, type_: FunctionType) -> None:
    results = type_.results
    if not results:
        return
    w.write(" -> ")
    bare = (
        len(results) == 1
        and not isinstance(results[0], FunctionType)
        and not _dictionary_at(op, "res_attrs", 0).entries
    )
    if bare:
        w.type(results[0])
        return
    w.write("(")
    for index, result in enumerate(results):
        if index:
            w.write(", ")
        w.type(result)
        w.dictionary(_dictionary_at(op, "res_attrs", index))
    w.write(")")


# func.call, func.return, func.constant


def _parse_call(p: Parser) -> Operation:
    properties: dict[str, Attribute] = {"callee": SymbolRefAttr(p.symbol())}
    p.expect("(")
    operands = p.operands()
    p.expect(")")
    attributes = p.optional_attr_dict()
    properties.update(split_attributes(attributes, ("arg_attrs", "res_attrs", "no_inline")))
    p.expect(":")
    place = p.here()
    type_ = p.function_type()
    return Operation(
        "func.call",
        p.resolve_all(operands, type_.inputs, place),
        type_.results,
        properties=properties,
        attributes=attributes,
    )


def _print_call(w: Printer, op: Operation) -> None:
    w.op_name(op)
    w.write(f" {op.properties['callee']}(")
    w.operands(op.operands)
    w.write(")")
    w.attr_dict(op, elide=("callee",))
    w.write(" : ")
    w.functional_type(op)


def _parse_call_indirect(p: Parser) -> Operation:
    callee = p.operand()
    p.expect("(")
    operands = p.operands()
    p.expect(")")
    attributes = p.optional_attr_dict()
    p.expect(":")
    place = p.here()
    type_ = p.function_type()
    values = [p.resolve(callee, type_), *p.resolve_all(operands, type_.inputs, place)]
    properties = split_attributes(attributes, ("arg_attrs", "res_attrs"))
    return Operation(
        "func.call_indirect", values, type_.results, properties=properties, attributes=attributes
    )


def _print_call_indirect(w: Printer, op: Operation) -> None:
    w.op_name(op)
    w.write(" ")
    w.operand(op.operands[0])
    w.write("(")
    w.operands(op.operands[1:])
    w.write(")")
    w.attr_dict(op)
    w.write(" : ")
    w.type(op.operands[0].type)


def _parse_return(p: Parser) -> Operation:
    attributes = p.optional_attr_dict()
    place = p.here()
    operands = p.operands()
    values = []
    if operands:
        p.expect(":")
        values = p.resolve_all(operands, p.types(), place)
    return Operation("func.return", values, attributes=attributes)


def _print_return(w: Printer, op: Operation) -> None:
    w.op_name(op)
    w.attr_dict(op)
    if op.operands:
        w.write(" ")
        w.operands(op.operands)
        w.write(" : ")
        w.types([v.type for v in op.operands])


def _parse_constant(p: Parser) -> Operation:
    attributes = p.optional_attr_dict()
    value = SymbolRefAttr(p.symbol())
    p.expect(":")
    return Operation(
        "func.constant", result_types=[p.type()], properties={"value": value}, attributes=attributes
    )


def _print_constant(w: Printer, op: Operation) -> None:
    w.op_name(op)
    w.attr_dict(op, elide=("value",))
    w.write(f" {op.properties['value']} : ")
    w.type(op.result.type)


define(
    OpDefinition(
        "builtin.module",
        ("sym_name", "sym_visibility"),
        _parse_module,
        _print_module,
        isolated=True,
        symbol=True,
        symbol_table=True,
    )
)
define(OpDefinition("builtin.unrealized_conversion_cast", (), _parse_cast, _print_cast, pure=True))
define(
    OpDefinition(
        "func.func",
        (*_FUNCTION_KEYS, "no_inline"),
        _parse_func,
        _print_func,
        isolated=True,
        symbol=True,
    )
)
define(
    OpDefinition(
        "func.call",
        ("callee", "arg_attrs", "res_attrs", "no_inline"),
        _parse_call,
        _print_call,
    )
)
define(
    OpDefinition(
        "func.call_indirect", ("arg_attrs", "res_attrs"), _parse_call_indirect, _print_call_indirect
    )
)
define(OpDefinition("func.return", (), _parse_return, _print_return, terminator=True, pure=True))
define(
    OpDefinition(
        "func.constant",
        ("value",),
        _parse_constant,
        _print_constant,
        pure=True,
        result_name=lambda op: "f",
    )
)
