"""Arguments that must be one of a few texts."""

from __future__ import annotations

from collections.abc import Sequence

from emu.triton.language.constants import unwrap


def one_of(name: str, value: object, allowed: Sequence[str]) -> str:
    """Return a text that is known when a kernel is compiled.

    Args:
        name: The argument.
        value: What was given for it.
        allowed: What it may be.

    Raises:
        ValueError: It is something else.
    """
    plain = unwrap(value)
    if not isinstance(plain, str) or plain not in allowed:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, allowed))}, but got {plain!r}"
        )
    return plain


def one_of_or_none(name: str, value: object, allowed: Sequence[str]) -> str | None:
    """Return such a text, or None where none was given.

    Args:
        name: The argument.
        value: What was given for it.
        allowed: What it may be.

    Raises:
        ValueError: It is something else.
    """
    return None if unwrap(value) is None else one_of(name, value, allowed)
