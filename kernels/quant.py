"""Quantisation to int8 and back, bit for bit as the NPU's operators define it.

All arithmetic is fp32, each operation rounded by itself, with a true division, and integers are
rounded half to even. NaN becomes 0; what is too large, infinities too, becomes -128 or 127.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emu.kernels.core.annotations import Array
from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import kinds_of
from emu.kernels.core.messages import shown
from emu.kernels.elementwise.quant_rows import (
    BLOCK,
    DIVIDE,
    MULTIPLY,
    RESTORE,
    SCRATCH_BYTES,
    as_fp32,
    is_beyond_caches,
    quantize_dynamic,
    scale_arrays,
    scaled_walk,
)
from emu.kernels.errors import ArgumentError
from emu.kernels.quant_scatter import quant_scatter
from emu.kernels.strided.operands import check_operand, data, output, walk

__all__ = ["dequantize", "dynamic_quantize", "quant_scatter", "quantize"]

_INT8 = np.dtype(np.int8)
_FLOAT32 = np.dtype(np.float32)
_VALUES = kinds_of("float16", "bfloat16", "float32")
_MOST = float(np.finfo(np.float32).max)
_OFFSETS = (*_VALUES, np.dtype(np.int32), _INT8)

Factors = Array | np.generic | float


def quantize(
    x: Array,
    scales: Factors,
    zero_points: Factors | None = None,
    *,
    axis: int = -1,
    multiply: bool = False,
    out: Array | None = None,
) -> Array:
    """Quantise to int8: ``clip(rint(x / scale + zero_point), -128, 127)``.

    Args:
        x: Any shape and strides; fp32, fp16 or bf16.
        scales: A number, or one for each index along ``axis``; fp32, fp16 or bf16.
        zero_points: The same, or int32 or int8. Default: 0.
        axis: The axis of ``x`` that scales and zero points lie along, where they are not single.
            Default: the last.
        multiply: Compute ``x * scale`` in place of ``x / scale``. Default: divide.
        out: Where to put the result: the shape of ``x``, int8, any strides. Default: a new array whose
            axes lie in memory in the order of those of ``x``.

    Returns:
        The result, which is ``out`` where that is given.

    Raises:
        ArgumentError: An argument has another dtype or shape, or ``out`` overlaps another argument.
    """
    check_operand("x", x)
    kind = _kind("x.dtype", x.dtype)
    op = MULTIPLY if check.flag("multiply", multiply) else DIVIDE
    along, scale, zero = _factors(x.shape, axis, scales, ("zero_points", zero_points))
    sources = {"x": x}
    if isinstance(scales, np.ndarray) or isinstance(zero_points, np.ndarray):
        sources |= {"scales": scale, "zero_points": zero}
    result = output("out", out, x.shape, _INT8, sources, x)
    _run(op, kind, result, x, along, scale, zero)
    return result


def dequantize(
    q: Array,
    scales: Factors,
    offsets: Factors | None = None,
    *,
    axis: int = -1,
    dtype: npt.DTypeLike = np.float32,
    out: Array | None = None,
) -> Array:
    """Turn int8 back into values: ``(q + offset) * scale`` in fp32, then rounded to ``dtype``.

    The offset is added: to undo :func:`quantize` with a zero point, give its negative.

    Args:
        q: Any shape and strides; int8.
        scales: A number, or one for each index along ``axis``; fp32, fp16 or bf16.
        offsets: The same, or int32 or int8. Default: 0.
        axis: The axis of ``q`` that scales and offsets lie along, where they are not single. Default:
            the last.
        dtype: fp32, fp16 or bf16. Default: fp32.
        out: Where to put the result: the shape of ``q``, the dtype ``dtype``, any strides. Default: a
            new array whose axes lie in memory in the order of those of ``q``.

    Returns:
        The result, which is ``out`` where that is given.

    Raises:
        ArgumentError: An argument has another dtype or shape, or ``out`` overlaps another argument.
    """
    check_operand("q", q)
    if q.dtype != _INT8:
        raise ArgumentError(f"q must have dtype int8, but got {q.dtype}")
    wanted = check.dtype("dtype", dtype)
    kind = _kind("dtype", wanted)
    along, scale, zero = _factors(q.shape, axis, scales, ("offsets", offsets))
    sources = {"q": q}
    if isinstance(scales, np.ndarray) or isinstance(offsets, np.ndarray):
        sources |= {"scales": scale, "offsets": zero}
    result = output("out", out, q.shape, wanted, sources, q)
    _run(RESTORE, kind, result, q, along, scale, zero)
    return result


def dynamic_quantize(
    x: Array, *, out: Array | None = None, scales_out: Array | None = None
) -> tuple[Array, Array]:
    """Quantise each row along the last axis by its own scale, ``max(abs(row)) / 127``.

    The values are ``rint(x / scale)`` as in :func:`quantize`. A row of zeros gets scale 0 and zeros.
    A row with an infinity or NaN gets that as its scale (NaN before infinity) and zeros, so that
    :func:`dequantize` gives NaN and nothing is hidden.

    Args:
        x: At least one axis, of which the last has at least one element; any strides (a last axis that
            is not dense is copied first); fp32, fp16 or bf16.
        out: Where to put the values: the shape of ``x``, int8, any strides. Default: a new array.
        scales_out: Where to put the scales: the shape of ``x`` less its last axis, fp32, any strides.
            Default: a new array.

    Returns:
        Values and scales, which are ``out`` and ``scales_out`` where those are given.

    Raises:
        ArgumentError: An argument has another dtype or shape, or a result overlaps another argument.
    """
    check_operand("x", x)
    kind = _kind("x.dtype", x.dtype)
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ArgumentError(f"x must have at least one element in a row, but got shape {x.shape}")
    scales = output("scales_out", scales_out, x.shape[:-1], _FLOAT32, {"x": x})
    result = output("out", out, x.shape, _INT8, {"x": x, "scales_out": scales})
    if x.size == 0:
        return result, scales
    source = x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)
    target = result if result.strides[-1] == 1 else np.empty(result.shape, _INT8)
    strides = (target.strides[:-1], source.strides[:-1], scales.strides)
    # One loop over the rows; all axes but the fastest are planes.
    found = walk(x.shape[:-1], *strides)
    table = np.array([*found.table.reshape(-1), *found.rows], np.int64)
    planes = (found.planes.total * found.rows[0], data(table), table.size // 4)
    scratch = np.empty(SCRATCH_BYTES, np.uint8)
    sides = (data(target), data(source), 1, x.itemsize)
    quantize_dynamic()(kind, sides, data(scales), x.shape[-1], found.inner, planes, id(scratch))
    if target is not result:
        np.copyto(result, target)
    return result, scales


def _kind(name: str, dtype: np.dtype[np.generic]) -> int:
    kind = _VALUES.get(dtype)
    if kind is None:
        raise ArgumentError(f"{name} must be one of {_names(tuple(_VALUES))}, but got {dtype}")
    return kind


def _names(dtypes: tuple[np.dtype[np.generic], ...]) -> str:
    return ", ".join(str(dtype) for dtype in dtypes)


def _factors(
    shape: tuple[int, ...], axis: int, scales: Factors, zero_points: tuple[str, Factors | None]
) -> tuple[int | None, Array, Array]:
    """Return the axis of scales and zero points (None where they are single), and both in fp32."""
    axis = check.integer("axis", axis)
    if shape and not -len(shape) <= axis < len(shape):
        raise ArgumentError(
            f"axis must be in {-len(shape)}..{len(shape) - 1} for shape {shape}, but got {shown(axis)}"
        )
    along = axis % len(shape) if shape else 0
    extent = shape[along] if shape else 1
    scale = _factor("scales", scales, tuple(_VALUES), extent, axis)
    name, given = zero_points
    zero = np.zeros(1, _FLOAT32) if given is None else _factor(name, given, _OFFSETS, extent, axis)
    if scale.size == zero.size == 1:
        return None, scale, zero
    full = (extent,)
    if scale.size == 1:
        scale = np.broadcast_to(scale, full).copy()
    if zero.size == 1:
        zero = np.broadcast_to(zero, full).copy()
    return along, scale, zero


def _factor(
    name: str, value: object, dtypes: tuple[np.dtype[np.generic], ...], extent: int, axis: int
) -> Array:
    """Return scales or zero points as a dense fp32 vector of one or ``extent`` elements."""
    if isinstance(value, int | float):
        value = check.number(name, value)
        if abs(value) < _MOST:
            return np.array([value], _FLOAT32)
        with np.errstate(over="ignore"):  # which costs more than all else here
            return np.array([value], _FLOAT32)
    if not isinstance(value, np.ndarray | np.generic):
        raise ArgumentError(f"{name} must be a number or an array, but got {type(value).__name__}")
    array = np.asarray(value)
    if array.dtype not in dtypes:
        raise ArgumentError(f"{name} must be one of {_names(dtypes)}, but got {array.dtype}")
    if array.ndim > 1 or array.size not in (1, extent):
        raise ArgumentError(
            f"{name} must be a number or have one element for each of the {extent} along axis {axis}"
            f", but got shape {array.shape}"
        )
    return as_fp32(array)


def _run(
    op: int, kind: int, target: Array, source: Array, axis: int | None, scale: Array, zero: Array
) -> None:
    if target.size == 0:
        return
    sizes = (target.itemsize, source.itemsize)
    table = None
    if target.flags.c_contiguous and source.flags.c_contiguous and axis in (None, target.ndim - 1):
        count, step = (target.size, 0) if axis is None else (target.shape[-1], 4)
        copies = max(1, min(target.size // count, BLOCK // count))
        inner, rows = (target.size, *sizes, step), (1, 0, 0, 0)
        found: tuple[object, ...] = (copies, count, inner, rows, (1, 0, 0))
    else:
        # Compiled code reads the table by its address: it must live as long as this name.
        found, table = scaled_walk(target.shape, target.strides, source.strides, axis)
    scratch = np.empty(SCRATCH_BYTES, np.uint8)
    sides = (id(target), id(source), *sizes)
    past = int(is_beyond_caches(target.size))
    scale_arrays()(op, kind, sides, id(scale), id(zero), id(scratch), found, past)
    del table
