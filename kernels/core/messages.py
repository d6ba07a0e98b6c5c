"""Values as error messages show them. Loads nothing but the standard library."""

from __future__ import annotations

import sys
from typing import Any

_MAX_LENGTH = 120


def shown(value: object, *, with_type: bool = False) -> str:
    """Return a short text for a value of any kind, on one line, that every encoding of a log can hold.

    Arrays show their shape and dtype. A value whose ``repr`` raises shows its type: an argument must be
    refused by name, whatever it is.

    Args:
        value: The value.
        with_type: Add the name of its type.
    """
    # NumPy is not imported for this: where it is not loaded, no value is an array.
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        array: Any = value  # a checker that knows no NumPy here takes it for an object
        return f"an array of shape {array.shape} and dtype {array.dtype}"
    kind = type(value).__name__
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - the message matters more than what the value's repr raises
        return f"an object of type {kind}"
    if len(text) > _MAX_LENGTH:
        text = f"{text[: _MAX_LENGTH - 1]}…"
    text = text.encode("utf-8", "backslashreplace").decode()  # a repr may hold lone surrogates
    return f"{text} of type {kind}" if with_type else text
