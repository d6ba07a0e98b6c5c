"""Reductions and scans in the order in which compiled kernels combine elements.

The tile IR leaves the order of a reduction open. Compiled kernels combine along the last axis in 32 chains,
whose ends are halved, and a scan in blocks of 32; other axes in order. The same order gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Combine = Callable[[Sequence[Array]], Sequence[Array]]
"""Combines arrays of one side with those of the other, element by element."""

RUN = 32


def vector_axis(shape: tuple[int, ...]) -> int:
    """Return the axis along which a compiled kernel walks in runs: the last with several elements."""
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1:
            return axis
    return len(shape) - 1


def reduce(tiles: Sequence[Array], axis: int, combine: Combine) -> list[Array]:
    """Combine all elements along an axis."""
    shape = tiles[0].shape
    parts = [np.moveaxis(t, axis, -1) for t in tiles]
    if axis != vector_axis(shape):
        return _chain([[p[..., i] for p in parts] for i in range(shape[axis])], combine)
    if shape[axis] > RUN:
        starts = range(0, shape[axis], RUN)
        parts = _chain([[p[..., s : s + RUN] for p in parts] for s in starts], combine)
    while parts[0].shape[-1] > 1:
        half = parts[0].shape[-1] // 2
        parts = _pair(combine, [p[..., :half] for p in parts], [p[..., half:] for p in parts])
    return [np.asarray(p[..., 0]) for p in parts]


def scan(tiles: Sequence[Array], axis: int, reverse: bool, combine: Combine) -> list[Array]:
    """Combine each element with all before it along an axis."""
    shape = tiles[0].shape
    parts = [np.moveaxis(np.flip(t, axis) if reverse else t, axis, -1) for t in tiles]
    extent = shape[axis]
    if axis != vector_axis(shape) or extent % min(extent, RUN):
        found = [[np.asarray(p[..., 0]) for p in parts]]
        for i in range(1, extent):
            found.append(_pair(combine, found[-1], [np.asarray(p[..., i]) for p in parts]))
        results = [np.stack([f[n] for f in found], -1) for n in range(len(parts))]
    else:
        results = _in_blocks(parts, min(extent, RUN), combine)
    results = [np.moveaxis(r, -1, axis) for r in results]
    return [np.flip(r, axis) if reverse else r for r in results]


def _in_blocks(parts: Sequence[Array], count: int, combine: Combine) -> list[Array]:
    extent = parts[0].shape[-1]
    blocks: list[list[Array]] = []
    for start in range(0, extent, count):
        block = [np.array(p[..., start : start + count]) for p in parts]
        distance = 1
        while distance < count:
            mixed = _pair(
                combine, [b[..., :-distance] for b in block], [b[..., distance:] for b in block]
            )
            block = [
                np.concatenate((b[..., :distance], m), -1)
                for b, m in zip(block, mixed, strict=True)
            ]
            distance *= 2
        if blocks:
            last = [np.broadcast_to(b[..., -1:], b.shape) for b in blocks[-1]]
            block = _pair(combine, last, block)
        blocks.append(block)
    return [np.concatenate([b[n] for b in blocks], -1) for n in range(len(parts))]


def _chain(steps: Sequence[Sequence[Array]], combine: Combine) -> list[Array]:
    result = [np.asarray(a) for a in steps[0]]
    for step in steps[1:]:
        result = _pair(combine, result, step)
    return result


def _pair(combine: Combine, first: Sequence[Array], second: Sequence[Array]) -> list[Array]:
    # What does not depend on the elements comes back smaller.
    mixed = combine([*first, *second])
    return [np.broadcast_to(m, f.shape) for m, f in zip(mixed, first, strict=True)]
