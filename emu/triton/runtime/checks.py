"""Checks of arguments of decorators and measurements, which run once per object, never per launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

from emu.kernels.core.messages import shown


def as_names(what: str, value: object) -> list[str]:
    """Return a sequence of names as a list; None gives an empty one.

    Raises:
        TypeError: The value is not a list of names.
    """
    if value is None:
        return []
    found = as_list(what, value)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what} must be a list of names, but has {shown(one, with_type=True)}")
    return found


def as_list(what: str, value: Any) -> list[Any]:
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


def as_mapping(what: str, value: object) -> dict[str, Any]:
    """Return a copy of a dictionary whose keys are names; None gives an empty one.

    Raises:
        TypeError: The value is not a dictionary with names as keys.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"{what} must be a dict by name, but got {shown(value, with_type=True)}")
    return dict(value)


def check_function(what: str, value: object) -> Any:
    """Check that a value is callable or None, and return it.

    Raises:
        TypeError: The value is not callable.
    """
    if value is not None and not callable(value):
        raise TypeError(f"{what} must be a function, but got {shown(value, with_type=True)}")
    return value


def as_flag(what: str, value: object) -> bool:
    """Return a flag as a bool; 0 and 1 are accepted, too.

    Raises:
        TypeError: The value is not a flag.
    """
    if type(value).__name__ not in ("bool", "bool_", "int") or value not in (0, 1):
        raise TypeError(f"{what} must be a bool, but got {shown(value, with_type=True)}")
    return bool(value)


def as_integer(what: str, value: SupportsIndex, least: int | None = None) -> int:
    """Return an integer that is at least ``least``.

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
    if least is not None and number < least:
        raise ValueError(f"{what} must be at least {least}, but got {number}")
    return number


def check_kernel(what: str, value: object, has_names: bool = True) -> Any:
    """Check that a value can be launched, so that a decorator may add to it, and return it.

    Args:
        what: Name of the argument.
        value: The kernel, or an object of another tuner.
        has_names: Whether it must know the names of its parameters.

    Raises:
        TypeError: It is no kernel.
    """
    needed = ("fn", "arg_names") if has_names else ("fn",)
    if not callable(getattr(value, "run", None)) or not all(hasattr(value, n) for n in needed):
        given = shown(value, with_type=True)
        raise TypeError(f"{what} must be decorated with @triton.jit, but got {given}")
    return value


def as_parameters(what: str, value: object) -> list[int | str]:
    """Return names or numbers of parameters as a list; None gives an empty one.

    Raises:
        TypeError: The value is not a list of them.
    """
    found = [] if value is None else as_list(what, value)
    for one in found:
        if isinstance(one, bool) or not isinstance(one, (int, str)):
            given = shown(one, with_type=True)
            raise TypeError(
                f"{what} must be a list of names or numbers of parameters, but has {given}"
            )
    return found


def check_text(what: str, value: object) -> str:
    """Check that a value is a text, and return it.

    Raises:
        TypeError: It is not.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text, but got {shown(value, with_type=True)}")
    return value
