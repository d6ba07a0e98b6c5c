"""Integers of all instances of an operation at once: what is affine in the lanes of a tile.

An *instance* is one execution of an operation: by one program, in one round of each loop around it. Numbers that differ
by instance are arrays; others have no axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from emu.tile.types import DType

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
"""One number for each instance, or one for all."""

Truths: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
"""Likewise, a truth."""

_FAR = 1 << 60


@dataclass(frozen=True)
class Line:
    """Integers, or pointers, of a value: ``base + strides · lane``.

    Attributes:
        base: The first lane's.
        strides: What one step along each axis adds.
        shape: Shape of the tile.
        origin: Of pointers, the argument that they come from: numbers are bytes from it. None of integers.
    """

    base: Numbers
    strides: tuple[Numbers, ...] = ()
    shape: tuple[int, ...] = ()
    origin: int | None = None

    def bounds(self) -> tuple[Numbers, Numbers]:
        """Return the least and the greatest number of each instance."""
        low = high = self.base
        for stride, extent in zip(self.strides, self.shape, strict=True):
            reach = stride * (extent - 1)
            low, high = low + np.minimum(reach, 0), high + np.maximum(reach, 0)
        return low, high

    def is_even(self) -> bool:
        """Return whether all lanes of each instance are equal."""
        return not any(np.any(s) for s in self.strides)

    def map(self, function: Callable[[Numbers], Numbers]) -> Line:
        """Apply a function to the base and the strides."""
        return replace(self, base=function(self.base), strides=tuple(map(function, self.strides)))


@dataclass(frozen=True)
class Mask:
    """What is known of the lanes in which a tile of i1 is true: there, none of these lines is above 0.

    Attributes:
        lines: The lines.
        is_exact: Whether the tile is true in all lanes for which that holds.
    """

    lines: tuple[Line, ...] = ()
    is_exact: bool = True


Known: TypeAlias = Line | Mask | None
"""What is known of a value; None: nothing."""


def number(value: int) -> Numbers:
    """Return one number for all instances."""
    return np.asarray(value, np.int64)


def fits(line: Line, dtype: DType | None) -> bool:
    """Return whether all numbers are in the range of a dtype; None: of addresses."""
    low, high = line.bounds()
    least, most = (-_FAR, _FAR) if dtype is None else dtype.limits
    return bool(np.all(low >= max(least, -_FAR)) and np.all(high <= min(most, _FAR)))


def added(a: Line, b: Line, sign: int = 1) -> Line:
    """Return the sum, or the difference, of lines of one shape."""
    strides = tuple(x + sign * y for x, y in zip(a.strides, b.strides, strict=True))
    origin = a.origin if a.origin is not None else b.origin
    return Line(np.asarray(a.base + sign * b.base), strides, a.shape, origin)


def scaled(line: Line, by: Numbers) -> Line:
    """Return a line times a number for each instance."""
    return line.map(lambda x: np.asarray(x * by))


def splat(line: Line, shape: Sequence[int]) -> Line:
    """Return a scalar, repeated as a tile."""
    return replace(line, strides=tuple(number(0) for _ in shape), shape=tuple(shape))


def broadcast(line: Line, shape: Sequence[int]) -> Line:
    """Return a tile whose axes of extent 1 are repeated."""
    strides = tuple(
        number(0) if old != new else s
        for s, old, new in zip(line.strides, line.shape, shape, strict=True)
    )
    return replace(line, strides=strides, shape=tuple(shape))


def permute(line: Line, order: Sequence[int]) -> Line:
    """Return a tile with its axes permuted."""
    strides = tuple(line.strides[a] for a in order)
    return replace(line, strides=strides, shape=tuple(line.shape[a] for a in order))


def reshape(line: Line, shape: Sequence[int]) -> Line | None:
    """Return a tile under another shape; None if it is not affine there."""
    strides: list[Numbers] = []
    axis, left = 0, 1  # the axis that is being divided, and what of its extent is left
    old = [(e, s) for e, s in zip(line.shape, line.strides, strict=True) if e != 1]
    for extent in shape:
        if extent == 1:
            strides.append(number(0))
            continue
        if left == 1:
            if axis >= len(old):
                return None
            left = old[axis][0]
            axis += 1
            # Axes that follow each other in memory are one.
            while left < extent or left % extent:
                if axis >= len(old) or np.any(old[axis - 1][1] != old[axis][1] * old[axis][0]):
                    return None
                left *= old[axis][0]
                axis += 1
        if left % extent:
            return None
        left //= extent
        strides.append(np.asarray(old[axis - 1][1] * left))
    return replace(line, strides=tuple(strides), shape=tuple(shape))


def remainder(line: Line, by: Numbers) -> Line | None:
    """Return a line modulo a positive number where that changes nothing; None elsewhere."""
    low, high = line.bounds()
    return line if np.all(low >= 0) and np.all(high < by) else None


def narrowed(
    line: Line, mask: Mask | None, count: int
) -> tuple[Truths, list[Numbers], list[Numbers]]:
    """Return which instances have any lane whose mask may be true, and from and to which lane on each axis.

    Args:
        line: Gives the shape.
        mask: Its mask.
        count: Number of instances.
    """
    lows: list[Numbers] = [np.zeros(count, np.int64) for _ in line.shape]
    highs: list[Numbers] = [np.full(count, e - 1, np.int64) for e in line.shape]
    alive: Truths = np.ones(count, np.bool_)
    # Twice: what one condition says of an axis lets another one say more.
    for _ in range(2 if mask is not None and len(mask.lines) > 1 else 1):
        for condition in mask.lines if mask is not None else ():
            alive &= _narrow(condition, lows, highs)
    for low, high in zip(lows, highs, strict=True):
        alive &= low <= high
    return alive, lows, highs


def _narrow(condition: Line, lows: list[Numbers], highs: list[Numbers]) -> Truths:
    """Narrow the lanes to those of which a condition (``base + strides · lane <= 0``) may be true."""
    least = [
        np.minimum(s * low, s * high)
        for s, low, high in zip(condition.strides, lows, highs, strict=True)
    ]
    total = condition.base + sum(least)
    for axis, stride in enumerate(condition.strides):
        room = -(total - least[axis])  # stride * lane <= room
        divisor = np.where(stride == 0, 1, stride)
        quotient = room // divisor  # toward minus infinity
        highs[axis] = np.where(stride > 0, np.minimum(highs[axis], quotient), highs[axis])
        lows[axis] = np.where(stride < 0, np.maximum(lows[axis], -(room // -divisor)), lows[axis])
    return np.asarray(total <= 0)


def holds_throughout(mask: Mask, lows: Sequence[Numbers], highs: Sequence[Numbers]) -> Truths:
    """Return which instances have all conditions of a mask fulfilled in all lanes from ``lows`` to ``highs``."""
    found: Truths = np.ones((), np.bool_)
    for line in mask.lines:
        most = line.base + sum(
            np.maximum(s * low, s * high)
            for s, low, high in zip(line.strides, lows, highs, strict=True)
        )
        found = np.asarray(found & (most <= 0))
    return found
