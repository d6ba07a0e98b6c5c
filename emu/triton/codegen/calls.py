"""Visits of calls.

Bodies of jit functions are emitted in place; the language's functions emit operations; Python's own
functions run at compile time.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from emu.tile.ir import Location
from emu.triton import language
from emu.triton.codegen.blocks import run
from emu.triton.codegen.builtins import BUILTINS, OWN
from emu.triton.codegen.errors import CompilationError, CompileTimeAssertionFailure
from emu.triton.codegen.expressions import arguments_of
from emu.triton.codegen.frame import Frame, Leave, Outcome
from emu.triton.codegen.state import State
from emu.triton.codegen.unsupported import DEBUGGERS, INTERPRET
from emu.triton.codegen.values import (
    Mismatch,
    base_type,
    common_type,
    composite,
    constexpr,
    fit,
    flatten,
    is_namedtuple,
    is_of_language,
    is_tensor,
    normalize,
    parameter,
    tensor,
    tuple,
    type_of,
    undefined,
    unwrap,
)
from emu.triton.language.values import unflatten
from emu.triton.source import BoundMethod, ConstexprFunction, JITCallable
from emu.triton.suggestions import misfit

MAX_DEPTH = 40
"""Maximum depth of calls below a kernel; more is taken for endless recursion."""


def visit_call(state: State, node: ast.Call) -> object:
    """Return the value of a call."""
    function = unwrap(state.visit(node.func))
    if function is language.static_assert:
        return _static_assert(state, node)
    if function is language.device_assert:
        given = [*node.args, *(k.value for k in node.keywords if k.arg == "cond")]
        with state.asserting(given[0] if given else None):
            return _visit_call(state, node, function)
    return _visit_call(state, node, function)


def _visit_call(state: State, node: ast.Call, function: object) -> object:
    arguments = arguments_of(state, node.args)
    keywords: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise state.unsupported(node, "unpacking keyword arguments (**) is not supported")
        keywords[keyword.arg] = state.visit(keyword.value)
    return call(state, node, function, arguments, keywords)


def _static_assert(state: State, node: ast.Call) -> constexpr:
    if not 0 < len(node.args) <= 2 or node.keywords:
        raise TypeError("`static_assert` requires one or two positional arguments only")
    passed = unwrap(state.visit(node.args[0]))
    if not isinstance(passed, bool):
        raise NotImplementedError(
            "Assertion condition could not be determined at compile-time. Make sure that it "
            f"depends only on `constexpr` values, but it is {_shown(passed)}"
        )
    if passed:
        return constexpr(None)
    message = ""
    if len(node.args) == 2:
        try:
            message = str(unwrap(state.visit(node.args[1])))
        except CompilationError as error:
            message = f"<failed to evaluate assertion message: {error.error_message}>"
    raise state.error(CompileTimeAssertionFailure, node, message)


def call(
    state: State,
    node: ast.AST,
    function: object,
    arguments: list[object],
    keywords: dict[str, object],
) -> object:
    """Return the value of a call of a function of any kind.

    Raises:
        UnsupportedLanguageConstruct: ``function`` is not callable.
    """
    # Combine functions of reductions are called later, by the language: errors name this node then.
    before, state.call_node = state.call_node, node
    try:
        return _call(state, node, function, arguments, keywords)
    finally:
        state.call_node = before


def _call(
    state: State,
    node: ast.AST,
    function: object,
    arguments: list[object],
    keywords: dict[str, object],
) -> object:
    if isinstance(function, BoundMethod):
        arguments = [function.__self__, *arguments]
        function = function.__func__
    if isinstance(function, JITCallable) and not isinstance(function, ConstexprFunction):
        return call_jit(state, node, function, arguments, keywords)
    if not callable(function):
        raise state.unsupported(node, f"'{type(function).__name__}' object is not callable")
    if str(getattr(function, "__module__", "")).partition(".")[0] in DEBUGGERS:
        raise state.unsupported(node, f"a debugger would stop in the compiler; {INTERPRET}")
    function = _python(function)
    whole = function in OWN or is_namedtuple(function) or is_of_language(function)
    if whole or isinstance(getattr(function, "__self__", None), tensor | tuple | composite):
        try:
            return normalize(function(*arguments, **keywords))
        except TypeError as error:
            raise _misfit(node, function, arguments, keywords) or error from error.__cause__
    plain = {name: _plain(value) for name, value in keywords.items()}
    return normalize(function(*map(_plain, arguments), **plain))


def _misfit(
    node: ast.AST,
    function: Callable[..., object],
    arguments: Sequence[object],
    keywords: dict[str, object],
) -> TypeError | None:
    """Return the error for a call that a function of the language does not take; ``None`` if it does."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else function.__name__
    text = misfit(f"{name}()", parameters, len(arguments), keywords)
    return None if text is None else TypeError(text)


def call_jit(
    state: State,
    node: ast.AST,
    function: JITCallable,
    arguments: Sequence[object],
    keywords: dict[str, object],
) -> object:
    """Emit a jit function's body here, and return its value.

    Raises:
        CompilationError: The arguments do not fit, or the body is at fault; that error is the cause.
    """
    if state.frame.depth >= MAX_DEPTH:
        raise state.unsupported(
            node,
            f"{function.__name__} is called {MAX_DEPTH} calls deep; a jit function cannot be "
            "recursive unless constexpr arguments end it",
        )
    try:
        bound = function.signature.bind(*arguments, **keywords)
    except TypeError as error:
        parameters = list(function.signature.parameters.values())
        text = misfit(f"{function.__name__}()", parameters, len(arguments), keywords)
        raise TypeError(text or f"{function.__name__}() {error}") from None
    bound.apply_defaults()
    scope = {}
    for given in function.signature.parameters.values():
        value = bound.arguments[given.name]
        if given.kind is inspect.Parameter.VAR_KEYWORD:
            raise state.unsupported(node, f"{function.__name__} must not have **{given.name}")
        scope[given.name] = parameter(value)
    caller = state.frame
    state.frame = frame_of(function, scope, state.builder.location, caller.depth + 1)
    try:
        return body(state, function)
    except CompilationError as error:
        state.frame = caller
        raise state.error(CompilationError, node, None, called=error) from error
    finally:
        state.frame = caller


def body(state: State, function: JITCallable) -> object:
    """Emit the body of the current frame's function, and return its value."""
    (definition,) = function.parse().body
    assert isinstance(definition, ast.FunctionDef)
    outcome = run(state, definition)
    if isinstance(outcome, Leave):
        return outcome.value
    every_leaf = list(outcome.leaves())
    leaves = [leaf for leaf in every_leaf if not leaf.at_end] or every_leaf
    type_ = type_of(leaves[0].value)
    for leave in leaves[1:]:
        try:
            type_ = common_type(type_, type_of(leave.value))
        except Mismatch:
            (definition,) = function.parse().body
            first = definition.lineno + state.frame.line
            every = ", ".join(
                f"{type_of(leaf.value)} (line {leaf.node.lineno + state.frame.line})"  # type: ignore[attr-defined]  # a statement
                for leaf in leaves
            )
            raise state.error(
                CompilationError,
                definition,
                f"Return type mismatch: {type_} and {type_of(leave.value)}. "
                f"Note all return types of {function.__name__} (line {first}) were: {every}",
            ) from None
    return _settle(state, outcome, type_)


def _settle(state: State, outcome: Outcome, type_: base_type) -> object:
    """Emit the conversion to the common type and the yields at each exit, and return the value."""
    before = state.builder.location
    state.builder.location = outcome.location
    try:
        with state.builder.into(outcome.region):
            if isinstance(outcome, Leave):
                return undefined(type_) if outcome.at_end else fit(outcome.value, type_)
            for region, side in zip(outcome.sides, (outcome.then, outcome.other), strict=True):
                with state.builder.into(region):
                    value = _settle(state, side, type_)
                    state.builder.yield_(*flatten(value))
            return unflatten(value, state.builder.if_(outcome.condition, *outcome.sides))
    finally:
        state.builder.location = before


def frame_of(
    function: JITCallable, scope: dict[str, object], caller: Location | None, depth: int
) -> Frame:
    """Return the frame of a call of a function."""
    return Frame(
        function,
        function.get_capture_scope(),
        scope,
        function.def_file_line_number - 1,
        function.def_file_col_number + 1,
        caller,
        depth,
    )


_PYTHON: dict[object, Callable[..., object]] = {
    getattr(builtins, name): function
    for name, function in BUILTINS.items()
    if hasattr(builtins, name)
}


def _python(function: Callable[..., object]) -> Callable[..., object]:
    """Return the kernels' version of one of Python's builtins (reached as a global), else the same."""
    try:
        return _PYTHON.get(function, function)
    except TypeError:  # not hashable
        return function


def _plain(value: object) -> object:
    value = unwrap(value)
    if isinstance(value, tuple):
        items: list[Any] = [_plain(v) for v in value.values]
        fields = value.type.fields
        return builtins.tuple(items) if fields is None else namedtuple("tuple", fields)(*items)
    return value


def _shown(value: object) -> object:
    return str(value) if is_tensor(value) else unwrap(value)
