"""Scans along an axis, histograms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from emu.triton.language.arithmetic import add, mul
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.reductions import (
    Combine,
    body_of,
    combined,
    inputs_of,
    sum_dtype,
)
from emu.triton.language.shapes import (
    broadcast_to,
    checked_axis,
    wrapped,
)
from emu.triton.language.types import bfloat16, float32, int1, int32
from emu.triton.language.types import dtype as _dtype
from emu.triton.language.values import TensorLike, TensorTuple, member, tensor, tuple


def _scanned(
    tensors: Sequence[tensor],
    axis: ConstexprLike[int],
    combine: Combine,
    reverse: ConstexprLike[bool],
) -> list[tensor]:
    along = checked_axis(axis, len(tensors[0].extents))
    backwards = bool(unwrap(reverse))
    handles = combined(
        tensors,
        combine,
        "a scan",
        lambda tiles, build: builder().scan(tiles, along, build, backwards),
    )
    return [wrapped(h, t.dtype) for h, t in zip(handles, tensors, strict=True)]


@member
def associative_scan(
    input: TensorLike | TensorTuple,
    axis: ConstexprLike[int],
    combine_fn: ConstexprLike[Callable[..., object]],
    reverse: ConstexprLike[bool] = False,
) -> Any:
    """Combine each element with all before it along an axis, itself included.

    Args:
        input: A tensor, or a tuple of tensors of one shape that are scanned together.
        axis: The axis.
        combine_fn: A jit function of the scalars of what comes first, then those of what comes next,
            that gives as many of the same dtypes. It must be associative.
        reverse: Whether to begin at the end.

    Returns:
        A tensor, or a tuple of as many.

    Raises:
        TypeError: The function returns other dtypes, or touches memory or prints.
        ValueError: There is no such axis, or the shapes differ.
    """
    tensors, single = inputs_of(input, "a scan")
    results = _scanned(tensors, axis, body_of(combine_fn), reverse)
    return results[0] if single else tuple(results)


def _cumulative(
    input: TensorLike,
    axis: ConstexprLike[int],
    reverse: ConstexprLike[bool],
    dtype: ConstexprLike[_dtype | None],
    combine: Combine,
) -> tensor:
    x = to_tensor(input)
    wanted = sum_dtype(x.dtype, dtype)
    # With 8 bits a sum of some hundred elements would lose all of the small ones.
    inside = float32 if wanted == bfloat16 else wanted
    (result,) = _scanned([cast_to(x, inside)], axis, combine, reverse)
    return cast_to(result, wanted)


@member
def cumsum(
    input: TensorLike,
    axis: ConstexprLike[int] = 0,
    reverse: ConstexprLike[bool] = False,
    dtype: ConstexprLike[_dtype | None] = None,
) -> tensor:
    """Return the sum of each element and all before it along an axis.

    Args:
        input: The tensor.
        axis: The axis.
        reverse: Whether to begin at the end.
        dtype: As of :func:`sum`. In bf16 the sums are rounded once, at the end.
    """
    return _cumulative(input, axis, reverse, dtype, add)


@member
def cumprod(
    input: TensorLike,
    axis: ConstexprLike[int] = 0,
    reverse: ConstexprLike[bool] = False,
    dtype: ConstexprLike[_dtype | None] = None,
) -> tensor:
    """Return the product of each element and all before it along an axis; otherwise as :func:`cumsum`."""
    return _cumulative(input, axis, reverse, dtype, mul)


@member
def histogram(
    input: TensorLike, num_bins: ConstexprLike[int], mask: TensorLike | None = None
) -> tensor:
    """Count the elements equal to 0, 1, ... ``num_bins - 1``, int32; others are not counted.

    Args:
        input: A tensor of one axis, int32 or uint32.
        num_bins: A power of two.
        mask: Elements are counted only where this is true.

    Raises:
        ValueError: The input is not one axis of 32-bit integers, or the number of bins is not a power of two.
    """
    x, bins = to_tensor(input), unwrap(num_bins)
    if x.dtype.name not in ("int32", "uint32"):
        raise ValueError(f"histogram only supports 32-bit integer input, but got {x}")
    if len(x.extents) != 1:
        raise ValueError(f"histogram needs a tensor of one axis, but got {x}")
    if not isinstance(bins, int) or bins <= 0 or bins & (bins - 1):
        raise ValueError(f"num_bins must be a power of 2, but got {bins}")
    counted = None
    given = unwrap(mask)
    if given is not None:
        chosen = to_tensor(given)
        if chosen.dtype != int1:
            raise TypeError(f"mask of histogram must be int1, but got {chosen}")
        counted = broadcast_to(chosen, x.extents).handle
    return wrapped(builder().histogram(x.handle, bins, counted), int32)
