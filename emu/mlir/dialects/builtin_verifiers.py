"""What must hold of modules, functions, calls and returns.

Importing the module has the registry know the rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.attributes import ArrayAttr, DictAttr, StringAttr, SymbolRefAttr, TypeAttr
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.dialects.builtin import function_type
from emu.mlir.ir import Operation
from emu.mlir.registry import attribute_verifiers, definition, extend
from emu.mlir.symbols import lookup
from emu.mlir.types import FunctionType, Type

__all__ = ["op_error", "symbol_problem"]

_VISIBILITIES = ("public", "private", "nested")


def op_error(diagnostics: Diagnostics, op: Operation, message: str) -> bool:
    """Report ``'name' op message`` at an operation; gives False."""
    diagnostics.error(op.location, f"'{op.name}' op {message}")
    return False


def symbol_problem(op: Operation) -> str | None:
    """Why an operation may not define a symbol as and where it does, or None."""
    parent = None if op.parent_op is None else definition(op.parent_op.name)
    if parent is not None and parent.name and not parent.symbol_table:
        return "symbol's parent must have the SymbolTable trait"
    held = op.attribute("sym_visibility")
    if held is None:
        return None
    if not isinstance(held, StringAttr):
        return (
            "requires visibility attribute 'sym_visibility' to be a string attribute, "
            f"but got {held}"
        )
    if held.value not in _VISIBILITIES:
        return (
            'visibility expected to be one of ["public", "private", "nested"], '
            f'but got "{held.value}"'
        )
    return None


def _symbol(op: Operation, diagnostics: Diagnostics) -> bool:
    message = symbol_problem(op)
    return message is None or op_error(diagnostics, op, message)


# builtin.module


def _module(op: Operation, diagnostics: Diagnostics) -> bool:
    if len(op.regions) != 1:
        return op_error(diagnostics, op, "requires one region")
    blocks = op.regions[0].blocks
    if any(block.arguments for block in blocks):
        return op_error(diagnostics, op, "region should have no arguments")
    if len(blocks) > 1:
        return op_error(diagnostics, op, "expects region #0 to have 0 or 1 blocks")
    if not blocks:
        message = "region #0 ('bodyRegion') failed to verify constraint: region with 1 blocks"
        return op_error(diagnostics, op, message)
    for name in sorted(op.attributes):
        if "." not in name:
            message = f"can only contain attributes with dialect-prefixed names, found: '{name}'"
            return op_error(diagnostics, op, message)
    return _symbol(op, diagnostics)


# func.func


def _func(op: Operation, diagnostics: Diagnostics) -> bool:
    for name in ("function_type", "sym_name"):
        if name not in op.properties:
            return op_error(diagnostics, op, f"requires attribute '{name}'")
    held = op.properties["function_type"]
    if not isinstance(held, TypeAttr) or not isinstance(held.type, FunctionType):
        message = (
            "attribute 'function_type' failed to satisfy constraint: type attribute of "
            "function type"
        )
        return op_error(diagnostics, op, message)
    for name in ("arg_attrs", "res_attrs"):
        lists = op.properties.get(name)
        if lists is not None and not _are_dictionaries(lists):
            message = (
                f"attribute '{name}' failed to satisfy constraint: Array of dictionary attributes"
            )
            return op_error(diagnostics, op, message)
    if len(op.regions) != 1:
        return op_error(diagnostics, op, "requires one region")
    return (
        _symbol(op, diagnostics)
        and _declaration(op, diagnostics)
        and _values(op, diagnostics, held.type.inputs, "argument")
        and _values(op, diagnostics, held.type.results, "result")
        and _entry(op, diagnostics, held.type)
    )


def _are_dictionaries(lists: object) -> bool:
    return isinstance(lists, ArrayAttr) and all(isinstance(d, DictAttr) for d in lists.elements)


def _declaration(op: Operation, diagnostics: Diagnostics) -> bool:
    visibility = op.properties.get("sym_visibility")
    is_public = not isinstance(visibility, StringAttr) or visibility.value == "public"
    if is_public and not op.regions[0].blocks:
        return op_error(diagnostics, op, "symbol declaration cannot have public visibility")
    return True


def _values(op: Operation, diagnostics: Diagnostics, types: Sequence[Type], kind: str) -> bool:
    """The attributes of arguments or results."""
    lists = op.properties.get("arg_attrs" if kind == "argument" else "res_attrs")
    if not isinstance(lists, ArrayAttr):
        return True
    if len(lists.elements) != len(types):
        message = (
            f"expects {kind} attribute array to have the same number of elements as the number "
            f"of function {kind}s, got {len(lists.elements)}, but expected {len(types)}"
        )
        return op_error(diagnostics, op, message)
    for index, entries in enumerate(lists.elements):
        assert isinstance(entries, DictAttr)  # checked before
        for name, attribute in entries.entries:
            dialect, dot, _ = name.partition(".")
            if not dot:
                return op_error(diagnostics, op, f"{kind}s may only have dialect attributes")
            checks = attribute_verifiers.get(dialect)
            if checks is None:
                continue
            check = checks.argument if kind == "argument" else checks.result
            if not check(op, index, name, attribute, diagnostics):
                return False
    return True


def _entry(op: Operation, diagnostics: Diagnostics, type_: FunctionType) -> bool:
    """The arguments of the first block are those of the function."""
    if not op.regions[0].blocks:
        return True
    arguments = op.body().arguments
    if len(arguments) != len(type_.inputs):
        message = f"entry block must have {len(type_.inputs)} arguments to match function signature"
        return op_error(diagnostics, op, message)
    for index, (argument, expected) in enumerate(zip(arguments, type_.inputs, strict=True)):
        if argument.type != expected:
            message = (
                f"type of entry block argument #{index}('{argument.type}') must match the type of "
                f"the corresponding argument in function signature('{expected}')"
            )
            return op_error(diagnostics, op, message)
    return True


# func.return, func.call


def _return(op: Operation, diagnostics: Diagnostics) -> bool:
    parent = op.parent_op
    if parent is None or parent.name != "func.func":
        return op_error(diagnostics, op, "expects parent op 'func.func'")
    if op.regions:
        return op_error(diagnostics, op, "requires zero regions")
    return not op.results or op_error(diagnostics, op, "requires zero results")


def _returned(func: Operation, diagnostics: Diagnostics) -> bool:
    """What a function's returns give has the types of its results."""
    types = function_type(func).results
    return all(
        _returned_by(block.terminator, func, types, diagnostics)
        for block in func.regions[0].blocks
        if block.terminator.name == "func.return"
    )


def _returned_by(
    op: Operation, func: Operation, types: Sequence[Type], diagnostics: Diagnostics
) -> bool:
    name = func.symbol_name
    if len(op.operands) != len(types):
        message = (
            f"has {len(op.operands)} operands, but enclosing function (@{name}) returns "
            f"{len(types)}"
        )
        return op_error(diagnostics, op, message)
    for index, (value, expected) in enumerate(zip(op.operands, types, strict=True)):
        if value.type != expected:
            diagnostics.error(
                op.location,
                f"type of return operand {index} ('{value.type}') doesn't match function result "
                f"type ('{expected}') in function @{name}",
            )
            return False
    return True


def _call(op: Operation, diagnostics: Diagnostics) -> bool:
    if "callee" not in op.properties:
        return op_error(diagnostics, op, "requires attribute 'callee'")
    if not isinstance(op.properties["callee"], SymbolRefAttr):
        return op_error(diagnostics, op, "requires a 'callee' symbol reference attribute")
    return True


def _call_symbol(op: Operation, diagnostics: Diagnostics) -> bool:
    callee = op.properties["callee"]
    assert isinstance(callee, SymbolRefAttr)  # checked before
    func = lookup(op, callee.root)
    if func is None or func.name != "func.func":
        return op_error(diagnostics, op, f"'{callee.root}' does not reference a valid function")
    type_ = function_type(func)
    provided = [value.type for value in op.operands]
    if len(provided) != len(type_.inputs):
        return op_error(diagnostics, op, "incorrect number of operands for callee")
    for index, (actual, expected) in enumerate(zip(provided, type_.inputs, strict=True)):
        if actual != expected:
            message = (
                f"operand type mismatch: expected operand type '{expected}', but provided "
                f"'{actual}' for operand number {index}"
            )
            return op_error(diagnostics, op, message)
    results = [value.type for value in op.results]
    if len(results) != len(type_.results):
        return op_error(diagnostics, op, "incorrect number of results for callee")
    for index, (actual, expected) in enumerate(zip(results, type_.results, strict=True)):
        if actual != expected:
            _result_mismatch(op, diagnostics, index, results, type_.results)
            return False
    return True


def _result_mismatch(
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


extend("builtin.module", verify=_module)
extend("func.func", verify=_func, verify_regions=_returned)
extend("func.return", verify=_return)
extend("func.call", verify=_call, verify_symbol_uses=_call_symbol)
