"""Elements selected and stored by the values of an index.

Indices are checked when the op runs, since their values may not be there before. Elements that are not valid read
as 0, also those of the index. Results are new tensors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto.dtypes import DT_BOOL, FLOATS, INTEGERS, Array
from emu.pypto.elementwise import is_number, scalar, widen
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.reduction import axis_of
from emu.pypto.shaping import gather
from emu.pypto.submission import submit
from emu.pypto.symbolic import check_rank
from emu.pypto.tensor import Operand, Tensor, check_tensor, new_tensor


def _checked(index: Array | np.generic, limit: int) -> Array:
    at = np.asarray(index).astype(np.intp)
    if at.size and not (at.min() >= 0 and at.max() < limit):
        raise ArgumentError(
            f"index must be at least 0 and below {limit}, but got {at.min()} to {at.max()}"
        )
    return at


def _places(at: Array, axis: int) -> tuple[Array, ...]:
    """Return where the elements of an index point to, for NumPy."""
    grid = list(np.ogrid[tuple(slice(n) for n in at.shape)])
    grid[axis] = at
    return tuple(grid)


def _index_select(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (axis,) = attributes
    a = np.asarray(inputs[0])
    at = _checked(inputs[1], a.shape[axis])
    if at.size:
        # Indices fit, so that none is clipped; NumPy would make a copy of the result before it raises an error.
        np.take(a, at, axis=axis, out=outputs[0], mode="clip")


def _scatter(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (axis,) = attributes
    a, index, src = inputs
    at = _checked(index, np.asarray(a).shape[axis])
    values = np.broadcast_to(_cut(src, at), at.shape)
    result = np.array(a)
    # One row of the index after the other: the last of equal indices wins, whatever NumPy does.
    rows = np.moveaxis(at, axis, 0)
    for i, row in enumerate(rows):
        place = _places(np.expand_dims(row, axis), axis)
        result[place] = np.expand_dims(np.take(values, i, axis=axis), axis)
    outputs[0][...] = result


def _cut(src: Array | np.generic, at: Array) -> Array:
    array = np.asarray(src)
    return array[tuple(slice(n) for n in at.shape)] if array.ndim else array


def _scatter_add(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (axis,) = attributes
    a, index, src = inputs
    at = _checked(index, np.asarray(a).shape[axis])
    total = np.array(widen(a))
    np.add.at(total, _places(at, axis), _cut(widen(src), at))
    outputs[0][...] = total


def _index_add(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (axis,) = attributes
    a, index, src = inputs
    at = _checked(index, np.asarray(a).shape[axis])
    total = np.array(widen(a))
    np.add.at(np.moveaxis(total, axis, 0), at, np.moveaxis(np.asarray(widen(src)), axis, 0))
    outputs[0][...] = total


def _operation(name: str, reference: Callable[..., None]) -> Operation:
    return Operation(name, "other", reference, reads_all=True, may_fail=True)


INDEX_SELECT = _operation("index_select", _index_select)
SCATTER = _operation("scatter", _scatter)
SCATTER_ADD = _operation("scatter_add", _scatter_add)
INDEX_ADD = _operation("index_add", _index_add)


def _check_index(index: Tensor) -> Tensor:
    check_tensor(index, "index")
    if index.dtype not in INTEGERS:
        raise DTypeError(f"index must be an integer tensor, but got {index.dtype!r}")
    return index


def _check_list(index: Tensor) -> Tensor:
    _check_index(index)
    if index.ndim != 1 or index.valid_shape != index.shape:
        raise ArgumentError(f"index must have 1 axis, all valid, but got {index!r}")
    return index


def take_along(a: Tensor, index: Tensor, dim: int = -1) -> Tensor:
    """Return :func:`pypto.gather` with its arguments in NumPy's order: as np.take_along_axis."""
    return gather(a, dim, index)


def index_select(a: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return ``a``'s slices at the indices of a list, along an axis; valid all along that axis.

    Raises:
        ArgumentError: If an index lies outside; raised when the op runs.
    """
    check_tensor(a, "a")
    axis, places = axis_of(a, dim), _check_list(index)
    shape = (*a.shape[:axis], places.size, *a.shape[axis + 1 :])
    out = new_tensor(shape, a.dtype)
    submit(INDEX_SELECT, (a, places), (out,), (axis,))
    return out


def scatter(a: Tensor, dim: int, index: Tensor, src: Operand) -> Tensor:
    """Return ``a`` with elements of ``src`` stored at ``index`` along an axis; the last of equal indices wins.

    Args:
        a: The tensor.
        dim: The axis.
        index: Integers; along the other axes it may be smaller than ``a``. Of a smaller valid part the rest counts as 0.
        src: A tensor of ``a``'s data type, at least as large as ``index``; or a number.

    The result is valid everywhere.

    Raises:
        ArgumentError: If an index lies outside; raised when the op runs.
    """
    axis = _check_scatter(a, dim, index)
    value: Tensor | np.generic
    if isinstance(src, Tensor):
        value = _check_source(src, a, index)
    elif not is_number(src):
        raise ArgumentError(f"src must be a tensor or a number, but got {shown(src)}")
    elif a.dtype is DT_BOOL:
        value = np.bool_(src)
    else:
        with np.errstate(all="ignore"):
            value = a.dtype.np_dtype.type(scalar("scatter", src, a.dtype))
    out = new_tensor(a.shape, a.dtype)
    submit(SCATTER, (a, index, value), (out,), (axis,))
    return out


def scatter_add(a: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return ``a`` with elements of ``src`` added at ``index`` along an axis.

    Arguments, valid part and errors as :func:`scatter`; ``src`` is a tensor. Each sum is made in FP32 in the order of
    ``src``, and rounded once; integers wrap.
    """
    axis = _check_scatter(a, dim, index)
    _check_number("scatter_add", a)
    _check_source(check_tensor(src, "src"), a, index)
    out = new_tensor(a.shape, a.dtype)
    submit(SCATTER_ADD, (a, index, src), (out,), (axis,))
    return out


def index_add(a: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return ``a`` with the slices of ``src`` added at the indices of a list, along an axis.

    Sums are made as by :func:`scatter_add`; the result is valid everywhere.

    Raises:
        ArgumentError: If an index lies outside; raised when the op runs.
    """
    check_tensor(a, "a")
    axis, places = axis_of(a, dim), _check_list(index)
    _check_number("index_add", a)
    check_tensor(src, "src")
    wanted = (*a.shape[:axis], places.size, *a.shape[axis + 1 :])
    if src.dtype is not a.dtype:
        raise DTypeError(f"src must have dtype {a.dtype!r}, but got {src.dtype!r}")
    if src.shape != wanted:
        raise ArgumentError(f"src must have shape {list(wanted)}, but got {list(src.shape)}")
    out = new_tensor(a.shape, a.dtype)
    submit(INDEX_ADD, (a, places, src), (out,), (axis,))
    return out


def _check_number(op: str, a: Tensor) -> None:
    if a.dtype not in FLOATS and a.dtype not in INTEGERS:
        raise DTypeError(f"{op} needs a number tensor, but got {a.dtype!r}; cast it first")


def _check_scatter(a: Tensor, dim: int, index: Tensor) -> int:
    check_tensor(a, "a")
    axis = axis_of(a, dim)
    _check_index(index)
    check_rank(index.shape, a.ndim, "index.shape", "a")
    for j, (n, m) in enumerate(zip(index.shape, a.shape, strict=True)):
        if j != axis and n > m:
            raise ArgumentError(f"index.shape[{j}] must be at most {m}, but got {n}")
    return axis


def _check_source(src: Tensor, a: Tensor, index: Tensor) -> Tensor:
    if src.dtype is not a.dtype:
        raise DTypeError(f"src must have dtype {a.dtype!r}, but got {src.dtype!r}")
    check_rank(src.shape, a.ndim, "src.shape", "a")
    for j, (n, m) in enumerate(zip(src.shape, index.shape, strict=True)):
        if n < m:
            raise ArgumentError(f"src.shape[{j}] must be at least {m}, but got {n}")
    return src
