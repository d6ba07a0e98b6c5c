"""Small integer functions for grids and block sizes, on the host and in kernels."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

from emu.triton.source import constexpr_function


@constexpr_function
def cdiv(x: Any, y: Any) -> Any:
    """Return ``x / y`` rounded up.

    Args:
        x: An integer.
        y: An integer above 0.

    Raises:
        TypeError: The arguments are not numbers.
        ValueError: ``y`` is 0.
    """
    if type(x) is int and type(y) is int and y:
        return -(-x // y)
    if isinstance(y, (int, float)) and not y:
        raise ValueError(f"y must not be 0, but got {y!r}")
    try:
        return -(-x // y)  # floats, tensors, symbols
    except (TypeError, ValueError, OverflowError) as error:
        said = f"{type(x).__name__} {x!r:.60} and {type(y).__name__} {y!r:.60}"
        raise TypeError(f"x and y must be integers, but got {said}: {error}") from None


@constexpr_function
def next_power_of_2(n: int) -> int:
    """Return the smallest power of 2 that is at least ``n``; 0 for 0.

    Args:
        n: An integer of at least 0.

    Raises:
        TypeError: ``n`` is not a number.
        ValueError: ``n`` is a float that is not whole.
    """
    if type(n) is not int:
        n = _integer("n", n)
    return 1 << (n - 1).bit_length() if n > 0 else 0


def _integer(name: str, value: SupportsIndex | float) -> int:
    """Return an integer; of a float that is whole, too.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is a float that is not whole.
    """
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{name} must be an integer, but got {value}")
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        said = f"{type(value).__name__} {value!r:.60}"
        raise TypeError(f"{name} must be an integer, but got {said}") from None
