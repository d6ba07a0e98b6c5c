"""Checks that several operators share, and kernels' errors in the words of the operators' callers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from emu.accelerator.arrays import Array, DType
from emu.comm.errors import ArgumentError


def rename_arguments(error: Exception, names: Mapping[str, str]) -> ArgumentError:
    """Return a kernel's error with the operator's names of its arguments.

    Args:
        error: The kernel's error.
        names: The operator's name for each of the kernel's.
    """
    words = re.compile(rf"\b({'|'.join(names)})\b")
    return ArgumentError(words.sub(lambda found: names[found[0]], str(error)))


def check_option(name: str, value: object, *allowed: object) -> None:
    """Raise an error for a value of an option that is not implemented; it is never ignored.

    Raises:
        ArgumentError: ``value`` is not one of those allowed.
    """
    if not any(value is one or (type(value) is type(one) and value == one) for one in allowed):
        texts = " or ".join(repr(one) for one in allowed)
        raise ArgumentError(f"{name} must be {texts}, but got {value!r}")


def check_dtype(name: str, array: Array, *allowed: DType) -> Array:
    """Return ``array`` if its dtype is one of those allowed.

    Raises:
        ArgumentError: It has another.
    """
    if array.dtype not in allowed:
        texts = ", ".join(str(one) for one in allowed)
        raise ArgumentError(f"{name} must have dtype {texts}, but got {array.dtype}")
    return array


def check_shape(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """Return ``array`` if it has the given shape.

    Raises:
        ArgumentError: It has another.
    """
    if array.shape != shape:
        raise ArgumentError(f"{name} must have shape {shape}, but got {array.shape}")
    return array
