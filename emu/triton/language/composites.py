"""Functions that Triton writes in its own language."""

from __future__ import annotations

import warnings

from emu.kernels.core.messages import shown
from emu.triton.language.arithmetic import fdiv, minimum
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.conversion import is_number, to_tensor
from emu.triton.language.mathematics import exp
from emu.triton.language.reductions import max, sum
from emu.triton.language.values import TensorLike, member, tensor, tuple


@member
def softmax(
    x: TensorLike,
    dim: ConstexprLike[int | None] = None,
    *,
    keep_dims: ConstexprLike[bool | None] = None,
    ieee_rounding: ConstexprLike[bool] = False,
) -> tensor:
    """Return exponentials along an axis, divided by their sum; fp32 or fp64 (fp16 and bf16 become fp32).

    Args:
        x: The tensor.
        dim: The axis; by default 0, the first.
        keep_dims: Deprecated, without effect: the shape is kept.
        ieee_rounding: Without effect: the division is correctly rounded.
    """
    if unwrap(keep_dims) is not None:
        warnings.warn("keep_dims of tl.softmax is deprecated and has no effect", stacklevel=2)
    values = to_tensor(x)
    axis = 0 if unwrap(dim) is None else unwrap(dim)
    numerator = exp(values - max(values, axis, keep_dims=True))
    return fdiv(numerator, sum(numerator, axis, keep_dims=True), ieee_rounding)


def swizzle2d(
    i: TensorLike, j: TensorLike, size_i: TensorLike, size_j: TensorLike, size_g: TensorLike
) -> tuple:
    """Renumber the places of a matrix so that groups of rows are walked column by column.

    Args:
        i: Row.
        j: Column.
        size_i: Number of rows.
        size_j: Number of columns.
        size_g: Rows of a group; the last group may have fewer.

    Returns:
        The new row and column.

    Raises:
        TypeError: One is not a number.
    """
    given = {"i": i, "j": j, "size_i": size_i, "size_j": size_j, "size_g": size_g}
    for name, value in given.items():
        if not isinstance(value, tensor) and not is_number(unwrap(value)):
            raise TypeError(f"{name} of swizzle2d must be an integer, but got {shown(value)}")
    number = i * size_j + j
    in_group = to_tensor(size_g * size_j)  # a tensor, whose dtype counts, as in Triton
    first_row = number // in_group * size_g
    rows = minimum(size_i - first_row, size_g)
    number = number % in_group
    return tuple([first_row + number % rows, number // rows])
