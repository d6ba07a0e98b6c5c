"""Ops that arrange elements anew: broadcast, permute, split, stack, and tensors like others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto import walks
from emu.pypto.dtypes import Array, DTypeLike
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.reduction import axis_of
from emu.pypto.shaping import TRANSPOSE, full, waits_for_parts
from emu.pypto.submission import in_parts, submit
from emu.pypto.symbolic import as_int, as_ints, as_shape, check_rank
from emu.pypto.tensor import MAX_AXES, Number, Tensor, check_tensor, new_tensor, view


def _broadcast(inputs: Values, outputs: tuple[Array, ...], _: Attributes) -> None:
    if outputs[0].size:
        outputs[0][...] = inputs[0]


def _squeeze(inputs: Values, outputs: tuple[Array, ...], _: Attributes) -> None:
    outputs[0][...] = np.asarray(inputs[0]).reshape(outputs[0].shape) if inputs[0].size else 0


def _stack(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    np.stack([np.asarray(x) for x in inputs], axis=attributes[0], out=outputs[0])


BROADCAST = Operation("broadcast_to", "other", _broadcast, walk=walks.element_wise)
SQUEEZE = Operation("squeeze", "other", _squeeze, walk=walks.extended)
UNSQUEEZE = Operation("unsqueeze", "other", _squeeze, walk=walks.extended)
STACK = Operation("stack", "other", _stack, reads_all=True)


def broadcast_to(a: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a tensor repeated along its axes of extent 1, and along new axes in front.

    Along a repeated axis the result is valid everywhere if the one element is valid.
    """
    check_tensor(a, "a")
    extents = as_shape(shape, "shape", least=0)
    lead = len(extents) - a.ndim
    if lead < 0 or any(
        n not in (1, m) for n, m in zip(a.shape, extents[max(lead, 0) :], strict=True)
    ):
        raise ArgumentError(
            f"shape must be one that {list(a.shape)} broadcasts to, but got {shown(list(extents))}"
        )
    own = zip(a.shape, a.valid_shape, extents[lead:], strict=True)
    valid = (*extents[:lead], *(v if n == m else m * v for n, v, m in own))
    out = new_tensor(extents, a.dtype, valid)
    submit(BROADCAST, (a,), (out,))
    return out


def expand(a: Tensor, shape: Sequence[int]) -> Tensor:
    """Return :func:`broadcast_to`; an extent of -1 stays as it is."""
    check_tensor(a, "a")
    extents = list(as_ints(shape, "shape"))
    lead = len(extents) - a.ndim
    for axis, n in enumerate(extents):
        if n == -1 and axis >= lead >= 0:
            extents[axis] = a.shape[axis - lead]
    return broadcast_to(a, extents)


def unsqueeze(a: Tensor, dim: int) -> Tensor:
    """Return a tensor with a new axis of extent 1 in front of axis ``dim``."""
    check_tensor(a, "a")
    axis = _new_axis(a, dim)
    shape, valid = ((*n[:axis], 1, *n[axis:]) for n in (a.shape, a.valid_shape))
    out = new_tensor(shape, a.dtype, valid)
    submit(UNSQUEEZE, (a,), (out,))
    return out


def _new_axis(a: Tensor, dim: int) -> int:
    axis = as_int(dim, "dim")
    if not -a.ndim - 1 <= axis <= a.ndim:
        raise ArgumentError(
            f"dim must be at least {-a.ndim - 1} and at most {a.ndim}, but got {axis} for {a!r}"
        )
    if a.ndim >= MAX_AXES:
        raise ArgumentError(f"dim must leave at most {MAX_AXES} axes, but a has {a.ndim}")
    return axis % (a.ndim + 1)


def squeeze(a: Tensor, dim: int | None = None) -> Tensor:
    """Return a tensor without an axis of extent 1; None: without all of them. Another extent stays."""
    check_tensor(a, "a")
    axes = range(a.ndim) if dim is None else [axis_of(a, dim)]
    gone = {axis for axis in axes if a.shape[axis] == 1}
    kept = [axis for axis in range(a.ndim) if axis not in gone]
    shape = tuple(a.shape[axis] for axis in kept)
    empty = any(not a.valid_shape[axis] for axis in gone)
    valid = tuple(0 if empty else a.valid_shape[axis] for axis in kept)
    out = new_tensor(shape, a.dtype, valid)
    submit(SQUEEZE, (a,), (out,))
    return out


def permute(a: Tensor, dims: Sequence[int]) -> Tensor:
    """Return a tensor with its axes in another order."""
    check_tensor(a, "a")
    order = as_ints(dims, "dims")
    check_rank(order, a.ndim, "dims", "a")
    axes = tuple(axis_of(a, dim, f"dims[{i}]") for i, dim in enumerate(order))
    if len(set(axes)) != a.ndim:
        raise ArgumentError(f"dims must name each axis once, but got {list(order)}")
    shape, valid = (tuple(n[axis] for axis in axes) for n in (a.shape, a.valid_shape))
    out = new_tensor(shape, a.dtype, valid)
    submit(TRANSPOSE, (a,), (out,), axes)
    return out


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors of one shape and data type along a new axis; the result is valid everywhere."""
    if not isinstance(tensors, list | tuple):
        raise ArgumentError(f"tensors must be a list of tensors, but got {shown(tensors)}")
    parts = tuple(check_tensor(t, f"tensors[{i}]") for i, t in enumerate(tensors))
    if not parts:
        raise ArgumentError("tensors must hold at least one tensor, but got none")
    head = parts[0]
    for i, t in enumerate(parts):
        if t.dtype is not head.dtype:
            raise DTypeError(f"tensors[{i}] must have dtype {head.dtype!r}, but got {t.dtype!r}")
        if t.shape != head.shape:
            raise ArgumentError(
                f"tensors[{i}] must have the shape of tensors[0], {list(head.shape)}, but got {list(t.shape)}"
            )
    axis = _new_axis(head, dim)
    out = new_tensor((*head.shape[:axis], len(parts), *head.shape[axis:]), head.dtype)
    if waits_for_parts(parts):
        extents = [1 if i == axis else n for i, n in enumerate(out.shape)]
        with in_parts(STACK, parts, (out,), (axis,)):
            for at, t in enumerate(parts):
                place = view(out, extents, [at if i == axis else 0 for i in range(out.ndim)])
                submit(UNSQUEEZE, (t,), (place,))
    else:
        submit(STACK, parts, (out,), (axis,))
    return out


def split(a: Tensor, sizes: int | Sequence[int], dim: int = 0) -> list[Tensor]:
    """Return views of parts along an axis.

    Args:
        a: The tensor.
        sizes: The extent of each part but the last, which may be smaller; or a list of extents that add up.
        dim: The axis.
    """
    check_tensor(a, "a")
    axis = axis_of(a, dim)
    extent = a.shape[axis]
    if isinstance(sizes, list | tuple):
        parts = as_shape(sizes, "sizes", least=0)
        if sum(parts) != extent:
            raise ArgumentError(
                f"sizes must add up to {extent}, the extent of axis {axis}, but got {list(parts)}"
            )
    else:
        step = as_int(sizes, "sizes")
        if step < 1:
            raise ArgumentError(f"sizes must be at least 1, but got {step}")
        parts = tuple(min(step, extent - at) for at in range(0, extent, step))
    starts = [sum(parts[:i]) for i in range(len(parts))]
    return [
        view(
            a,
            [n if j == axis else m for j, m in enumerate(a.shape)],
            [at if j == axis else 0 for j in range(a.ndim)],
        )
        for at, n in zip(starts, parts, strict=True)
    ]


def full_like(a: Tensor, value: Number, dtype: DTypeLike | None = None) -> Tensor:
    """Return a new tensor of ``a``'s shape and, by default, data type, with one value everywhere."""
    check_tensor(a, "a")
    return full(a.shape, value, a.dtype if dtype is None else dtype)


def zeros_like(a: Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Return a new tensor of zeros of ``a``'s shape and, by default, data type."""
    return full_like(a, 0, dtype)


def ones_like(a: Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Return a new tensor of ones of ``a``'s shape and, by default, data type."""
    return full_like(a, 1, dtype)
