"""Checks of arguments that are looked at once: when a kernel is decorated, or a measurement described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

from emu.kernels.core.messages import shown


def names(what: str, value: object) -> list[str]:
    """Return a sequence of names as a list; None and ``()`` give none.

    Raises:
        TypeError: The value is not a list of names.
    """
    if value is None:
        return []
    found = items(what, value)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what} must be a list of names, but has {shown(one, with_type=True)}")
    return found


def items(what: str, value: Any) -> list[Any]:
    """Return a sequence as a list.

    Raises:
        TypeError: The value is not a sequence.
    """
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return list(value)
    except TypeError:
        pass
    raise TypeError(f"{what} must be a list, but got {shown(value, with_type=True)}")


def mapping(what: str, value: object) -> dict[str, Any]:
    """Return a dictionary with names as keys; of None an empty one.

    Raises:
        TypeError: The value is not a dictionary with names as keys.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"{what} must be a dict by name, but got {shown(value, with_type=True)}")
    return dict(value)


def function(what: str, value: object) -> Any:
    """Return a function, or None.

    Raises:
        TypeError: The value is not callable.
    """
    if value is not None and not callable(value):
        raise TypeError(f"{what} must be a function, but got {shown(value, with_type=True)}")
    return value


def flag(what: str, value: object) -> bool:
    """Return a flag; 0 and 1 will do.

    Raises:
        TypeError: The value is not a flag.
    """
    if type(value).__name__ not in ("bool", "bool_", "int") or value not in (0, 1):
        raise TypeError(f"{what} must be a bool, but got {shown(value, with_type=True)}")
    return bool(value)


def whole(what: str, value: SupportsIndex, least: int) -> int:
    """Return an integer of at least some.

    Raises:
        TypeError: The value is not an integer.
        ValueError: The integer is less than ``least``.
    """
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(
            f"{what} must be an integer, but got {shown(value, with_type=True)}"
        ) from None
    if number < least:
        raise ValueError(f"{what} must be at least {least}, but got {number}")
    return number
