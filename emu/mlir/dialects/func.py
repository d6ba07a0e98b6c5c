"""The func dialect: functions, calls and returns."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.assembly import Argument, OpParser, OpPrinter
from emu.mlir.attributes import (
    ArrayAttr,
    Attribute,
    DictAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
)
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.dialects.builtin import split_attributes
from emu.mlir.ir import Operation
from emu.mlir.registry import OpDefinition, attribute_verifiers, define
from emu.mlir.symbols import lookup, symbol_problem
from emu.mlir.types import FunctionType, Type

_EMPTY = DictAttr(())
_FUNCTION_KEYS = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")
_VISIBILITIES = ("public", "private", "nested")


def _function_type(func: Operation) -> FunctionType:
    """Return the type of a ``func.func``; raise ValueError where it has none."""
    attribute = func.properties.get("function_type")
    if isinstance(attribute, TypeAttr) and isinstance(attribute.type, FunctionType):
        return attribute.type
    raise ValueError(f"{func.name} has no function type")


# func.func


def _argument_or_type(p: OpParser) -> tuple[Argument | None, Type, dict[str, Attribute]]:
    if p.peek_operand():
        argument = p.argument()
        return argument, argument[1], argument[2] or {}
    type_ = p.type()
    attributes = p.optional_attr_dict()
    p.optional_location()
    return None, type_, attributes


def _signature(
    p: OpParser,
) -> tuple[list[Argument], list[Type], list[dict[str, Attribute]]]:
    arguments: list[Argument] = []
    types: list[Type] = []
    attributes: list[dict[str, Attribute]] = []

    def one() -> None:
        named = p.peek_operand()
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


def _results(p: OpParser) -> tuple[list[Type], list[dict[str, Attribute]]]:
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


def _parse_func(p: OpParser) -> Operation:
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


def _print_func(w: OpPrinter, op: Operation) -> None:
    w.op_name(op)
    visibility = op.properties.get("sym_visibility")
    w.write(f" {visibility.value} " if isinstance(visibility, StringAttr) else " ")
    w.symbol(op.symbol_name or "")
    type_ = _function_type(op)
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


def _print_results(w: OpPrinter, op: Operation, type_: FunctionType) -> None:
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


def _verify_func(op: Operation, diagnostics: Diagnostics) -> bool:
    for name in ("function_type", "sym_name"):
        if name not in op.properties:
            return op.emit_op_error(diagnostics, f"requires attribute '{name}'")
    held = op.properties["function_type"]
    if not isinstance(held, TypeAttr) or not isinstance(held.type, FunctionType):
        message = (
            "attribute 'function_type' failed to satisfy constraint: type attribute of "
            "function type"
        )
        return op.emit_op_error(diagnostics, message)
    for name in ("arg_attrs", "res_attrs"):
        lists = op.properties.get(name)
        if lists is not None and not _are_dictionaries(lists):
            message = (
                f"attribute '{name}' failed to satisfy constraint: Array of dictionary attributes"
            )
            return op.emit_op_error(diagnostics, message)
    if len(op.regions) != 1:
        return op.emit_op_error(diagnostics, "requires one region")
    return (
        _verify_symbol(op, diagnostics)
        and _verify_declaration(op, diagnostics)
        and _verify_attributes(op, diagnostics, held.type.inputs, "argument")
        and _verify_attributes(op, diagnostics, held.type.results, "result")
        and _verify_entry_block(op, diagnostics, held.type)
    )


def _are_dictionaries(lists: object) -> bool:
    return isinstance(lists, ArrayAttr) and all(isinstance(d, DictAttr) for d in lists.elements)


def _verify_symbol(op: Operation, diagnostics: Diagnostics) -> bool:
    message = symbol_problem(op)
    return message is None or op.emit_op_error(diagnostics, message)


def _verify_declaration(op: Operation, diagnostics: Diagnostics) -> bool:
    visibility = op.properties.get("sym_visibility")
    is_public = not isinstance(visibility, StringAttr) or visibility.value == "public"
    if is_public and not op.regions[0].blocks:
        return op.emit_op_error(diagnostics, "symbol declaration cannot have public visibility")
    return True


def _verify_attributes(
    op: Operation, diagnostics: Diagnostics, types: Sequence[Type], kind: str
) -> bool:
    """Verify the attributes of arguments or results."""
    lists = op.properties.get("arg_attrs" if kind == "argument" else "res_attrs")
    if not isinstance(lists, ArrayAttr):
        return True
    if len(lists.elements) != len(types):
        message = (
            f"expects {kind} attribute array to have the same number of elements as the number "
            f"of function {kind}s, got {len(lists.elements)}, but expected {len(types)}"
        )
        return op.emit_op_error(diagnostics, message)
    for index, entries in enumerate(lists.elements):
        assert isinstance(entries, DictAttr)  # checked before
        for name, attribute in entries.entries:
            dialect, dot, _ = name.partition(".")
            if not dot:
                return op.emit_op_error(diagnostics, f"{kind}s may only have dialect attributes")
            checks = attribute_verifiers.get(dialect)
            if checks is None:
                continue
            check = checks.argument if kind == "argument" else checks.result
            if not check(op, index, name, attribute, diagnostics):
                return False
    return True


def _verify_entry_block(op: Operation, diagnostics: Diagnostics, type_: FunctionType) -> bool:
    """Verify that the arguments of the first block are those of the function."""
    if not op.regions[0].blocks:
        return True
    arguments = op.body().arguments
    if len(arguments) != len(type_.inputs):
        message = f"entry block must have {len(type_.inputs)} arguments to match function signature"
        return op.emit_op_error(diagnostics, message)
    for index, (argument, expected) in enumerate(zip(arguments, type_.inputs, strict=True)):
        if argument.type != expected:
            message = (
                f"type of entry block argument #{index}('{argument.type}') must match the type of "
                f"the corresponding argument in function signature('{expected}')"
            )
            return op.emit_op_error(diagnostics, message)
    return True


# func.call, func.return, func.constant


def _parse_call(p: OpParser) -> Operation:
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


def _print_call(w: OpPrinter, op: Operation) -> None:
    w.op_name(op)
    w.write(f" {op.properties['callee']}(")
    w.operands(op.operands)
    w.write(")")
    w.attr_dict(op, elide=("callee",))
    w.write(" : ")
    w.functional_type(op)


def _parse_call_indirect(p: OpParser) -> Operation:
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


def _print_call_indirect(w: OpPrinter, op: Operation) -> None:
    w.op_name(op)
    w.write(" ")
    w.operand(op.operands[0])
    w.write("(")
    w.operands(op.operands[1:])
    w.write(")")
    w.attr_dict(op)
    w.write(" : ")
    w.type(op.operands[0].type)


def _parse_return(p: OpParser) -> Operation:
    attributes = p.optional_attr_dict()
    place = p.here()
    operands = p.operands()
    values = []
    if operands:
        p.expect(":")
        values = p.resolve_all(operands, p.types(), place)
    return Operation("func.return", values, attributes=attributes)


def _print_return(w: OpPrinter, op: Operation) -> None:
    w.op_name(op)
    w.attr_dict(op)
    if op.operands:
        w.write(" ")
        w.operands(op.operands)
        w.write(" : ")
        w.types([v.type for v in op.operands])


def _parse_constant(p: OpParser) -> Operation:
    attributes = p.optional_attr_dict()
    value = SymbolRefAttr(p.symbol())
    p.expect(":")
    return Operation(
        "func.constant", result_types=[p.type()], properties={"value": value}, attributes=attributes
    )


def _print_constant(w: OpPrinter, op: Operation) -> None:
    w.op_name(op)
    w.attr_dict(op, elide=("value",))
    w.write(f" {op.properties['value']} : ")
    w.type(op.result.type)


def _verify_return(op: Operation, diagnostics: Diagnostics) -> bool:
    parent = op.parent_op
    if parent is None or parent.name != "func.func":
        return op.emit_op_error(diagnostics, "expects parent op 'func.func'")
    if op.regions:
        return op.emit_op_error(diagnostics, "requires zero regions")
    return not op.results or op.emit_op_error(diagnostics, "requires zero results")


def _verify_returns(func: Operation, diagnostics: Diagnostics) -> bool:
    """Verify that a function's returns have operands of the types of its results."""
    types = _function_type(func).results
    return all(
        _verify_return_types(block.terminator, func, types, diagnostics)
        for block in func.regions[0].blocks
        if block.terminator.name == "func.return"
    )


def _verify_return_types(
    op: Operation, func: Operation, types: Sequence[Type], diagnostics: Diagnostics
) -> bool:
    name = func.symbol_name
    if len(op.operands) != len(types):
        message = (
            f"has {len(op.operands)} operands, but enclosing function (@{name}) returns "
            f"{len(types)}"
        )
        return op.emit_op_error(diagnostics, message)
    for index, (value, expected) in enumerate(zip(op.operands, types, strict=True)):
        if value.type != expected:
            diagnostics.error(
                op.location,
                f"type of return operand {index} ('{value.type}') doesn't match function result "
                f"type ('{expected}') in function @{name}",
            )
            return False
    return True


def _verify_call(op: Operation, diagnostics: Diagnostics) -> bool:
    if "callee" not in op.properties:
        return op.emit_op_error(diagnostics, "requires attribute 'callee'")
    if not isinstance(op.properties["callee"], SymbolRefAttr):
        return op.emit_op_error(diagnostics, "requires a 'callee' symbol reference attribute")
    return True


def _verify_callee(op: Operation, diagnostics: Diagnostics) -> bool:
    callee = op.properties["callee"]
    assert isinstance(callee, SymbolRefAttr)  # checked before
    func = lookup(op, callee.root)
    if func is None or func.name != "func.func":
        return op.emit_op_error(diagnostics, f"'{callee.root}' does not reference a valid function")
    type_ = _function_type(func)
    provided = [value.type for value in op.operands]
    if len(provided) != len(type_.inputs):
        return op.emit_op_error(diagnostics, "incorrect number of operands for callee")
    for index, (actual, expected) in enumerate(zip(provided, type_.inputs, strict=True)):
        if actual != expected:
            message = (
                f"operand type mismatch: expected operand type '{expected}', but provided "
                f"'{actual}' for operand number {index}"
            )
            return op.emit_op_error(diagnostics, message)
    results = [value.type for value in op.results]
    if len(results) != len(type_.results):
        return op.emit_op_error(diagnostics, "incorrect number of results for callee")
    for index, (actual, expected) in enumerate(zip(results, type_.results, strict=True)):
        if actual != expected:
            _report_result_mismatch(op, diagnostics, index, results, type_.results)
            return False
    return True


def _report_result_mismatch(
    op: Operation,
    diagnostics: Diagnostics,
    index: int,
    actual: Sequence[Type],
    expected: Sequence[Type],
) -> None:
    def texts(types: Sequence[Type]) -> str:
        return ", ".join(f"'{type_}'" for type_ in types)

    error = diagnostics.error(op.location, f"'{op.name}' op result type mismatch at index {index}")
    error.note(f"      op result types: {texts(actual)}")
    error.note(f"function result types: {texts(expected)}")


define(
    OpDefinition(
        "func.func",
        (*_FUNCTION_KEYS, "no_inline"),
        _parse_func,
        _print_func,
        _verify_func,
        _verify_returns,
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
        _verify_call,
        verify_symbol_uses=_verify_callee,
    )
)
define(
    OpDefinition(
        "func.call_indirect", ("arg_attrs", "res_attrs"), _parse_call_indirect, _print_call_indirect
    )
)
define(
    OpDefinition(
        "func.return",
        (),
        _parse_return,
        _print_return,
        _verify_return,
        terminator=True,
        pure=True,
    )
)
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
