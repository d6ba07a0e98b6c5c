"""Quantisation of tensors, with given or computed scales, and dequantisation."""

from __future__ import annotations

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
from emu.kernels.quant import dequantize, dynamic_quantize, quantize
from emu.torch_npu.checks import caller_names, check_dtype
from emu.torch_npu.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT8, INT32, INT64, UINT8

_VALUES = (FLOAT32, FLOAT16, BFLOAT16)
_BLOCK = 1 << 16
"""Number of elements quantised at once by NumPy: they must stay in the L2 cache."""


def npu_quantize(
    input: TensorT,
    scales: Tensor,
    zero_points: Tensor | None,
    dtype: DTypeLike,
    axis: int = 1,
    div_mode: bool = True,
) -> TensorT:
    """Quantise: ``clip(rint(input / scales + zero_points))``, or ``input * scales`` in its place.

    Every operation is fp32 and rounded separately, halves go to even, NaN to 0.

    Args:
        input: fp32, fp16 or bf16, any shape and strides.
        scales: One element, or one for each index along ``axis``; fp32, fp16 or bf16.
        zero_points: The same, or int32 or the dtype of the result. None: 0.
        dtype: int8, uint8 or int32, to whose range the result is clipped; of NumPy or of torch, where
            the quantised dtypes qint8, quint8 and qint32 stand for these.
        axis: The axis of ``input`` that scales and zero points lie along, where they are not single.
            Default: 1.
        div_mode: Divide by the scales; False: multiply. Default: divide.

    Returns:
        The result, of the shape, kind and device of ``input``.

    Raises:
        ArgumentError: An argument has another dtype or shape.
    """
    check_together(input=input, scales=scales, zero_points=zero_points)
    check.one_of("div_mode", div_mode, (True, False))
    x = check_dtype("input", as_array("input", input, detach=True), *_VALUES)
    wanted = as_dtype("dtype", dtype)
    if wanted not in (INT8, UINT8, INT32):
        raise ArgumentError(f"dtype must be int8, uint8 or int32, but got {wanted}")
    scale = check_dtype("scales", as_array("scales", scales, detach=True), *_VALUES)
    zero = None
    if zero_points is not None:
        zero = as_array("zero_points", zero_points, detach=True)
        check_dtype("zero_points", zero, *_VALUES, *dict.fromkeys((INT32, wanted)))
    along = (
        -1 if scale.size == 1 and (zero is None or zero.size == 1) else check.integer("axis", axis)
    )
    if x.ndim and not -x.ndim <= along < x.ndim:
        raise ArgumentError(
            f"axis must be in {-x.ndim}..{x.ndim - 1} for shape {x.shape}, but got {along}"
        )
    extent = x.shape[along] if x.ndim else 1
    for name, factor in (("scales", scale), ("zero_points", zero)):
        if factor is not None and (factor.ndim > 1 or factor.size not in (1, extent)):
            raise ArgumentError(
                f"{name} must have one element, or one for each of the {extent} along axis {along} of "
                f"input, but got shape {factor.shape}"
            )
    if wanted != INT8:
        return as_type_of(_quantize(x, scale, zero, along, not div_mode, wanted), input)
    with caller_names({"x": "input"}):
        result = quantize(x, scale, zero, axis=along, multiply=not div_mode)
    return as_type_of(result, input)


def _quantize(
    x: Array, scale: Array, zero: Array | None, along: int, multiply: bool, dtype: DType
) -> Array:
    """Quantise to a dtype that the kernel does not write; the arguments are checked."""
    moved = np.moveaxis(x, along, -1) if x.ndim else x.reshape(1)
    extent = moved.shape[-1]
    result = np.empty(moved.shape, dtype)
    if result.size:
        factor = np.broadcast_to(scale.astype(FLOAT32), (extent,))
        offset = None if zero is None else np.broadcast_to(zero.astype(FLOAT32), (extent,))
        rows, target = moved.reshape(-1, extent), result.reshape(-1, extent)
        step = max(1, _BLOCK // extent)
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            _quantize_block(target[block], rows[block], factor, offset, multiply)
    return np.moveaxis(result, -1, along) if x.ndim else result.reshape(())


def _quantize_block(
    target: Array, rows: Array, scale: Array, zero: Array | None, multiply: bool
) -> None:
    with np.errstate(all="ignore"):
        work = rows.astype(FLOAT32)
        (np.multiply if multiply else np.divide)(work, scale, out=work)
        if zero is not None:
            work += zero
    np.rint(work, out=work)
    work[np.isnan(work)] = 0
    limits = np.iinfo(target.dtype)
    # The upper bound of int32 is not an fp32 number: the one above it is cut off as an integer.
    np.clip(work, np.float32(limits.min), np.float32(limits.max), out=work)
    target[...] = np.minimum(work.astype(np.int64), limits.max)


def npu_dynamic_quant(
    x: TensorT,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: DTypeLike | None = None,
) -> tuple[TensorT, TensorT]:
    """Quantise each row along the last axis to int8 by its own scale, ``max(abs(row)) / 127``.

    The values are ``rint(x / scale)`` in fp32. A row of zeros gets scale 0 and zeros; a row with an
    infinity or NaN gets that as its scale (NaN before infinity) and zeros.

    Args:
        x: fp32, fp16 or bf16, at least one axis, the last of at least one element; any strides.
        smooth_scales: Factors applied to the rows first, in fp32: [h] of the dtype of ``x``, h being its
            last extent; with ``group_index`` [groups, h]. Default: none.
        group_index: Ends of the groups of rows: [groups] of int32 or int64 that do not decrease, the last
            the number of rows. Default: all rows are one group.
        dst_type: int8, which is the default.

    Returns:
        The values, of the shape of ``x``, and the scales, fp32, of that shape less its last axis; of the
        kind and on the device of ``x``.

    Raises:
        ArgumentError: An argument has another dtype, shape or value, or requires grad while torch
            records gradients.
    """
    check_together(x=x, smooth_scales=smooth_scales, group_index=group_index)
    values = check_dtype("x", as_array("x", x), *_VALUES)
    if dst_type is not None and as_dtype("dst_type", dst_type) != INT8:
        raise ArgumentError(f"dst_type must be int8 or None, but got {dst_type!r}")
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ArgumentError(
            f"x must have at least one element in a row, but got shape {values.shape}"
        )
    if smooth_scales is not None:
        values = _smooth(values, smooth_scales, group_index)
    elif group_index is not None:
        raise ArgumentError("group_index must be None without smooth_scales, but got one")
    with caller_names():
        result, scales = dynamic_quantize(values)
    return as_type_of(result, x), as_type_of(scales, x)


def _smooth(values: Array, smooth_scales: Tensor, group_index: Tensor | None) -> Array:
    """Return the rows in fp32, each times the factors of its group."""
    width = values.shape[-1]
    factors = check_dtype("smooth_scales", as_array("smooth_scales", smooth_scales), values.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        if group_index is None:
            check.array_shape("smooth_scales", factors, (width,))
            smoothed: Array = values.astype(np.float32) * factors.astype(np.float32)
            return smoothed
        ends = as_array("group_index", group_index)
        check_dtype("group_index", ends, INT32, INT64)
        rows = values.reshape(-1, width).astype(np.float32)
        sizes = np.diff(ends, prepend=ends.dtype.type(0))
        if ends.ndim != 1 or not len(ends) or (sizes < 0).any() or ends[-1] != len(rows):
            raise ArgumentError(
                f"group_index must have shape [groups], not decrease and end at {len(rows)}, the "
                f"number of rows of x, but got {ends.tolist()}"
            )
        check.array_shape("smooth_scales", factors, (len(ends), width))
        rows *= np.repeat(factors.astype(np.float32), sizes, axis=0)
        return rows.reshape(values.shape)


def npu_anti_quant(
    x: TensorT,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    dst_dtype: DTypeLike | None = None,
    src_dtype: DTypeLike | None = None,
) -> TensorT:
    """Dequantise int8: ``(x + offset) * scale`` in fp32, then rounded once.

    Args:
        x: int8, any shape and strides.
        scale: One element, or one for each along the last axis of ``x``; fp32, fp16 or bf16.
        offset: As many elements as ``scale`` may have, of its dtype. It is added. Default: 0.
        dst_dtype: dtype of the result: fp16, bf16 or fp32. Default: fp16.
        src_dtype: int8, which is the default.

    Returns:
        The values, of the shape, kind and device of ``x``.

    Raises:
        ArgumentError: An argument has another dtype or shape, or requires grad while torch records
            gradients.
    """
    check_together(x=x, scale=scale, offset=offset)
    values = check_dtype("x", as_array("x", x), INT8)
    factor = check_dtype("scale", as_array("scale", scale), *_VALUES)
    added = None
    if offset is not None:
        added = check_dtype("offset", as_array("offset", offset), factor.dtype)
    wanted = FLOAT16 if dst_dtype is None else as_dtype("dst_dtype", dst_dtype)
    if wanted not in _VALUES:
        raise ArgumentError(f"dst_dtype must be float16, bfloat16 or float32, but got {wanted}")
    if src_dtype is not None and as_dtype("src_dtype", src_dtype) != INT8:
        raise ArgumentError(f"src_dtype must be int8 or None, but got {src_dtype!r}")
    with caller_names({"scales": "scale", "offsets": "offset", "q": "x"}):
        result = dequantize(values, factor, added, dtype=wanted)
    return as_type_of(result, x)
