"""Checks of the arguments of quantisation, and an order in which scattered updates may run."""

from __future__ import annotations

import numpy as np

from emu.kernels.core.annotations import Array
from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.cuda.quant_kernels import CHANNEL_KINDS, VALUE_KINDS
from emu.kernels.elementwise.scatter_rules import colliding, refuse_index, refuse_overlap
from emu.kernels.errors import ArgumentError


def check_values(name: str, dtype: np.dtype[np.generic]) -> None:
    """Check that values of a dtype can be quantised.

    Raises:
        ArgumentError: They cannot.
    """
    if dtype not in VALUE_KINDS:
        names = ", ".join(map(str, VALUE_KINDS))
        raise ArgumentError(f"{name} must be one of {names}, but got {dtype}")


def check_factor(name: str, array: DeviceArray, extent: int, axis: int) -> None:
    """Check scales or zero points: a single one, or one for each index along an axis.

    Raises:
        ArgumentError: Dtype, rank or number are not as they must be.
    """
    kinds = list(VALUE_KINDS) if name == "scales" else [k for k in CHANNEL_KINDS if k is not None]
    if array.dtype not in kinds:
        names = ", ".join(map(str, kinds))
        raise ArgumentError(f"{name} must be one of {names}, but got {array.dtype}")
    if array.ndim > 1 or array.size not in (1, extent):
        raise ArgumentError(
            f"{name} must be a number or have one element for each of the {extent} along axis "
            f"{axis}, but got shape {array.shape}"
        )


def runs_apart(
    indices: Array,
    shape: tuple[int, ...],
    length: int,
    along: int,
    overlap: str,
) -> list[tuple[int, int]]:
    """Check indices, and split the updates into runs, in order, none of which overlaps itself.

    Indices of one axis never overlap: each has a batch of its own, and they make one run.

    Args:
        indices: The indices, on the host.
        shape: The target's.
        length: Extent of an update along the axis that indices address.
        along: That axis.
        overlap: What to do where updates overlap: ``"refuse"`` or ``"last"``.

    Returns:
        (first, behind the last) of each run.

    Raises:
        ArgumentError: An index reaches outside of the target, or updates overlap and may not.
    """
    last_batch, last = shape[0] - 1, shape[along] - length
    pairs = indices.astype(np.int64)
    if indices.ndim == 1:
        pairs = np.stack([np.arange(len(indices)), pairs], axis=1)
    bad = ((pairs < 0) | (pairs > [last_batch, last])).any(axis=1)
    if bad.any():
        refuse_index(indices, int(bad.argmax()), last_batch, last)
    rows = colliding(pairs, length)
    if rows is None:
        return [(0, len(indices))]
    if overlap == "refuse":
        refuse_overlap(pairs, rows, length)
    return _in_order(pairs, length)


def _in_order(pairs: Array, length: int) -> list[tuple[int, int]]:
    """Cut wherever an update reaches what one of the same run wrote: later ones then win."""
    runs, begin = [], 0
    taken: dict[tuple[int, int], list[int]] = {}
    for i, (batch, start) in enumerate(pairs.tolist()):
        # Segments of one length: one that overlaps begins in the same cell, or in one beside it.
        cell = start // length
        near = [s for k in (-1, 0, 1) for s in taken.get((batch, cell + k), ())]
        if any(abs(s - start) < length for s in near):
            runs.append((begin, i))
            begin = i
            taken.clear()
        taken.setdefault((batch, cell), []).append(start)
    return [*runs, (begin, len(pairs))]
