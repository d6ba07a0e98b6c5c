"""Rules for shardings of any tensor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from emu.mlir.ir import Operation
from emu.mlir.symbols import lookup
from emu.mlir.types import DialectType, TensorType, TupleType, Type, UnrankedTensorType
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    ManualAxes,
    Mesh,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.axes import axis_key, can_merge
from emu.sdy.dialect.verify.problems import Problem, axis_text, value_prefix

Shape = tuple[int | None, ...]

_SHAPED = re.compile(r"(?:vector|memref)<((?:(?:\d+|\?)x)*)")


# Types


def is_shaped(type_: Type) -> bool:
    """Return whether a type is a tensor, a vector or a memref."""
    if isinstance(type_, DialectType):
        return not type_.dialect and _SHAPED.match(type_.body) is not None
    return isinstance(type_, TensorType | UnrankedTensorType)


def shape_of(type_: Type) -> Shape | None:
    """Return the shape of a shaped type; None if it has no rank."""
    if isinstance(type_, TensorType):
        return type_.shape
    if isinstance(type_, DialectType) and not type_.dialect:
        match = _SHAPED.match(type_.body)
        if match is not None and not type_.body.startswith("memref<*"):
            sizes = match[1].split("x")[:-1]
            return tuple(None if size == "?" else int(size) for size in sizes)
    return None


# What is around an operation


def mesh_of(sharding: TensorSharding, op: Operation) -> Mesh | None:
    """Return the mesh of a sharding on an operation; None if there is none of that name."""
    if isinstance(sharding.mesh, Mesh):
        return sharding.mesh
    found = lookup(op, sharding.mesh)
    mesh = found.properties.get("mesh") if found is not None and found.name == "sdy.mesh" else None
    return mesh if isinstance(mesh, Mesh) else None


def bound_axis_problem(op: Operation, axes: Iterable[str]) -> Problem | None:
    """Check that no enclosing manual computation has one of the axes.

    If several have one, the note points to the outermost.
    """
    owners: dict[str, Operation] = {}
    parent = op.ancestor("sdy.manual_computation")
    while parent is not None:
        manual = parent.properties.get("manual_axes")
        if isinstance(manual, ManualAxes):
            owners.update(dict.fromkeys(manual.axes, parent))
        parent = parent.ancestor("sdy.manual_computation")
    for axis in axes:
        if axis in owners:
            return Problem(
                f'operates on axis "{axis}" which is already bound by a parent '
                "sdy.manual_computation op",
                note="parent bounding this axis as manual",
                place=owners[axis].location,
            )
    return None


# Lists of axes


class AxisLists:
    """A check of several lists of axes on one mesh that must not share an axis."""

    def __init__(self, mesh: Mesh) -> None:
        self._sizes = {axis.name: axis.size for axis in mesh.axes}
        self._places = {axis.name: place for place, axis in enumerate(mesh.axes)}
        self._seen: set[AxisRef] = set()
        self._sub_axes: dict[str, list[AxisRef]] = {}

    def add(self, axes: Sequence[AxisRef]) -> Problem | None:
        """Check a list, major to minor: known axes, none twice, no two that could be merged."""
        previous: AxisRef | None = None
        for axis in axes:
            if axis.name not in self._sizes:
                return Problem(f'unknown axis name: "{axis.name}"')
            if axis in self._seen:
                return Problem(f"duplicate axis ref: {axis_text(axis)}")
            self._seen.add(axis)
            if axis.sub_axis is not None:
                self._sub_axes.setdefault(axis.name, []).append(axis)
                if previous is not None and can_merge(previous, axis):
                    return Problem(
                        "two consecutive sub-axes can be merged: "
                        f"{axis_text(previous)}, {axis_text(axis)}"
                    )
            previous = axis
        return None

    def add_sorted(self, axes: Sequence[AxisRef], what: str) -> Problem | None:
        """Check a list that must also be in the order of the mesh."""
        if any(not self._in_order(before, after) for before, after in pairwise(axes)):
            return Problem(f"{what} axes are not ordered w.r.t. mesh")
        return self.add(axes)

    def _in_order(self, before: AxisRef, after: AxisRef) -> bool:
        if before.name == after.name:
            return axis_key(before) <= axis_key(after)
        # A name that is not in the mesh comes last; two of them have no order.
        last = len(self._places)
        return self._places.get(before.name, last) < self._places.get(after.name, last)

    def sub_axes_problem(self) -> Problem | None:
        """Check the sub-axes of all lists: well-formed, and no two that overlap."""
        for name, axes in self._sub_axes.items():
            if AxisRef(name) in self._seen:
                return Problem(f'both sub-axis and full-axis are used for axis name: "{name}"')
            problem = _sub_axes_problem(sorted(axes, key=axis_key), self._sizes[name])
            if problem is not None:
                return problem
        return None


def _sub_axes_problem(axes: Sequence[AxisRef], full: int) -> Problem | None:
    """Check the sub-axes, in order, of an axis of size ``full``."""
    end, previous = 1, None
    for axis in axes:
        sub, text = axis.sub_axis, axis_text(axis)
        assert sub is not None  # the caller collected sub-axes
        if sub.pre_size < 1:
            return Problem(f"sub-axis pre-size must be at least 1: {text}")
        if sub.size <= 1:
            return Problem(f"sub-axis sizes must be greater than 1: {text}")
        if full % sub.next_pre_size:
            return Problem(
                f"sub-axis next pre-size {sub.next_pre_size} doesn't divide the size of "
                f"the full axis {full}: {text}"
            )
        if sub.size == full:
            return Problem(f"sub-axis size is equal to the full axis size: {text}")
        if end > sub.pre_size and previous is not None:
            return Problem(f"overlapping sub-axes: {axis_text(previous)}, {text}")
        end, previous = sub.next_pre_size, axis
    return None


# Shardings


def _has_any_axis(sharding: TensorSharding) -> bool:
    """Return whether the sharding has any axis or dimension."""
    return bool(sharding.dims or sharding.replicated_axes or sharding.unreduced_axes)


def _dim_problem(index: int, dim: DimensionSharding) -> Problem | None:
    if dim.priority is None:
        return None
    if dim.priority < 0:
        return Problem(f"dim {index} has a negative priority")
    if dim.is_closed and not dim.axes:
        return Problem(f"dim {index} is empty and closed but has a priority")
    return None


@lru_cache(maxsize=1 << 14)
def sharding_for_type_problem(
    sharding: TensorSharding,
    type_: Type | None,
    mesh: Mesh | None,
    *,
    check_divisibility: bool = False,
) -> Problem | None:
    """Return the problem with a sharding for a value of a type, independent of its place.

    Args:
        sharding: The sharding.
        type_: The type; None if there is no value, as on an operation without
            results, which may have a sharding nevertheless.
        mesh: The sharding's mesh; None if it was not found.
        check_divisibility: Whether each dimension must divide evenly.
    """
    if mesh is None:
        return Problem(f"unknown mesh: @{sharding.mesh}")
    if mesh.is_maximal or type_ is None:
        if _has_any_axis(sharding):
            return Problem(
                "a maximal sharding can only have a sharding with rank 0 and no "
                "replicated or unreduced axes."
            )
        return None
    tensor = type_
    if isinstance(type_, TupleType):
        if len(type_.elements) != 1:
            return Problem(f"ops can only have a sharding for a tuple of size 1: '{type_}'")
        tensor = type_.elements[0]
    if not is_shaped(tensor):
        if _has_any_axis(sharding):
            return Problem(
                "non-shaped tensors can only have a sharding with rank 0 and no replicated "
                f"or unreduced axes. type: '{type_}', sharding: {sharding}"
            )
        return None
    shape = shape_of(tensor)
    if shape is None:
        return Problem(f"only ranked tensors can have a sharding. type: '{type_}'")
    if sharding.rank != len(shape):
        return Problem(f"sharding doesn't match tensor rank: {sharding.rank} != {len(shape)}")
    return _axes_problem(sharding, shape, mesh, check_divisibility=check_divisibility)


def _axes_problem(
    sharding: TensorSharding, shape: Shape, mesh: Mesh, *, check_divisibility: bool
) -> Problem | None:
    lists = AxisLists(mesh)
    for index, (dim, size) in enumerate(zip(sharding.dims, shape, strict=True)):
        problem = _dim_problem(index, dim) or lists.add(dim.axes)
        if problem is not None:
            return problem
        if check_divisibility and size is not None:
            shards = dim.sharded_size(mesh)
            if size % shards:
                return Problem(
                    f"dim {index} with size {size} is not divisible by its sharded size {shards}"
                )
    return (
        lists.add_sorted(sharding.replicated_axes, "replicated")
        or lists.add_sorted(sharding.unreduced_axes, "unreduced")
        or lists.sub_axes_problem()
    )


def sharding_problem(
    sharding: TensorSharding, type_: Type | None, op: Operation, mesh: Mesh | None
) -> Problem | None:
    """Return the problem with a sharding of a type at an operation, or None."""
    problem = sharding_for_type_problem(sharding, type_, mesh)
    if problem is not None or mesh is None or mesh.is_maximal or type_ is None:
        return problem
    return bound_axis_problem(op, (axis.name for axis in sharding.all_axes()))


def shardings_problem(
    per_value: TensorShardingPerValue, types: Sequence[Type], op: Operation
) -> Problem | None:
    """Return the problem with the shardings of values of these types, or None."""
    shardings = per_value.shardings
    if not types and len(shardings) == 1:
        mesh = mesh_of(shardings[0], op)
        if (mesh is not None and mesh.is_maximal) or shardings[0].is_fully_replicated:
            problem = sharding_problem(shardings[0], None, op, mesh)
            return problem and problem.within(value_prefix(0, 0))
    if len(shardings) != len(types):
        return Problem(
            f"shardings don't match number of values: {len(shardings)} shardings vs "
            f"{len(types)} values"
        )
    for index, (sharding, type_) in enumerate(zip(shardings, types, strict=True)):
        problem = sharding_problem(sharding, type_, op, mesh_of(sharding, op))
        if problem is not None:
            return problem.within(value_prefix(len(types), index))
    return None
