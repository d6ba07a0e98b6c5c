"""Arrays of any strides as operands of a kernel: their checks, and the order in which they are walked.

The operands of one call have one shape and differ in strides and in the size of an element. A walk
is three nested loops: over *planes*, over the *rows* of a plane, over the *inner* elements of a row.
Axes that continue each other in every operand are joined, so that dense arrays are a single row.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from emu.kernels.core.address import array_data, as_pointer
from emu.kernels.core.annotations import Array
from emu.kernels.core.checks import check
from emu.kernels.core.jit import carray, jit
from emu.kernels.errors import ArgumentError
from emu.kernels.strided.axes import order_and_join
from emu.kernels.strided.overlap import lies_apart, shares_memory


class Planes(NamedTuple):
    """The axes around the rows, as compiled code takes them.

    Attributes:
        total: Number of planes.
        table: Address of the extent and the steps of each axis, flat, ``int64``.
        axes: Number of axes.
    """

    total: int
    table: int
    axes: int


class Sides(NamedTuple):
    """The two operands of a conversion: addresses (or the ``id()`` of arrays), and bytes of an element."""

    target: int
    source: int
    target_size: int
    source_size: int


class Walk(NamedTuple):
    """Order in which all elements are visited; a step is the stride of one operand, in bytes.

    Attributes:
        inner: Extent and steps of the innermost loop.
        rows: Extent and steps of the loop around it.
        planes: The axes around that.
        table: What ``planes.table`` is the address of; keep it while the walk is in use.
    """

    inner: tuple[int, ...]
    rows: tuple[int, ...]
    planes: Planes
    table: Array


_NO_AXES = np.empty(0, np.int64)
_ONE_PLANE = Planes(1, 0, 0)


def walk_arrays(target: Array, source: Array) -> Walk:
    """Order and join the axes of a target and a source of its shape, which is not empty."""
    if target.flags.c_contiguous and source.flags.c_contiguous:
        inner = (target.size, target.itemsize, source.itemsize)
        return Walk(inner, (1, 0, 0), _ONE_PLANE, _NO_AXES)
    return walk(target.shape, target.strides, source.strides)


def walk(shape: tuple[int, ...], *strides: tuple[int, ...]) -> Walk:
    """Order and join the axes of some operands.

    Args:
        shape: Their common shape; no extent is 0.
        *strides: Strides of each operand. The first operand's order in memory decides.

    Returns:
        The walk.
    """
    joined, _ = order_and_join(shape, *strides, forward=False)
    one = (1, *(0 for _ in strides))
    inner = joined.pop() if joined else one
    rows = joined.pop() if joined else one
    if not joined:
        return Walk(inner, rows, _ONE_PLANE, _NO_AXES)
    table = np.array(joined, np.int64)
    planes = Planes(prod(axis[0] for axis in joined), data(table), len(joined))
    return Walk(inner, rows, planes, table)


def data(array: Array) -> int:
    """Return the address of an array's first element."""
    return int(array_data(id(array)))


def check_operand(name: str, value: object) -> Array:
    """Return ``value`` if it is an array with elements at aligned addresses.

    Raises:
        ArgumentError: It is not.
    """
    array = check.ndarray(name, value)
    if not array.flags.aligned:
        raise ArgumentError(f"{name} must have aligned elements, but got strides {array.strides}")
    return array


def check_target(
    name: str, target: object, sources: dict[str, Array], like: Array | None = None
) -> Array:
    """Return ``target`` if it is an array that a kernel may write.

    Args:
        name: What an error calls it.
        target: The array.
        sources: Arrays that are read meanwhile; none may share memory with it.
        like: A source that it may replace element by element, if it lies in the same place.

    Raises:
        ArgumentError: It cannot be written, overlaps itself or a source.
    """
    array = check.writable(name, check_operand(name, target))
    # Axes that interleave are refused, too, even where no two elements meet.
    if not (
        array.flags.c_contiguous
        or lies_apart(array.shape, array.strides, array.itemsize, at_most=0)
    ):
        raise ArgumentError(
            f"{name} must not overlap itself, but got shape {array.shape} with strides "
            f"{array.strides}"
        )
    for other, source in sources.items():
        if not np.may_share_memory(array, source) or _same_place(array, source, like):
            continue
        if shares_memory(array, source) is not False:  # None: strides too tangled to tell
            raise ArgumentError(
                f"{name} must not share memory with {other}, but got arrays that overlap"
            )
    return array


def _same_place(target: Array, source: Array, like: Array | None) -> bool:
    return (
        source is like
        and data(target) == data(source)
        and target.strides == source.strides
        and target.itemsize == source.itemsize
    )


def output(
    name: str,
    out: object,
    shape: tuple[int, ...],
    dtype: np.dtype[np.generic],
    sources: dict[str, Array],
    like: Array | None = None,
) -> Array:
    """Check an array for the result, or make one, with its axes in the order of ``like``.

    Raises:
        ArgumentError: ``out`` has another shape or dtype, or :func:`check_target` refuses it.
    """
    if out is None:
        if like is not None and like.shape == shape:
            return np.empty_like(like, dtype, subok=False)
        return np.empty(shape, dtype)
    array = check.array_shape(name, check_operand(name, out), shape)
    check.array_dtype(name, array, (dtype,))
    return check_target(name, out, sources, like)


@jit()
def plane_offset(planes: Planes, plane: int, operands: int, operand: int) -> int:
    """Return the offset of a plane in one of the operands, in bytes."""
    table = carray(as_pointer(planes.table), (planes.axes * (operands + 1),), np.int64)
    rest = plane
    offset = 0
    for axis in range(planes.axes - 1, -1, -1):
        at = axis * (operands + 1)
        offset += (rest % table[at]) * table[at + 1 + operand]
        rest //= table[at]
    return offset
