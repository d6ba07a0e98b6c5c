"""Plans of collectives that convert one sharding to another.

The current sharding starts as that of the input and changes, one collective at a
time, until it is the target. The remaining difference is kept per dimension:

* ``have``: axes of the current sharding after its common prefix with the target;
* ``want``: axes of the target after that common prefix.

The plan is complete when both are empty everywhere. Sub-axes of the two are first
split at each other's ends, so that two axes that overlap are equal and can be
looked up.

The collectives are tried in the order of their later cost: an all-slice makes the
tensor smaller and sends nothing; a collective permute and all-to-alls keep its
size; an all-gather makes it larger. If every axis size is a power of two (more
generally, if of any two sizes one divides the other), one round is enough;
otherwise there are two.

Slicing never makes more shards of a dimension than the target has (its
*capacity*), as an all-to-all would have to undo that, except where capacity is
lent to a dimension for an all-to-all that follows. A permute keeps the number of
shards of each dimension and may choose the axes anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    ListOfAxisRefLists,
    Mesh,
    TensorSharding,
)
from emu.sdy.dialect.axes import (
    add_or_merge,
    axis_key,
    contains,
    first_overlapping,
    next_pre_size,
    overlap,
    pre_size,
    prefix_without_overlap,
    sub_axis,
    suffix_without_overlap,
    total_size,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One collective of a plan.

    Attributes:
        op: Name of the operation, ``"sdy.all_gather"``.
        sharding: Sharding of its result.
        axes: Axes per dimension, of an all_gather or all_slice; axes and dimensions, of an
            all_to_all; None for a collective_permute.
    """

    op: str
    sharding: TensorSharding
    axes: ListOfAxisRefLists | AllToAllParamList | None = None


def plan(
    source: TensorSharding, target: TensorSharding, mesh: Mesh, shape: Sequence[int | None]
) -> list[Step]:
    """Return the collectives that convert a tensor from sharding ``source`` to ``target``.

    Args:
        source: The current sharding; unreduced along the same axes as the target.
        target: The target sharding; its mesh has the same axes, and may order the
            devices differently.
        mesh: The mesh of ``source``.
        shape: The global shape, None for a dynamic dimension.
    """
    return _Planner(source, target, mesh, shape).run()


def _divides(a: int, b: int) -> bool:
    return a % b == 0 or b % a == 0


def _aligned(axes: list[AxisRef], ordered: Sequence[AxisRef], mesh: Mesh) -> list[AxisRef]:
    """Return ``axes``, each split at the ends of those of ``ordered`` that it overlaps."""
    pieces: list[AxisRef] = []
    for axis in axes:
        rest: AxisRef | None = axis
        index = first_overlapping(axis, ordered)
        while rest is not None and index is not None and index < len(ordered):
            other = ordered[index]
            common = overlap(rest, other)
            if common is None or contains(other, rest):
                break
            prefix = prefix_without_overlap(rest, other)
            if prefix is not None:
                pieces.append(prefix)
            pieces.append(common)
            rest = suffix_without_overlap(rest, other, mesh)
            index += 1
        if rest is not None:
            pieces.append(rest)
    return pieces


def _remove_from_back(current: list[AxisRef], axes: Sequence[AxisRef]) -> None:
    """Remove axes from the end of a list, in which they may be merged."""
    for axis in reversed(axes):
        prefix = prefix_without_overlap(current[-1], axis)
        if prefix is None:
            current.pop()
        else:
            current[-1] = prefix


def _common_suffix(axes: Sequence[AxisRef], others: Sequence[AxisRef]) -> list[AxisRef]:
    pairs = zip(reversed(axes), reversed(others), strict=False)
    return [axis for axis, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)][::-1]


@dataclass(slots=True)
class _Dim:
    """State of one dimension, between two steps.

    After removing the axes of ``have`` from the end of ``current``, the common prefix
    with the target is left; with the axes of ``want`` after it, that is the target.

    Attributes:
        current: Axes of the current sharding, consecutive sub-axes merged.
        have: Axes at the end of ``current`` that are not in their final place.
        want: Axes of the target that are missing after the common prefix.
        capacity: Factor by which the number of shards may still grow.
    """

    current: list[AxisRef]
    have: list[AxisRef]
    want: list[AxisRef]
    capacity: int = 1

    def fit(self, axis: AxisRef, mesh: Mesh) -> tuple[AxisRef | None, AxisRef | None]:
        """Return the part of an axis that fits into the capacity, and the rest.

        The capacity shrinks by the size of that part.
        """
        size, capacity = axis.size(mesh), self.capacity
        if capacity <= 1 or not _divides(size, capacity):
            return None, None
        if capacity >= size:
            self.capacity = capacity // size
            return axis, None
        taken = sub_axis(axis.name, pre_size(axis), capacity)
        left = sub_axis(axis.name, next_pre_size(taken, mesh), size // capacity)
        self.capacity = 1
        return taken, left


class _Planner:
    """The state of a plan, and one method for each collective.

    Attributes:
        dims: State of each dimension.
        have_set: All axes in the dimensions' ``have``, and possibly gathered ones.
        places: Dimension and position in its ``want`` of each wanted axis.
    """

    def __init__(
        self,
        source: TensorSharding,
        target: TensorSharding,
        mesh: Mesh,
        shape: Sequence[int | None],
    ) -> None:
        self.mesh = mesh
        self.shape = shape
        self.mesh_name, self.target_mesh_name = source.mesh, target.mesh
        self.unreduced, self.reduction_op = target.unreduced_axes, target.reduction_op
        self.steps: list[Step] = []
        ordered_have = sorted((axis for dim in source.dims for axis in dim.axes), key=axis_key)
        ordered_want = sorted((axis for dim in target.dims for axis in dim.axes), key=axis_key)
        self.dims: list[_Dim] = []
        for old, new in zip(source.dims, target.dims, strict=True):
            have = _aligned(list(old.axes), ordered_want, mesh)
            want = _aligned(list(new.axes), ordered_have, mesh)
            while have and want and have[0] == want[0]:
                del have[0], want[0]
            self.dims.append(_Dim(list(old.axes), have, want))
        self.have_set = {axis for dim in self.dims for axis in dim.have}
        self.places: dict[AxisRef, tuple[int, int]] = {}
        self._index_want()

    def run(self) -> list[Step]:
        """Return all steps."""
        for _ in range(2):
            if self._done():
                break
            self._all_slice()
            self._collective_permute()
            # First all-to-alls that bring axes to their final place, so that
            # several with one target come in the right order; then any.
            self._all_to_alls(anywhere=False)
            self._all_to_alls(anywhere=True)
            self._all_gather()
        return self.steps

    def _done(self) -> bool:
        same_mesh = self.mesh_name == self.target_mesh_name
        return same_mesh and not any(dim.have or dim.want for dim in self.dims)

    def _index_want(self) -> None:
        """Rebuild the table of the dimension and position of each wanted axis.

        Needed where a wanted axis may have been split. Positions are only compared
        with each other, so they stay valid when axes are taken from the front,
        which shifts all of a dimension alike.
        """
        self.places.clear()
        for number, dim in enumerate(self.dims):
            for index, axis in enumerate(dim.want):
                self.places.setdefault(axis, (number, index))

    def _emit(self, op: str, axes: ListOfAxisRefLists | AllToAllParamList | None = None) -> None:
        axes_per_dim = [dim.current for dim in self.dims]
        sharding = TensorSharding.closed_with(
            self.mesh_name, axes_per_dim, self.unreduced, self.reduction_op
        )
        self.steps.append(Step(op, sharding, axes))

    # Fitting axes into dimensions

    def _distribute(
        self,
        available_for: Callable[[int], list[AxisRef]],
        *,
        to_front: bool,
        taken: Callable[[AxisRef, int], None] = lambda _axis, _dim: None,
    ) -> None:
        """Add available axes to ``have`` as far as the capacities allow.

        Args:
            available_for: Returns the axes for a dimension, which are taken from its
                front; one that is taken in part leaves its rest at the front.
            to_front: Whether to put them before (rather than after) existing axes.
            taken: Called with each axis added and its dimension.
        """
        split: list[AxisRef] = []
        for number, dim in enumerate(self.dims):
            place = 0 if to_front else len(dim.have)
            available = available_for(number)
            index = 0
            while index < len(available) and dim.capacity > 1:
                fits, rest = dim.fit(available[index], self.mesh)
                if fits is None:
                    index += 1
                    continue
                del available[index]
                dim.have.insert(place, fits)
                place += 1
                self.have_set.add(fits)
                taken(fits, number)
                if rest is not None:
                    split.append(fits)
                    available.insert(0, rest)
                    index += 1
        if split:
            # Wanted axes that were taken in part are split alike, to be found by lookup.
            split.sort(key=axis_key)
            for dim in self.dims:
                dim.want = _aligned(dim.want, split, self.mesh)

    # All-slice

    def _all_slice(self) -> None:
        slices: list[list[AxisRef]] = [[] for _ in self.dims]

        def take(axis: AxisRef, dim: int) -> None:
            add_or_merge(slices[dim], axis, self.mesh)
            add_or_merge(self.dims[dim].current, axis, self.mesh)

        for dim in self.dims:
            wanted = total_size(dim.want, self.mesh)
            dim.capacity = wanted // math.gcd(total_size(dim.have, self.mesh), wanted)
        for number, dim in enumerate(self.dims):
            for axis in self._slices_for_all_to_all(number):
                dim.have.append(axis)
                self.have_set.add(axis)
                take(axis, number)
        available: list[AxisRef] = []
        for number in range(len(self.dims)):
            available += self._slice_in_place(number, take)
        self._distribute(lambda _dim: available, to_front=False, taken=take)
        self._index_want()
        if any(slices):
            self._emit("sdy.all_slice", ListOfAxisRefLists(tuple(map(tuple, slices))))

    def _slices_for_all_to_all(self, source: int) -> list[AxisRef]:
        """Return axes to slice in ``source`` so that one all-to-all moves them along.

        The all-to-all takes the last axes of ``source`` to a dimension that wants these
        and more axes after them; slicing the latter in ``source`` saves the permute that
        would bring them together. This requires that neither dimension has misplaced
        axes, that the moving axes are in order, and that the size of ``source`` is
        divisible. The target's capacity is lent to ``source``.
        """
        dim = self.dims[source]
        if not dim.have or dim.want or dim.have[-1] not in self.places:
            return []
        target = self.places[dim.have[-1]][0]
        other = self.dims[target]
        if other.have:
            return []
        start = other.want.index(dim.have[-1]) + 1
        added = list(takewhile(lambda axis: axis not in self.have_set, other.want[start:]))
        if not added:
            return []
        moved = _common_suffix(dim.have, other.want[:start])
        staying = dim.have[: len(dim.have) - len(moved)]
        if any(self.places.get(axis, (None, 0))[0] == target for axis in staying):
            return []
        size, count = self.shape[source], total_size(added, self.mesh)
        if size is None or size % (total_size(dim.current, self.mesh) * count):
            return []
        other.capacity //= total_size(moved, self.mesh) * count
        return added

    def _slice_in_place(self, number: int, take: Callable[[AxisRef, int], None]) -> list[AxisRef]:
        """Slice a dimension along axes that it wants; return the axes that do not fit."""
        dim = self.dims[number]
        available: list[AxisRef] = []
        index = 0
        while index < len(dim.want):
            axis = dim.want[index]
            if axis in self.have_set:
                index += 1
                continue
            fits, rest = dim.fit(axis, self.mesh)
            if fits is None:
                available.append(axis)
                index += 1
                continue
            take(fits, number)
            if not dim.have and index == 0:
                del dim.want[0]
            else:
                self.have_set.add(fits)
                dim.have.append(fits)
                dim.want[index] = fits
                index += 1
            if rest is not None:
                dim.want.insert(index, rest)
                available.append(rest)
                index += 1
        return available

    # Collective permute

    def _collective_permute(self) -> None:
        # Whether to permute is decided separately from how, since an unneeded
        # permute would not keep the order of axes.
        if self._should_permute():
            self._permute()
        elif self.mesh_name == self.target_mesh_name:
            return
        # Another order of devices requires a permute, even with the same axes.
        self.mesh_name = self.target_mesh_name
        self._emit("sdy.collective_permute")

    def _should_permute(self) -> bool:
        """Return whether some axes can be replaced or have to be reordered.

        One reason is enough: axes of a dimension can be replaced by wanted ones, or an
        axis to gather by one to slice; axes with one destination are separated or out of
        order; an axis to gather comes after one to move.
        """
        to_gather: AxisRef | None = None
        to_slice: AxisRef | None = None
        for number, dim in enumerate(self.dims):
            if dim.have and dim.want:
                first, wanted = dim.have[0].size(self.mesh), dim.want[0].size(self.mesh)
                if _divides(first, wanted):
                    return True
            for axis in dim.want:
                if axis not in self.have_set:
                    to_slice = axis
            if self._is_out_of_order(number):
                return True
            for axis in dim.have:
                if axis not in self.places:
                    to_gather = axis
        if to_gather is None or to_slice is None:
            return False
        return _divides(to_slice.size(self.mesh), to_gather.size(self.mesh))

    def _is_out_of_order(self, dim: int) -> bool:
        last_dim: int | None = None
        last_index = 0
        seen: set[int] = set()
        for axis in self.dims[dim].have:
            place = self.places.get(axis)
            if place is None:
                if last_dim is not None and not self.dims[dim].want:
                    return True
                last_dim = None
                continue
            destination, index = place
            follows = last_dim == destination and index == last_index + 1
            if not follows and (destination == dim or destination in seen):
                return True
            seen.add(destination)
            last_dim, last_index = destination, index
        return False

    def _permute(self) -> None:
        """Choose the axes of each dimension anew, with the same number of shards.

        First wanted axes where they belong, then wanted axes anywhere, then axes to
        gather where they were, then axes to gather anywhere. The latter go to the front,
        so that the wanted ones can leave before the gathering.
        """
        available: list[AxisRef] = []
        self.have_set.clear()
        old = [self._place_wanted(dim, available) for dim in self.dims]
        self._distribute(lambda _dim: available, to_front=False)
        self._distribute(lambda dim: old[dim], to_front=True)
        left = [axis for axes in old for axis in axes]
        self._distribute(lambda _dim: left, to_front=True)
        self._index_want()
        for dim in self.dims:
            for axis in dim.have:
                add_or_merge(dim.current, axis, self.mesh)

    def _place_wanted(self, dim: _Dim, available: list[AxisRef]) -> list[AxisRef]:
        """Replace axes of a dimension by those that it wants.

        Wanted ones that do not fit go to ``available``. Returns the old axes that are
        not wanted, those that were not replaced first.
        """
        # The permute keeps the number of shards, so the removed axes are the capacity.
        shards = dim.capacity = total_size(dim.have, self.mesh)
        _remove_from_back(dim.current, dim.have)
        while dim.capacity > 1 and dim.want:
            fits, rest = dim.fit(dim.want[0], self.mesh)
            if fits is None:
                break
            del dim.want[0]
            add_or_merge(dim.current, fits, self.mesh)
            if rest is not None:
                dim.want.insert(0, rest)
        available += dim.want
        unwanted = [axis for axis in dim.have if axis not in self.places]
        dim.have.clear()
        # Axes that the wanted ones replaced come last, split where those end.
        capacity, dim.capacity = dim.capacity, shards // dim.capacity
        replaced: list[AxisRef] = []
        while dim.capacity > 1 and unwanted:
            fits, rest = dim.fit(unwanted[0], self.mesh)
            if fits is None:
                break
            del unwanted[0]
            replaced.append(fits)
            if rest is not None:
                unwanted.insert(0, rest)
        dim.capacity = capacity
        return unwanted + replaced

    # All-to-all

    def _all_to_alls(self, *, anywhere: bool) -> None:
        for source in range(len(self.dims)):
            while (param := self._all_to_all(source, anywhere=anywhere)) is not None:
                self._emit("sdy.all_to_all", AllToAllParamList((param,)))

    def _all_to_all(self, source: int, *, anywhere: bool) -> AllToAllParam | None:
        """Move the last axes of ``source`` that go to one other dimension."""
        have = self.dims[source].have
        target: int | None = None
        start = len(have)
        while start:
            place = self.places.get(have[start - 1])
            if place is None or place[0] == source or target not in (None, place[0]):
                break
            target = place[0]
            start -= 1
        if target is None:
            return None
        other = self.dims[target]
        moved = have[start:]
        if not anywhere and other.want[: len(moved)] != moved:
            return None
        _remove_from_back(self.dims[source].current, moved)
        del have[start:]
        merged: list[AxisRef] = []
        for axis in moved:
            add_or_merge(merged, axis, self.mesh)
            add_or_merge(other.current, axis, self.mesh)
            if not other.have and other.want and other.want[0] == axis:
                del other.want[0]
                self.have_set.discard(axis)
            else:
                other.have.append(axis)
                self.have_set.add(axis)
        return AllToAllParam(tuple(merged), source, target)

    # All-gather

    def _all_gather(self) -> None:
        axes = tuple(tuple(self._gather(dim)) for dim in self.dims)
        if any(axes):
            self._emit("sdy.all_gather", ListOfAxisRefLists(axes))

    def _gather(self, dim: _Dim) -> list[AxisRef]:
        """Gather a dimension if its last axis is not wanted anywhere, and return the axes.

        Then all its axes are gathered, including axes before the last one that are
        wanted elsewhere (which remain in ``have_set``), as in Shardy.
        """
        if not dim.have or dim.have[-1] in self.places:
            return []
        self.have_set.discard(dim.have[-1])
        _remove_from_back(dim.current, dim.have)
        gathered: list[AxisRef] = []
        for axis in dim.have:
            add_or_merge(gathered, axis, self.mesh)
        dim.have.clear()
        return gathered
