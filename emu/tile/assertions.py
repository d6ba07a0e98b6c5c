"""Failed assertions in words: which element failed, how many did, and the values that the condition compares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Failure:
    """An assertion that a program did not hold.

    Attributes:
        shape: Shape of the condition; ``()`` of a scalar.
        lane: Row-major number of the first element that is false.
        count: Number of elements that are false.
        values: What the condition compares at that element, by its text in the source; pointers are texts.
    """

    shape: tuple[int, ...] = ()
    lane: int = 0
    count: int = 1
    values: Mapping[str, int | float | bool | str] = field(default_factory=dict)

    @property
    def index(self) -> tuple[int, ...]:
        """The index of the first element that is false; ``()`` of a scalar."""
        return tuple(map(int, np.unravel_index(self.lane, self.shape))) if self.shape else ()

    def __str__(self) -> str:
        parts = []
        if self.shape:
            index = self.index[0] if len(self.shape) == 1 else self.index
            total = math.prod(self.shape)
            verb = "fails" if self.count == 1 else "fail"
            parts.append(
                f"{self.count} of {total} lanes {verb}, first lane {index} of {self.shape}"
            )
        if self.values:
            parts.append(", ".join(f"{name} = {value}" for name, value in self.values.items()))
        return ": ".join(parts)


def find_failure(
    condition: Array, names: Sequence[str] = (), values: Sequence[Array] = ()
) -> Failure | None:
    """Return how a condition fails; None where every element holds.

    Args:
        condition: Array of bools.
        names: Texts of what it compares.
        values: Their values: arrays of its shape, or without axes.
    """
    if condition.all():
        return None
    failed = np.flatnonzero(~condition)
    lane = int(failed[0])
    at = [value.reshape(-1)[lane] if value.ndim else value[()] for value in values]
    shown = {name: plain(value) for name, value in zip(names, at, strict=True)}
    return Failure(condition.shape, lane, len(failed), shown)


def plain(value: Any) -> int | float | bool:
    """Return an element of an array as a number of Python; floats narrower than 64 bits as the shortest that rounds to it."""
    kind = np.asarray(value).dtype
    if kind.kind == "b":
        return bool(value)
    if kind.kind in "iu":
        return int(value)
    return float(str(np.float32(value))) if kind.itemsize < 8 else float(value)


def names_of(attributes: Mapping[str, Any]) -> list[str]:
    """Return the names of what an ASSERT shows, from its attributes."""
    return [name for name in attributes.get("names", "").split("\n") if name]


def describe(
    message: str, failure: Failure | None, program: tuple[int, int, int], kernel: str, location: str
) -> str:
    """Return the text of the error of a failed assertion.

    Args:
        message: Its message; may be empty.
        failure: How it failed, if that is known.
        program: Index of the program.
        kernel: Name of the kernel; empty if not known.
        location: Its place in the source; empty if not known.
    """
    where = ", ".join(
        part for part in (kernel and f"kernel {kernel}", f"program {program}", location) if part
    )
    return with_details(f"{message or 'an assertion failed'} ({where})", failure)


def with_details(text: str, failure: Failure | None) -> str:
    """Return a text with how an assertion failed on a second line, if there is something to say."""
    details = "" if failure is None else str(failure)
    return f"{text}\n  {details}".lstrip() if details else text
