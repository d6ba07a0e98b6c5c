"""Reductions and scans: a combine region, applied along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from emu.tile import ops
from emu.tile.ir import Operation, Region
from emu.tile.ops import Code
from emu.tile.reference.rounding import Array

Combine = Callable[[Sequence[Array]], Sequence[Array]]
"""Evaluates the region for arguments (those of one side, then of the other)."""


def _is_vectorisable(region: Region) -> bool:
    """Return whether a region can be evaluated for many elements at once."""
    plain = ops.ELEMENTWISE | {Code.CONSTANT, Code.YIELD}
    return all(operation.code in plain for operation in region.operations)


def lane_by_lane(combine: Combine) -> Combine:
    """Evaluate a region with control flow once for each element."""

    def apply(arguments: Sequence[Array]) -> Sequence[Array]:
        results = [np.empty_like(a) for a in arguments[: len(arguments) // 2]]
        for lane in np.ndindex(arguments[0].shape):
            values = combine([np.asarray(a[lane]) for a in arguments])
            for result, value in zip(results, values, strict=True):
                result[lane] = value
        return results

    return apply


def _prefixes(operation: Operation, tiles: Sequence[Array], combine: Combine) -> list[list[Array]]:
    """Return the combination of all elements up to each step along the axis."""
    axis = operation.attributes["axis"]
    if not _is_vectorisable(operation.regions[0]):
        combine = lane_by_lane(combine)
    steps = range(tiles[0].shape[axis])
    if operation.attributes.get("reverse", False):
        steps = steps[::-1]
    found: list[list[Array]] = []
    for step in steps:
        slices = [np.asarray(np.take(t, step, axis)) for t in tiles]
        if found:
            combined = combine([*found[-1], *slices])
            slices = [np.broadcast_to(c, s.shape) for c, s in zip(combined, slices, strict=True)]
        found.append(slices)
    return found


def reduce(operation: Operation, tiles: Sequence[Array], combine: Combine) -> tuple[Array, ...]:
    """Apply REDUCE, in the order of the axis."""
    return tuple(_prefixes(operation, tiles, combine)[-1])


def scan(operation: Operation, tiles: Sequence[Array], combine: Combine) -> tuple[Array, ...]:
    """Apply SCAN."""
    found = _prefixes(operation, tiles, combine)
    if operation.attributes.get("reverse", False):
        found.reverse()
    axis = operation.attributes["axis"]
    return tuple(np.stack([step[i] for step in found], axis) for i in range(len(tiles)))
