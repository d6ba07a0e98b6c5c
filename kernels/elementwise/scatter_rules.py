"""Rules for the arguments of a quantised scatter, in host memory as on a device.

Each rule that is broken is an :class:`~emu.kernels.errors.ArgumentError` that names the argument.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np

from emu.kernels.core.annotations import Array
from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import BFLOAT16
from emu.kernels.core.messages import shown
from emu.kernels.errors import ArgumentError

Indices = Array


class Operand(Protocol):
    """An array, wherever its elements are."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of an element."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each axis."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def size(self) -> int:
        """Number of elements."""


FACTORS = {
    BFLOAT16: {"scales": BFLOAT16, "zero_points": BFLOAT16},
    np.dtype(np.float16): {"scales": np.dtype(np.float32), "zero_points": np.dtype(np.int32)},
}
"""Dtypes of updates, and those of the scales and zero points that go with them."""


def check_scatter(
    target: Operand,
    indices: Operand,
    updates: Operand,
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
    along = _check_axes(target, updates, axis, quant_axis)
    if updates.dtype not in FACTORS:
        raise ArgumentError(f"updates must be bfloat16 or float16, but got {updates.dtype}")
    _check_indices(target, indices, updates)
    _check_extents(target, updates, along, align)
    if not isinstance(overlap, str) or overlap not in ("refuse", "last"):
        raise ArgumentError(f"overlap must be 'refuse' or 'last', but got {shown(overlap)}")
    return along


def _check_axes(target: Operand, updates: Operand, axis: int, quant_axis: int) -> int:
    rank = target.ndim
    if target.dtype != np.int8:
        raise ArgumentError(f"target must have dtype int8, but got {target.dtype}")
    if not 3 <= rank <= 8:
        raise ArgumentError(f"target must have 3 to 8 axes, but got shape {target.shape}")
    if updates.ndim != rank:
        raise ArgumentError(
            f"updates must have {rank} axes as target has, but got shape {updates.shape}"
        )
    axis, quant_axis = check.integer("axis", axis), check.integer("quant_axis", quant_axis)
    along = axis + rank if axis < 0 else axis
    if not 0 < along < rank - 1:
        raise ArgumentError(
            f"axis must be neither the first nor the last of {rank} axes "
            f"(1..{rank - 2} or {1 - rank}..-2), but got {shown(axis)}"
        )
    if quant_axis not in (-1, rank - 1):
        raise ArgumentError(
            f"quant_axis must be the last of {rank} axes (-1 or {rank - 1}), but got "
            f"{shown(quant_axis)}"
        )
    return along


def _check_indices(target: Operand, indices: Operand, updates: Operand) -> None:
    if indices.dtype not in (np.int32, np.int64):
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


def _check_extents(target: Operand, updates: Operand, along: int, align: int | None) -> None:
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
    if align is None:
        return
    align = check.integer("align", align)
    if align < 1:
        raise ArgumentError(f"align must be at least 1 or None, but got {shown(align)}")
    if updates.shape[-1] % align:
        raise ArgumentError(
            f"updates must have a last extent that is a multiple of {shown(align)} (align), "
            f"but got shape {updates.shape}"
        )


def check_channels(name: str, value: Operand, updates: Operand, *, one_axis: bool = False) -> None:
    """Check ``scales`` or ``zero_points``: the dtype that goes with the updates, one a channel.

    Args:
        name: Which of the two.
        value: The argument.
        updates: That it is for.
        one_axis: Refuse further axes of extent 1.

    Raises:
        ArgumentError: Dtype or number are not as they must be.
    """
    dtype, count = FACTORS[updates.dtype][name], updates.shape[-1]
    if value.dtype != dtype:
        raise ArgumentError(
            f"{name} must be {dtype} for {updates.dtype} updates, but got {value.dtype}"
        )
    if value.size != count or (one_axis and value.ndim != 1):
        raise ArgumentError(
            f"{name} must have {count} elements, one for each along the last axis of updates, "
            f"but got shape {value.shape}"
        )


def refuse_index(indices: Indices, row: int, last_batch: int, last: int) -> NoReturn:
    """Raise an error that names the index of ``row`` that is out of range.

    Args:
        indices: [n] or [n, 2].
        row: Where one is.
        last_batch: The largest that may stand in the first of a pair.
        last: The largest start.

    Raises:
        ArgumentError: Always.
    """
    if indices.ndim == 1:
        name, bound, found = "indices", last, indices[row]
    elif 0 <= indices[row, 0] <= last_batch:
        name, bound, found = "indices[:, 1]", last, indices[row, 1]
    else:
        name, bound, found = "indices[:, 0]", last_batch, indices[row, 0]
    raise ArgumentError(f"{name} must be in 0..{bound}, but got {found} in row {row}")


def colliding(pairs: Indices, length: int) -> tuple[int, int] | None:
    """Return two rows, the earlier first, whose segments overlap; None if no two do.

    Args:
        pairs: Batch and start of each segment, [n, 2].
        length: Of every segment.
    """
    # Sorted by batch and start, segments of one length overlap only if neighbours do.
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    step = np.diff(pairs[order], axis=0)
    close = (step[:, 0] == 0) & (step[:, 1] < length)
    if not close.any():
        return None
    at = int(close.argmax())
    first, second = sorted((int(order[at]), int(order[at + 1])))
    return first, second


def refuse_overlap(pairs: Indices, rows: tuple[int, int], length: int) -> NoReturn:
    """Raise an error that names two rows whose segments overlap.

    Raises:
        ArgumentError: Always.
    """
    (first, second), (one, other) = rows, pairs[list(rows)].tolist()
    raise ArgumentError(
        "indices must give segments that do not overlap, but got rows "
        f"{first} and {second} at {one} and {other}, each {length} long"
    )
