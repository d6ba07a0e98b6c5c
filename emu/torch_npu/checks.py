"""Checks that several operators share, and kernels' errors in the words of the operators' callers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from emu.accelerator.arrays import Array, DType
from emu.comm.errors import ArgumentError
from emu.kernels.errors import ArgumentError as KernelArgumentError


@contextmanager
def caller_names(names: Mapping[str, str] | None = None, without: str = "") -> Iterator[None]:
    """Raise kernels' errors of the block with the caller's names of the arguments.

    Args:
        names: The caller's name for each argument that has another in the block. Default: none has.
        without: Text to be left out of the errors.
    """
    try:
        yield
    except KernelArgumentError as error:
        text = str(error)
        if names:
            words = re.compile(rf"\b({'|'.join(names)})\b")
            text = words.sub(lambda found: names[found[0]], text)
        raise ArgumentError(text.replace(without, "")) from None


def check_dtype(name: str, array: Array, *allowed: DType) -> Array:
    """Return ``array`` if its dtype is one of those allowed.

    Raises:
        ArgumentError: It has another.
    """
    if array.dtype not in allowed:
        texts = ", ".join(map(str, allowed))
        raise ArgumentError(f"{name} must have dtype {texts}, but got {array.dtype}")
    return array
