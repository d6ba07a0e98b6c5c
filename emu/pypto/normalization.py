"""Rows normalised: log-softmax, layer norm, RMS norm; computed in FP32 (FP64 for FP64) and rounded once.

As the reductions they see the valid part only.
"""

from __future__ import annotations

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto.dtypes import DT_FP32, FLOATS, Array
from emu.pypto.elementwise import is_number, widen
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.reduction import axis_of
from emu.pypto.submission import submit
from emu.pypto.tensor import Tensor, check_tensor, new_tensor


def _log_softmax(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    if outputs[0].size:
        (axis,) = attributes
        x = np.asarray(widen(inputs[0]))
        shifted = x - x.max(axis=axis, keepdims=True)
        outputs[0][...] = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _layer_norm(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    if outputs[0].size:
        x = np.asarray(widen(inputs[0]))
        centred = x - x.mean(axis=-1, keepdims=True, dtype=x.dtype)
        _scale(centred, inputs, outputs[0], attributes)


def _rms_norm(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    if outputs[0].size:
        _scale(np.asarray(widen(inputs[0])), inputs, outputs[0], attributes)


def _scale(x: Array, inputs: Values, out: Array, attributes: Attributes) -> None:
    """Divide rows by the root of their mean square, then apply weight and bias."""
    _, eps, has_weight, has_bias = attributes
    square = np.mean(x * x, axis=-1, keepdims=True, dtype=x.dtype)
    y = x / np.sqrt(square + x.dtype.type(eps))
    rest = [np.asarray(v).reshape(-1)[: x.shape[-1]].astype(x.dtype) for v in inputs[1:]]
    if has_weight:
        y = y * rest.pop(0)
    if has_bias:
        y = y + rest.pop(0)
    out[...] = y


LOG_SOFTMAX = Operation("log_softmax", "row", _log_softmax)
LAYER_NORM = Operation("layer_norm", "row", _layer_norm)
RMS_NORM = Operation("rms_norm", "row", _rms_norm)


def log_softmax(a: Tensor, dim: int = -1) -> Tensor:
    """Return the logarithm of the softmax of a float tensor along an axis."""
    check_tensor(a, "a")
    _need_float("log_softmax", a)
    axis = axis_of(a, dim)
    out = new_tensor(a.shape, a.dtype, a.valid_shape)
    submit(LOG_SOFTMAX, (a,), (out,), (axis,))
    return out


def layer_norm(
    a: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Return the rows (last axis) of a float tensor, centred and divided by their standard deviation.

    Args:
        a: The tensor.
        weight: Multiplies each column: [n] or [1, n], of ``a``'s data type or DT_FP32.
        bias: Is added to each column; as ``weight``.
        eps: Added to the variance.
    """
    return _norm(LAYER_NORM, a, weight, bias, eps)


def rms_norm(a: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Return the rows (last axis) of a float tensor, divided by the root of their mean square.

    Args:
        a: The tensor.
        weight: Multiplies each column: [n] or [1, n], of ``a``'s data type or DT_FP32.
        eps: Added to the mean square.
    """
    return _norm(RMS_NORM, a, weight, None, eps)


def _norm(
    operation: Operation, a: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    check_tensor(a, "a")
    _need_float(operation.name, a)
    if not a.ndim:
        raise ArgumentError(f"a must have at least 1 axis, but got {a!r}")
    if not is_number(eps) or not 0 <= eps < np.inf:
        raise ArgumentError(f"eps must be a number of at least 0, but got {shown(eps)}")
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None:
            _check_row(check_tensor(t, name), name, a)
    inputs = tuple(t for t in (a, weight, bias) if t is not None)
    out = new_tensor(a.shape, a.dtype, a.valid_shape)
    attributes = (a.ndim - 1, float(eps), weight is not None, bias is not None)
    submit(operation, inputs, (out,), attributes)
    return out


def _check_row(t: Tensor, name: str, a: Tensor) -> None:
    columns = a.shape[-1]
    if t.dtype is not a.dtype and t.dtype is not DT_FP32:
        raise DTypeError(f"{name} must have dtype {a.dtype!r} or DT_FP32, but got {t.dtype!r}")
    if t.shape not in ((columns,), (1, columns)) or t.valid_shape != t.shape:
        raise ArgumentError(
            f"{name} must have shape [{columns}] or [1, {columns}], all valid, but got {t!r}"
        )


def _need_float(op: str, a: Tensor) -> None:
    if a.dtype not in FLOATS:
        raise DTypeError(f"{op} needs a float tensor, but got {a.dtype!r}; cast it first")
