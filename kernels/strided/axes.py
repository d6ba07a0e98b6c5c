"""Axes of strided operands: put into the order of memory, and joined where one continues another."""

from __future__ import annotations

from collections.abc import Sequence

Axis = tuple[int, ...]
"""An extent, and the stride of each operand along it."""


def order_and_join(
    shape: Sequence[int], *strides: Sequence[int], forward: bool = True
) -> tuple[list[Axis], tuple[int, ...]]:
    """Order the axes of some operands as they lie in the first one, and join what lies on end.

    Axes of extent 1 are left out. The elements of the first operand must not overlap; then no two axes
    have one stride, and the order is the only one.

    Args:
        shape: Common shape of the operands; no extent is 0.
        *strides: Strides of each operand.
        forward: Turn axes around along which the first operand runs backward.

    Returns:
        The axes, outermost first, and for each operand the distance from its first element to where the
        walk begins, which is 0 unless axes were turned around.
    """
    axes: list[Axis] = [axis for axis in zip(shape, *strides, strict=True) if axis[0] != 1]
    shifts = (0,) * len(strides)
    if forward and axes and min(axis[1] for axis in axes) < 0:
        backward = [axis for axis in axes if axis[1] < 0]
        axes = [(n, *(-s for s in steps)) if steps[0] < 0 else (n, *steps) for n, *steps in axes]
        shifts = tuple(
            sum((axis[0] - 1) * axis[1 + operand] for axis in backward)
            for operand in range(len(strides))
        )
    axes.sort(key=lambda axis: -abs(axis[1]))
    joined: list[Axis] = []
    for axis in axes:
        before = joined[-1] if joined else ()
        # Every operand must go on where the inner axis ends, or the joined axis would skip memory.
        if before and all(b == axis[0] * a for b, a in zip(before[1:], axis[1:], strict=True)):
            joined[-1] = (before[0] * axis[0], *axis[1:])
        else:
            joined.append(axis)
    return joined, shifts
