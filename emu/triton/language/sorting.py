"""Sorting along the last axis."""

from __future__ import annotations

from emu.triton.language.arithmetic import and_, invert, not_equal, or_, shr, sub, where, xor_
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import bitcast_to, cast_to, to_tensor
from emu.triton.language.creation import arange, full
from emu.triton.language.reductions import max, min
from emu.triton.language.shapes import (
    Shape,
    broadcast_to,
    checked_axis,
    flip,
    gather,
    reshape,
    wrapped,
)
from emu.triton.language.types import dtype as _dtype
from emu.triton.language.types import float32, get_int_dtype, int1, int32, uint8
from emu.triton.language.values import TensorLike, member, tensor

_NETWORK = 64
"""Largest extent that is sorted by a network of comparisons; longer rows are sorted by the bytes of their keys.

A network needs no memory and is quick for short rows, but its code, and so the time to compile it, grows with the
extent.
"""


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


def _sorted_by_keys(x: tensor, down: bool, k: int | None) -> tensor:
    """Sort by integers whose order is that of the elements; take the first ``k``."""
    extent, rows = x.extents[-1], x.type.numel // x.extents[-1]
    if k is not None and k < extent and x.dtype.primitive_bitwidth < 32:
        x = cast_to(x, float32 if x.dtype.is_floating() else int32)
    held = cast_to(x, uint8) if x.dtype == int1 else x
    keys = _to_keys(held)
    keys = reshape(invert(keys) if down else keys, (rows, extent))
    keys = wrapped(builder().sort(keys.handle), keys.dtype)
    shape = x.extents
    if k is not None and k < extent:
        first = broadcast_to(reshape(arange(0, k), (1, k)), (rows, k))
        keys, shape = gather(keys, first, 1), (*x.extents[:-1], k)
    found = _from_keys(invert(keys) if down else keys, held.dtype)
    return reshape(cast_to(found, x.dtype), shape)


def _sign(like: tensor) -> tensor:
    bits = like.dtype.primitive_bitwidth
    return full(like.extents, 1 << (bits - 1), get_int_dtype(bits, False))


def _to_keys(x: tensor) -> tensor:
    """Return unsigned integers that are ordered as the elements are; -0.0 goes before 0.0."""
    bits = x.dtype.primitive_bitwidth
    keys = bitcast_to(x, get_int_dtype(bits, False))
    if x.dtype.is_floating():
        # Of negative numbers all bits turn, as the larger magnitude is the smaller number.
        signs = shr(bitcast_to(x, get_int_dtype(bits, True)), bits - 1, get_int_dtype(bits, True))
        return xor_(keys, or_(bitcast_to(signs, keys.dtype), _sign(keys)))
    return xor_(keys, _sign(keys)) if x.dtype.is_int_signed() else keys


def _from_keys(keys: tensor, element: _dtype) -> tensor:
    """Undo :func:`_to_keys`."""
    if element.is_floating():
        was_positive = shr(keys, keys.dtype.primitive_bitwidth - 1, keys.dtype)
        keys = xor_(keys, or_(sub(was_positive, 1), _sign(keys)))
    elif element.is_int_signed():
        keys = xor_(keys, _sign(keys))
    return bitcast_to(keys, element)


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
    if extent > _NETWORK and k != 1:
        return _sorted_by_keys(x, down, k)
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
        x: The tensor; a NaN leaves the order undefined, as does -0.0 beside 0.0.
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
    if value.extents[-1] > _NETWORK:
        return _sorted_by_keys(value, bool(unwrap(descending)), None)
    flat = reshape(value, value.type.numel)
    flat = _merged(flat, _log2(value.extents[-1]), bool(unwrap(descending)))
    return reshape(flat, value.extents)
