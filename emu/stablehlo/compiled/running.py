"""Running reductions: each total holds all elements up to its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from emu.stablehlo.reference.dtypes import is_complex, is_float
from emu.stablehlo.reference.values import Array

Combine = Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]]
"""Combines totals with what follows them, element by element."""


def scanned(
    starts: Sequence[Array], lines: Sequence[Array], combine: Combine
) -> list[Array] | None:
    """Return the totals of arrays along their first dimension, found in a number of steps that is its logarithm.

    The totals are proposed by combining neighbours, then neighbours of those, and so on, as if the order did not
    matter; then each must be what the one before it and its element combine to.

    Args:
        starts: What each total begins with, which combined with itself must be itself.
        lines: The elements, one array per total.
        combine: Any function of pairs.

    Returns:
        None where the totals are not confirmed.
    """
    wide = [np.broadcast_to(s, line[:1].shape) for s, line in zip(starts, lines, strict=True)]
    if not all(map(_are_bits_equal, combine(wide, wide), wide)):
        return None
    totals = list(combine(wide, _tree(lines, combine)))
    before = [np.concatenate([s, t[:-1]]) for s, t in zip(wide, totals, strict=True)]
    confirmed = combine(before, lines)
    if all(map(_are_close, totals, confirmed, before, lines)):
        return totals
    return None


def _tree(lines: Sequence[Array], combine: Combine) -> list[Array]:
    """Combine neighbours, scan these, and fill in what lies between."""
    count = len(lines[0])
    if count < 2:
        return list(lines)
    pairs = combine([x[: count - 1 : 2] for x in lines], [x[1::2] for x in lines])
    odd = _tree(pairs, combine)
    even = combine([t[: (count - 1) // 2] for t in odd], [x[2::2] for x in lines])
    found = [np.empty_like(x) for x in lines]
    for total, x, at_odd, at_even in zip(found, lines, odd, even, strict=True):
        total[0] = x[0]
        total[1::2] = at_odd
        total[2::2] = at_even
    return found


def _are_bits_equal(a: Array, b: Array) -> bool:
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def _are_close(total: Array, confirmed: Array, before: Array, x: Array) -> bool:
    """Return whether totals differ by rounding alone: by some units of the largest number that is combined."""
    if not (is_float(total.dtype) or is_complex(total.dtype)):
        return np.array_equal(total, confirmed)
    wide = np.complex128 if is_complex(total.dtype) else np.float64
    a, b, *others = (each.astype(wide) for each in (total, confirmed, before, x))
    unit = float(np.abs(np.nextafter(total.real.dtype.type(1), total.real.dtype.type(2))) - 1)
    size = np.abs(b)
    for each in others:
        size = np.maximum(size, np.where(np.isfinite(each), np.abs(each), 0))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return bool((same | (np.abs(a - b) <= 64 * unit * size)).all())
