"""Checks of the arguments of public functions."""

from __future__ import annotations

from typing import TypeVar

from emu.kernels.core.messages import shown
from emu.mlir.ir import Operation

_T = TypeVar("_T")


class ArgumentError(ValueError):
    """An argument of a call is wrong; the text says what it must be and what was given."""


def check(name: str, value: object, kind: type[_T], what: str) -> _T:
    """Return a value that must be of a type.

    Args:
        name: The argument's name, as the caller knows it.
        value: The argument.
        kind: The type that it must have; True and False are not ints.
        what: The type in words.

    Raises:
        ArgumentError: It is of another type.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ArgumentError(f"{name} must be {what}, but got {shown(value, with_type=True)}")
    return value


def check_flag(name: str, value: object) -> None:
    """Raise ArgumentError for anything but True and False."""
    check(name, value, bool, "True or False")


def check_text(name: str, value: object, what: str = "a text") -> str:
    """Return a text; raise ArgumentError for anything else, bytes included."""
    return check(name, value, str, what)


def check_module(value: object) -> Operation:
    """Return a module; raise ArgumentError for other operations and other objects."""
    wanted = "a module (of emu.sdy.parse or emu.sdy.from_jax)"
    op = check("module", value, Operation, wanted)
    if op.name != "builtin.module":
        raise ArgumentError(f"module must be {wanted}, but got the operation {op.name}")
    return op
