"""Quantised integers and back: per tensor, per channel or per token, as the shape of the scale says."""

from __future__ import annotations

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto import walks
from emu.pypto.dtypes import (
    DT_FP32,
    DT_INT8,
    DT_INT32,
    DT_UINT8,
    FLOATS,
    FP32,
    INTEGERS,
    Array,
    DTypeLike,
    as_dtype,
    convert,
)
from emu.pypto.elementwise import broadcast_shape, is_number, joint_valid
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.reduction import axis_of
from emu.pypto.submission import submit
from emu.pypto.tensor import Operand, Tensor, check_tensor, new_tensor


def _quantize(inputs: Values, outputs: tuple[Array, ...], _: Attributes) -> None:
    x, scale, zero = (np.asarray(v) for v in inputs)
    # In double, so that adding the zero point cannot round once more.
    whole = np.rint(x.astype(FP32) / scale).astype(np.float64) + zero
    outputs[0][...] = convert(whole, as_dtype(outputs[0].dtype))


def _dequantize(inputs: Values, outputs: tuple[Array, ...], _: Attributes) -> None:
    arrays: list[Array] = [np.asarray(v) for v in inputs]
    q, scale, zero = arrays
    outputs[0][...] = (q.astype(np.int64) - zero).astype(FP32) * scale


def _quantize_rows(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (axis,) = attributes
    values, scales = outputs
    x = np.asarray(inputs[0]).astype(FP32)
    if not x.size:
        values[...], scales[...] = 0, 0
        return
    largest = np.max(np.abs(x), axis=axis, keepdims=True)
    scale = largest / FP32.type(127)
    scales[...] = scale
    whole = np.rint(x / np.where(scale == 0, FP32.type(1), scale)).astype(np.float64)
    values[...] = convert(whole, DT_INT8)


QUANTIZE = Operation("quantize", "map", _quantize)
DEQUANTIZE = Operation("dequantize", "map", _dequantize)
DYNAMIC_QUANTIZE = Operation("dynamic_quantize", "other", _quantize_rows, walk=walks.lines)


def quantize(
    a: Tensor, scale: Operand, zero_point: Operand = 0, dtype: DTypeLike = DT_INT8
) -> Tensor:
    """Return ``a / scale``, rounded to the nearest integers (ties to even), plus ``zero_point``, saturated.

    Args:
        a: A float tensor.
        scale: A positive number, or a DT_FP32 tensor that broadcasts to ``a``: [1, n] for one of each channel,
            [m, 1] for one of each token.
        zero_point: An integer, or a DT_INT32 tensor that broadcasts to ``a``.
        dtype: DT_INT8 or DT_UINT8.

    NaN gives 0 and the zero point is not added to it.
    """
    check_tensor(a, "a")
    if a.dtype not in FLOATS:
        raise DTypeError(f"quantize needs a float tensor, but got {a.dtype!r}; cast it first")
    target = as_dtype(dtype)
    if target not in (DT_INT8, DT_UINT8):
        raise DTypeError(f"dtype must be DT_INT8 or DT_UINT8, but got {target!r}")
    factors = _factors(a, scale, zero_point)
    out = new_tensor(a.shape, target, _valid(a, factors))
    submit(QUANTIZE, (a, *factors), (out,))
    return out


def dequantize(
    a: Tensor, scale: Operand, zero_point: Operand = 0, dtype: DTypeLike = DT_FP32
) -> Tensor:
    """Return ``(a - zero_point) * scale``, computed in FP32 and rounded once.

    Args:
        a: An integer tensor.
        scale: As in :func:`quantize`.
        zero_point: As in :func:`quantize`.
        dtype: A float data type.
    """
    check_tensor(a, "a")
    if a.dtype not in INTEGERS:
        raise DTypeError(f"dequantize needs an integer tensor, but got {a.dtype!r}")
    target = as_dtype(dtype)
    if target not in FLOATS:
        raise DTypeError(f"dtype must be a float data type, but got {target!r}")
    factors = _factors(a, scale, zero_point)
    out = new_tensor(a.shape, target, _valid(a, factors))
    submit(DEQUANTIZE, (a, *factors), (out,))
    return out


def dynamic_quantize(a: Tensor, dim: int | None = -1) -> tuple[Tensor, Tensor]:
    """Return a float tensor as DT_INT8, and its scales (DT_FP32): the largest magnitudes, divided by 127.

    Args:
        a: The tensor.
        dim: Axis along which values share a scale: -1 for one of each token; the scales keep it, with extent 1.
            None: one scale for all.

    Where all values are 0 the scale is 0.
    """
    check_tensor(a, "a")
    if a.dtype not in FLOATS:
        raise DTypeError(
            f"dynamic_quantize needs a float tensor, but got {a.dtype!r}; cast it first"
        )
    axis = None if dim is None else axis_of(a, dim)
    shape, valid = (
        tuple(1 if axis is None or i == axis else n for i, n in enumerate(extents))
        for extents in (a.shape, a.valid_shape)
    )
    values, scales = new_tensor(a.shape, DT_INT8, a.valid_shape), new_tensor(shape, DT_FP32, valid)
    submit(DYNAMIC_QUANTIZE, (a,), (values, scales), (axis,))
    return values, scales


def _factors(a: Tensor, scale: Operand, zero_point: Operand) -> tuple[Tensor | np.generic, ...]:
    """Check scale and zero point, and return them as operands."""
    found: list[Tensor | np.generic] = []
    for name, value, dtype in (("scale", scale, DT_FP32), ("zero_point", zero_point, DT_INT32)):
        if isinstance(value, Tensor):
            if value.dtype is not dtype:
                raise DTypeError(f"{name} must have dtype {dtype!r}, but got {value.dtype!r}")
            if len(value.shape) > a.ndim or broadcast_shape([a, value], name) != a.shape:
                raise ArgumentError(
                    f"{name} must broadcast to {list(a.shape)}, but got {list(value.shape)}"
                )
            found.append(value)
        elif name == "scale":
            if not is_number(value) or not 0 < value < 3.4e38:
                raise ArgumentError(f"scale must be a positive number, but got {shown(value)}")
            found.append(np.float32(value))
        else:
            if not isinstance(value, int | np.integer) or not -(2**31) <= value < 2**31:
                raise ArgumentError(f"zero_point must be an int32, but got {shown(value)}")
            found.append(np.int32(value))
    return tuple(found)


def _valid(a: Tensor, factors: tuple[Tensor | np.generic, ...]) -> tuple[int, ...]:
    """Return the valid shape of a result: that of the operands together."""
    return joint_valid([a, *(t for t in factors if isinstance(t, Tensor))], a.shape)
