"""Products of int8 matrices, dequantised or quantised again."""

from __future__ import annotations

from math import prod

import numpy as np

from emu.accelerator.arrays import (
    Array,
    DType,
    DTypeLike,
    Tensor,
    TensorT,
    as_array,
    as_dtype,
    as_type_of,
    check_together,
)
from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check
from emu.kernels.cast import cast
from emu.kernels.elementwise.rows import scale_product
from emu.kernels.matmul import matmul
from emu.kernels.quant import quantize
from emu.torch_npu.checks import check_dtype
from emu.torch_npu.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT8, INT32


def npu_quant_matmul(
    x1: TensorT,
    x2: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    bias: Tensor | None = None,
    output_dtype: DTypeLike | None = None,
    group_sizes: None = None,
) -> TensorT:
    """Multiply int8 matrices and scale the int32 sums: ``(x1 @ x2 + bias) * scale + offset``.

    The sums, ``bias`` included, are int32 and wrap. They are rounded to fp32; each of the steps
    ``* scale``, ``* pertoken_scale`` and ``+ offset`` is rounded to fp32; then the result is rounded to
    its dtype once: to int8 as ``clip(rint(..), -128, 127)`` with halves to even and NaN to 0.

    Args:
        x1: int8, [..., m, k], any strides.
        x2: int8, [..., k, n], any strides. Axes before the last two broadcast.
        scale: One element or [n]; fp32 or bf16.
        offset: One element or [n]; fp32. Not together with ``pertoken_scale``. Default: none.
        pertoken_scale: [m], scales of the rows of ``x1``; fp32. Not for an int8 result. Default: none.
        bias: [n] of int32. Default: none.
        output_dtype: int8, fp16, bf16 or fp32. Default: int8.
        group_sizes: None; scales of groups are not supported.

    Returns:
        [..., m, n], of the kind and on the device of ``x1``.

    Raises:
        ArgumentError: An argument has another dtype, shape or value, or requires grad while torch
            records gradients.
    """
    check_together(
        x1=x1, x2=x2, scale=scale, offset=offset, pertoken_scale=pertoken_scale, bias=bias
    )
    check.one_of("group_sizes", group_sizes, (None,))
    wanted = INT8 if output_dtype is None else as_dtype("output_dtype", output_dtype)
    if wanted not in (INT8, FLOAT16, BFLOAT16, FLOAT32):
        raise ArgumentError(
            f"output_dtype must be int8, float16, bfloat16 or float32, but got {wanted}"
        )
    left, right = (
        check_dtype(name, as_array(name, x), INT8) for name, x in (("x1", x1), ("x2", x2))
    )
    m, n = _check_factors(left, right)
    columns = np.ascontiguousarray(
        np.broadcast_to(_vector("scale", scale, n, FLOAT32, BFLOAT16).astype(FLOAT32), (n,))
    )
    added = None if offset is None else _vector("offset", offset, n, FLOAT32)
    rows = None
    if pertoken_scale is not None:
        rows = check_dtype("pertoken_scale", as_array("pertoken_scale", pertoken_scale), FLOAT32)
        check.array_shape("pertoken_scale", rows, (m,))
        if wanted == INT8 or added is not None:
            raise ArgumentError(
                "pertoken_scale must be None where the result is int8 or there is an offset, but got "
                f"one for {wanted}{'' if added is None else ' with an offset'}"
            )
    start = None
    if bias is not None:
        start = check.array_shape("bias", check_dtype("bias", as_array("bias", bias), INT32), (n,))
    product = matmul(left, right, bias=start)
    return as_type_of(_scaled(product, columns, rows, added, wanted), x1)


def _check_factors(left: Array, right: Array) -> tuple[int, int]:
    """Check the shapes of the factors; return the extents of a product."""
    for name, array in (("x1", left), ("x2", right)):
        if array.ndim < 2:
            raise ArgumentError(f"{name} must have at least 2 axes, but got shape {array.shape}")
    if left.shape[-1] != right.shape[-2]:
        raise ArgumentError(
            f"x2 must have {left.shape[-1]} rows, the columns of x1, but got shape {right.shape}"
        )
    try:
        np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ArgumentError(
            f"x2 must have leading axes that broadcast with those of x1, {left.shape}, "
            f"but got shape {right.shape}"
        ) from None
    return left.shape[-2], right.shape[-1]


def _vector(name: str, value: object, n: int, *dtypes: DType) -> Array:
    array = check_dtype(name, as_array(name, value), *dtypes)
    if array.ndim > 1 or array.size not in (1, n):
        raise ArgumentError(
            f"{name} must have one element or {n}, one for each column of x2, "
            f"but got shape {array.shape}"
        )
    return array


def _scaled(
    product: Array, columns: Array, rows: Array | None, added: Array | None, dtype: DType
) -> Array:
    if dtype == INT8:
        with np.errstate(all="ignore"):
            return quantize(product.astype(FLOAT32), columns, added, multiply=True)
    stack = prod(product.shape[:-2])
    flat = product.reshape(stack * product.shape[-2], product.shape[-1])
    # The matrices of a stack share the scales of their rows.
    if rows is not None:
        rows = np.tile(rows, stack)
    if added is None:
        return scale_product(flat, columns, rows, dtype=dtype).reshape(product.shape)
    values = scale_product(flat, columns, rows, dtype=FLOAT32)
    with np.errstate(all="ignore"):
        values += added
    return (values if dtype == FLOAT32 else cast(values, dtype)).reshape(product.shape)
