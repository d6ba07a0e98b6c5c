"""Allocator that programs set for kernels that need scratch memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_allocator: Callable[..., Any] | None = None


def set_allocator(allocator: Callable[..., Any]) -> None:
    """Store a function ``(size, alignment, stream)`` that allocates; no kernel here needs one.

    Args:
        allocator: The function.

    Raises:
        TypeError: It cannot be called.
    """
    global _allocator
    if not callable(allocator):
        raise TypeError(f"allocator must be callable, but got {type(allocator).__name__}")
    _allocator = allocator


def get_allocator() -> Callable[..., Any] | None:
    """Return the function that was set last."""
    return _allocator
