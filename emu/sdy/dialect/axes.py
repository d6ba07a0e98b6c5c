"""Algebra of axes and sub-axes.

A device's coordinate along an axis of size n is a number below n. Cutting the
axis into factors ``k1 * k2 * … = n`` writes that number with mixed-radix
digits, the first being the major one; the sub-axis ``"x":(m)k`` is the digit of
radix ``k`` after digits that take ``m`` values together. So two references to
one axis relate as the intervals ``[m, m * k)`` relate, on a logarithmic scale:
the full axis is ``[1, n)``, one contains another if its interval does, and two
can coexist if one set of factors has the ends of both, that is if each end
divides the next one.

All functions take and return ``AxisRef`` values or sequences of them. Those
without a mesh among their arguments need not know the size of an axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from emu.sdy.dialect.attributes import AxisRef, Mesh, SubAxisInfo, TensorSharding

# One axis


def sub_axis(name: str, pre_size: int, size: int) -> AxisRef:
    """Return the sub-axis ``"name":(pre_size)size``."""
    return AxisRef(name, SubAxisInfo(pre_size, size))


def pre_size(axis: AxisRef) -> int:
    """Return the pre-size of a sub-axis; 1 for a full axis."""
    return 1 if axis.sub_axis is None else axis.sub_axis.pre_size


def next_pre_size(axis: AxisRef, mesh: Mesh) -> int:
    """Return the pre-size of the sub-axis that follows; the size of a full axis."""
    sub = axis.sub_axis
    return mesh.axis_size(axis.name) if sub is None else sub.pre_size * sub.size


# Order


def axis_key(axis: AxisRef) -> tuple[str, int, float]:
    """Return a sort key by name, then by pre-size, then by size.

    The full axis comes after its sub-axes of pre-size 1 and before the others.
    """
    sub = axis.sub_axis
    if sub is None:
        return (axis.name, 1, math.inf)
    return (axis.name, sub.pre_size, sub.size)


def sort_key(mesh: Mesh) -> Callable[[AxisRef], tuple[int, int, float]]:
    """Return a sort key function: the mesh's order of axes, then as ``axis_key``."""
    places = {axis.name: place for place, axis in enumerate(mesh.axes)}

    def key(axis: AxisRef) -> tuple[int, int, float]:
        sub = axis.sub_axis
        if sub is None:
            return (places[axis.name], 1, math.inf)
        return (places[axis.name], sub.pre_size, sub.size)

    return key


def list_key(axes: Sequence[AxisRef]) -> tuple[int, list[tuple[str, int, float]]]:
    """Return a sort key of a list of axes: shorter lists first, then axis by axis."""
    return (len(axes), [axis_key(axis) for axis in axes])


# Two axes


def contains(axis: AxisRef, other: AxisRef) -> bool:
    """Return whether ``other`` is ``axis`` or a part of it."""
    if axis.name != other.name:
        return False
    a, b = axis.sub_axis, other.sub_axis
    if a is None:
        return True
    if b is None:
        return False
    return a.pre_size <= b.pre_size and a.pre_size * a.size >= b.pre_size * b.size


def is_prefix(axis: AxisRef, other: AxisRef) -> bool:
    """Return whether ``axis`` is ``other`` or the major part of a split of it."""
    return contains(other, axis) and pre_size(axis) == pre_size(other)


def is_strict_prefix(axis: AxisRef, other: AxisRef) -> bool:
    """Return whether ``axis`` is the major part of a split of ``other``, and not all of it."""
    return axis != other and is_prefix(axis, other)


def is_suffix(axis: AxisRef, other: AxisRef, mesh: Mesh) -> bool:
    """Return whether ``axis`` is ``other`` or the minor part of a split of it."""
    return contains(other, axis) and next_pre_size(axis, mesh) == next_pre_size(other, mesh)


def overlaps(axis: AxisRef, other: AxisRef) -> bool:
    """Return whether both refer to the same axis and share a part of it."""
    if axis.name != other.name:
        return False
    a, b = axis.sub_axis, other.sub_axis
    if a is None or b is None:
        return True
    return a.pre_size < b.pre_size * b.size and b.pre_size < a.pre_size * a.size


def _intervals_fit(a: SubAxisInfo, b: SubAxisInfo) -> bool:
    """Return whether some split of the axis has the ends of both sub-axes."""
    low, high = sorted((a.pre_size, b.pre_size))
    low_end, high_end = sorted((a.next_pre_size, b.next_pre_size))
    if low_end > high:
        return low_end % high == 0 and high % low == 0 and high_end % low_end == 0
    return high % low_end == 0


def can_coexist(axis: AxisRef, other: AxisRef) -> bool:
    """Return whether some split of the mesh has both.

    If they overlap, the shared part and the rest must be (sub-)axes; otherwise
    the part between them must be one.
    """
    if axis.name != other.name:
        return True
    a, b = axis.sub_axis, other.sub_axis
    return a is None or b is None or _intervals_fit(a, b)


def overlap(axis: AxisRef, other: AxisRef) -> AxisRef | None:
    """Return the shared part; None if there is none or they cannot coexist."""
    if axis.name != other.name:
        return None
    a, b = axis.sub_axis, other.sub_axis
    if a is None:
        return other
    if b is None:
        return axis
    start, end = max(a.pre_size, b.pre_size), min(a.next_pre_size, b.next_pre_size)
    if end <= start or not _intervals_fit(a, b):
        return None
    return sub_axis(axis.name, start, end // start)


def prefix_without_overlap(axis: AxisRef, other: AxisRef) -> AxisRef | None:
    """Return the largest prefix of ``axis`` that shares nothing with ``other``.

    None if there is no such prefix or they cannot coexist.
    """
    if axis.name != other.name:
        return axis
    if not can_coexist(axis, other):
        return None
    if not overlaps(axis, other):
        return axis
    start, end = pre_size(axis), pre_size(other)
    return sub_axis(axis.name, start, end // start) if start < end else None


def suffix_without_overlap(axis: AxisRef, other: AxisRef, mesh: Mesh) -> AxisRef | None:
    """Return the largest suffix of ``axis`` that shares nothing with ``other``.

    None if there is no such suffix or they cannot coexist.
    """
    if axis.name != other.name:
        return axis
    if not can_coexist(axis, other):
        return None
    if not overlaps(axis, other):
        return axis
    start, end = next_pre_size(other, mesh), next_pre_size(axis, mesh)
    return sub_axis(axis.name, start, end // start) if start < end else None


def greatest_common_prefix(axis: AxisRef, other: AxisRef) -> AxisRef | None:
    """Return the shorter one where it is a prefix of the other, else None."""
    if not can_coexist(axis, other):
        return None
    if is_prefix(axis, other):
        return axis
    if is_prefix(other, axis):
        return other
    return None


def can_merge(axis: AxisRef, other: AxisRef) -> bool:
    """Return whether ``other`` is the sub-axis that follows the sub-axis ``axis``."""
    a, b = axis.sub_axis, other.sub_axis
    if a is None or b is None or axis.name != other.name:
        return False
    return a.pre_size * a.size == b.pre_size


def merge(axis: AxisRef, other: AxisRef, mesh: Mesh) -> AxisRef:
    """Return the sub-axis that two consecutive ones (see ``can_merge``) make together."""
    a, b = axis.sub_axis, other.sub_axis
    if a is None or b is None or not can_merge(axis, other):
        raise ValueError(f"{axis} and {other} are not consecutive sub-axes")
    size = a.size * b.size
    if mesh.axis_size(axis.name) == size:
        return AxisRef(axis.name)
    return sub_axis(axis.name, a.pre_size, size)


# Lists of axes, major to minor


def total_size(axes: Iterable[AxisRef], mesh: Mesh) -> int:
    """Return the product of the sizes."""
    size = 1
    for axis in axes:
        size *= axis.size(mesh)
    return size


def expanded_size(axes: Iterable[AxisRef], prefix: Iterable[AxisRef], mesh: Mesh) -> int:
    """Return the product of the sizes after a prefix of the list."""
    return total_size(axes, mesh) // total_size(prefix, mesh)


def add_or_merge(axes: list[AxisRef], axis: AxisRef, mesh: Mesh) -> None:
    """Append an axis in place, merged with the last one if they are consecutive."""
    if axes and can_merge(axes[-1], axis):
        axes[-1] = merge(axes[-1], axis, mesh)
    else:
        axes.append(axis)


def sort_and_merge(axes: Iterable[AxisRef], mesh: Mesh) -> list[AxisRef]:
    """Return the axes in the mesh's order, consecutive sub-axes merged; none may overlap."""
    merged: list[AxisRef] = []
    for axis in sorted(axes, key=sort_key(mesh)):
        add_or_merge(merged, axis, mesh)
    return merged


def lists_overlap(axes: Iterable[AxisRef], others: Sequence[AxisRef]) -> bool:
    """Return whether any of ``axes`` overlaps any of ``others``."""
    return any(overlaps(axis, other) for axis in axes for other in others)


def first_overlapping(axis: AxisRef, ordered: Sequence[AxisRef]) -> int | None:
    """Return the index of the first axis of an ordered list that overlaps ``axis``, or None."""
    for index, other in enumerate(ordered):
        if overlaps(axis, other):
            return index
    return None


def prefix_without_overlap_of_list(axis: AxisRef, others: Iterable[AxisRef]) -> AxisRef | None:
    """Return the largest prefix of ``axis`` that overlaps none of ``others``."""
    prefix: AxisRef | None = axis
    for other in others:
        # In the common case, different axes, this costs one comparison.
        if other.name == axis.name and prefix is not None:
            prefix = prefix_without_overlap(prefix, other)
    return prefix


def truncate_by_overlaps(axes: Sequence[AxisRef], others: Sequence[AxisRef]) -> tuple[AxisRef, ...]:
    """Return the largest prefix of the list that overlaps none of ``others``.

    A prefix of the first axis that overlaps may be part of the result.
    """
    for index, axis in enumerate(axes):
        prefix = prefix_without_overlap_of_list(axis, others)
        if prefix is None:
            return tuple(axes[:index])
        if prefix != axis:
            return (*axes[:index], prefix)
    return tuple(axes)


def common_prefix_of_lists(
    axes: Iterable[AxisRef], others: Iterable[AxisRef]
) -> tuple[AxisRef, ...]:
    """Return the longest list that is a prefix of both; its last axis may be a part of theirs."""
    common: list[AxisRef] = []
    for axis, other in zip(axes, others, strict=False):
        if axis == other:
            common.append(axis)
            continue
        prefix = greatest_common_prefix(axis, other)
        if prefix is not None:
            common.append(prefix)
        break
    return tuple(common)


def is_strict_prefix_of_list(axes: Sequence[AxisRef], others: Sequence[AxisRef]) -> bool:
    """Return whether a list is a prefix of another and not equal to it.

    All but the last axis must be equal; the last may be a prefix of its
    counterpart.
    """
    if not axes:
        return bool(others)
    last = len(axes) - 1
    if len(axes) > len(others) or tuple(axes[:last]) != tuple(others[:last]):
        return False
    if len(axes) == len(others):
        return is_strict_prefix(axes[last], others[last])
    return is_prefix(axes[last], others[last])


def axis_set_difference(
    axes: Sequence[AxisRef], others: Sequence[AxisRef], mesh: Mesh
) -> list[AxisRef]:
    """Return the parts of ``axes`` that are in none of ``others``, in the order of ``axes``.

    An axis that overlaps is split, and the parts before and after the overlap stay.
    """
    if tuple(axes) == tuple(others):
        return []
    ordered = sorted(others, key=axis_key)
    left: list[AxisRef] = []
    for axis in axes:
        rest: AxisRef | None = axis
        while rest is not None:
            index = first_overlapping(rest, ordered)
            if index is None:
                left.append(rest)
                break
            prefix = prefix_without_overlap(rest, ordered[index])
            if prefix is not None:
                left.append(prefix)
            rest = suffix_without_overlap(rest, ordered[index], mesh)
    return left


# The whole mesh


def ordered_axes(of: TensorSharding | Iterable[AxisRef], mesh: Mesh) -> list[AxisRef]:
    """Return all axes of the mesh, split wherever one of the given axes begins or ends.

    Args:
        of: Axes, or a sharding, of which the axes of the dimensions and the
            unreduced axes count, but not the replicated ones.
        mesh: The mesh, whose order of axes is kept.
    """
    if isinstance(of, TensorSharding):
        of = [*(axis for dim in of.dims for axis in dim.axes), *of.unreduced_axes]
    ends: dict[str, set[int]] = {axis.name: {1, axis.size} for axis in mesh.axes}
    cut: set[str] = set()
    for axis in of:
        if axis.sub_axis is not None:
            ends[axis.name] |= {axis.sub_axis.pre_size, axis.sub_axis.next_pre_size}
            cut.add(axis.name)
    ordered = []
    for name, at in ends.items():
        if name not in cut:
            ordered.append(AxisRef(name))
            continue
        places = sorted(at)
        for start, end in pairwise(places):
            ordered.append(sub_axis(name, start, end // start))
    return ordered


def replica_groups(reduction_axes: Sequence[AxisRef], mesh: Mesh) -> list[list[int]]:
    """Return the groups of devices that differ only along the given axes.

    Args:
        reduction_axes: The axes, which must not overlap; devices of a group are
            ordered by their coordinates along them, the first axis being major.
        mesh: The mesh; a device is its id in ``device_ids``, or its position.
    """
    pieces = ordered_axes(reduction_axes, mesh)
    sizes = [axis.size(mesh) for axis in pieces]
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    inner = [pieces.index(axis) for axis in reduction_axes]
    outer = [i for i in range(len(pieces)) if i not in inner]
    devices = mesh.device_ids or range(mesh.total_size)

    def offsets(places: Sequence[int]) -> list[int]:
        found = [0]
        for place in places:
            found = [base + strides[place] * d for base in found for d in range(sizes[place])]
        return found

    within = offsets(inner)
    return [[devices[base + step] for step in within] for base in offsets(outer)]
