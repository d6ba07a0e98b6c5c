"""Combine functions of Triton's own reductions, which kernels of other libraries pass to ``tl.reduce`` or call.

They have Triton's names, with an underscore, and are reached as ``tl.standard._argmax_combine`` and the like.
"""

from __future__ import annotations

import builtins

from emu.triton.language.arithmetic import (
    add,
    equal,
    greater_than,
    less_than,
    logical_and,
    logical_or,
    maximum,
    minimum,
    mul,
    or_,
    where,
    xor_,
)
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.values import TensorLike, tensor

Pair = builtins.tuple[tensor, tensor]


def _sum_combine(a: TensorLike, b: TensorLike) -> tensor:
    """Return the sum."""
    return add(a, b)


def _prod_combine(a: TensorLike, b: TensorLike) -> tensor:
    """Return the product."""
    return mul(a, b)


def _xor_combine(a: TensorLike, b: TensorLike) -> tensor:
    """Return the exclusive or of the bits."""
    return xor_(a, b)


def _or_combine(a: TensorLike, b: TensorLike) -> tensor:
    """Return the inclusive or of the bits."""
    return or_(a, b)


def _elementwise_max(a: TensorLike, b: TensorLike) -> tensor:
    """Return the larger of two."""
    return maximum(a, b)


def _elementwise_min(a: TensorLike, b: TensorLike) -> tensor:
    """Return the smaller of two."""
    return minimum(a, b)


def _chosen(
    first: tensor,
    pairs: builtins.tuple[TensorLike, TensorLike, TensorLike, TensorLike],
    tie_break_left: ConstexprLike[bool],
) -> Pair:
    v1, i1, v2, i2 = pairs
    if unwrap(tie_break_left):
        tie = logical_and(equal(v1, v2), less_than(i1, i2))
        first = logical_or(first, tie)
    return where(first, v1, v2), where(first, i1, i2)


def _argmax_combine(
    value1: TensorLike,
    index1: TensorLike,
    value2: TensorLike,
    index2: TensorLike,
    tie_break_left: ConstexprLike[bool],
) -> Pair:
    """Return the larger of two values with its index; of equal ones the lower index if ``tie_break_left``."""
    pairs = value1, index1, value2, index2
    return _chosen(greater_than(value1, value2), pairs, tie_break_left)


def _argmin_combine(
    value1: TensorLike,
    index1: TensorLike,
    value2: TensorLike,
    index2: TensorLike,
    tie_break_left: ConstexprLike[bool],
) -> Pair:
    """Return the smaller of two values with its index; of equal ones the lower index if ``tie_break_left``."""
    pairs = value1, index1, value2, index2
    return _chosen(less_than(value1, value2), pairs, tie_break_left)


def _argmax_combine_tie_break_left(
    v1: TensorLike, i1: TensorLike, v2: TensorLike, i2: TensorLike
) -> Pair:
    """Return the larger of two values with its index, of equal ones the lower index."""
    return _argmax_combine(v1, i1, v2, i2, True)


def _argmax_combine_tie_break_fast(
    v1: TensorLike, i1: TensorLike, v2: TensorLike, i2: TensorLike
) -> Pair:
    """Return the larger of two values with its index, of equal ones any."""
    return _argmax_combine(v1, i1, v2, i2, False)


def _argmin_combine_tie_break_left(
    v1: TensorLike, i1: TensorLike, v2: TensorLike, i2: TensorLike
) -> Pair:
    """Return the smaller of two values with its index, of equal ones the lower index."""
    return _argmin_combine(v1, i1, v2, i2, True)


def _argmin_combine_tie_break_fast(
    v1: TensorLike, i1: TensorLike, v2: TensorLike, i2: TensorLike
) -> Pair:
    """Return the smaller of two values with its index, of equal ones any."""
    return _argmin_combine(v1, i1, v2, i2, False)
