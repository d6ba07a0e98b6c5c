"""What must hold of the arguments of a quantised scatter, and in what order updates may run."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.cuda.quant_kernels import CHANNEL_KINDS, VALUE_KINDS
from emu.kernels.errors import ArgumentError

_INDEX_DTYPES = (np.dtype(np.int32), np.dtype(np.int64))


def check_values(dtype: np.dtype[Any], name: str) -> None:
    """Check that values of a dtype can be quantised.

    Raises:
        ArgumentError: They cannot.
    """
    if dtype not in VALUE_KINDS:
        raise ArgumentError(f"{name} must have dtype float16, bfloat16 or float32, but got {dtype}")


def check_channels(array: DeviceArray, name: str, count: int, *, single: bool) -> None:
    """Check scales or zero points: one for each of ``count``, or a single one where that will do.

    Raises:
        ArgumentError: Dtype, rank or number are not as they must be.
    """
    kinds = [
        kind
        for kind in CHANNEL_KINDS
        if kind is not None and (kind.kind != "i" or name == "zero_points")
    ]
    if array.dtype not in kinds:
        names = ", ".join(kind.name for kind in kinds)
        raise ArgumentError(f"{name} must have one of the dtypes {names}, but got {array.dtype}")
    if array.ndim > 1 or (array.size != count and not (single and array.size == 1)):
        wanted = f"{count} elements" + (" or 1" if single and count != 1 else "")
        raise ArgumentError(
            f"{name} must have one axis of {wanted}, but got the shape {array.shape}"
        )


def check_scatter(
    target: DeviceArray,
    indices: DeviceArray,
    updates: DeviceArray,
    axis: int,
    quant_axis: int,
    align: int,
    overlap: str,
) -> int:
    """Check dtypes, shapes and options.

    Returns:
        ``axis``, counted from the front.

    Raises:
        ArgumentError: An argument is not as it must be.
    """
    if target.dtype != np.int8:
        raise ArgumentError(f"target must have dtype int8, but got {target.dtype}")
    if indices.dtype not in _INDEX_DTYPES:
        raise ArgumentError(f"indices must have dtype int32 or int64, but got {indices.dtype}")
    rank = target.ndim
    if not 3 <= rank <= 8:
        raise ArgumentError(f"target must have rank 3 to 8, but got rank {rank}")
    if updates.ndim != rank:
        raise ArgumentError(f"updates must have target's rank {rank}, but got rank {updates.ndim}")
    if not -rank < axis < rank - 1 or axis in (0, -1):
        raise ArgumentError(
            f"axis must be neither the first nor the last of {rank} axes, but got {axis}"
        )
    if quant_axis not in (-1, rank - 1):
        raise ArgumentError(
            f"quant_axis must be the last of {rank} axes, -1 or {rank - 1}, but got {quant_axis}"
        )
    if overlap not in ("refuse", "last"):
        raise ArgumentError(f"overlap must be 'refuse' or 'last', but got {overlap!r}")
    along = axis % rank
    _check_extents(target, indices, updates, along)
    if align < 1 or updates.shape[-1] * target.itemsize % align:
        raise ArgumentError(
            "align must be a positive number that divides the bytes of a row of target, "
            f"{updates.shape[-1] * target.itemsize}, but got {align}"
        )
    return along


def _check_extents(
    target: DeviceArray, indices: DeviceArray, updates: DeviceArray, along: int
) -> None:
    if indices.ndim != 1 and (indices.ndim != 2 or indices.shape[1] != 2):
        raise ArgumentError(f"indices must have the shape (n,) or (n, 2), but got {indices.shape}")
    if updates.shape[0] != indices.shape[0]:
        raise ArgumentError(
            f"updates must have as many entries along the first axis as indices, "
            f"{indices.shape[0]}, but got {updates.shape[0]}"
        )
    if indices.ndim == 1 and indices.shape[0] > target.shape[0]:
        raise ArgumentError(
            f"indices must have at most as many entries as target along its first axis, "
            f"{target.shape[0]}, but got {indices.shape[0]}"
        )
    for i in range(1, target.ndim):
        wanted, found = target.shape[i], updates.shape[i]
        if found > wanted or (found != wanted and i != along):
            bound = "at most" if i == along else "exactly"
            raise ArgumentError(
                f"updates must have {bound} {wanted} elements along axis {i}, but got {found}"
            )


def runs_apart(
    indices: np.ndarray[Any, Any],
    shape: tuple[int, ...],
    length: int,
    along: int,
    overlap: str,
) -> list[tuple[int, int]]:
    """Check indices, and split the updates into runs, in order, none of which overlaps itself.

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
    n, last = len(indices), shape[along] - length
    batches = np.arange(n) if indices.ndim == 1 else indices[:, 0].astype(np.int64)
    starts = (indices if indices.ndim == 1 else indices[:, 1]).astype(np.int64)
    for values, limit, column in ((batches, shape[0] - 1, ", 0"), (starts, last, ", 1")):
        bad = np.flatnonzero((values < 0) | (values > limit))
        if bad.size:
            i = int(bad[0])
            place = f"{i}{column}" if indices.ndim == 2 else f"{i}"
            raise ArgumentError(
                f"indices[{place}] must be in [0, {limit}], but got {int(values[i])}"
            )
    if length == 0 or n == 0:
        return [(0, n)] if n else []
    pair = _colliding(batches, starts, length)
    if pair is None:
        return [(0, n)]
    if overlap == "refuse":
        raise ArgumentError(
            f"updates must not overlap in target, but got rows {pair[0]} and {pair[1]} of indices "
            f"that reach the same elements: {indices[pair[0]].tolist()} and "
            f"{indices[pair[1]].tolist()}"
        )
    return _in_order(batches, starts, length)


def _colliding(
    batches: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], length: int
) -> tuple[int, int] | None:
    order = np.lexsort((starts, batches))
    near = (np.diff(batches[order]) == 0) & (np.diff(starts[order]) < length)
    hits = np.flatnonzero(near)
    if hits.size == 0:
        return None
    first, second = int(order[hits[0]]), int(order[hits[0] + 1])
    return min(first, second), max(first, second)


def _in_order(
    batches: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], length: int
) -> list[tuple[int, int]]:
    """Cut wherever an update reaches what one of the same run wrote: later ones then win."""
    runs, begin = [], 0
    taken: dict[tuple[int, int], list[int]] = {}
    for i, (batch, start) in enumerate(zip(batches.tolist(), starts.tolist(), strict=True)):
        # Segments of one length: one that overlaps begins in the same cell, or in one beside it.
        cell = start // length
        near = [s for k in (-1, 0, 1) for s in taken.get((batch, cell + k), ())]
        if any(abs(s - start) < length for s in near):
            runs.append((begin, i))
            begin = i
            taken.clear()
        taken.setdefault((batch, cell), []).append(start)
    return [*runs, (begin, len(batches))]
