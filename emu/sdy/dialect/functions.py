"""Functions: attributes of their arguments and results, and the call graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emu.mlir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, SymbolRefAttr, TypeAttr
from emu.mlir.diagnostics import Diagnostics, PassFailed
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import FunctionType
from emu.sdy.dialect.attributes import TensorSharding, TensorShardingPerValue
from emu.sdy.dialect.meshes import Scope, first_mesh_or_name
from emu.sdy.dialect.names import MAIN, ORIGINAL_FUNC_NAME, SHARDING
from emu.sdy.dialect.tensors import tensor_rank

_EMPTY = DictAttr(())


def function_type(func: Operation) -> FunctionType:
    """Return the type of a ``func.func``."""
    stored = func.properties.get("function_type")
    if isinstance(stored, TypeAttr) and isinstance(stored.type, FunctionType):
        return stored.type
    raise ValueError(f"{func.name} has no function type")


# Attributes of arguments and results


def _dictionaries(func: Operation, name: str, count: int) -> tuple[Attribute, ...]:
    stored = func.properties.get(name)
    return stored.elements if isinstance(stored, ArrayAttr) else (_EMPTY,) * count


def _get(func: Operation, name: str, index: int, attribute: str) -> Attribute | None:
    stored = func.properties.get(name)
    if not isinstance(stored, ArrayAttr):
        return None
    for key, value in stored.elements[index].entries:  # type: ignore[attr-defined]  # DictAttrs
        if key == attribute:
            return value  # type: ignore[no-any-return]  # entries of a DictAttr
    return None


def _store(func: Operation, name: str, dictionaries: tuple[Attribute, ...]) -> None:
    # If no argument has an attribute, the whole list is left out, as MLIR does.
    if all(entry == _EMPTY for entry in dictionaries):
        func.properties.pop(name, None)
    else:
        func.properties[name] = ArrayAttr(dictionaries)


def _set(
    func: Operation, name: str, count: int, index: int, attribute: str, value: Attribute | None
) -> None:
    stored = _dictionaries(func, name, count)
    entries = dict(stored[index].entries)  # type: ignore[attr-defined]  # DictAttrs
    if value is None:
        if entries.pop(attribute, None) is None:
            return
    else:
        entries[attribute] = value
    _store(func, name, (*stored[:index], DictAttr.of(entries), *stored[index + 1 :]))


def func_arg_attribute(func: Operation, index: int, name: str) -> Attribute | None:
    """Return an attribute of an argument, or None."""
    return _get(func, "arg_attrs", index, name)


def func_result_attribute(func: Operation, index: int, name: str) -> Attribute | None:
    """Return an attribute of a result, or None."""
    return _get(func, "res_attrs", index, name)


def set_func_arg_attribute(func: Operation, index: int, name: str, value: Attribute | None) -> None:
    """Set an attribute of an argument; None removes it."""
    _set(func, "arg_attrs", len(function_type(func).inputs), index, name, value)


def set_func_result_attribute(
    func: Operation, index: int, name: str, value: Attribute | None
) -> None:
    """Set an attribute of a result; None removes it."""
    _set(func, "res_attrs", len(function_type(func).results), index, name, value)


Modify = Callable[[dict[str, Attribute], int], None]
"""A function that changes the attributes of the argument or result of that index in place."""


def _modify(func: Operation, name: str, count: int, change: Modify) -> None:
    before = _dictionaries(func, name, count)
    after: list[Attribute] = []
    for index, stored in enumerate(before):
        entries = dict(stored.entries)  # type: ignore[attr-defined]  # DictAttrs
        change(entries, index)
        after.append(DictAttr.of(entries))
    if tuple(after) != before:
        _store(func, name, tuple(after))


def modify_arg_attributes(func: Operation, change: Modify) -> None:
    """Change the attributes of all arguments at once, which is faster than one by one."""
    _modify(func, "arg_attrs", len(function_type(func).inputs), change)


def modify_result_attributes(func: Operation, change: Modify) -> None:
    """Change the attributes of all results at once."""
    _modify(func, "res_attrs", len(function_type(func).results), change)


# Their shardings


def func_arg_sharding(func: Operation, index: int) -> TensorSharding | None:
    """Return the sharding of an argument, or None."""
    stored = _get(func, "arg_attrs", index, SHARDING)
    return stored if isinstance(stored, TensorSharding) else None


def set_func_arg_sharding(func: Operation, index: int, sharding: TensorSharding | None) -> None:
    """Set the sharding of an argument; None removes it."""
    set_func_arg_attribute(func, index, SHARDING, sharding)


def func_result_sharding(func: Operation, index: int) -> TensorSharding | None:
    """Return the sharding of a result, or None."""
    stored = _get(func, "res_attrs", index, SHARDING)
    return stored if isinstance(stored, TensorSharding) else None


def set_func_result_sharding(func: Operation, index: int, sharding: TensorSharding | None) -> None:
    """Set the sharding of a result; None removes it."""
    set_func_result_attribute(func, index, SHARDING, sharding)


def func_arg_shardings(func: Operation, scope: Scope) -> TensorShardingPerValue | None:
    """Return the shardings of all arguments, open for those that have none.

    None unless at least one has a sharding whose mesh is not maximal.
    """
    types = function_type(func).inputs
    return _filled([func_arg_sharding(func, i) for i in range(len(types))], types, scope)


def func_result_shardings(func: Operation, scope: Scope) -> TensorShardingPerValue | None:
    """Return the shardings of all results, as ``func_arg_shardings`` does for arguments."""
    types = function_type(func).results
    return _filled([func_result_sharding(func, i) for i in range(len(types))], types, scope)


def _filled(
    stored: list[TensorSharding | None], types: tuple[object, ...], scope: Scope
) -> TensorShardingPerValue | None:
    mesh = first_mesh_or_name(stored, scope)
    if mesh is None:
        return None
    return TensorShardingPerValue(
        tuple(
            TensorSharding.fully_open(tensor_rank(type_), mesh)  # type: ignore[arg-type]  # tensors, as they have shardings
            if sharding is None
            else sharding
            for sharding, type_ in zip(stored, types, strict=True)
        )
    )


# Functions of a module


def find_function(table: SymbolTable, name: str) -> Operation:
    """Return the function of that name; raise ValueError if there is none."""
    op = table.lookup(name)
    if op is None or op.name != "func.func":
        raise ValueError(f"Failed to lookup function: {name}")
    return op


def callee_name(call: Operation) -> str:
    """Return the name of the function that a ``func.call`` calls."""
    callee = call.properties.get("callee")
    if isinstance(callee, SymbolRefAttr):
        return callee.root
    raise ValueError(f"{call.name} has no callee")


def main_function(module: Operation, table: SymbolTable, diagnostics: Diagnostics) -> Operation:
    """Return the only function of a module, or the one called ``main`` if there are several.

    Args:
        module: The module.
        table: The module's symbol table.
        diagnostics: Receives the error if there is none.

    Raises:
        PassFailed: There is no main function.
    """
    functions = [op for op in module.body() if op.name == "func.func"]
    if len(functions) == 1:
        return functions[0]
    try:
        return find_function(table, MAIN)
    except ValueError as error:
        diagnostics.error(module.location, str(error))
        raise PassFailed(str(error)) from None


def original_func_name(func: Operation) -> str:
    """Return the name that a function had before it was cloned."""
    stored = func.attributes.get(ORIGINAL_FUNC_NAME)
    return stored.value if isinstance(stored, StringAttr) else func.symbol_name or ""


def clone_function_recursively(func: Operation, table: SymbolTable) -> Operation:
    """Return a copy, not in a block yet, that calls fresh copies of the function's callees.

    The copies of callees are inserted into the table under new names. Each copy
    keeps the name of its original in an attribute.
    """
    clone = func.clone()
    clone.attributes[ORIGINAL_FUNC_NAME] = StringAttr(original_func_name(func))
    for call in clone.walk():
        if call.name == "func.call":
            callee = find_function(table, callee_name(call))
            name = table.insert(clone_function_recursively(callee, table))
            call.properties["callee"] = SymbolRefAttr(name)
    return clone


# The order of functions


def iterate_funcs(module: Operation, *, pre_order: bool = False) -> list[Operation]:
    """Return the functions with a body, callees first.

    The order is the post-order of a depth-first walk through the call graph, from
    each function of the module in turn to its callees, in the order of their first
    calls. With ``pre_order``, that order is reversed: callers first.
    """
    functions = {
        op.symbol_name: op for op in module.body() if op.name == "func.func" and _has_body(op)
    }
    callees = {
        name: list(dict.fromkeys(callee_name(op) for op in func.walk() if op.name == "func.call"))
        for name, func in functions.items()
    }
    order: list[Operation] = []
    seen: set[str | None] = set()
    for start in functions:
        stack: list[tuple[str | None, Iterator[str]]] = []
        following: str | None = start
        while True:
            if following in functions and following not in seen:
                seen.add(following)
                stack.append((following, iter(callees[following])))
            if not stack:
                break
            name, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                order.append(functions[name])
                stack.pop()
    return order[::-1] if pre_order else order


def _has_body(func: Operation) -> bool:
    return bool(func.regions and func.regions[0].blocks)


def walk_calls(module: Operation, *, pre_order: bool = False) -> Iterator[Operation]:
    """Yield every ``func.call`` of the module, function by function as in ``iterate_funcs``.

    The call just yielded may be erased or replaced.
    """
    for func in iterate_funcs(module, pre_order=pre_order):
        for op in func.walk():
            if op.name == "func.call":
                yield op
