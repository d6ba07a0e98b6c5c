"""Ops that make, move and select elements without arithmetic. All of them copy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto import walks
from emu.pypto.context import CONTEXT
from emu.pypto.dtypes import (
    DT_FP32,
    DT_INT32,
    DT_INT64,
    FLOATS,
    INTEGERS,
    Array,
    DataType,
    DTypeLike,
    as_dtype,
)
from emu.pypto.elementwise import fits, is_number
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.reduction import axis_of
from emu.pypto.submission import in_parts, submit
from emu.pypto.symbolic import (
    Shape,
    as_int,
    as_ints,
    as_shape,
    as_text,
    check_rank,
    product,
)
from emu.pypto.tensor import (
    OPERATORS,
    Number,
    Tensor,
    assemble,
    check_tensor,
    new_tensor,
    too_large,
    wrap,
)


def full(
    shape: Sequence[int], value: Number, dtype: DTypeLike = DT_FP32, *, name: str = ""
) -> Tensor:
    """Return a new tensor with one value everywhere."""
    extents, kind = as_shape(shape, "shape", least=0), as_dtype(dtype)
    as_text(name, "name")
    number = _one_value(value, kind)
    try:
        return wrap(np.full(extents, number), kind, name)
    except (MemoryError, ValueError):
        raise too_large(extents, kind, "shape") from None


def _one_value(value: object, kind: DataType) -> Array:
    """Return a number as an element of this type."""
    if not is_number(value):
        raise ArgumentError(f"value must be a number, but got {shown(value)}")
    if kind not in FLOATS and isinstance(value, float | np.floating):
        raise DTypeError(f"full: value must be an integer for {kind!r}, but got {value!r}")
    if kind in INTEGERS and not fits(int(value), kind):
        raise ArgumentError(f"value must fit {kind!r}, but got {value!r}")
    try:
        with np.errstate(all="ignore"):
            return np.asarray(
                float(value)
                if kind in FLOATS
                else bool(value)
                if kind not in INTEGERS
                else int(value)
            ).astype(kind.np_dtype)
    except OverflowError:
        raise ArgumentError(f"value must fit {kind!r}, but got {shown(value)}") from None


def zeros(shape: Sequence[int], dtype: DTypeLike = DT_FP32, *, name: str = "") -> Tensor:
    """Return a new tensor of zeros."""
    return full(shape, 0, dtype, name=name)


def ones(shape: Sequence[int], dtype: DTypeLike = DT_FP32, *, name: str = "") -> Tensor:
    """Return a new tensor of ones."""
    return full(shape, 1, dtype, name=name)


def arange(*bounds: int, dtype: DTypeLike = DT_INT32) -> Tensor:
    """Return the integers of ``range(*bounds)`` as a tensor of rank 1."""
    kind = as_dtype(dtype)
    if not 1 <= len(bounds) <= 3:
        raise ArgumentError(
            f"arange must be given 1 to 3 bounds, but got {len(bounds)}: {shown(bounds)}"
        )
    limits = [as_int(bound, f"bound {i} of arange") for i, bound in enumerate(bounds)]
    if len(limits) == 3 and limits[2] == 0:
        raise ArgumentError("step (bound 2 of arange) must not be 0")
    for i, limit in enumerate(limits):
        if not -(2**63) <= limit < 2**63:
            raise ArgumentError(f"bound {i} of arange must fit DT_INT64, but got {limit}")
    numbers = range(*limits)
    for number in (*numbers[:1], *numbers[-1:]):
        if kind in INTEGERS and not fits(number, kind):
            raise ArgumentError(f"the bounds of arange must fit {kind!r}, but got {number}")
    try:
        return wrap(np.arange(*limits, dtype=np.int64).astype(kind.np_dtype))
    except (MemoryError, ValueError):
        raise ArgumentError(
            f"the bounds of arange must span what fits into memory, but got {limits}"
        ) from None


def reshape(a: Tensor, shape: Sequence[int], *, valid_shape: Sequence[int] | None = None) -> Tensor:
    """Return the elements in another shape, in row-major order; zeros where ``a`` is not valid.

    Args:
        a: The tensor.
        shape: New shape of as many elements; one extent may be -1.
        valid_shape: Valid part of the result. Default: all of it.
    """
    check_tensor(a, "a")
    extents = _infer(as_ints(shape, "shape"), a)
    valid = extents if valid_shape is None else as_shape(valid_shape, "valid_shape", least=0)
    check_rank(valid, len(extents), "valid_shape", "the result")
    for axis, (v, n) in enumerate(zip(valid, extents, strict=True)):
        if v > n:
            raise ArgumentError(f"valid_shape[{axis}] must be at most {n}, but got {v}")
    out = new_tensor(extents, a.dtype, valid)

    submit(RESHAPE, (a,), (out,), (extents,))
    return out


def _infer(shape: Shape, a: Tensor) -> Shape:
    if shape.count(-1) == 1:
        rest = product(n for n in shape if n != -1)
        shape = tuple((a.size // rest if rest else 0) if n == -1 else n for n in shape)
    if any(n < 0 for n in shape) or product(shape) != a.size:
        raise ArgumentError(
            f"shape must hold the {a.size} elements of {list(a.shape)}, but got {list(shape)}"
        )
    return shape


def transpose(a: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return the tensor with two axes exchanged."""
    check_tensor(a, "a")
    order = list(range(a.ndim))
    first, second = axis_of(a, dim0, "dim0"), axis_of(a, dim1, "dim1")
    order[first], order[second] = second, first
    out = new_tensor(
        tuple(a.shape[i] for i in order), a.dtype, tuple(a.valid_shape[i] for i in order)
    )

    submit(TRANSPOSE, (a,), (out,), tuple(order))
    return out


def waits_for_parts(parts: Sequence[Tensor]) -> bool:
    """Return whether tensors are joined one by one, because some may come before the others."""
    return not CONTEXT.graph.idle and all(t.shape == t.valid_shape for t in parts)


def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors along an axis; other extents and data types must agree.

    Where a part is not valid the result holds 0; the result is valid everywhere.
    """
    if not isinstance(tensors, list | tuple):
        raise ArgumentError(f"tensors must be a list of tensors, but got {shown(tensors)}")
    parts = [check_tensor(t, f"tensors[{i}]") for i, t in enumerate(tensors)]
    if not parts:
        raise ArgumentError("tensors must hold at least one tensor, but got none")
    axis, head = axis_of(parts[0], dim), parts[0]
    for i, t in enumerate(parts):
        if t.dtype is not head.dtype:
            raise DTypeError(f"tensors[{i}] must have dtype {head.dtype!r}, but got {t.dtype!r}")
        if t.ndim != head.ndim or any(
            n != m for j, (n, m) in enumerate(zip(t.shape, head.shape, strict=True)) if j != axis
        ):
            raise ArgumentError(
                f"tensors[{i}] must have the extents of tensors[0], {list(head.shape)}, but for axis "
                f"{axis}; but got {list(t.shape)}"
            )
    total = sum(t.shape[axis] for t in parts)
    out = new_tensor((*head.shape[:axis], total, *head.shape[axis + 1 :]), head.dtype)
    if waits_for_parts(parts):
        at = 0
        with in_parts(CONCAT, tuple(parts), (out,), (axis,)):
            for t in parts:
                assemble(t, [at if i == axis else 0 for i in range(out.ndim)], out)
                at += t.shape[axis]
    else:
        submit(CONCAT, tuple(parts), (out,), (axis,))
    return out


def gather(a: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return ``a``'s elements at ``index`` along an axis.

    The result has the shape of ``index``; along the other axes that may be smaller than ``a``.

    Raises:
        ArgumentError: If an index lies outside; raised when the op runs.
    """
    check_tensor(a, "a")
    check_tensor(index, "index")
    axis = axis_of(a, dim)
    if index.dtype not in INTEGERS:
        raise DTypeError(f"index must be an integer tensor, but got {index.dtype!r}")
    check_rank(index.shape, a.ndim, "index.shape", "a")
    for j, (n, m) in enumerate(zip(index.shape, a.shape, strict=True)):
        if j != axis and n > m:
            raise ArgumentError(f"index.shape[{j}] must be at most {m}, but got {n}")
    # Indices are checked when the op runs: their values may not be there yet.
    out = new_tensor(index.shape, a.dtype, index.valid_shape)

    submit(GATHER, (a, index), (out,), (axis,))
    return out


def one_hot(a: Tensor, num_classes: int) -> Tensor:
    """Return, on a new last axis, 1 at each element's value and 0 elsewhere (DT_INT64).

    A value outside ``0 … num_classes - 1`` gives zeros only.
    """
    check_tensor(a, "a")
    if a.dtype not in INTEGERS:
        raise DTypeError(f"one_hot needs an integer tensor, but got {a.dtype!r}")
    count = as_int(num_classes, "num_classes")
    if count < 1:
        raise ArgumentError(f"num_classes must be at least 1, but got {count}")
    out = new_tensor((*a.shape, count), DT_INT64, (*a.valid_shape, count))

    submit(ONE_HOT, (a,), (out,), (count,))
    return out


def _reshape(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (extents,) = attributes
    (out,) = outputs
    out[...] = np.asarray(inputs[0]).reshape(extents)[tuple(slice(n) for n in out.shape)]


def _transpose(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    outputs[0][...] = inputs[0].transpose(attributes)


def _concat(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    np.concatenate(inputs, axis=attributes[0], out=outputs[0])


def _gather(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (axis,) = attributes
    (out,) = outputs
    a, index = (np.asarray(x) for x in inputs)
    at = index[tuple(slice(n) for n in out.shape)].astype(np.intp)
    limit = a.shape[axis]
    if at.size and not (at.min() >= 0 and at.max() < limit):
        raise ArgumentError(
            f"index must be at least 0 and below {limit}, but got {at.min()} to {at.max()}"
        )
    slices = tuple(slice(None) if j == axis else slice(n) for j, n in enumerate(at.shape))
    out[...] = np.take_along_axis(a[slices], at, axis)


def _one_hot(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    outputs[0][...] = np.asarray(inputs[0])[..., None] == np.arange(attributes[0])


RESHAPE = Operation("reshape", "other", _reshape, reads_all=True)
TRANSPOSE = Operation("transpose", "other", _transpose, walk=walks.transposed)
CONCAT = Operation("concat", "other", _concat, reads_all=True)
GATHER = Operation("gather", "other", _gather, reads_all=True, may_fail=True)
ONE_HOT = Operation("one_hot", "other", _one_hot)

OPERATORS.update(reshape=reshape, transpose=transpose)
