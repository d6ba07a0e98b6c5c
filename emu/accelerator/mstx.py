"""``torch.npu.mstx``: names that a program gives to stretches and moments of its time.

They are for a profiler; here they stand in the trace of a run that is recorded, and else do nothing. Streams are executed as the program goes, so that a range on one
is a range of the program.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from emu.comm.errors import ArgumentError

P = ParamSpec("P")
R = TypeVar("R")


class Marker(Protocol):
    """What writes ranges and moments down."""

    def begin(self, name: str) -> int:
        """Begin a range; return its number, which is not 0."""

    def end(self, number: int) -> None:
        """End a range; a number that no range has ends nothing."""

    def mark(self, name: str) -> None:
        """Write down a moment."""


marker: Marker | None = None
"""What writes them down; None: nothing does."""

_numbers = itertools.count(1)


def _check(message: object, domain: object) -> None:
    for name, value in (("message", message), ("domain", domain)):
        if not isinstance(value, str):
            raise ArgumentError(f"{name} must be a string, but got {value!r:.80}")


def _named(message: str, domain: str) -> str:
    """Return the name in a trace: with its domain, unless that is the default one."""
    return message if domain == "default" else f"{domain}: {message}"


def mark(message: str = "None", stream: Any = None, domain: str = "default") -> None:
    """Mark a moment.

    Args:
        message: Its name.
        stream: A stream that reaches it, too. Default: none.
        domain: What the name belongs to.

    Raises:
        ArgumentError: A name is no string.
    """
    _check(message, domain)
    if marker is not None:
        marker.mark(_named(message, domain))


def range_start(message: str = "None", stream: Any = None, domain: str = "default") -> int:
    """Begin a range; return the number by which it ends.

    Args:
        message: Its name.
        stream: As of :func:`mark`.
        domain: The same.

    Raises:
        ArgumentError: A name is no string.
    """
    _check(message, domain)
    if marker is not None:
        return marker.begin(_named(message, domain))
    return next(_numbers)


def range_end(range_id: int, domain: str = "default") -> None:
    """End a range.

    Args:
        range_id: Its number.
        domain: As of :func:`mark`.

    Raises:
        ArgumentError: The number is no integer, or the domain no string.
    """
    _check("", domain)
    if not isinstance(range_id, int) or isinstance(range_id, bool):
        raise ArgumentError(f"range_id must be an integer, but got {range_id!r:.80}")
    if marker is not None:
        marker.end(range_id)


def mstx_range(
    message: str, stream: Any = None, domain: str = "default"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: each call of the function is a range.

    Args:
        message: As of :func:`range_start`.
        stream: The same.
        domain: The same.

    Raises:
        ArgumentError: A name is no string.
    """
    _check(message, domain)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def ranged(*args: P.args, **kwargs: P.kwargs) -> R:
            number = range_start(message, stream, domain)
            try:
                return function(*args, **kwargs)
            finally:
                range_end(number, domain)

        return ranged

    return decorate
