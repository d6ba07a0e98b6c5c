"""Polling loops of a PE: the launcher asks whether the PE waits in one, and it answers between two bytecodes.

A PE that spins (``while world.compare_swap(lock, 0, 1, 0): pass``) looks busy. Whether it waits or
computes cannot be seen from outside, and a program that would have ended must never be stopped. So
the PE examines itself, and answers "I wait" only if all of this holds:

* Its innermost ``while`` loop does nothing but read: its variables and symmetric memory, by
  reading methods of this package; or sleep, or compute with numbers. Whatever else a loop calls or changes,
  a function without source, a file, the clock, an attribute, might end it one day.
* At each query the loop's variables were what they had been before. Those that only
  count the iterations (``n += 1``, and nothing reads ``n``) are left out.
* Its other threads take no processor time.

That symmetric memory stays as it is, and that no other PE moves, is for the launcher to see.

The fork server imports this module: a PE that is never queried does not pay for it.
"""

from __future__ import annotations

import ast
import builtins
import enum
import linecache
import os
import sys
import threading
import time
import types
import zlib
from typing import Any

import numpy as np

from emu.comm.errors import StoppedError
from emu.comm.layout import B_ANSWERS, B_SAME
from emu.comm.memory.segment import Segment
from emu.comm.world.array import SymmetricArray
from emu.comm.world.current import world
from emu.comm.world.group import Group
from emu.kernels.core.own_files import OWN_FOLDERS

_STANDARD = os.path.dirname(os.__file__) + os.sep
_STATES = 16
"""A loop that was seen in more states than this moves on."""
_BUSY_SHARE = 0.1
"""Share of the time in which other threads may run without being taken for ones that compute."""
_DEPTH = 4
_LARGEST_ARRAY = 1 << 20
_NOTHING: Any = object()

_BUILTINS = frozenset(
    getattr(builtins, name)
    for name in (
        "abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "isinstance", "len",
        "list", "max", "min", "print", "range", "repr", "reversed", "round", "sorted", "str", "sum",
        "tuple", "zip",
    )
)  # fmt: skip
_OF_MODULES = {
    "time": {"sleep"},
    "os": {"sched_yield"},
    "numpy": {"all", "any", "array_equal", "asarray", "count_nonzero", "max", "min", "sum"},
}
_OF_THE_MACHINE = frozenset(
    [
        "compare_swap",
        "fence",
        "fetch",
        "fetch_add",
        "get",
        "on",
        "quiet",
        "signal_op",
        "swap",
        "test",
        "test_all",
        "test_any",
        "test_lock",
        "test_some",
        "world",
        "world_pe",
    ]
)
_OF_ARRAYS = frozenset(["all", "any", "copy", "item", "max", "min", "sum", "tolist"])
_PLAIN = (type(None), bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
_ORDINARY = (*_PLAIN, range, np.ndarray, np.generic, np.dtype, enum.Enum, SymmetricArray, Group,
             type, types.ModuleType, types.FunctionType, types.MethodType,
             types.BuiltinFunctionType)  # fmt: skip


class LoopObserver:
    """One PE's answers to the launcher's queries."""

    def __init__(self, segment: Segment, pe: int) -> None:
        self._segment = segment
        self._pe = pe
        self._states: set[int] = set()
        self._same = 0
        self._answering = False
        self._other_threads = (0.0, 0.0)
        self._place: str | None = None

    def answer(self, frame: types.FrameType | None) -> None:
        """Write into this PE's block the number of times in a row that it was seen to wait in the same state.

        It is called as a signal handler: it must not disturb the program, so nothing but a stop is raised.
        """
        if self._answering:  # another query, while this one is being answered
            return
        self._answering = True
        block = self._segment.block(self._pe)
        try:
            state, place = _state(frame)
            block[B_SAME] = self._again(state)
            # While it is written there is none, and the launcher may be reading the last one.
            if place != self._place:
                self._segment.write_place(self._pe, place)
                self._place = place
        except StoppedError:
            raise
        except Exception:  # noqa: BLE001 - names may mean anything in a program
            block[B_SAME] = 0
        finally:
            block[B_ANSWERS] += 1
            self._answering = False

    def _again(self, state: int | None) -> int:
        """Return the number of times in a row that the PE was seen in states in which it had been before."""
        if state is None or self._others_compute():
            self._states.clear()
            self._same = 0
        elif state in self._states:
            self._same += 1
        else:
            if len(self._states) >= _STATES:
                self._states.clear()
            self._states.add(state)
            self._same = 0
        return self._same

    def _others_compute(self) -> bool:
        now, used = time.monotonic(), time.process_time() - time.thread_time()
        then, used_then = self._other_threads
        self._other_threads = now, used
        return used - used_then > _BUSY_SHARE * (now - then)


def position_of(frame: types.FrameType | None) -> str:
    """Return the line of the program at which a thread is, past the frames of this package and of Python's."""
    shown = None
    for hidden in ((*OWN_FOLDERS, _STANDARD), OWN_FOLDERS, ()):
        shown = frame
        while shown is not None and shown.f_code.co_filename.startswith(hidden):
            shown = shown.f_back
        if shown is not None:
            break
    if shown is None:
        return "nowhere"
    name, line = shown.f_code.co_filename, shown.f_lineno or 0
    text = linecache.getline(name, line, shown.f_globals).strip()
    return f"{name}:{line} in {shown.f_code.co_name}: {text}".rstrip(": ")


def _state(frame: types.FrameType | None) -> tuple[int | None, str]:
    """Return a digest of the state of the loop that the thread waits in, or None, and its position."""
    where = position_of(frame)
    stack = []
    while frame is not None:
        if not frame.f_code.co_filename.startswith(OWN_FOLDERS):
            stack.append(frame)
        frame = frame.f_back
    for here in stack:
        loop = _innermost_loop(here)
        if loop is None:
            continue
        scope = _Scope(here.f_globals, here.f_locals)
        if not _LoopChecker(scope).only_reads(loop):
            return None, where
        counting = _names_that_count(loop)
        names = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name)} - counting
        seen = [(name, _digest(scope.get(name))) for name in sorted(names)]
        for other in stack:
            seen += [
                (name, _digest(value))
                for name, value in sorted(other.f_locals.items())
                if isinstance(value, _PLAIN) and name not in counting
            ]
        line = f"{here.f_code.co_filename}:{loop.lineno}"
        source = linecache.getline(here.f_code.co_filename, loop.lineno, here.f_globals).strip()
        return hash((id(here.f_code), *seen)), f"{line} in {here.f_code.co_name}: {source}"
    return None, where


# --- the loop ----------------------------------------------------------------------------------

_trees: dict[str, ast.Module | None] = {}


def _innermost_loop(frame: types.FrameType) -> ast.While | None:
    name, line = frame.f_code.co_filename, frame.f_lineno or 0
    if name not in _trees:
        _trees[name] = _parse("".join(linecache.getlines(name, frame.f_globals)))
    node: ast.AST | None = _trees[name]
    found = None
    while node is not None:
        if isinstance(node, ast.While):
            found = node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            found = None
        node = next(
            (
                child
                for child in ast.iter_child_nodes(node)
                if getattr(child, "lineno", line + 1)
                <= line
                <= (getattr(child, "end_lineno", 0) or 0)
            ),
            None,
        )
    return found


def _parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(source) if source else None
    except (SyntaxError, ValueError):
        return None


def _names_that_count(loop: ast.While) -> set[str]:
    """Return the names that the loop changes but never reads, except to change them."""
    stored: set[str] = set()
    loaded: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Name):
            (stored if isinstance(node.ctx, ast.Store) else loaded).add(node.id)
    return stored - loaded


class _Scope:
    """The names of a frame, or of a function that is called from it, with their values."""

    def __init__(self, globals_: dict[str, Any], locals_: Any) -> None:
        self.globals = globals_
        self.locals = locals_

    def get(self, name: str) -> Any:
        for names in (self.locals, self.globals, vars(builtins)):
            if name in names:
                return names[name]
        return _NOTHING

    def value(self, node: ast.AST) -> Any:
        """Return the value of a name, or of an attribute of one; ``_NOTHING`` if that would run code."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.get(node.id)
        if not isinstance(node, ast.Attribute):
            return _NOTHING
        base = self.value(node.value)
        if base is _NOTHING:
            return _NOTHING
        if node.attr in getattr(base, "__dict__", {}):
            return vars(base)[node.attr]
        found = _of_class(type(base), node.attr)
        if isinstance(found, types.FunctionType):
            return types.MethodType(found, base)
        return _NOTHING


def _of_class(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return _NOTHING


class _LoopChecker:
    """A checker of code that must do nothing but read."""

    def __init__(self, scope: _Scope, depth: int = 0) -> None:
        self._scope = scope
        self._depth = depth

    def only_reads(self, node: ast.AST) -> bool:
        """Return whether a statement or an expression, with all that is in it, only reads."""
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Name):
            return isinstance(node.ctx, ast.Store) or _is_ordinary(self._scope.get(node.id))
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.comprehension)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not all(_are_names(target) for target in targets):
                return False
        elif not isinstance(node, _HARMLESS):
            return False
        return all(self.only_reads(child) for child in ast.iter_child_nodes(node))

    def _attribute(self, node: ast.Attribute) -> bool:
        base = self._scope.value(node.value)
        if base is _NOTHING:  # of a result: reading it must not run code of the user's
            return node.attr in ("local", "shape", "size") and self.only_reads(node.value)
        if node.attr in getattr(base, "__dict__", {}):
            return True
        found = _of_class(type(base), node.attr)
        if isinstance(found, property):
            module = found.fget.__module__ if found.fget is not None else ""
            return isinstance(base, (SymmetricArray, Group)) or module.startswith("numpy")
        if isinstance(base, types.ModuleType):
            return False  # a module's __getattr__
        return not hasattr(type(base), "__getattr__")

    def _call(self, node: ast.Call) -> bool:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if not all(self.only_reads(argument) for argument in arguments):
            return False
        function = self._scope.value(node.func)
        if function is _NOTHING:
            return (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in _OF_ARRAYS
                and self._is_array(node.func.value)
                and self.only_reads(node.func.value)
            )
        if isinstance(function, types.MethodType):
            owner, plain = [function.__self__], function.__func__
        else:
            owner, plain = [], function
        if _is_harmless(plain):
            return True
        return isinstance(plain, types.FunctionType) and self._function(plain, node, owner)

    def _is_array(self, node: ast.AST) -> bool:
        """Return whether an expression is an array, or an element of one, whose method is called."""
        if isinstance(node, ast.Subscript):
            return self._is_array(node.value)
        if isinstance(node, ast.Compare):
            return self._is_array(node.left) or any(self._is_array(c) for c in node.comparators)
        if isinstance(node, ast.Attribute) and node.attr == "local":
            return isinstance(self._scope.value(node.value), SymmetricArray)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base = self._scope.value(node.func.value)
            return isinstance(base, (SymmetricArray, Group)) and node.func.attr in ("on", "get")
        return isinstance(self._scope.value(node), np.ndarray)

    def _function(self, function: types.FunctionType, call: ast.Call, owner: list[Any]) -> bool:
        """Return whether a function of the program, with the arguments that are known, only reads."""
        definition = _definition(function)
        if self._depth >= _DEPTH or definition is None or definition.decorator_list:
            return False
        names = [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)]
        given = [*owner, *(self._scope.value(argument) for argument in call.args)]
        known = dict(zip(names, given, strict=False))
        known |= {k.arg: self._scope.value(k.value) for k in call.keywords if k.arg is not None}
        free = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        known |= {name: _content(cell) for name, cell in free}
        inner = _LoopChecker(_Scope(function.__globals__, known), self._depth + 1)
        return all(inner.only_reads(statement) for statement in definition.body)


_HARMLESS = (
    ast.Pass, ast.Expr, ast.If, ast.While, ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Assert,
    ast.Constant, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Compare, ast.BoolOp,
    ast.UnaryOp, ast.BinOp, ast.IfExp, ast.NamedExpr, ast.JoinedStr, ast.FormattedValue, ast.GeneratorExp,
    ast.ListComp, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.keyword,
)  # fmt: skip


def _is_ordinary(value: Any) -> bool:
    """Return whether reading a value, comparing it and computing with it runs no code of the user's."""
    return value is _NOTHING or isinstance(value, _ORDINARY)


def _are_names(target: ast.AST) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(_are_names(item) for item in target.elts)
    return isinstance(target, ast.Name)


def _is_harmless(function: Any) -> bool:
    if function is world:
        return True
    try:
        if function in _BUILTINS:
            return True
    except TypeError:  # it has no hash
        return False
    if isinstance(function, type):
        return issubclass(function, np.generic)
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    if module.startswith("emu.comm."):
        return name in _OF_THE_MACHINE
    return name in _OF_MODULES.get({"posix": "os"}.get(module, module), ())


def _definition(function: types.FunctionType) -> ast.FunctionDef | None:
    code = function.__code__
    name = code.co_filename
    if name not in _trees:
        _trees[name] = _parse("".join(linecache.getlines(name, function.__globals__)))
    tree = _trees[name]
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and node.lineno == code.co_firstlineno:
            return node
    return None


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _NOTHING


def _digest(value: Any) -> object:
    if isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return type(value).__name__, repr(value)
    if isinstance(value, np.ndarray) and value.dtype != object and value.nbytes <= _LARGEST_ARRAY:
        return id(value), zlib.crc32(value.tobytes())
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return id(value), len(value)
    return id(value)


def describe_threads(threads: list[threading.Thread]) -> str:
    """Return the names and positions of threads."""
    frames = sys._current_frames()
    return "; ".join(
        f"{thread.name!r} (at {position_of(frames.get(thread.ident or 0))})" for thread in threads
    )
