"""What the operators check alike: the errors of kernels in the operators' names, and options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from emu.accelerator.arrays import Array
from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check


def renamed(error: Exception, names: Mapping[str, str]) -> ArgumentError:
    """Return the error of a kernel with its arguments by the names that the operator has for them.

    Args:
        error: The kernel's.
        names: The operator's name for each of the kernel's.
    """
    words = re.compile(rf"\b({'|'.join(names)})\b")
    return ArgumentError(words.sub(lambda found: names[found[0]], str(error)))


def integer(name: str, value: Any) -> int:
    """Return an integral argument as an ``int``.

    Raises:
        ArgumentError: It is not integral.
    """
    return check.integer(name, value)


def flag(name: str, value: Any) -> bool:
    """Return an argument that is either so or not: a bool, 0 or 1.

    Raises:
        ArgumentError: It is something else.
    """
    return check.flag(name, value)


def only(name: str, value: Any, *allowed: Any) -> None:
    """Refuse an option for which there is no code, in place of ignoring it.

    Raises:
        ArgumentError: ``value`` is none of those allowed.
    """
    if not any(value is one or (type(value) is type(one) and value == one) for one in allowed):
        texts = " or ".join(repr(one) for one in allowed)
        raise ArgumentError(f"{name} must be {texts}, but got {value!r}")


def of_dtype(name: str, array: Array, *allowed: Any) -> Array:
    """Return ``array`` if its dtype is one of those allowed.

    Raises:
        ArgumentError: It has another.
    """
    if array.dtype not in allowed:
        texts = ", ".join(str(np.dtype(one)) for one in allowed)
        raise ArgumentError(f"{name} must have dtype {texts}, but got {array.dtype}")
    return array


def of_shape(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """Return ``array`` if it has that shape.

    Raises:
        ArgumentError: It has another.
    """
    if array.shape != shape:
        raise ArgumentError(f"{name} must have shape {shape}, but got {array.shape}")
    return array
