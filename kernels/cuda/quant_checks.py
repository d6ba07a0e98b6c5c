"""What must hold of the arguments of quantisation, and in what order scattered updates may run."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.cuda.quant_kernels import CHANNEL_KINDS, VALUE_KINDS
from emu.kernels.dtypes import BFLOAT16
from emu.kernels.errors import ArgumentError

_INDEX_DTYPES = (np.dtype(np.int32), np.dtype(np.int64))
# What scales and zero points go with updates in a scatter.
_COMBINATIONS = {
    BFLOAT16: {"scales": BFLOAT16, "zero_points": BFLOAT16},
    np.dtype(np.float16): {"scales": np.dtype(np.float32), "zero_points": np.dtype(np.int32)},
}


def check_values(name: str, dtype: np.dtype[Any]) -> None:
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


def check_factors_of(updates: DeviceArray, factors: list[tuple[str, DeviceArray]]) -> None:
    """Check scales and zero points of a scatter.

    Raises:
        ArgumentError: Dtype, rank or number are not as they must be.
    """
    count = updates.shape[-1]
    for name, array in factors:
        dtype = _COMBINATIONS[updates.dtype][name]
        if array.dtype != dtype:
            raise ArgumentError(
                f"{name} must be {dtype} for {updates.dtype} updates, but got {array.dtype}"
            )
        if array.shape != (count,):
            raise ArgumentError(
                f"{name} must have {count} elements, one for each along the last axis of updates, "
                f"but got shape {array.shape}"
            )


def check_scatter(
    target: DeviceArray,
    indices: DeviceArray,
    updates: DeviceArray,
    axis: int,
    quant_axis: int,
    align: int | None,
    overlap: str,
) -> int:
    """Check dtypes, shapes and options.

    Returns:
        ``axis``, counted from the first.

    Raises:
        ArgumentError: An argument is not as it must be.
    """
    rank = target.ndim
    if target.dtype != np.int8:
        raise ArgumentError(f"target must have dtype int8, but got {target.dtype}")
    if not 3 <= rank <= 8:
        raise ArgumentError(f"target must have 3 to 8 axes, but got shape {target.shape}")
    if updates.ndim != rank:
        raise ArgumentError(
            f"updates must have {rank} axes as target has, but got shape {updates.shape}"
        )
    along = axis + rank if axis < 0 else axis
    if not 0 < along < rank - 1:
        raise ArgumentError(
            f"axis must be neither the first nor the last of {rank} axes "
            f"(1..{rank - 2} or {1 - rank}..-2), but got {axis}"
        )
    if quant_axis not in (-1, rank - 1):
        raise ArgumentError(
            f"quant_axis must be the last of {rank} axes (-1 or {rank - 1}), but got {quant_axis}"
        )
    if updates.dtype not in _COMBINATIONS:
        raise ArgumentError(f"updates must be bfloat16 or float16, but got {updates.dtype}")
    _check_indices_shape(target, indices, updates)
    _check_extents(target, updates, along, align)
    if overlap not in ("refuse", "last"):
        raise ArgumentError(f"overlap must be 'refuse' or 'last', but got {overlap!r}")
    return along


def _check_indices_shape(target: DeviceArray, indices: DeviceArray, updates: DeviceArray) -> None:
    if indices.dtype not in _INDEX_DTYPES:
        raise ArgumentError(f"indices must be int32 or int64, but got {indices.dtype}")
    if indices.ndim not in (1, 2) or (indices.ndim == 2 and indices.shape[1] != 2):
        raise ArgumentError(f"indices must have shape [n] or [n, 2], but got {indices.shape}")
    if updates.shape[0] != indices.shape[0]:
        raise ArgumentError(
            f"updates must have {indices.shape[0]} rows, one for each index, "
            f"but got shape {updates.shape}"
        )
    if indices.ndim == 1 and updates.shape[0] > target.shape[0]:
        raise ArgumentError(
            f"updates must have at most {target.shape[0]} rows, those of target, "
            f"but got shape {updates.shape}"
        )


def _check_extents(
    target: DeviceArray, updates: DeviceArray, along: int, align: int | None
) -> None:
    if updates.shape[along] > target.shape[along]:
        raise ArgumentError(
            f"updates must have an extent of at most {target.shape[along]} along axis {along}, "
            f"that of target, but got shape {updates.shape}"
        )
    for other in range(1, target.ndim):
        if other != along and updates.shape[other] != target.shape[other]:
            raise ArgumentError(
                f"updates must have the extent {target.shape[other]} along axis {other}, "
                f"that of target, but got shape {updates.shape}"
            )
    if align is not None and align < 1:
        raise ArgumentError(f"align must be at least 1 or None, but got {align}")
    if align is not None and updates.shape[-1] % align:
        raise ArgumentError(
            f"updates must have a last extent that is a multiple of {align} (align), "
            f"but got shape {updates.shape}"
        )


def runs_apart(
    indices: np.ndarray[Any, Any],
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
    n, last = len(indices), shape[along] - length
    batches = np.arange(n) if indices.ndim == 1 else indices[:, 0].astype(np.int64)
    starts = (indices if indices.ndim == 1 else indices[:, 1]).astype(np.int64)
    pairs = indices.ndim == 2
    names = ("indices[:, 0]", "indices[:, 1]") if pairs else ("", "indices")
    for name, values, limit in zip(names, (batches, starts), (shape[0] - 1, last), strict=True):
        bad = np.flatnonzero((values < 0) | (values > limit))
        if bad.size:
            row = int(bad[0])
            raise ArgumentError(
                f"{name} must be in 0..{limit}, but got {int(values[row])} in row {row}"
            )
    pair = _colliding(batches, starts, length)
    if pair is None:
        return [(0, n)]
    if overlap == "refuse":
        first, second = pair
        raise ArgumentError(
            "indices must give segments that do not overlap, but got rows "
            f"{first} and {second} at [{batches[first]}, {starts[first]}] and "
            f"[{batches[second]}, {starts[second]}], each {length} long"
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
