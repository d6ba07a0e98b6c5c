"""Symbolic scalars, which on the emulator are concrete integers from the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, SupportsIndex, Union

import numpy as np

from emu.kernels.core.checks import Arguments
from emu.kernels.core.messages import shown
from emu.pypto.errors import ArgumentError


class ArithmeticOperand:
    """Base of types that define arithmetic with symbolic scalars themselves, as tensors do."""

    __slots__ = ()


class SymbolicScalar(int):
    """An integer that PyPTO knows only when the kernel runs; here it is an ``int`` with a value.

    Arithmetic between symbolic scalars and integers gives symbolic scalars, comparisons give
    ``bool``. ``//`` and ``%`` round down, as in Python; ``/`` is exact division.
    """

    __slots__ = ()

    def min(self, other: SupportsIndex) -> SymbolicScalar:
        """Return the smaller of the two."""
        return SymbolicScalar(min(int(self), as_int(other, "other")))

    def max(self, other: SupportsIndex) -> SymbolicScalar:
        """Return the larger of the two."""
        return SymbolicScalar(max(int(self), as_int(other, "other")))

    def __add__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(int(self) + index(other))
        except TypeError:
            return _refuse("+", self, other, other)

    def __radd__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(index(other) + int(self))
        except TypeError:
            return _refuse("+", other, self, other)

    def __sub__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(int(self) - index(other))
        except TypeError:
            return _refuse("-", self, other, other)

    def __rsub__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(index(other) - int(self))
        except TypeError:
            return _refuse("-", other, self, other)

    def __mul__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(int(self) * index(other))
        except TypeError:
            return _refuse("*", self, other, other)

    def __rmul__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(index(other) * int(self))
        except TypeError:
            return _refuse("*", other, self, other)

    def __floordiv__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(int(self) // index(other))
        except (TypeError, ZeroDivisionError):
            return _refuse("//", self, other, other)

    def __rfloordiv__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(index(other) // int(self))
        except (TypeError, ZeroDivisionError):
            return _refuse("//", other, self, other)

    def __mod__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(int(self) % index(other))
        except (TypeError, ZeroDivisionError):
            return _refuse("%", self, other, other)

    def __rmod__(self, other: int) -> SymbolicScalar:
        try:
            return SymbolicScalar(index(other) % int(self))
        except (TypeError, ZeroDivisionError):
            return _refuse("%", other, self, other)

    def __truediv__(self, other: int) -> SymbolicScalar:
        try:
            return _exact(int(self), index(other))
        except (TypeError, ZeroDivisionError):
            return _refuse("/", self, other, other)

    def __rtruediv__(self, other: int) -> SymbolicScalar:  # type: ignore[misc]  # int has true division of floats
        try:
            return _exact(index(other), int(self))
        except (TypeError, ZeroDivisionError):
            return _refuse("/", other, self, other)

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


def _refuse(operator: str, left: object, right: object, other: object) -> SymbolicScalar:
    """Leave arithmetic to a tensor, array or sequence on the other side; raise for all other operands."""
    repeated = operator == "*" and isinstance(other, list | tuple | str | bytes)
    if repeated or isinstance(other, ArithmeticOperand | np.ndarray):
        return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand
    if hasattr(type(other), "__index__"):
        raise ArgumentError(
            f"the divisor of a symbolic scalar must not be 0, but got {shown(left)} {operator} {shown(right)}"
        )
    raise ArgumentError(
        "a symbolic scalar must be combined with an int or a SymbolicScalar, but got "
        f"{shown(left)} {operator} {shown(right)}"
    )


SymInt = Union[int, SymbolicScalar]  # noqa: UP007 - the name is part of the surface
Shape = tuple[int, ...]


_check = Arguments(ArgumentError)
_UNORDERED = frozenset((set, frozenset, dict))  # iterable, but their order means nothing


def as_int(value: Any, argument: str) -> int:
    """Return ``value`` as an ``int``, or raise an error that names the argument."""
    try:
        return index(value)
    except TypeError:
        raise ArgumentError(
            f"{argument} must be an int or a SymbolicScalar, but got {shown(value)}"
        ) from None


def as_ints(values: Any, argument: str) -> Shape:
    """Return ``values`` as a tuple of ``int``, or raise an error that names the argument."""
    try:
        if type(values) not in _UNORDERED:
            return tuple(map(index, values))
    except TypeError:
        pass
    raise ArgumentError(
        f"{argument} must be a list of int or SymbolicScalar, but got {shown(values)}"
    )


def as_flag(value: object, argument: str) -> bool:
    """Return ``value`` as a ``bool``; it must be one, or 0 or 1."""
    return _check.flag(argument, value)


def as_text(value: object, argument: str) -> str:
    """Return ``value``, which must be a ``str``."""
    if isinstance(value, str):
        return value
    raise ArgumentError(f"{argument} must be a str, but got {shown(value)}")


def as_shape(values: object, argument: str, *, least: int = 1) -> Shape:
    """Return ``values`` as a shape with every extent at least ``least``."""
    shape = as_ints(values, argument)
    if not shape or min(shape) >= least:
        return shape
    for axis, extent in enumerate(shape):
        if extent < least:
            raise ArgumentError(
                f"{argument}[{axis}] must be at least {least}, but got {extent} in {shown(list(shape))}"
            )
    return shape


def check_rank(values: Sequence[int], rank: int, argument: str, of: str) -> None:
    """Check that a list has one entry per axis."""
    if len(values) != rank:
        raise ArgumentError(
            f"{argument} must have one entry for each of the {rank} axes of {of}, "
            f"but got {shown(list(values))}"
        )


def index_entries(key: object, rank: int) -> list[object]:
    """Return one entry for each axis of what stands in brackets behind a tensor."""
    entries = list(key) if isinstance(key, tuple) else [key]
    if len(entries) == rank and Ellipsis.__class__ not in map(type, entries):
        return entries
    dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError(f"an index must have at most one ..., but got {len(dots)}")
    if dots:
        at = dots[0]
        entries[at : at + 1] = [slice(None)] * (rank - len(entries) + 1)
    if len(entries) > rank:
        raise ArgumentError(f"an index must have at most {rank} entries, but got {len(entries)}")
    return entries + [slice(None)] * (rank - len(entries))


def product(values: Iterable[int]) -> int:
    """Multiply integers."""
    total = 1
    for value in values:
        total *= value
    return total


def overlaps(low: Shape, extent: Shape, other: Shape, other_extent: Shape) -> bool:
    """Return whether two rectangles, each given by its corner and its extents, share an element."""
    # A loop, not a generator: each op looks at all that is pending on its operands.
    for a, m, b, n in zip(low, extent, other, other_extent, strict=True):
        if a >= b + n or b >= a + m:
            return False
    return True


def lies_in(low: Shape, extent: Shape, other: Shape, other_extent: Shape) -> bool:
    """Return whether a rectangle lies in another, each given by its corner and its extents."""
    for a, m, b, n in zip(low, extent, other, other_extent, strict=True):
        if a < b or a + m > b + n:
            return False
    return True
