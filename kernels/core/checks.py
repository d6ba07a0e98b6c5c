"""Checks of arguments that every room shares.

A room makes one :class:`Arguments` with its own exception class. Each check returns the value in its plain
form, so that the code behind it deals with ``int``, ``bool``, ``str`` and ``np.dtype`` only. An integer is
whatever ``operator.index`` takes: NumPy's integers too, and ``True`` for 1.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from emu.kernels.core.messages import shown
from emu.kernels.errors import ArgumentError

if TYPE_CHECKING:  # it loads Numba, which who checks need not
    from emu.kernels.core.annotations import Array

DType = np.dtype[np.generic]

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)


class Arguments:
    """Checks of arguments that name the argument, its value and the bound in the error they raise.

    Args:
        error: Exception class to raise; its constructor takes the message.
    """

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    # --- numbers ---------------------------------------------------------------------------------

    def integer(
        self,
        name: str,
        value: Any,
        low: int | None = None,
        high: int | None = None,
    ) -> int:
        """Return an integer in ``[low, high]``; None is no bound."""
        try:
            number = operator.index(value)
        except TypeError:
            raise self._error(f"{name} must be an integer, but got {shown(value)}") from None
        if (low is not None and number < low) or (high is not None and number > high):
            bound = f"in [{low}, {high}]"
            if low is None or high is None or low == high:
                bound = f"at most {high}" if low is None else f"at least {low}"
                bound = str(low) if low == high else bound
            raise self._error(f"{name} must be {bound}, but got {shown(number)}")
        return number

    def index(self, name: str, value: object, bound: int, of: str = "") -> int:
        """Return an integer in ``[0, bound)``; ``of`` follows the bound in the message."""
        number = self.integer(name, value)
        if not 0 <= number < bound:
            raise self._error(f"{name} must be in [0, {bound}){of}, but got {shown(number)}")
        return number

    def number(self, name: str, value: Any) -> float:
        """Return a real number as a float: anything with ``__float__`` but text and complex numbers."""
        real = isinstance(value, (int, float)) or (
            hasattr(type(value), "__float__")
            # The dtypes of torch have no kind.
            and getattr(getattr(value, "dtype", None), "kind", "f") not in "cSUMmO"
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
        """Return a sequence of integers as a tuple."""
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

    # --- options ---------------------------------------------------------------------------------

    def flag(self, name: str, value: object) -> bool:
        """Return True or False; 1 and 0 are accepted."""
        if value is True or value is False:
            return bool(value)
        if isinstance(value, (int, np.bool_, np.integer)) and value in (0, 1):
            return bool(value)
        raise self._error(f"{name} must be True or False, but got {shown(value)}")

    def text(self, name: str, value: object, at_most: int | None = None) -> str:
        """Return text that can be stored as UTF-8 in ``at_most`` bytes."""
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

    def choice(self, name: str, value: object, choices: type[E]) -> E:
        """Return a member of an enumeration, given itself or as its value."""
        try:
            return choices(value)
        except (TypeError, ValueError):
            names = ", ".join(str(member) for member in choices.__members__)
            raise self._error(
                f"{name} must be one of {choices.__name__}'s {names}, but got {shown(value)}"
            ) from None

    def one_of(self, name: str, value: object, allowed: Sequence[T]) -> T:
        """Return the allowed value that equals ``value``; types are compared too, so True is not 1."""
        for known in allowed:
            if value is known or (type(value) is type(known) and value == known):
                return known
        *first, last = map(repr, allowed)
        names = f"{', '.join(first)} or {last}" if first else last
        raise self._error(f"{name} must be {names}, but got {shown(value)}")

    def dtype(self, name: str, value: Any) -> DType:
        """Return the NumPy dtype that ``np.dtype`` makes of a value."""
        try:
            return cast("DType", np.dtype(value))
        except Exception as error:  # TypeError, ValueError, KeyError, SyntaxError: all are seen
            raise self._error(f"{name} must be a NumPy dtype, but got {shown(value)}") from error

    # --- arrays ----------------------------------------------------------------------------------

    def array(self, name: str, value: object, dtype: DType | None = None) -> Array:
        """Return ``np.asarray(value, dtype)``."""
        try:
            return np.asarray(value, dtype)
        except Exception as error:  # whatever the value's own conversion raises
            kind = "" if dtype is None else f" of {dtype}"
            raise self._error(
                f"{name} must be an array{kind}, but got {shown(value)}: {error}"
            ) from error

    def ndarray(self, name: str, value: object) -> Array:
        """Return ``value`` if it is an array already; nothing is converted."""
        if not isinstance(value, np.ndarray):
            raise self._error(f"{name} must be a NumPy array, but got {type(value).__name__}")
        return value

    def matrix(self, name: str, value: object, dtypes: Sequence[DType] | None = None) -> Array:
        """Return ``value`` if it is an array of two axes and of one of the dtypes, where given."""
        array = self.ndarray(name, value)
        if array.ndim != 2:
            raise self._error(f"{name} must have 2 axes, but got shape {array.shape}")
        return array if dtypes is None else self.array_dtype(name, array, dtypes)

    def array_dtype(self, name: str, array: Array, dtypes: Sequence[DType]) -> Array:
        """Return ``array`` if its dtype is one of some."""
        if array.dtype not in dtypes:
            names = ", ".join(map(str, dtypes))
            wanted = f"dtype {names}" if len(dtypes) == 1 else f"one of the dtypes {names}"
            raise self._error(f"{name} must have {wanted}, but got {array.dtype}")
        return array

    def array_shape(self, name: str, array: Array, shape: tuple[int, ...]) -> Array:
        """Return ``array`` if it has a shape."""
        if array.shape != shape:
            raise self._error(f"{name} must have shape {shape}, but got {array.shape}")
        return array

    def writable(self, name: str, array: Array) -> Array:
        """Return ``array`` if it can be written to."""
        if not array.flags.writeable:
            raise self._error(f"{name} must be writable, but got a read-only array")
        return array

    def target(
        self, name: str, value: object, shape: tuple[int, ...], dtype: DType | None = None
    ) -> Array:
        """Return ``value`` if it is a writable array of a shape, and of a dtype where that is given."""
        array = self.array_shape(name, self.ndarray(name, value), shape)
        if dtype is not None:
            self.array_dtype(name, array, (dtype,))
        return self.writable(name, array)


check = Arguments(ArgumentError)
"""The checks of this room."""
