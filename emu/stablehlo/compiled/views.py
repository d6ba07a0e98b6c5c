"""Operations that move no element: their results are their operands, seen with other strides.

Layouts are found by NumPy itself, from arrays that have the shape and strides of a value but none of its
memory: nothing may read or write their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from emu.mlir.ir import Operation
from emu.stablehlo.reference.dtypes import is_integer, result_dtype
from emu.stablehlo.reference.shaping import broadcast_in_dim, result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.syntax import ints

_NOWHERE = np.zeros(64, np.uint8)
_BASE: int = _NOWHERE.__array_interface__["data"][0]


def shadow(
    shape: Sequence[int], dtype: np.dtype[np.generic], strides: Sequence[int] | None = None
) -> Array:
    """Return an array without memory, C-contiguous unless strides are given."""
    # By way of plain bytes: NumPy cannot describe the dtypes of ml_dtypes that take one byte.
    start = _NOWHERE[: dtype.itemsize].view(f"V{dtype.itemsize}")
    if strides is None:
        strides, step = [0] * len(shape), dtype.itemsize
        for axis in reversed(range(len(shape))):
            strides[axis] = step
            step *= max(shape[axis], 1)
    return np.lib.stride_tricks.as_strided(start, tuple(shape), tuple(strides)).view(dtype)


def offset_of(view: Array) -> int:
    """Return where a view of a shadow starts, in bytes from the shadow's start."""
    return int(view.__array_interface__["data"][0]) - _BASE if view.size else 0


View = Callable[[Operation, Array], "Array | None"]


def _reshape(op: Operation, x: Array) -> Array | None:
    return reshaped(x, result_shape(op))


def reshaped(x: Array, shape: Sequence[int]) -> Array | None:
    """Return an array in another shape; None where that would move elements."""
    try:
        return x.reshape(tuple(shape), copy=False)
    except ValueError:
        return None


def _broadcast_in_dim(op: Operation, x: Array) -> Array | None:
    return broadcast_in_dim(x, ints(op.properties["broadcast_dimensions"]), result_shape(op))


def _transpose(op: Operation, x: Array) -> Array | None:
    return x.transpose(ints(op.properties["permutation"]))


def _slice(op: Operation, x: Array) -> Array | None:
    names = ("start_indices", "limit_indices", "strides")
    ranges = zip(*(ints(op.properties[name]) for name in names), strict=True)
    index: tuple[Any, ...] = (*(slice(*each) for each in ranges), ...)
    view: Array = x[index]  # rank 0: a view, not its element
    return view


def _reverse(op: Operation, x: Array) -> Array | None:
    dimensions = ints(op.properties["dimensions"])
    return np.flip(x, dimensions) if dimensions else x


def _bitcast(op: Operation, x: Array) -> Array | None:
    dtype = result_dtype(op.result.type)
    plain = all(d.kind in "f" or (is_integer(d) and d.kind in "iu") for d in (x.dtype, dtype))
    if dtype.itemsize != x.dtype.itemsize or not plain:
        return None
    return x.view(dtype)


_VIEWS: dict[str, View] = {
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.broadcast": lambda op, x: np.broadcast_to(x, result_shape(op)),
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}


def view_of(op: Operation, x: Array) -> Array | None:
    """Return the shadow of an operation's result, if it is a view of its operand's shadow."""
    make = _VIEWS.get(op.name)
    found = None if make is None else make(op, x)
    return found if found is not None and found.shape == result_shape(op) else None
