"""Blocks of tensors in memory: the addresses of their elements, and which lie inside of the tensor.

Descriptors and block pointers name a block by the tensor's first address, extents and strides and by the
index at which the block begins. Only scalars depend on where that is. The tiles are what pointers and masks
of programs that use ``tl.arange`` look like, so that compilers find contiguous rows and blocks wholly inside:

* The block's origin is added to the pointer while that is a scalar, and each axis then adds ``arange * stride``.
* An axis is inside where ``first <= arange < last``, and both ends are scalars within ``[0, extent]``. So nothing
  wraps around, however far outside the block begins.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

from emu.tile.ops import Code
from emu.triton.language.arithmetic import clamp, where
from emu.triton.language.constants import base_type, composite, composite_type, unwrap
from emu.triton.language.conversion import cast_to, constant
from emu.triton.language.creation import arange
from emu.triton.language.shapes import Shape, item, reshape
from emu.triton.language.types import dtype, int32, int64
from emu.triton.language.values import tensor
from emu.triton.language.values import tuple as language_tuple

Scalars = builtins.tuple[tensor, ...]
"""Integers of the running program, one an axis."""


class stored_type(composite_type):
    """Type of values that stand for a tensor in memory.

    Their parts are pointers and integers of the running program; all else is part of the type.
    """

    def part_types(self) -> dict[str, base_type]:
        """Return the types of the parts by name, in order."""
        raise NotImplementedError

    def make(self, parts: Sequence[Any]) -> composite:
        """Return the value of this type that consists of these parts."""
        raise NotImplementedError

    @property
    def types(self) -> list[base_type]:  # type: ignore[override]  # computed, never set
        """Types of the parts."""
        return list(self.part_types().values())

    @property
    def known(self) -> list[bool]:  # type: ignore[override]  # computed, never set
        """Whether each part is known at compile time: none is."""
        return [False] * len(self.types)

    def with_types(self, types: Sequence[base_type]) -> stored_type:
        """Return the type itself: its parts have one type each."""
        return self

    def is_like(self, other: composite_type) -> bool:
        """Return whether both are the same type."""
        return self == other


def known(value: tensor) -> int | None:
    """Return the value of an integer that is known when the kernel is compiled, else ``None``."""
    owner = value.handle.owner
    if owner is None or owner.code is not Code.CONSTANT:
        return None
    number = owner.attributes["value"]
    return int(number) if isinstance(number, int) else None


def sequence(name: str, values: object) -> list[object]:
    """Return the items of a list or tuple of any kind.

    Raises:
        TypeError: It is none.
    """
    plain = unwrap(values)
    if isinstance(plain, language_tuple):
        return list(plain.values)
    if not isinstance(plain, builtins.tuple | list):
        raise TypeError(f"{name} must be a list or tuple, but got {shown(plain)}")
    return list(plain)


def scalar(name: str, value: object, to: dtype) -> tensor:
    """Return an integer as a scalar of an integer dtype; wider tensors are cut.

    Raises:
        TypeError: It is not an integer, or a tensor of more than one element.
        ValueError: A number does not fit into the dtype.
    """
    plain = unwrap(value)
    if isinstance(plain, tensor):
        if plain.type.numel != 1 or not plain.dtype.is_int():
            raise TypeError(f"{name} must be an integer or a scalar of them, but got {plain}")
        return cast_to(item(plain), to)
    if not hasattr(plain, "__index__"):
        raise TypeError(f"{name} must be an integer or a scalar of them, but got {shown(plain)}")
    number = operator.index(plain)
    if not to.get_int_min_value() <= number <= to.get_int_max_value():
        raise ValueError(f"{name} must fit into {to}, but got {number}")
    return constant(number, to)


def scalars(name: str, values: object, to: dtype) -> Scalars:
    """Return several integers as scalars of a dtype; errors are those of :func:`scalar`."""
    return builtins.tuple(
        scalar(f"{name}[{i}]", value, to) for i, value in enumerate(sequence(name, values))
    )


def constants(name: str, values: object) -> Shape:
    """Return integers that are known when the kernel is compiled.

    Raises:
        TypeError: One is not known, or not an integer.
    """
    found = []
    for i, value in enumerate(sequence(name, values)):
        plain = unwrap(value)
        number = known(plain) if isinstance(plain, tensor) and not plain.extents else plain
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(
                f"{name}[{i}] must be an int that is known at compile time, but got {shown(plain)}"
            )
        found.append(number)
    return builtins.tuple(found)


def shown(value: object) -> str:
    """Return a value as errors show it."""
    return str(value) if isinstance(value, tensor) else f"{value!r} of type {type(value).__name__}"


def along(numbers: tensor, axis: int, rank: int) -> tensor:
    """Return a tensor of one axis as one of ``rank`` axes, of which all others have extent 1."""
    shape = [1] * rank
    shape[axis] = numbers.extents[0]
    return reshape(numbers, shape)


def _lanes(shape: Shape, axis: int) -> tensor:
    return along(arange(0, shape[axis]), axis, len(shape))


def scaled(numbers: tensor, stride: tensor) -> tensor:
    """Return integers times a stride, in 64 bits; as they are where the stride is known to be 1."""
    return numbers if known(stride) == 1 else cast_to(numbers, int64) * stride


def pointers(base: tensor, strides: Scalars, starts: Scalars, shape: Shape) -> tensor:
    """Return the pointers to the elements of a block.

    Args:
        base: Pointer to the tensor's element at index 0.
        strides: Of the tensor, int64, in elements.
        starts: Index of the block's first element.
        shape: Of the block.
    """
    at = base
    for start, stride in zip(starts, strides, strict=True):
        if known(start) != 0:
            at = at + scaled(cast_to(start, int64), stride)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if extent > 1:
            at = at + scaled(_lanes(shape, axis), stride)
    # An axis of extent 1 adds nothing, but is an axis of the result.
    return at if at.extents == shape else _widened(at, shape)


def _widened(at: tensor, shape: Shape) -> tensor:
    for axis in range(len(shape)):
        at = at + _lanes(shape, axis)
    return at


def mask(
    extents: Scalars, starts: Scalars, shape: Shape, axes: Sequence[int] | None = None
) -> tensor | None:
    """Return which elements of a block lie inside of a tensor; ``None``: all of them do.

    Args:
        extents: Of the tensor.
        starts: Index of the block's first element.
        shape: Of the block.
        axes: Those that are looked at. Default: all.
    """
    looked_at = range(len(shape)) if axes is None else axes
    single = [axis for axis in looked_at if shape[axis] == 1]
    wide = [axis for axis in looked_at if shape[axis] > 1]
    # Scalars cost nothing per element: what an axis of extent 1 says is put into the end of another.
    allowed: tensor | None = None
    for axis in single:
        start, extent = starts[axis], extents[axis]
        if not _surely_inside(start, extent, 1):
            here = _between(start, extent)
            allowed = here if allowed is None else allowed & here
    if allowed is not None and not wide:
        wide = single[-1:]
    found: tensor | None = None
    for axis in wide:
        part = _axis_mask(extents[axis], starts[axis], shape, axis, allowed)
        if part is not None:
            found = part if found is None else found & part
            allowed = None
    return found


def _surely_inside(start: tensor, extent: tensor, count: int) -> bool:
    first, limit = known(start), known(extent)
    return first is not None and limit is not None and 0 <= first <= limit - count


def _between(start: tensor, extent: tensor) -> tensor:
    wide = cast_to(start, int64)
    below = wide < cast_to(extent, int64)
    first = known(start)
    return below if first is not None and first >= 0 else (wide >= 0) & below


def _axis_mask(
    extent: tensor, start: tensor, shape: Shape, axis: int, allowed: tensor | None
) -> tensor | None:
    """Return which elements are inside along one axis, none of them where ``allowed`` is false."""
    count = shape[axis]
    if allowed is None and _surely_inside(start, extent, count):
        return None
    lanes, first = _lanes(shape, axis), known(start)
    last = _within(cast_to(extent, int64) - cast_to(start, int64), count)
    if allowed is not None:
        last = where(allowed, last, constant(0, int32))
    inside = lanes < last
    if first is not None and first >= 0:
        return inside
    return (lanes >= _within(-cast_to(start, int64), count)) & inside


def _within(value: tensor, count: int) -> tensor:
    """Return a number of lanes, from 0 to ``count``, as int32."""
    low, high = constant(0, int64), constant(count, int64)
    return cast_to(clamp(value, low, high), int32)
