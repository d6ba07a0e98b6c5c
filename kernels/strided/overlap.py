"""Tests for memory shared between arrays, or within one; None where it is too hard to tell."""

from __future__ import annotations

import math

import numpy as np

from emu.kernels.core.annotations import Array


def lies_apart(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, at_most: int
) -> bool | None:
    """Return whether no two elements of an array share a byte.

    Args:
        shape: Its shape.
        strides: Its strides in bytes.
        itemsize: Bytes of an element.
        at_most: Elements whose addresses are compared one by one where axes interleave.

    Returns:
        The answer, or None where axes interleave and there are more elements than that.
    """
    if 0 in shape:
        return True
    axes = sorted((abs(step), n) for step, n in zip(strides, shape, strict=True) if n > 1)
    reach = itemsize
    for step, n in axes:
        if step < reach:
            break
        reach += step * (n - 1)
    else:
        return True
    if axes[0][0] < itemsize:
        return False
    if math.prod(shape) > at_most:
        return None
    places = np.zeros(1, np.int64)
    for step, n in axes:
        places = np.add.outer(places, step * np.arange(n)).ravel()
    places.sort()
    return bool((np.diff(places) >= itemsize).all())


def shares_memory(one: Array, other: Array, work: int = 10_000) -> bool | None:
    """Return whether an element of one array shares a byte with one of the other.

    Args:
        one: An array.
        other: Another.
        work: Steps that NumPy's exact test, which can take exponential time, may make.

    Returns:
        The answer, or None where that is not enough to tell.
    """
    try:
        # NumPy's stub knows only two of the values that max_work takes.
        return bool(np.shares_memory(one, other, max_work=work))  # type: ignore[arg-type]  # see above
    except np.exceptions.TooHardError:
        return None
