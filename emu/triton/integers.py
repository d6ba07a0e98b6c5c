"""Small integer functions for grids and block sizes, on the host and in kernels."""

from __future__ import annotations

from typing import Any

from emu.triton.runtime.source import constexpr_function


@constexpr_function
def cdiv(x: Any, y: Any) -> Any:
    """Return ``x / y`` rounded up.

    Args:
        x: An integer.
        y: An integer above 0.
    """
    return -(-x // y)


@constexpr_function
def next_power_of_2(n: int) -> int:
    """Return the smallest power of 2 that is at least ``n``; 0 for 0.

    Args:
        n: An integer of at least 0.
    """
    return 1 << (n - 1).bit_length() if n > 0 else 0
