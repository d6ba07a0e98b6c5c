"""Bounds of blocks on NVIDIA's GPUs: ``triton.backends.nvidia.compiler``.

There is no compiler here. Programs that generate kernels ask this module for the least extents of ``tl.dot`` on a
GPU, and get those, so that they choose the blocks that they choose there; kernels may go below them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["min_dot_size"]


def min_dot_size(target: Any) -> Callable[[Any, Any], tuple[int, int, int]]:
    """Return a function that tells the least extents of ``tl.dot``.

    Args:
        target: The GPU; all have the same bounds.

    Returns:
        Function of the dtypes of both operands, or of tensor types, that returns the least m, n and k.
    """
    del target

    def least(lhs: Any, rhs: Any) -> tuple[int, int, int]:
        widths = [_bits(lhs), _bits(rhs)]
        if widths[0] != widths[1]:
            raise ValueError(
                f"lhs and rhs must be equally wide, but got {lhs} of {widths[0]} and {rhs} of {widths[1]} bits"
            )
        return (1, 1, 32 if widths[0] == 8 else 16)

    return least


def _bits(type_: Any) -> int:
    bits = getattr(getattr(type_, "scalar", type_), "primitive_bitwidth", None)
    if not isinstance(bits, int):
        raise TypeError(f"an operand must be a dtype of triton.language, but got {type_!r}")
    return bits
