"""State of one compilation: dispatch to the visitors, places in the source, errors, names."""

from __future__ import annotations

import ast
import builtins
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType, TracebackType
from typing import Any, TypeAlias, TypeVar

from emu.tile.ir import Builder
from emu.triton import knobs
from emu.triton.assertions import Operands, operands_of
from emu.triton.codegen.builtins import BUILTINS
from emu.triton.codegen.errors import (
    CompilationError,
    UnsupportedLanguageConstruct,
)
from emu.triton.codegen.frame import Frame
from emu.triton.codegen.unsupported import INTERPRET, advice
from emu.triton.codegen.values import (
    constexpr,
    dtype,
    is_namedtuple,
    is_of_language,
    is_tensor,
    normalize,
)
from emu.triton.language.context import current
from emu.triton.source import JITCallable
from emu.triton.suggestions import suggestion

E = TypeVar("E", bound=CompilationError)

Visitor: TypeAlias = Callable[["State", Any], Any]
"""Visits a node of one type: returns the value of an expression; of a statement, nothing."""

_MISSING = object()
_WITHOUT_LOCATION = (ast.Name, ast.Constant, ast.Tuple, ast.List)  # they emit nothing of their own
_PLAIN_TEXT = (TypeError, ValueError, NotImplementedError, AssertionError)


class State:
    """State of one compilation.

    The functions that visit nodes take it as their first argument; it finds them by the type of the node.

    Attributes:
        builder: Appends operations.
        frame: The function whose body is being visited.
        call_node: The innermost call that is being visited; None outside of calls.
        call: Calls a function of any kind at a node, with arguments and keywords.
    """

    call: Callable[[ast.AST, object, list[object], dict[str, object]], object]

    def __init__(
        self, builder: Builder, frame: Frame, visitors: Mapping[type[ast.AST], Visitor]
    ) -> None:
        self.builder = builder
        self.frame = frame
        self.call_node: ast.AST | None = None
        self._visitors = visitors
        self._watched: dict[ast.AST, object] | None = None  # nodes whose values an assertion shows

    # ---- dispatch

    def visit(self, node: ast.AST) -> Any:
        """Return the value of an expression, or execute a statement.

        Raises:
            CompilationError: The visit failed; the innermost node is the one at fault.
        """
        before = self.builder.location
        if not isinstance(node, _WITHOUT_LOCATION) and hasattr(node, "lineno"):
            self.builder.location = self.frame.location(node)
        try:
            visitor = self._visitors.get(type(node))
            if visitor is None:
                raise self.unsupported(node, advice(node))
            value = visitor(self, node)
            if self._watched and node in self._watched:
                self._watched[node] = value
            return value
        except (CompilationError, RecursionError):
            raise
        except Exception as error:
            _clear(error)
            raise self.error(CompilationError, node, message_of(error)) from error
        finally:
            self.builder.location = before

    @contextlib.contextmanager
    def asserting(self, condition: ast.expr | None) -> Iterator[None]:
        """Let the error of an assertion in the block show what its condition compares.

        Args:
            condition: The condition, which is visited in the block; None if there is none.
        """
        context = current()
        if condition is None or not context.debug:
            yield
            return
        parts = operands_of(condition)
        values: dict[ast.AST, object] = dict.fromkeys(parts.values())
        before = self._watched, context.operands
        self._watched = values
        context.operands = Operands(parts, values)
        try:
            yield
        finally:
            self._watched, context.operands = before

    @contextlib.contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Place operations and errors of the block at a node."""
        before = self.builder.location
        self.builder.location = self.frame.location(node)
        try:
            yield
        except (CompilationError, RecursionError):
            raise
        except Exception as error:
            _clear(error)
            raise self.error(CompilationError, node, message_of(error)) from error
        finally:
            self.builder.location = before

    def error(
        self,
        kind: type[E],
        node: ast.AST,
        message: str | None,
        called: CompilationError | None = None,
    ) -> E:
        """Return an error at a node of the function that is being visited."""
        function = self.frame.function
        line = getattr(node, "lineno", 0) + self.frame.line
        column = getattr(node, "col_offset", 0) + self.frame.column
        return kind(
            function.src,
            node,
            message,
            file=function.file_name,
            line=line,
            column=column,
            function=function.__name__,
            called=called,
        )

    def unsupported(self, node: ast.AST, message: str) -> UnsupportedLanguageConstruct:
        """Return an error about Python that is not part of the language."""
        return self.error(UnsupportedLanguageConstruct, node, message)

    # ---- names

    @contextlib.contextmanager
    def inner_scope(self) -> Iterator[dict[str, object]]:
        """Drop the assignments made inside at the end of the block."""
        outer, annotated, lost = self.frame.scope, self.frame.annotated, self.frame.lost
        self.frame.scope = inner = dict(outer)
        self.frame.annotated = set(annotated)
        self.frame.lost = dict(lost)
        try:
            yield inner
        finally:
            self.frame.scope, self.frame.annotated, self.frame.lost = outer, annotated, lost

    def lookup(self, name: str) -> object:
        """Return the value of a name: a variable, a global that may be used, or a builtin.

        Raises:
            NameError: The name is unknown, or that of a global that may not be used.
        """
        found = self.frame.scope.get(name, _MISSING)
        if found is not _MISSING:
            return found
        found = self.frame.outer.get(name, _MISSING)
        if found is not _MISSING:
            return self._global(name, found)
        found = BUILTINS.get(name, _MISSING)
        if found is not _MISSING:
            return found
        why = self.frame.lost.get(name)
        hint = f": it is assigned only inside {why}, and was not defined before" if why else ""
        if hasattr(builtins, name):
            hint = ": of Python's builtins kernels have " + ", ".join(sorted(BUILTINS))
        if name == "breakpoint":
            hint = f"; {INTERPRET}"
        if not hint:
            hint = suggestion(name, (*self.frame.scope, *self.frame.outer, *BUILTINS))
        raise NameError(f"{name} is not defined{hint}")

    def set(self, name: str, value: object) -> None:
        """Give a variable a value."""
        if is_tensor(value) and value.handle is not None and not value.handle.name:
            value.handle.name = name
        self.frame.scope[name] = value
        self.frame.lost.pop(name, None)

    def _global(self, name: str, value: object) -> object:
        allowed = (
            isinstance(value, constexpr | ModuleType | JITCallable | dtype)
            or name in BUILTINS
            or is_of_language(value)
            or is_namedtuple(value)
            or hasattr(value, "__triton_aggregate__")
        )
        if allowed:
            return value
        if self.frame.defaults or knobs.compilation.allow_non_constexpr_globals:
            return normalize(value)
        raise NameError(
            f"Cannot access global variable {name} from within @jit'ed function. Triton kernels can "
            "only access global variables that are instantiated as constexpr "
            f"(`{name} = triton.language.constexpr(42)`). Note that this is different from annotating "
            f"a variable as constexpr (`{name}: triton.language.constexpr = 42`), which is not "
            "supported. Alternatively, set the environment variable "
            "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS=1. "
            f"It is of type {type(value).__name__}"
        )


def message_of(error: BaseException) -> str:
    """Return an error's text, with its class where the text alone is not clear."""
    text = "; ".join([str(error), *getattr(error, "__notes__", ())])
    if isinstance(error, _PLAIN_TEXT) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else repr(error)


_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_SHOWN = os.path.join("triton", "language", "core.py")


def _clear(error: Exception) -> None:
    """Take the frames of the compiler out of an error's traceback, which would be full of them.

    What stays are the program's own functions that run at compile time, and the entry into the language.
    """
    kept: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not file.startswith(_HOME) or file.endswith(_SHOWN):
            kept.append(at)
        at = at.tb_next
    made: TracebackType | None = None
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    error.__traceback__ = made
