"""Scans along an axis, sorting, histograms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from emu.triton.language.arithmetic import add, and_, mul, not_equal, shr, where, xor_
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.creation import arange
from emu.triton.language.reductions import (
    Combine,
    body_of,
    combining,
    inputs_of,
    max,
    min,
    sum_dtype,
)
from emu.triton.language.shapes import (
    Shape,
    broadcast_to,
    checked_axis,
    flip,
    reshape,
    wrapped,
)
from emu.triton.language.types import dtype as _dtype
from emu.triton.language.types import int1, int32
from emu.triton.language.values import TensorLike, TensorTuple, member, tensor, tuple


def _scanned(
    tensors: Sequence[tensor],
    axis: ConstexprLike[int],
    combine: Combine,
    reverse: ConstexprLike[bool],
) -> list[tensor]:
    along = checked_axis(axis, len(tensors[0].extents))
    build = combining([t.dtype for t in tensors], combine, "a scan")
    handles = builder().scan([t.handle for t in tensors], along, build, bool(unwrap(reverse)))
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
        TypeError: The function returns other dtypes.
        ValueError: There is no such axis, or the shapes differ.
    """
    tensors, single = inputs_of(input, "a scan")
    results = _scanned(tensors, axis, body_of(combine_fn), reverse)
    return results[0] if single else tuple(results)


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
        dtype: As of :func:`sum`.
    """
    x = to_tensor(input)
    x = cast_to(x, sum_dtype(x.dtype, dtype))
    return _scanned([x], axis, add, reverse)[0]


@member
def cumprod(
    input: TensorLike,
    axis: ConstexprLike[int] = 0,
    reverse: ConstexprLike[bool] = False,
    dtype: ConstexprLike[_dtype | None] = None,
) -> tensor:
    """Return the product of each element and all before it along an axis; otherwise as :func:`cumsum`."""
    x = to_tensor(input)
    x = cast_to(x, sum_dtype(x.dtype, dtype))
    return _scanned([x], axis, mul, reverse)[0]


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


def _bit(numel: int, bit: int) -> tensor:
    """Return whether a bit of each element's index is set."""
    number = arange(0, numel)
    return cast_to(and_(shr(number, bit, int32), 1), int1)


def _exchanged(x: tensor, stride_bit: int, descending: tensor | bool) -> tensor:
    """Compare each element with the one whose index differs in a bit; swap those out of order."""
    (numel,) = x.extents
    halves: Shape = (numel >> (stride_bit + 1), 2, 1 << stride_bit)
    partner = reshape(flip(reshape(x, halves), 1), x.extents)
    upper = _bit(numel, stride_bit)
    wrong_way = xor_(upper, descending)
    # Both elements of a pair decide alike, as ``upper`` differs between them: they swap or both stay. Of
    # equal ones both take the partner, which changes nothing.
    return where(not_equal(x > partner, wrong_way), partner, x)


def _merged(x: tensor, stage: int, order: bool | None) -> tensor:
    """Sort bitonic runs of ``2**stage`` elements; order None alternates from run to run."""
    (numel,) = x.extents
    descending = _bit(numel, stage) if order is None else order
    for i in range(stage):
        x = _exchanged(x, stage - 1 - i, descending)
    return x


def _log2(n: ConstexprLike[int]) -> int:
    """Return the logarithm of a power of two; kernels of other libraries import it, too."""
    length: int = unwrap(n).bit_length()
    return length - 1


def _sorted(
    input: TensorLike,
    dim: ConstexprLike[int | None],
    descending: ConstexprLike[bool],
    k: int | None,
) -> tensor:
    x = to_tensor(input)
    rank = len(x.extents)
    axis = rank - 1 if unwrap(dim) is None else checked_axis(dim, rank, "dim")
    if not rank or axis != rank - 1:
        raise ValueError(f"dim must be the last axis, but got {unwrap(dim)} for {x}")
    down = bool(unwrap(descending))
    extent = x.extents[-1]
    log_n = _log2(extent)
    log_k = log_n if k is None else _log2(k)
    if log_k == 0:
        # There is nothing to merge: the largest, or smallest, element is the result.
        reduced = max if down else min
        result: tensor = reduced(x, axis=axis, keep_dims=True)
        return result
    flat = reshape(x, x.type.numel)
    for i in range(1, log_k + 1):
        flat = _merged(flat, i, None if i < log_n else down)
    for i in range(log_k + 1, log_n + 1):
        (numel,) = flat.extents
        pairs = reshape(flat, numel >> (log_k + 1), 2, 1 << log_k)
        flat = (max if down else min)(pairs, axis=1)
        flat = _merged(reshape(flat, numel // 2), log_k, None if i < log_n else down)
    return reshape(flat, *x.extents[:-1], 1 << log_k)


@member
def sort(
    x: TensorLike, dim: ConstexprLike[int | None] = None, descending: ConstexprLike[bool] = False
) -> tensor:
    """Sort along the last axis.

    Args:
        x: The tensor; a NaN leaves the order undefined.
        dim: ``None`` or the last axis.
        descending: Whether the largest comes first.

    Raises:
        ValueError: ``dim`` is not the last axis.
    """
    return _sorted(x, dim, descending, None)


def topk(
    x: TensorLike,
    k: ConstexprLike[int],
    dim: ConstexprLike[int | None] = None,
    descending: ConstexprLike[bool] = True,
) -> tensor:
    """Return the ``k`` largest elements along the last axis, sorted.

    Args:
        x: The tensor.
        k: A power of two, at most the extent; if less, dtypes narrower than 32 bits become fp32 or int32.
        dim: ``None`` or the last axis.
        descending: False gives the smallest, in ascending order.

    Raises:
        ValueError: ``k`` or ``dim`` is out of range.
    """
    count, value = unwrap(k), to_tensor(x)
    extent = value.extents[-1] if value.extents else 0
    if not isinstance(count, int) or not 0 < count <= extent or count & (count - 1):
        raise ValueError(f"k must be a power of 2 in [1, {extent}], but got {count}")
    return _sorted(value, dim, descending, count)


def bitonic_merge(
    x: TensorLike, dim: ConstexprLike[int | None] = None, descending: ConstexprLike[bool] = False
) -> tensor:
    """Sort a bitonic sequence along the last axis: one that rises, then falls, or the reverse."""
    value = to_tensor(x)
    rank = len(value.extents)
    axis = rank - 1 if unwrap(dim) is None else checked_axis(dim, rank, "dim")
    if not rank or axis != rank - 1:
        raise ValueError(f"dim must be the last axis, but got {unwrap(dim)} for {value}")
    flat = reshape(value, value.type.numel)
    flat = _merged(flat, _log2(value.extents[-1]), bool(unwrap(descending)))
    return reshape(flat, value.extents)
