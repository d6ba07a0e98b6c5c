"""Argument checks of everything that is public in this package. They load no NumPy."""

from __future__ import annotations

import operator
from typing import Any

from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown


def check_integer(value: Any, argument: str) -> int:
    """Return a whole number as ``int``.

    Raises:
        ArgumentError: It is not one.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"{argument} must be a whole number, but got {shown(value)}") from None


def check_text(value: Any, argument: str) -> str:
    """Return a ``str``.

    Raises:
        ArgumentError: It is not one.
    """
    if not isinstance(value, str):
        raise ArgumentError(f"{argument} must be a str, but got {shown(value)}")
    return value


def check_flag(value: Any, argument: str) -> bool:
    """Return True or False; the numbers 1 and 0 are taken, too.

    Raises:
        ArgumentError: It is none of these.
    """
    if type(value).__name__ in {"bool", "bool_"} or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ArgumentError(f"{argument} must be True or False, but got {shown(value)}")
