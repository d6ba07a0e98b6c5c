"""The call that ``launch`` makes on each PE: its arguments are checked before anything is started."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError

MAX_PES = 1024


def check_pe_count(value: object) -> int:
    """Return the number of PEs of a launch.

    Raises:
        ArgumentError: It is not an integer in ``[1, MAX_PES]``.
    """
    return check_integer("n_pes", value, MAX_PES, f"an integer in [1, {MAX_PES}]")


def check_integer(name: str, value: object, most: int, rule: str) -> int:
    """Return an integer from 1 to ``most``.

    Raises:
        ArgumentError: The value is not one; the text says that it must be ``rule``.
    """
    number = as_integer(value)
    if number is None or not 1 <= number <= most:
        raise ArgumentError(f"{name} must be {rule}, but got {value!r}")
    return number


def as_integer(value: Any) -> int | None:
    """Return an integer, and None for anything else, booleans included."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_positional(value: Any) -> tuple[Any, ...]:
    """Return positional arguments as a tuple.

    Raises:
        ArgumentError: ``value`` is not a sequence of finite length, or is text.
    """
    text = isinstance(value, (str, bytes, bytearray, Mapping))
    if not text and hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__"):
        try:
            return tuple(value)
        except TypeError:  # an array without an axis
            pass
    raise ArgumentError(f"args must be a sequence of positional arguments, but got {value!r}")


def check_named(value: object) -> dict[str, Any]:
    """Return keyword arguments as a dict.

    Raises:
        ArgumentError: ``value`` is not a mapping from names.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ArgumentError(
            f"kwargs must be a mapping from names to keyword arguments, but got {value!r}"
        )
    return dict(value)
