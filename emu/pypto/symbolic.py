"""Symbolic scalars, which on the emulator are concrete integers from the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, SupportsIndex, Union

from emu.pypto.errors import ArgumentError


class SymbolicScalar(int):
    """An integer that PyPTO knows only when the kernel runs; here it is an ``int`` with a value.

    Arithmetic between symbolic scalars and integers gives symbolic scalars, comparisons give
    ``bool``. ``//`` and ``%`` round down, as in Python; ``/`` is exact division.
    """

    __slots__ = ()

    def min(self, other: SupportsIndex) -> SymbolicScalar:
        """Return the smaller of the two."""
        return SymbolicScalar(min(int(self), index(other)))

    def max(self, other: SupportsIndex) -> SymbolicScalar:
        """Return the larger of the two."""
        return SymbolicScalar(max(int(self), index(other)))

    def __add__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(int(self) + index(other))

    def __sub__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(int(self) - index(other))

    def __mul__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(int(self) * index(other))

    def __floordiv__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(int(self) // index(other))

    def __mod__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(int(self) % index(other))

    def __truediv__(self, other: int) -> SymbolicScalar:
        return _exact(int(self), index(other))

    def __radd__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(index(other) + int(self))

    def __rsub__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(index(other) - int(self))

    def __rmul__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(index(other) * int(self))

    def __rfloordiv__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(index(other) // int(self))

    def __rmod__(self, other: int) -> SymbolicScalar:
        return SymbolicScalar(index(other) % int(self))

    def __rtruediv__(self, other: int) -> SymbolicScalar:  # type: ignore[misc]
        return _exact(index(other), int(self))

    def __neg__(self) -> SymbolicScalar:
        return SymbolicScalar(-int(self))

    def __pos__(self) -> SymbolicScalar:
        return self

    def __abs__(self) -> SymbolicScalar:
        return SymbolicScalar(abs(int(self)))


def _exact(dividend: int, divisor: int) -> SymbolicScalar:
    quotient, rest = divmod(dividend, divisor)
    if rest:
        raise ArgumentError(
            f"a symbolic scalar must be divided by / without a rest, but got {dividend} / {divisor}; "
            "use // to round down"
        )
    return SymbolicScalar(quotient)


SymInt = Union[int, SymbolicScalar]  # noqa: UP007 - the name is part of the surface
Shape = tuple[int, ...]


def as_int(value: Any, argument: str) -> int:
    """Return ``value`` as an ``int``, or say which argument is none."""
    try:
        return index(value)
    except TypeError:
        raise ArgumentError(
            f"{argument} must be an int or a SymbolicScalar, but got {value!r}"
        ) from None


def as_ints(values: Any, argument: str) -> Shape:
    """Return ``values`` as a tuple of ``int``, or say which argument is none."""
    try:
        return tuple(map(index, values))
    except TypeError:
        raise ArgumentError(
            f"{argument} must be a list of int or SymbolicScalar, but got {values!r}"
        ) from None


def as_shape(values: Any, argument: str, *, least: int = 1) -> Shape:
    """Return ``values`` as a shape with every extent at least ``least``."""
    shape = as_ints(values, argument)
    for axis, extent in enumerate(shape):
        if extent < least:
            raise ArgumentError(
                f"{argument}[{axis}] must be at least {least}, but got {extent} in {list(shape)}"
            )
    return shape


def check_rank(values: Sequence[int], rank: int, argument: str, of: str) -> None:
    """Refuse a list that has not one entry an axis."""
    if len(values) != rank:
        raise ArgumentError(
            f"{argument} must have one entry for each of the {rank} axes of {of}, "
            f"but got {list(values)}"
        )


def product(values: Iterable[int]) -> int:
    """Multiply integers."""
    total = 1
    for value in values:
        total *= value
    return total
