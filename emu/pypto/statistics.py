"""More reductions: mean, product, variance, the place of the extremes, any and all; and running products.

As those of :mod:`emu.pypto.reduction` they see the valid part only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto import walks
from emu.pypto.dtypes import DT_BOOL, DT_INT32, Array, DataType
from emu.pypto.elementwise import is_number, need_float, need_number, widen
from emu.pypto.errors import ArgumentError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.reduction import Dims, axes_of, axis_of, reduced
from emu.pypto.submission import submit
from emu.pypto.symbolic import as_flag
from emu.pypto.tensor import Tensor, check_tensor, new_tensor

Along = Callable[..., object]


def _mean(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    axes, keepdim = attributes
    x = np.asarray(widen(inputs[0]))
    if x.size:
        outputs[0][...] = _average(x, axes, keepdim)
    else:
        outputs[0][...] = 0


def _average(x: Array, axes: int | tuple[int, ...], keepdim: bool, correction: float = 0) -> Array:
    count = 1
    for axis in axes if isinstance(axes, tuple) else (axes,):
        count *= x.shape[axis]
    total = np.sum(x, axis=axes, keepdims=keepdim, dtype=x.dtype)
    average: Array = np.asarray(total / x.dtype.type(max(count - correction, 0)))
    return average


def _var(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    axes, keepdim, correction = attributes
    x = np.asarray(widen(inputs[0]))
    if x.size:
        centred = x - _average(x, axes, True)
        outputs[0][...] = _average(centred * centred, axes, keepdim, correction)
    else:
        outputs[0][...] = 0


def _prod(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    axes, keepdim = attributes
    x: Array = np.asarray(widen(inputs[0]))
    outputs[0][...] = np.prod(x, axis=axes, keepdims=keepdim, dtype=x.dtype)


def _test(function: Along) -> Callable[[Values, tuple[Array, ...], Attributes], None]:
    def reference(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
        axes, keepdim = attributes
        outputs[0][...] = function(np.asarray(inputs[0]) != 0, axis=axes, keepdims=keepdim)

    return reference


def _place(function: Along) -> Callable[[Values, tuple[Array, ...], Attributes], None]:
    def reference(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
        axis, keepdim = attributes
        outputs[0][...] = function(np.asarray(widen(inputs[0])), axis=axis, keepdims=keepdim)

    return reference


def _cumprod(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    x: Array = np.asarray(widen(inputs[0]))
    outputs[0][...] = np.cumprod(x, axis=attributes[0], dtype=x.dtype)


MEAN = Operation("mean", "reduce", _mean)
VAR = Operation("var", "reduce", _var)
_OVER_AXES = {
    each: replace(each, name=f"{each.name} over axes", kind="other", walk=walks.rows)
    for each in (MEAN, VAR)
}
PROD = Operation("prod", "other", _prod, walk=walks.rows)
ANY = Operation("any", "other", _test(np.any), walk=walks.lines)
ALL = Operation("all", "other", _test(np.all), walk=walks.lines)
ARGMAX = Operation("argmax", "other", _place(np.argmax), walk=walks.lines)
ARGMIN = Operation("argmin", "other", _place(np.argmin), walk=walks.lines)
CUMPROD = Operation("cumprod", "other", _cumprod, walk=walks.lines)


def _reduce(
    operation: Operation,
    a: Tensor,
    dim: Dims,
    keepdim: bool,
    dtype: DataType | None = None,
    more: tuple[object, ...] = (),
) -> Tensor:
    axes, keepdim = axes_of(a, dim), as_flag(keepdim, "keepdim")
    shape, valid = (reduced(n, axes, keepdim) for n in (a.shape, a.valid_shape))
    out = new_tensor(shape, dtype or a.dtype, valid)
    if operation in _OVER_AXES and len(axes) == 1:
        submit(operation, (a,), (out,), (axes[0], keepdim, *more))
    else:
        operation = _OVER_AXES.get(operation, operation)
        submit(operation, (a,), (out,), (axes, keepdim, *more))
    return out


def mean(a: Tensor, dim: Dims = -1, keepdim: bool = False) -> Tensor:
    """Return the mean of a float tensor along axes, summed in FP32 and rounded once; of nothing it is 0.

    Args:
        a: The tensor.
        dim: An axis, a list of axes, or None for all.
        keepdim: Whether the axes stay, with extent 1.
    """
    check_tensor(a, "a")
    need_float("mean", a)
    return _reduce(MEAN, a, dim, keepdim)


def var(a: Tensor, dim: Dims = -1, keepdim: bool = False, correction: float = 1) -> Tensor:
    """Return the variance of a float tensor along axes, computed in FP32 and rounded once; of nothing it is 0.

    The squares of the distances from the mean are divided by the number of elements less ``correction``. Other arguments
    as of :func:`mean`.
    """
    check_tensor(a, "a")
    need_float("var", a)
    if not is_number(correction) or not 0 <= correction < np.inf:
        raise ArgumentError(
            f"correction must be a number of at least 0, but got {shown(correction)}"
        )
    return _reduce(VAR, a, dim, keepdim, None, (float(correction),))


def prod(a: Tensor, dim: Dims = -1, keepdim: bool = False) -> Tensor:
    """Return the product along axes, in FP32 and rounded once; integers wrap; of nothing it is 1.

    Arguments as of :func:`mean`.
    """
    check_tensor(a, "a")
    need_number("prod", a)
    return _reduce(PROD, a, dim, keepdim)


def any(a: Tensor, dim: Dims = -1, keepdim: bool = False) -> Tensor:
    """Return whether an element is not 0 along axes, as DT_BOOL; of nothing False. Arguments as of :func:`mean`."""
    check_tensor(a, "a")
    return _reduce(ANY, a, dim, keepdim, DT_BOOL)


def all(a: Tensor, dim: Dims = -1, keepdim: bool = False) -> Tensor:
    """Return whether no element is 0 along axes, as DT_BOOL; of nothing True. Arguments as of :func:`mean`."""
    check_tensor(a, "a")
    return _reduce(ALL, a, dim, keepdim, DT_BOOL)


def argmax(a: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Return the index (DT_INT32) of the largest value along an axis, the first of equals; NaN is the largest.

    Raises:
        ArgumentError: If the axis has no valid element.
    """
    return _find(ARGMAX, a, dim, keepdim)


def argmin(a: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Return the index (DT_INT32) of the smallest value along an axis, the first of equals; NaN is the smallest.

    Raises:
        ArgumentError: If the axis has no valid element.
    """
    return _find(ARGMIN, a, dim, keepdim)


def _find(operation: Operation, a: Tensor, dim: int, keepdim: bool) -> Tensor:
    check_tensor(a, "a")
    need_number(operation.name, a)
    axis, keepdim = axis_of(a, dim), as_flag(keepdim, "keepdim")
    if not a.valid_shape[axis]:
        raise ArgumentError(f"dim must be an axis with a valid element, but got {dim} for {a!r}")
    shape, valid = (reduced(n, (axis,), keepdim) for n in (a.shape, a.valid_shape))
    out = new_tensor(shape, DT_INT32, valid)
    submit(operation, (a,), (out,), (axis, keepdim))
    return out


def cumprod(a: Tensor, dim: int = -1) -> Tensor:
    """Return the running product along an axis, in FP32, each element rounded once; integers wrap."""
    check_tensor(a, "a")
    need_number("cumprod", a)
    axis = axis_of(a, dim)
    out = new_tensor(a.shape, a.dtype, a.valid_shape)
    submit(CUMPROD, (a,), (out,), (axis,))
    return out
