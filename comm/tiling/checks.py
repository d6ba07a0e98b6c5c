"""What arguments must be, for all that is public here."""

from __future__ import annotations

import operator
from typing import Any

from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown


def whole(value: Any, argument: str) -> int:
    """Return a whole number as ``int``."""
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"{argument} must be a whole number, but got {shown(value)}") from None


def text(value: Any, argument: str) -> str:
    """Return a ``str``."""
    if not isinstance(value, str):
        raise ArgumentError(f"{argument} must be a str, but got {shown(value)}")
    return value


def flag(value: Any, argument: str) -> bool:
    """Return True or False; the numbers 1 and 0 will do."""
    if type(value).__name__ in {"bool", "bool_"} or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ArgumentError(f"{argument} must be True or False, but got {shown(value)}")


__all__ = ["flag", "text", "whole"]
