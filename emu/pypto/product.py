"""Matrix products."""

from __future__ import annotations

import numpy as np

from emu.kernels import matmul as kernel
from emu.pypto import walks
from emu.pypto.context import CONTEXT, Precision, check_precision
from emu.pypto.dtypes import (
    DT_BF16,
    DT_BOOL,
    DT_FP16,
    DT_FP32,
    FP32,
    Array,
    DataType,
    DTypeLike,
    as_dtype,
    convert,
)
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Rectangle, Values
from emu.pypto.right_operands import RIGHT_OPERANDS
from emu.pypto.submission import submit
from emu.pypto.symbolic import Shape, as_flag
from emu.pypto.tensor import Tensor, check_tensor, check_writable, new_tensor

_ROUNDED_BY_KERNEL = tuple(each.np_dtype for each in (DT_FP32, DT_FP16, DT_BF16))
"""Data types that the kernel multiplies as they are, and rounds its results to."""


def matmul(
    a: Tensor,
    b: Tensor,
    out_dtype: DTypeLike | None = None,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
    bias: Tensor | None = None,
    accumulate: Tensor | None = None,
    precision: Precision | None = None,
) -> Tensor:
    """Return the matrix product over the last two axes; axes before them broadcast.

    Args:
        a: [.., m, k], or [.., k, m] with ``a_trans``.
        b: [.., k, n], or [.., n, k] with ``b_trans``; of the same data type.
        out_dtype: Data type of the result. Default: that of ``accumulate``, or of ``a``.
        a_trans: Exchange the last two axes of ``a`` first.
        b_trans: Exchange the last two axes of ``b`` first.
        bias: [n] or [1, n], of the result's data type or DT_FP32: is added to each row before the result is rounded.
        accumulate: A tensor of the result's shape and data type: the product is added to it in place, in FP32
            and rounded once, and it is returned.
        precision: ``"exact"``, or ``"native"``: BF16 by the CPU's own instruction where there is one. Default: that of
            :func:`pypto.set_options`.

    It accumulates in FP32 and then casts once. Integers, too, are exact only while sums stay within
    2^24. Elements that are not valid count as 0; the result is valid in
    the valid rows of ``a`` and columns of ``b``, and where ``accumulate`` is.

    Raises:
        ArgumentError: If ranks or extents do not fit, or there is no such precision.
        DTypeError: If the data types differ, or are DT_BOOL.
    """
    check_tensor(a, "a")
    check_tensor(b, "b")
    if a.dtype is not b.dtype or a.dtype is DT_BOOL:
        raise DTypeError(
            f"matmul: a and b must have one dtype, of numbers, but got {a.dtype!r} and {b.dtype!r}"
        )
    a_trans, b_trans = as_flag(a_trans, "a_trans"), as_flag(b_trans, "b_trans")
    shape, valid = _result(a, b, a_trans, b_trans)
    chosen = CONTEXT.settings.precision if precision is None else check_precision(precision)
    attributes = (a_trans, b_trans, chosen)
    dtype = a.dtype if accumulate is None else check_tensor(accumulate, "accumulate").dtype
    if out_dtype is not None:
        dtype = as_dtype(out_dtype, "out_dtype")
    if bias is None and accumulate is None:
        out = new_tensor(shape, dtype, valid)
        submit(MATMUL, (a, b), (out,), attributes)
        return out
    added = [_check_bias(bias, shape[-1], dtype)] if bias is not None else []
    if accumulate is None:
        out = new_tensor(shape, dtype, valid)
    else:
        out = _check_accumulate(accumulate, shape, dtype)
        added.append(out)
    submit(MATMUL_ADD, (a, b, *added), (out,), attributes)
    return out


def _result(a: Tensor, b: Tensor, a_trans: bool, b_trans: bool) -> tuple[Shape, Shape]:
    """Return shape and valid shape of a product."""
    if a.ndim < 2 or b.ndim < 2:
        raise ArgumentError(
            f"matmul: a and b must have at least 2 axes, but got {list(a.shape)} and {list(b.shape)}"
        )
    (m, k), (m_valid, _) = _last(a.shape, a_trans), _last(a.valid_shape, a_trans)
    (k_b, n), (_, n_valid) = _last(b.shape, b_trans), _last(b.valid_shape, b_trans)
    if k != k_b:
        raise ArgumentError(
            f"matmul: a and b must agree on k, but got {k} and {k_b} from shapes {list(a.shape)}"
            f"{' (transposed)' * a_trans} and {list(b.shape)}{' (transposed)' * b_trans}"
        )
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ArgumentError(
            f"matmul: batch axes must broadcast, but got {list(a.shape)} and {list(b.shape)}"
        ) from None
    return (*batch, m, n), (*batch, m_valid, n_valid)


def _check_bias(bias: Tensor, columns: int, dtype: DataType) -> Tensor:
    check_tensor(bias, "bias")
    if bias.dtype is not dtype and bias.dtype is not DT_FP32:
        raise DTypeError(f"bias must have dtype {dtype!r} or DT_FP32, but got {bias.dtype!r}")
    if bias.shape not in ((columns,), (1, columns)):
        raise ArgumentError(
            f"bias must have shape [{columns}] or [1, {columns}], but got {list(bias.shape)}"
        )
    return bias


def _check_accumulate(out: Tensor, shape: Shape, dtype: DataType) -> Tensor:
    if out.dtype is not dtype or dtype is DT_BOOL:
        raise DTypeError(
            f"accumulate must have dtype {dtype!r}, that of the result, and numbers, but got {out.dtype!r}"
        )
    if out.shape != shape:
        raise ArgumentError(
            f"accumulate must have shape {list(shape)}, that of the result, but got {list(out.shape)}"
        )
    check_writable(out, "accumulate")
    return out


def _last(shape: Shape, swapped: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if swapped else (shape[-2], shape[-1])


def _multiply(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    a_trans, b_trans, precision = attributes
    (out,) = outputs
    m, n = out.shape[-2:]
    left = _matrix(inputs[0], bool(a_trans))[..., :m, :]
    right = _matrix(inputs[1], bool(b_trans))[..., :n]
    if out.dtype in _ROUNDED_BY_KERNEL:
        kernel.matmul(left, right, out=out, precision=precision)
    else:
        out[...] = convert(
            kernel.matmul(left, right, dtype=FP32, precision=precision), as_dtype(out.dtype)
        )


def _multiply_tensors(
    inputs: tuple[Rectangle | np.generic, ...],
    outputs: tuple[Rectangle, ...],
    attributes: Attributes,
) -> None:
    """As :func:`_multiply`, without copies of operands that are valid in a part of their rows or columns only."""
    a, b = inputs
    assert not isinstance(a, np.generic)
    assert not isinstance(b, np.generic)
    a_trans, b_trans, precision = attributes
    left, right, out = (
        _valid(a, -2 if a_trans else -1),
        _valid(b, -1 if b_trans else -2),
        outputs[0].array,
    )
    if out.dtype not in _ROUNDED_BY_KERNEL or right.dtype not in _ROUNDED_BY_KERNEL:
        _multiply((left, right), (out,), attributes)
        return
    laid = None if b_trans else RIGHT_OPERANDS.find(b.buffer, right, out.shape[-2], precision)
    if laid is None:
        _multiply((left, right), (out,), attributes)
    else:
        left = left.swapaxes(-1, -2) if a_trans else left
        kernel.matmul(left, laid, out=out, precision=precision)


def _valid(x: Rectangle, inner: int) -> Array:
    """Return the valid part of an operand if that is all that a product needs, else all of it."""
    lead = len(x.shape) - 2
    if x.valid_shape[inner] == x.shape[inner] and x.valid_shape[:lead] == x.shape[:lead]:
        return x.array
    return x.dense()


def _multiply_and_add(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    a_trans, b_trans, precision = attributes
    (out,) = outputs
    left, right = _matrix(inputs[0], bool(a_trans)), _matrix(inputs[1], bool(b_trans))
    total = np.array(kernel.matmul(left, right, dtype=FP32, precision=precision))
    for term in inputs[2:]:
        total += np.asarray(term).astype(FP32)
    part = total[tuple(slice(n) for n in out.shape)]
    out[...] = convert(part, as_dtype(out.dtype))


def _matrix(x: Array | np.generic, swapped: bool) -> Array:
    array = np.asarray(x)
    if array.dtype not in _ROUNDED_BY_KERNEL:
        array = array.astype(FP32)
    return array.swapaxes(-1, -2) if swapped else array


MATMUL = Operation(
    "matmul",
    "other",
    _multiply,
    reads_all=True,
    walk=walks.product,
    faster=_multiply_tensors,
)
MATMUL_ADD = Operation(
    "matmul and add", "other", _multiply_and_add, reads_all=True, walk=walks.product
)
