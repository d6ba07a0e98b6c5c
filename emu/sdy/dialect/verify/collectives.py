"""Rules for collectives: applying one to its operand's sharding gives ``out_sharding``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from emu.mlir.ir import BlockArgument, Operation, OpResult
from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    DimensionSharding,
    ListOfAxisRefLists,
    Mesh,
    ReductionOp,
    TensorSharding,
)
from emu.sdy.dialect.axes import (
    add_or_merge,
    is_suffix,
    overlaps,
    prefix_without_overlap,
    sort_and_merge,
)
from emu.sdy.dialect.ops import reduction_op
from emu.sdy.dialect.shardings import get_or_create_sharding, get_sharding
from emu.sdy.dialect.tensors import is_equivalent, tensor_rank
from emu.sdy.dialect.verify.problems import Problem, axis_text
from emu.sdy.dialect.verify.shardings import AxisLists, mesh_of, sharding_problem
from emu.sdy.dialect.verify.unreduced import transition_problem

MISSING_OPERAND_SHARDING_ALLOWED = frozenset(
    {"sdy.all_reduce", "sdy.all_slice", "sdy.reduce_scatter"}
)
"""Collectives that treat an operand without a sharding as replicated."""

Axes = list[AxisRef]
Applied = Callable[[DimensionSharding, Sequence[AxisRef], int, Mesh], Axes | Problem]
"""Returns the axes of a dimension after the collective, or why it cannot be applied."""


def _out_sharding(op: Operation) -> TensorSharding:
    return cast(TensorSharding, op.properties["out_sharding"])


def _result_mesh(op: Operation) -> Mesh:
    """Return the mesh of ``out_sharding``, which ``collective_problem`` has checked."""
    mesh = mesh_of(_out_sharding(op), op)
    if mesh is None:
        raise ValueError(f"{op.name} is on an unknown mesh")
    return mesh


def _operand_sharding(op: Operation) -> TensorSharding:
    return get_or_create_sharding(op.operands[0], _out_sharding(op).mesh)


# Of all collectives


def collective_problem(op: Operation) -> Problem | None:
    """Return the problem with the shardings of operand and result by themselves, or None."""
    operand = op.operands[0]
    sharding = get_sharding(operand)
    if sharding is None and op.name not in MISSING_OPERAND_SHARDING_ALLOWED:
        return Problem("collective on operand without sharding")
    out = _out_sharding(op)
    mesh = mesh_of(out, op)
    problem = sharding_problem(out, op.result.type, op, mesh)
    if problem is not None or sharding is None:
        return problem
    if op.name != "sdy.collective_permute":
        operand_mesh = mesh_of(sharding, op)
        if operand_mesh is not None and mesh != operand_mesh:
            return _about_mesh(op, "result mesh does not match operand mesh", operand_mesh)
    if out.rank != sharding.rank:
        return Problem(
            f"result sharding has rank {out.rank} but operand sharding has rank {sharding.rank}"
        )
    return None


def _about_mesh(op: Operation, message: str, mesh: Mesh) -> Problem:
    """Return a problem with a note at the operand that names the operand's mesh."""
    operand = op.operands[0]
    if isinstance(operand, BlockArgument):
        place = operand.location
    else:
        place = cast(OpResult, operand).owner.location
    return Problem(message, note=f"operand mesh: {mesh}", place=place)


# Those with axes for each dimension


def _mismatch(expected: Sequence[AxisRef], dim: int) -> Problem:
    axes = ", ".join(map(axis_text, expected))
    return Problem(f"result sharding doesn't match expected sharding [{axes}] on dimension {dim}")


def _axes_per_dim_problem(op: Operation, name: str, apply: Applied) -> Problem | None:
    per_dim = cast(ListOfAxisRefLists, op.properties[name]).lists
    out, operand, mesh = _out_sharding(op), _operand_sharding(op), _result_mesh(op)
    lists = AxisLists(mesh)
    for axes in per_dim:
        problem = lists.add(axes)
        if problem is not None:
            return problem
    if out.rank != len(per_dim):
        return Problem(
            f"result sharding has rank {out.rank} but collective axes has rank {len(per_dim)}"
        )
    for dim, (before, axes) in enumerate(zip(operand.dims, per_dim, strict=True)):
        expected = apply(before, axes, dim, mesh)
        if isinstance(expected, Problem):
            return expected
        if tuple(expected) != out.dims[dim].axes:
            return _mismatch(expected, dim)
    return None


def _gathered(
    before: DimensionSharding, axes: Sequence[AxisRef], dim: int, mesh: Mesh, what: str
) -> Axes | Problem:
    """Return the axes of a dimension without the gathered ones, which must be a suffix."""
    left = list(before.axes)
    for axis in reversed(axes):
        if not left or not is_suffix(axis, left[-1], mesh):
            return Problem(
                f"can't apply {what} axis {axis_text(axis)} to operand sharding on dimension {dim}"
            )
        prefix = prefix_without_overlap(left.pop(), axis)
        if prefix is not None:
            left.append(prefix)
    return left


def _sliced(before: DimensionSharding, axes: Sequence[AxisRef], dim: int, mesh: Mesh) -> Axes:
    """Return the axes of a dimension with the sliced ones appended."""
    after = list(before.axes)
    for axis in axes:
        add_or_merge(after, axis, mesh)
    return after


def all_gather_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.all_gather``, or None."""

    def gathered(
        before: DimensionSharding, axes: Sequence[AxisRef], dim: int, mesh: Mesh
    ) -> Axes | Problem:
        return _gathered(before, axes, dim, mesh, "gathering")

    return _axes_per_dim_problem(op, "gathering_axes", gathered)


def all_slice_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.all_slice``, or None."""
    return _axes_per_dim_problem(op, "slicing_axes", _sliced)


def reduce_scatter_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.reduce_scatter``, or None."""
    problem = _reduced_problem(op)
    return problem or _axes_per_dim_problem(op, "reduce_scatter_axes", _sliced)


def _reduced_problem(op: Operation) -> Problem | None:
    """Check that only partial results of the collective's operator are reduced."""
    shardings = [_operand_sharding(op)], [_out_sharding(op)]
    return transition_problem(op, *shardings, removed=reduction_op(op))


def _sum_problem(op: Operation) -> Problem | None:
    if _out_sharding(op).reduction_op is not ReductionOp.SUM:
        return Problem("out_sharding reduction_op must be SUM")
    return None


def sharded_to_unreduced_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.sharded_to_unreduced``, or None."""

    def moved(
        before: DimensionSharding, axes: Sequence[AxisRef], dim: int, mesh: Mesh
    ) -> Axes | Problem:
        return _gathered(before, axes, dim, mesh, "shard-to-unreduce")

    problem = _sum_problem(op) or _axes_per_dim_problem(op, "axes", moved)
    if problem is not None:
        return problem
    axes = [axis for axes in cast(ListOfAxisRefLists, op.properties["axes"]).lists for axis in axes]
    if not _unreduced_become(op, axes):
        return Problem("out_unreduced_axes should be in_unreduced_axes + sharded_to_unreduced_axes")
    return None


def _unreduced_become(op: Operation, axes: Sequence[AxisRef]) -> bool:
    """Return whether the result is unreduced along these axes and those of the operand."""
    before = _operand_sharding(op).unreduced_axes
    expected = sort_and_merge([*before, *axes], _result_mesh(op))
    return tuple(expected) == _out_sharding(op).unreduced_axes


# Those with one list of axes


def replicated_to_unreduced_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.replicated_to_unreduced``, or None."""
    problem = _sum_problem(op)
    if problem is not None:
        return problem
    operand = _operand_sharding(op)
    if operand.dims != _out_sharding(op).dims:
        return Problem("input and output must share the same dimension shardings")
    axes = cast(AxisRefList, op.properties["axes"]).axes
    if not axes:
        return Problem("r2u axes must not be empty")
    problem = AxisLists(_result_mesh(op)).add_sorted(axes, "r2u")
    if problem is not None:
        return problem
    sharded = [axis for dim in operand.dims for axis in dim.axes]
    for axis in axes:
        if _overlaps_any(axis, sharded):
            return Problem(f"r2u axis {axis_text(axis)} overlaps with operand dimension sharding")
        if _overlaps_any(axis, operand.unreduced_axes):
            return Problem(f"r2u axis {axis_text(axis)} overlaps with operand unreduced axes")
    if not _unreduced_become(op, axes):
        return Problem("out_unreduced_axes should be in_unreduced_axes + r2u_axes")
    return None


def _overlaps_any(axis: AxisRef, others: Sequence[AxisRef]) -> bool:
    return any(overlaps(other, axis) for other in others)


def all_reduce_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.all_reduce``, or None."""
    operand, out = _operand_sharding(op), _out_sharding(op)
    if not is_equivalent(operand, out, ignore_unreduced_axes=True):
        return Problem("operand and result shardings are not equivalent")
    axes = cast(AxisRefList, op.properties["reduction_axes"]).axes
    problem = AxisLists(_result_mesh(op)).add_sorted(axes, "reduction")
    if problem is not None:
        return problem
    taken = [axis for dim in operand.dims for axis in dim.axes]
    taken += operand.replicated_axes
    for axis in axes:
        if _overlaps_any(axis, taken):
            return Problem(
                f"reduction axis {axis_text(axis)} overlaps with operand dimension sharding or "
                "replicated axes"
            )
        if _overlaps_any(axis, out.unreduced_axes):
            return Problem(f"reduction axis {axis_text(axis)} overlaps with result unreduced axes")
    return _reduced_problem(op)


# Those that move axes


def all_to_all_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.all_to_all``, or None."""
    params = cast(AllToAllParamList, op.properties["params"]).params
    if not params:
        return Problem("parameter list is empty")
    mesh = _result_mesh(op)
    problem = _params_problem(params, tensor_rank(op.result), mesh)
    if problem is not None:
        return problem
    before, after = _operand_sharding(op).dims, _out_sharding(op).dims
    moved: set[int] = set()
    for param in params:
        expected = _gathered(before[param.src_dim], param.axes, param.src_dim, mesh, "all-to-all")
        if isinstance(expected, Problem):
            return expected
        sliced = _sliced(before[param.tgt_dim], param.axes, param.tgt_dim, mesh)
        for dim, axes in ((param.src_dim, expected), (param.tgt_dim, sliced)):
            if tuple(axes) != after[dim].axes:
                return _mismatch(axes, dim)
            moved.add(dim)
    for dim, (old, new) in enumerate(zip(before, after, strict=True)):
        if dim not in moved and old.axes != new.axes:
            return _mismatch(old.axes, dim)
    return None


def _params_problem(params: Sequence[AllToAllParam], rank: int, mesh: Mesh) -> Problem | None:
    lists = AxisLists(mesh)
    seen: set[int] = set()
    previous = -1
    for param in params:
        problem = lists.add(param.axes)
        if problem is not None:
            return problem
        dims = (("source", param.src_dim), ("target", param.tgt_dim))
        for name, dim in dims:
            if not 0 <= dim < rank:
                return Problem(f"{name} dimension {dim} is out of range [0, {rank})")
        for _, dim in dims:
            if dim in seen:
                return Problem(f"overlapping source/target dimensions in all-to-all params: {dim}")
            seen.add(dim)
        if previous >= param.src_dim:
            return Problem(
                "source dimensions are not sorted in ascending order: "
                f"{param.src_dim} appears after {previous}"
            )
        previous = param.src_dim
    return None


def collective_permute_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.collective_permute``, or None."""
    operand, out = _operand_sharding(op), _out_sharding(op)
    mesh, operand_mesh = _result_mesh(op), mesh_of(operand, op)
    if operand_mesh is None:
        raise ValueError("the operand of an sdy.collective_permute is on an unknown mesh")
    if mesh.axes != operand_mesh.axes:
        return _about_mesh(op, "result mesh has different axes than operand mesh", operand_mesh)
    if operand.mesh != out.mesh and mesh.device_ids == operand_mesh.device_ids:
        return _about_mesh(
            op, "result mesh name is different but same device ids as operand", operand_mesh
        )
    for dim, (before, after) in enumerate(zip(operand.dims, out.dims, strict=True)):
        sizes = [math.prod(axis.size(mesh) for axis in each.axes) for each in (after, before)]
        if before.axes != after.axes and sizes[0] != sizes[1]:
            return Problem(
                f"sharded size of result doesn't match operand on dimension {dim}: "
                f"{sizes[0]} != {sizes[1]}"
            )
    return None
