"""Products of one operator call on one PE: a weight, and the bias and scales applied to the sums."""

from __future__ import annotations

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check
from emu.kernels.cast import cast
from emu.kernels.core.messages import shown
from emu.kernels.matmul import Packed, matmul
from emu.kernels.quant import dequantize
from emu.mc2 import scratch
from emu.mc2.arguments import (
    FLOAT16,
    FLOAT32,
    HALVES,
    INT8,
    INT32,
    Array,
    check_half_dtype,
    check_vector,
    local_memory,
)
from emu.mc2.spans import Noted

_SCALES = (FLOAT32, *HALVES)
_OFFSETS = (*_SCALES, INT32, INT8)


class Product:
    """``x1 @ x2`` with bias and scales, for any rows of x1.

    fp16 and bf16: ``sums (+ more) (+ bias)`` in fp32. int8: ``((sums + bias) * x2_scale * x1_scale)
    (+ more)``, sums and bias in int32, the rest in fp32, each operation rounded separately. Then one
    rounding to ``dtype``.

    Attributes:
        x2: [k, n], any strides.
        dtype: dtype of the results, fp16 or bf16.
        bias: [n], or None.
        scale: fp32 of 1 or n elements for int8, else None.
    """

    def __init__(
        self,
        x2: Array,
        bias: object,
        *,
        scale_name: str = "x2_scale",
        scale: object = None,
        dtype: object = None,
    ) -> None:
        n = x2.shape[1]
        self.x2 = x2
        self._weight: Array | Packed = x2
        if x2.dtype == INT8:
            self.dtype = check_half_dtype("y_dtype", dtype, FLOAT16)
            self.bias = check_vector("bias", bias, (n,), (INT32,))
            factors = check_vector(scale_name, scale, (1, n), _SCALES)
            if factors is None:
                raise ArgumentError(f"{scale_name} must be given for int8, but got None")
            self.scale: Array | None = factors.astype(FLOAT32)
        else:
            self.dtype = check_half_dtype("y_dtype", dtype, x2.dtype)
            self.bias = check_vector("bias", bias, (n,), (x2.dtype, FLOAT32))
            self.scale = None
            if scale is not None:
                raise ArgumentError(
                    f"{scale_name} must be None for {x2.dtype}, but got an array: scales go with int8"
                )

    def pack(self) -> None:
        """Pack the weight once for the products of this call; arguments must have been checked."""
        self._weight = scratch.packed(self.x2)

    def multiply(
        self, x1: Array, out: Array, *, tokens: Array | None = None, more: Array | None = None
    ) -> None:
        """Write the product of some rows of x1 to ``out``.

        Args:
            x1: [rows, k], or [blocks, rows, k], of x2's dtype.
            out: [rows, n], or [blocks, rows, n], of ``dtype``.
            tokens: fp32 [rows] or [blocks, rows], a scale for each row of an int8 x1.
            more: [rows, n], added before the rounding.
        """
        if Noted.counted is not None:
            scales = 0 if self.scale is None else 1 + (tokens is not None)
            Noted.counted.multiply(x1, out, scales=scales, more=more)
        if self.scale is None:
            beta = 0.0
            if more is not None:  # the kernel adds beta * out in fp32, before its only rounding
                out[...] = more
                beta = 1.0
            matmul(x1, self._weight, out=out, bias=self.bias, beta=beta)
            return
        sums = matmul(x1, self._weight, bias=self.bias)
        # One array, operation by operation: each is rounded separately, which defines the bits.
        wide = sums.astype(FLOAT32)
        with np.errstate(all="ignore"):
            wide *= self.scale
            if tokens is not None:
                wide *= tokens[..., None]
            if more is not None:
                wide += more.astype(FLOAT32)
        cast(wide, self.dtype, out=out)


def restore_weight(
    x2: Array, dtype: np.dtype[np.generic], scale: object, offset: object, group_size: int
) -> Array:
    """Turn an int8 weight into ``(x2 + offset) * scale``, in fp32 with one rounding to ``dtype``.

    Args:
        x2: int8 [k, n].
        dtype: fp16 or bf16.
        scale: One element; [n], a factor for each column; or [k / group_size, n].
        offset: The same shape as ``scale``, or None for 0.
        group_size: Rows of x2 that share a row of ``scale``; 0 where scale is a vector.

    Raises:
        ArgumentError: Shapes or dtypes do not fit.
    """
    k, n = x2.shape
    group_size = check.integer("antiquant_group_size", group_size, 0)
    if dtype not in HALVES:
        raise ArgumentError(f"x1 must have dtype float16 or bfloat16 here, but got {dtype}")
    if group_size == 0:
        scales = check_vector("antiquant_scale", scale, (1, n), _SCALES)
        offsets = check_vector("antiquant_offset", offset, (1, n), _OFFSETS)
        assert scales is not None
        restored: Array = dequantize(x2, scales, offsets, axis=1, dtype=dtype)
        return restored
    if k % group_size:
        raise ArgumentError(
            f"antiquant_group_size must be 0 or a divisor of k of {k}, but got {group_size}"
        )
    rows = (k // group_size, n)
    factors = _grouped("antiquant_scale", scale, rows, _SCALES, group_size)
    zeros = None
    if offset is not None:
        zeros = _grouped("antiquant_offset", offset, rows, _OFFSETS, group_size)
    restored = np.empty((k, n), dtype)
    for i in range(rows[0]):
        part = slice(i * group_size, (i + 1) * group_size)
        zero = None if zeros is None else zeros[i]
        dequantize(x2[part], factors[i], zero, axis=1, dtype=dtype, out=restored[part])
    return restored


def _grouped(
    name: str,
    value: object,
    shape: tuple[int, int],
    dtypes: tuple[np.dtype[np.generic], ...],
    group_size: int,
) -> Array:
    array = local_memory(name, value)
    if array.shape != shape or array.dtype not in dtypes:
        raise ArgumentError(
            f"{name} must be an array of shape {shape} where antiquant_group_size is {group_size}, but "
            f"got {shown(array)}"
        )
    return array


def row_scales(name: str, value: object, product: Product, m: int) -> Array | None:
    """Return a scale for each of m rows of an int8 x1, or None."""
    if value is not None and product.scale is None:
        raise ArgumentError(
            f"{name} must be None for {product.x2.dtype}, but got an array: scales go with int8"
        )
    return check_vector(name, value, (m,), (FLOAT32,))
