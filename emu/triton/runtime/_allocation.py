"""Allocator that programs set for kernels that need scratch memory; no kernel here needs any."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import NoReturn, Protocol


class Buffer(Protocol):
    """Memory that an allocator returns."""

    def data_ptr(self) -> int:
        """Return the address."""
        ...


class NullAllocator:
    """Allocator that refuses: the one that is set before a program sets its own."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> NoReturn:
        """Refuse.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            f"no allocator is set that could give {size} bytes: use triton.set_allocator to set one"
        )


Allocator = Callable[[int, int, int | None], Buffer]
"""Takes the number of bytes, their alignment and the stream."""

_NULL_ALLOCATOR = NullAllocator()
_allocator: ContextVar[Allocator] = ContextVar("allocator", default=_NULL_ALLOCATOR)
_profile_allocator: ContextVar[Allocator] = ContextVar("profile_allocator", default=_NULL_ALLOCATOR)


def _check(allocator: object) -> None:
    if not callable(allocator):
        raise TypeError(f"allocator must be callable, but got {type(allocator).__name__}")


def set_allocator(allocator: Allocator) -> None:
    """Set the allocator of this context, a function ``(size, alignment, stream)``; no kernel here calls it.

    Args:
        allocator: The function.

    Raises:
        TypeError: The allocator is not callable.
    """
    _check(allocator)
    _allocator.set(allocator)


def set_profile_allocator(allocator: Allocator | None) -> None:
    """Set the allocator of instrumented kernels, of which there are none here; None removes it.

    Raises:
        TypeError: The allocator is not callable.
    """
    if allocator is not None:
        _check(allocator)
    _profile_allocator.set(_NULL_ALLOCATOR if allocator is None else allocator)


def has_profile_allocator() -> bool:
    """Return whether an allocator of instrumented kernels is set."""
    return not isinstance(_profile_allocator.get(), NullAllocator)
