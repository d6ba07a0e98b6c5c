"""Ops along an axis: reductions, softmax, cumulative sum, top-k.

They see the valid part only: the largest of a row is the largest of its valid elements, not the 0 that
other elements read as. The sum, the largest and the smallest value of nothing are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.kernels.core.messages import shown
from emu.pypto import walks
from emu.pypto.dtypes import DT_BOOL, DT_INT32, FLOATS, Array
from emu.pypto.elementwise import widen
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.submission import submit
from emu.pypto.symbolic import Shape, as_flag, as_int
from emu.pypto.tensor import Tensor, check_tensor, new_tensor


def axis_of(t: Tensor, dim: object, argument: str = "dim") -> int:
    """Return an axis counted from the front."""
    axis = as_int(dim, argument)
    if not -t.ndim <= axis < t.ndim:
        raise ArgumentError(
            f"{argument} must be at least {-t.ndim} and below {t.ndim}, but got {axis} for {t!r}"
        )
    return axis % t.ndim


Dims = int | Sequence[int] | None
"""An axis, a list of axes, or None for all."""


def axes_of(t: Tensor, dim: object) -> tuple[int, ...]:
    """Return axes counted from the front, in order."""
    if dim is None:
        return tuple(range(t.ndim))
    if not isinstance(dim, list | tuple):
        return (axis_of(t, dim),)
    axes = [axis_of(t, each, f"dim[{i}]") for i, each in enumerate(dim)]
    if not axes or len(set(axes)) != len(axes):
        raise ArgumentError(
            f"dim must name at least one axis, and none twice, but got {shown(dim)}"
        )
    return tuple(sorted(axes))


def reduced(shape: Shape, axes: tuple[int, ...], keepdim: bool) -> Shape:
    """Return the shape of a reduction along axes."""
    return tuple([1 if i in axes else n for i, n in enumerate(shape) if keepdim or i not in axes])


def _operation(name: str, function: Callable[..., npt.ArrayLike]) -> Operation:
    """Return the reduction by a function of NumPy; the result over nothing is 0. Attributes: axis, keepdim."""

    def reference(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
        axis, keepdim = attributes
        if 0 in inputs[0].shape:
            outputs[0][...] = 0
        else:
            outputs[0][...] = function(widen(inputs[0]), axis=axis, keepdims=keepdim)

    return Operation(name, "reduce", reference)


def _total(array: Array, **kwargs: Any) -> npt.ArrayLike:
    result: Array = np.sum(array, dtype=array.dtype, **kwargs)
    return result


SUM = _operation("sum", _total)
AMAX = replace(_operation("amax", np.max), walk=walks.lines)
AMIN = replace(_operation("amin", np.min), walk=walks.lines)
_OVER_AXES = {
    each: replace(each, name=f"{each.name} over axes", kind="other", walk=each.walk or walks.rows)
    for each in (SUM, AMAX, AMIN)
}
"""The same along several axes, the first attribute: by their references alone."""


def _reduce(operation: Operation, a: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    check_tensor(a, "a")
    if a.dtype is DT_BOOL:
        raise DTypeError(
            f"{operation.name} needs a number tensor, but got {a.dtype!r}; cast it first"
        )
    axes, keepdim = axes_of(a, dim), as_flag(keepdim, "keepdim")
    out = new_tensor(
        reduced(a.shape, axes, keepdim), a.dtype, reduced(a.valid_shape, axes, keepdim)
    )
    if len(axes) == 1:
        submit(operation, (a,), (out,), (axes[0], keepdim))
    else:
        submit(_OVER_AXES[operation], (a,), (out,), (axes, keepdim))
    return out


def sum(a: Tensor, dim: Dims = -1, keepdim: bool = False) -> Tensor:
    """Return the sum along an axis, several or (None) all, accumulated in FP32 and rounded once; integers wrap."""
    return _reduce(SUM, a, dim, keepdim)


def amax(a: Tensor, dim: Dims = -1, keepdim: bool = False) -> Tensor:
    """Return the largest value along an axis, several, or (None) all."""
    return _reduce(AMAX, a, dim, keepdim)


def amin(a: Tensor, dim: Dims = -1, keepdim: bool = False) -> Tensor:
    """Return the smallest value along an axis, several, or (None) all."""
    return _reduce(AMIN, a, dim, keepdim)


def _softmax(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    if outputs[0].size:
        (axis,) = attributes
        x = np.asarray(widen(inputs[0]))
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        outputs[0][...] = e / e.sum(axis=axis, keepdims=True)


SOFTMAX = Operation("softmax", "row", _softmax)


def softmax(a: Tensor, dim: int = -1) -> Tensor:
    """Return the softmax of a float tensor along an axis, computed in FP32 and rounded once."""
    check_tensor(a, "a")
    if a.dtype not in FLOATS:
        raise DTypeError(f"softmax needs a float tensor, but got {a.dtype!r}; cast it first")
    axis = axis_of(a, dim)
    out = new_tensor(a.shape, a.dtype, a.valid_shape)
    submit(SOFTMAX, (a,), (out,), (axis,))
    return out


def _cumsum(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    x = widen(inputs[0])
    outputs[0][...] = np.cumsum(x, axis=attributes[0], dtype=x.dtype)


CUMSUM = Operation("cumsum", "other", _cumsum, walk=walks.lines)


def cumsum(a: Tensor, dim: int = -1) -> Tensor:
    """Return the running sum along an axis, accumulated in FP32; integers wrap."""
    check_tensor(a, "a")
    axis = axis_of(a, dim)
    out = new_tensor(a.shape, a.dtype, a.valid_shape)
    submit(CUMSUM, (a,), (out,), (axis,))
    return out


def topk(a: Tensor, k: int, dim: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest (or smallest) values along an axis and their indices (DT_INT32).

    They are sorted; of equal values the first comes first; NaN counts as the largest.

    Raises:
        ArgumentError: If the axis has fewer than ``k`` valid elements, or ``k`` is below 1.
    """
    check_tensor(a, "a")
    axis, count, largest = axis_of(a, dim), as_int(k, "k"), as_flag(largest, "largest")
    if not 1 <= count <= a.valid_shape[axis]:
        raise ArgumentError(
            f"k must be at least 1 and at most {a.valid_shape[axis]}, the valid extent of axis {axis}, "
            f"but got {count}"
        )
    shape = (*a.shape[:axis], count, *a.shape[axis + 1 :])
    valid = (*a.valid_shape[:axis], count, *a.valid_shape[axis + 1 :])
    values, places = new_tensor(shape, a.dtype, valid), new_tensor(shape, DT_INT32, valid)
    submit(TOPK, (a,), (values, places), (axis, count, largest))
    return values, places


def _topk(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    axis, count, largest = attributes
    values, places = outputs
    keys = np.asarray(widen(inputs[0]))
    if largest:
        # Sorted backwards, on reversed data: a stable sort then keeps the first of equals first.
        order = np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
        order = keys.shape[axis] - 1 - np.flip(order, axis)
    else:
        order = np.argsort(keys, axis=axis, kind="stable")
    first = np.take(order, np.arange(count), axis=axis)
    values[...] = np.take_along_axis(np.asarray(inputs[0]), first, axis)
    places[...] = first


TOPK = Operation("topk", "other", _topk, walk=walks.lines)
