"""Allocator that programs set for kernels that need scratch memory."""

from __future__ import annotations

from collections.abc import Callable


def set_allocator(allocator: Callable[..., object]) -> None:
    """Accept a function ``(size, alignment, stream)`` that allocates; no kernel here needs one.

    Args:
        allocator: The function.

    Raises:
        TypeError: The allocator is not callable.
    """
    if not callable(allocator):
        raise TypeError(f"allocator must be callable, but got {type(allocator).__name__}")
