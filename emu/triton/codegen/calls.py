"""Calls: of jit functions, whose bodies are emitted in place, of the language's, of Python's at compile time."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from emu.tile.ir import Location
from emu.triton import language
from emu.triton.codegen.builtins import BUILTINS, OWN
from emu.triton.codegen.errors import CompilationError, CompileTimeAssertionFailure
from emu.triton.codegen.expressions import Expressions
from emu.triton.codegen.frame import Frame, Leave, Outcome
from emu.triton.codegen.values import (
    Mismatch,
    common_type,
    constexpr,
    fit,
    flatten,
    is_namedtuple,
    is_tensor,
    normalize,
    of_language,
    parameter,
    tensor,
    tuple,
    type_of,
    unwrap,
)
from emu.triton.language.values import unflatten
from emu.triton.source import ConstexprFunction, JITCallable

MAX_DEPTH = 40
"""How many calls may lie between a kernel and a function; more is taken for endless recursion."""


class Calls(Expressions):
    """Visits calls."""

    def _visit_call(self, node: ast.Call) -> Any:
        function = unwrap(self.visit(node.func))
        if function is language.static_assert:
            return self._static_assert(node)
        arguments: list[Any] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                arguments += self.unpacked(argument.value)
            else:
                arguments.append(self.visit(argument))
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.unsupported(node, "unpacking keyword arguments (**) is not supported")
            keywords[keyword.arg] = self.visit(keyword.value)
        return self.call(node, function, arguments, keywords)

    def _static_assert(self, node: ast.Call) -> constexpr:
        if not 0 < len(node.args) <= 2 or node.keywords:
            raise TypeError("`static_assert` requires one or two positional arguments only")
        passed = unwrap(self.visit(node.args[0]))
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
                message = str(unwrap(self.visit(node.args[1])))
            except CompilationError as error:
                message = f"<failed to evaluate assertion message: {error.error_message}>"
        raise self.error(CompileTimeAssertionFailure, node, message)

    def call(
        self, node: ast.AST, function: Any, arguments: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """Return what a function of any sort gives.

        Raises:
            UnsupportedLanguageConstruct: It is nothing that can be called.
        """
        if isinstance(function, JITCallable) and not isinstance(function, ConstexprFunction):
            return self.call_jit(node, function, arguments, keywords)
        if not callable(function):
            raise self.unsupported(node, f"'{type(function).__name__}' object is not callable")
        function = _python(function)
        whole = function in OWN or is_namedtuple(function) or of_language(function)
        if whole or isinstance(getattr(function, "__self__", None), tensor | tuple):
            return normalize(function(*arguments, **keywords))
        plain = {name: _plain(value) for name, value in keywords.items()}
        return normalize(function(*map(_plain, arguments), **plain))

    # ---- jit functions

    def call_jit(
        self,
        node: ast.AST,
        function: JITCallable,
        arguments: Sequence[Any],
        keywords: dict[str, Any],
    ) -> Any:
        """Emit a jit function's body here, and return its value.

        Raises:
            CompilationError: The arguments do not fit, or the body is at fault; that error is the cause.
        """
        if self.frame.depth >= MAX_DEPTH:
            raise self.unsupported(
                node,
                f"{function.__name__} is called {MAX_DEPTH} calls deep; a jit function cannot be "
                "recursive unless constexpr arguments end it",
            )
        try:
            bound = function.signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        bound.apply_defaults()
        scope = {}
        for given in function.signature.parameters.values():
            value = bound.arguments[given.name]
            if given.kind is inspect.Parameter.VAR_KEYWORD:
                raise self.unsupported(node, f"{function.__name__} must not have **{given.name}")
            scope[given.name] = parameter(value)
        caller = self.frame
        self.frame = frame_of(function, scope, self.builder.location, caller.depth + 1)
        try:
            return self.body(function)
        except CompilationError as error:
            self.frame = caller
            raise self.error(CompilationError, node, None, called=error) from error
        finally:
            self.frame = caller

    def body(self, function: JITCallable) -> Any:
        """Emit the body of the current frame's function, and return the value it is left with."""
        (definition,) = function.parse().body
        assert isinstance(definition, ast.FunctionDef)
        outcome = self.run(definition)
        if isinstance(outcome, Leave):
            return outcome.value
        leaves = list(outcome.leaves())
        type_ = type_of(leaves[0].value)
        for leave in leaves[1:]:
            try:
                type_ = common_type(type_, type_of(leave.value))
            except Mismatch:
                every = ", ".join(str(type_of(leaf.value)) for leaf in leaves)
                raise self.error(
                    CompilationError,
                    leave.node,
                    f"Return type mismatch: {type_} and {type_of(leave.value)}. "
                    f"Note all return types were: {every}",
                ) from None
        return self._settle(outcome, type_)

    def _settle(self, outcome: Outcome, type_: Any) -> Any:
        """Emit what is left to do where a function is left, and return its value."""
        before = self.builder.location
        self.builder.location = outcome.location
        try:
            with self.builder.into(outcome.region):
                if isinstance(outcome, Leave):
                    return fit(outcome.value, type_)
                for region, side in zip(outcome.sides, (outcome.then, outcome.other), strict=True):
                    with self.builder.into(region):
                        value = self._settle(side, type_)
                        self.builder.yield_(*flatten(value))
                return unflatten(value, self.builder.if_(outcome.condition, *outcome.sides))
        finally:
            self.builder.location = before

    def run(self, definition: ast.FunctionDef) -> Outcome:
        """Visit a function's statements; :class:`Control` says how."""
        raise NotImplementedError


def frame_of(
    function: JITCallable, scope: dict[str, Any], caller: Location | None, depth: int
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


_PYTHON: dict[Any, Any] = {
    getattr(builtins, name): function
    for name, function in BUILTINS.items()
    if hasattr(builtins, name)
}


def _python(function: Any) -> Any:
    """Return the kernels' version of one of Python's builtins (reached as a global), else the same."""
    try:
        return _PYTHON.get(function, function)
    except TypeError:  # not hashable
        return function


def _plain(value: Any) -> Any:
    value = unwrap(value)
    if isinstance(value, tuple):
        items = [_plain(v) for v in value.values]
        fields = value.type.fields
        return builtins.tuple(items) if fields is None else namedtuple("tuple", fields)(*items)
    return value


def _shown(value: Any) -> Any:
    return str(value) if is_tensor(value) else unwrap(value)
