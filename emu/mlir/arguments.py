"""Checks of arguments at the doors: what a caller gave, and what it must be."""

from __future__ import annotations

from typing import Any, TypeVar

from emu.kernels.core.messages import shown

__all__ = ["ArgumentError", "check", "check_flag", "check_module", "check_text"]

_T = TypeVar("_T")


class ArgumentError(ValueError):
    """An argument of a call is not what it must be; the text names both."""


def check(name: str, value: object, kind: type[_T], what: str) -> _T:
    """Give the value back if it is of a type.

    Args:
        name: The argument's name, as the caller knows it.
        value: What was given.
        kind: What it must be.
        what: The same in words.

    Raises:
        ArgumentError: It is of another type.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ArgumentError(f"{name} must be {what}, but got {shown(value, with_type=True)}")
    return value


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    check(name, value, bool, "True or False")


def check_text(name: str, value: object, what: str = "a text") -> str:
    """Give a text back; refuse bytes and what is no text."""
    return check(name, value, str, what)


def check_module(value: object) -> Any:
    """Give a module back; refuse other operations and other objects."""
    from emu.mlir.ir import Operation

    wanted = "a module (of emu.sdy.parse or emu.sdy.from_jax)"
    op = check("module", value, Operation, wanted)
    if op.name != "builtin.module":
        raise ArgumentError(f"module must be {wanted}, but got the operation {op.name}")
    return op
