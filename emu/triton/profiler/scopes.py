"""Scopes: named parts of a program, which the tree of a profile consists of."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from emu.triton.profiler.sessions import Session, active
from emu.triton.profiler.tree import Node
from emu.triton.runtime import checks

_open: list[
    tuple[str, list[tuple[Session, Node]]]
] = []  # name, and what was opened of each session


def enter_scope(name: str, metrics: Mapping[str, Any] | None = None) -> int:
    """Open a scope in every active session; return the number of open ones before it.

    Args:
        name: Its name.
        metrics: Numbers that are added to its metrics.

    Raises:
        TypeError: ``name`` is not a text, or a metric not a number.
    """
    checks.check_text("name", name)
    found = _numbers(metrics)
    opened = []
    for session in active():
        node = session.now.child(name)
        node.add(found)
        session.open.append(node)
        opened.append((session, node))
    _open.append((name, opened))
    return len(_open) - 1


def _numbers(metrics: Mapping[str, Any] | None) -> dict[str, float]:
    """Return metrics as numbers; a tensor of one element counts as its number.

    Raises:
        TypeError: One is not a number.
    """
    found: dict[str, float] = {}
    for name, value in checks.as_mapping("metrics", metrics).items():
        number = _number(value)
        if not isinstance(number, (int, float)):
            raise TypeError(
                f"metrics must be numbers, but {name!r} is {type(value).__name__} {value!r:.60}"
            )
        found[name] = number
    return found


def _number(value: Any) -> Any:
    """Return the number that a tensor or array of one element holds; anything else as it is."""
    holds_one = math.prod(getattr(value, "shape", (0,))) == 1
    return value.item() if holds_one and hasattr(value, "item") else value


def exit_scope(name: str | None = None, metrics: Mapping[str, Any] | None = None) -> None:
    """Close the innermost open scope.

    Args:
        name: Its name, if that is to be checked.
        metrics: Numbers that are added to its metrics.

    Raises:
        ValueError: No scope is open, or the innermost one has another name.
    """
    if name is not None:
        checks.check_text("name", name)
    if not _open or name not in (None, _open[-1][0]):
        innermost = repr(_open[-1][0]) if _open else "none"
        raise ValueError(
            f"name must be that of the innermost open scope ({innermost}), but got {name!r}"
        )
    found = _numbers(metrics)
    _, opened = _open.pop()
    for session, node in opened:
        node.add(found)
        if session.open and session.open[-1] is node:
            session.open.pop()


class scope:
    """A scope as a context, or around each call of a function.

    Args:
        name: Its name.
        metrics: Numbers that are added to its metrics each time.
    """

    def __init__(self, name: str, metrics: Mapping[str, Any] | None = None) -> None:
        self.name = checks.check_text("name", name)
        self.metrics = metrics

    def __enter__(self) -> Self:
        enter_scope(self.name, self.metrics)
        return self

    def __exit__(self, *_: object) -> None:
        exit_scope(self.name)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs in the scope."""

        @functools.wraps(function)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with scope(self.name, self.metrics):
                return function(*args, **kwargs)

        return scoped


class cpu_timed_scope(scope):
    """A scope that measures its time on the host's clock, as the metric ``cpu_time (ns)``."""

    def __enter__(self) -> Self:
        self._begin = time.perf_counter_ns()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        exit_scope(self.name, {"cpu_time (ns)": time.perf_counter_ns() - self._begin})


def enter_state(name: str) -> None:
    """Open a scope; states are scopes here."""
    enter_scope(name)


def exit_state() -> None:
    """Close the innermost open scope.

    Raises:
        ValueError: No scope is open.
    """
    exit_scope()


@contextlib.contextmanager
def state(name: str) -> Iterator[None]:
    """Open a scope for a block; states are scopes here."""
    enter_scope(name)
    try:
        yield
    finally:
        exit_scope(name)
