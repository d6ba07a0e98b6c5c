"""What every room checks of its arguments, and how an error shows a value.

A room makes one :class:`Arguments` with its own error. Checks return the value in its plain form, so
that what follows them deals with ``int``, ``bool``, ``str`` and ``np.dtype`` only. An integer is whatever
``operator.index`` takes: NumPy's integers too, and ``True`` for 1.
"""

from __future__ import annotations

import enum
import operator
from typing import Any, TypeVar, cast

import numpy as np

from emu.kernels.errors import ArgumentError

E = TypeVar("E", bound=enum.Enum)

_LONGEST = 120


def shown(value: Any) -> str:
    """Return a short text for a value of any kind, on one line."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - an error must be told, whatever the value's repr does
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


class Arguments:
    """Checks of arguments that raise ``error``, each with the argument's name, its value and the bound.

    Args:
        error: What is raised; it takes the text.
    """

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def integer(
        self, name: str, value: Any, low: int | None = None, high: int | None = None
    ) -> int:
        """Return an integer in ``[low, high]``; None is no bound."""
        try:
            number = operator.index(value)
        except TypeError:
            raise self._error(f"{name} must be an integer, but got {shown(value)}") from None
        if low is not None and number < low:
            bound = f"at least {low}" if high is None else f"in [{low}, {high}]"
            raise self._error(f"{name} must be {bound}, but got {shown(number)}")
        if high is not None and number > high:
            bound = f"at most {high}" if low is None else f"in [{low}, {high}]"
            raise self._error(f"{name} must be {bound}, but got {shown(number)}")
        return number

    def index(self, name: str, value: Any, bound: int, of: str = "") -> int:
        """Return an integer in ``[0, bound)``; ``of`` says whose bound it is."""
        number = self.integer(name, value)
        if not 0 <= number < bound:
            raise self._error(f"{name} must be in [0, {bound}){of}, but got {shown(number)}")
        return number

    def number(self, name: str, value: Any) -> float:
        """Return a real number as a float: what has ``__float__``, but is no text and not complex."""
        real = isinstance(value, (int, float)) or (
            hasattr(type(value), "__float__")
            and getattr(value, "dtype", np.dtype(np.float64)).kind not in "cSUMmO"
            and getattr(value, "shape", ()) == ()
        )
        try:
            if real:
                return float(value)
        except Exception as error:  # whatever the value's own conversion raises
            raise self._error(
                f"{name} must be a number, but got {shown(value)}: {error}"
            ) from error
        raise self._error(f"{name} must be a number, but got {shown(value)}")

    def integers(self, name: str, value: Any) -> tuple[int, ...]:
        """Return a sequence of integers."""
        try:
            items = None if isinstance(value, (bytes, bytearray)) else list(value)
        except Exception as error:  # whatever the value's own iteration raises
            raise self._error(
                f"{name} must be a sequence of integers, but got {shown(value)}"
            ) from error
        if items is None:
            raise self._error(f"{name} must be a sequence of integers, but got {shown(value)}")
        for item in items:
            if type(item) is not int:
                break
        else:
            return tuple(items)
        return tuple(self.integer(f"{name}[{i}]", item) for i, item in enumerate(items))

    def flag(self, name: str, value: Any) -> bool:
        """Return True or False; 1 and 0 will do."""
        if value is True or value is False:
            return bool(value)
        if isinstance(value, (int, np.bool_, np.integer)) and value in (0, 1):
            return bool(value)
        raise self._error(f"{name} must be True or False, but got {shown(value)}")

    def text(self, name: str, value: Any, at_most: int | None = None) -> str:
        """Return text that can be stored as UTF-8, of at most so many bytes."""
        if not isinstance(value, str):
            raise self._error(f"{name} must be a string, but got {shown(value)}")
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise self._error(
                f"{name} must have no lone surrogates, but got {shown(value)}"
            ) from None
        if b"\0" in data:
            raise self._error(f"{name} must have no NUL in it, but got {shown(value)}")
        if at_most is not None and len(data) > at_most:
            raise self._error(
                f"{name} must have at most {at_most} bytes, but got {len(data)}: {shown(value)}"
            )
        return str(value)

    def choice(self, name: str, value: Any, choices: type[E]) -> E:
        """Return a member of an enumeration, given itself or as its value."""
        try:
            return choices(value)
        except (TypeError, ValueError):
            names = ", ".join(str(member) for member in choices.__members__)
            raise self._error(
                f"{name} must be one of {choices.__name__}'s {names}, but got {shown(value)}"
            ) from None

    def dtype(self, name: str, value: Any) -> np.dtype[Any]:
        """Return what NumPy makes a dtype of."""
        try:
            return cast("np.dtype[Any]", np.dtype(value))
        except Exception as error:  # TypeError, ValueError, KeyError, SyntaxError: all are seen
            raise self._error(f"{name} must be a NumPy dtype, but got {shown(value)}") from error

    def array(
        self, name: str, value: Any, dtype: np.dtype[Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Return the ndarray of what NumPy takes for one, converted where ``dtype`` is given."""
        try:
            return np.asarray(value, dtype)
        except Exception as error:  # whatever the value's own conversion raises
            kind = "" if dtype is None else f" of {dtype}"
            raise self._error(
                f"{name} must be an array{kind}, but got {shown(value)}: {error}"
            ) from error


check = Arguments(ArgumentError)
"""The checks of this room."""

__all__ = ["Arguments", "check", "shown"]
