"""Functions that are emitted once and called, instead of anew at each call."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from emu.tile.ir import Function, Region, Value
from emu.tile.types import Tile
from emu.triton.codegen.state import State
from emu.triton.codegen.values import constexpr, flatten, tensor, tuple, unwrap
from emu.triton.language.context import current
from emu.triton.language.values import unflatten
from emu.triton.source import JITCallable

MAX_INLINED = 64
"""Calls of a function that are emitted in place; further ones call it, where its arguments and results are scalars."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """A function that is called.

    Attributes:
        function: Of the tile IR.
        value: What it returns, made of the function's own values: the form of what a call returns.
    """

    function: Function
    value: object


def is_called(state: State, function: JITCallable) -> bool:
    """Return whether a function should be emitted once, and called; counts its calls."""
    state.calls[function] = count = state.calls.get(function, 0) + 1
    # What asks for threads depends on whether all of them run it, or one after the other.
    return not (state.in_place or function.asks_num_warps) and (
        function.noinline or count > MAX_INLINED
    )


def check_scalars(
    state: State, node: ast.AST, function: JITCallable, scope: dict[str, object]
) -> None:
    """Check that no argument of a ``noinline`` function is a block.

    Raises:
        UnsupportedLanguageConstruct: One is.
    """
    for name, value in scope.items():
        if function.noinline and isinstance(value, tensor) and value.type.is_block():
            raise state.unsupported(
                node,
                f"Function {function.__name__} is marked noinline, but was called with non-scalar argument "
                f"{name}: {value}; pass a pointer, or leave out noinline",
            )


def call_once(
    state: State, function: JITCallable, scope: dict[str, object], emit: Callable[[], object]
) -> list[object]:
    """Call a function that is emitted once for the types and constants of its arguments.

    Args:
        state: The compilation.
        function: The function.
        scope: Its parameters' values by name.
        emit: Emits the body, with what ``scope`` holds then; returns its value.

    Returns:
        The value, in a list; an empty list if the function has to be emitted in place, as it takes or returns
        something else than scalars and what is known at compile time.
    """
    keys = [_key(value) for value in scope.values()]
    if None in keys:
        return []
    key = (function, *keys)
    given = [handle for value in scope.values() for handle in flatten(value)]
    if key not in state.functions:
        state.functions[key] = _emit(state, function, scope, emit)
    found = state.functions[key]
    if not isinstance(found, Emitted):
        return []
    return [unflatten(found.value, state.builder.call(found.function, given))]


def _emit(
    state: State, function: JITCallable, scope: dict[str, object], emit: Callable[[], object]
) -> Emitted | None:
    given = dict(scope)
    arguments: list[Value] = []
    for name, value in given.items():
        inside = [Value(handle.type, name=name) for handle in flatten(value)]
        scope[name] = unflatten(value, inside)
        arguments += inside
    region = Region(arguments)
    location, state.builder.location = state.builder.location, None
    try:
        with state.builder.into(region):
            value = emit()
            results = flatten(value)
            state.builder.return_(*results)
    finally:
        state.builder.location = location
        scope.clear()
        scope.update(given)
    if any(isinstance(result.type, Tile) for result in results):
        return None
    functions = current().module.functions
    name = f"{function.__name__}.{len(functions)}"
    made = Function(name, region, builtins.tuple(result.type for result in results), noinline=True)
    functions[name] = made
    return Emitted(made, value)


def _key(value: object) -> Hashable | None:
    """Return what the code of a function depends on in an argument; None if it must be emitted in place."""
    if isinstance(value, tensor):
        return None if value.type.is_block() else ("value", str(value.dtype))
    if isinstance(value, tuple):
        parts = [_key(item) for item in value.values]
        return None if None in parts else ("tuple", str(value.type), *parts)
    if not isinstance(value, constexpr):
        return None
    plain = unwrap(value)
    try:
        hash(plain)
    except TypeError:
        return None
    # 0.0 and -0.0 are equal, and so are 1 and True.
    return ("known", type(plain), plain.hex() if isinstance(plain, float) else plain)
