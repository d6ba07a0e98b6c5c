"""Canonicalization patterns: rewrites that simplify a program without changing its results.

Two groups of them have a label by which a pipeline can select them:
``RESHARD`` and ``COLLECTIVE``. The others apply only when no label is selected.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.diagnostics import Location, fused
from emu.mlir.ir import Operation, Value
from emu.mlir.registry import definition
from emu.mlir.transforms.inlining import can_inline, inline_before
from emu.mlir.transforms.rewriting import Pattern, PatternSet, Rewrite, Rewriter
from emu.sdy.dialect.attributes import (
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    DimensionSharding,
    ListOfAxisRefLists,
    ManualAxes,
    Mesh,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.axes import add_or_merge, sort_and_merge
from emu.sdy.dialect.builders import (
    make_collective,
    make_reshard,
)
from emu.sdy.dialect.canonicalize_reshards import equal_reshard
from emu.sdy.dialect.meshes import common_mesh, get_mesh
from emu.sdy.dialect.ops import reduction_op
from emu.sdy.dialect.shardings import get_or_create_sharding, get_sharding
from emu.sdy.dialect.tensors import is_equivalent

RESHARD = "sdy-reshard"
COLLECTIVE = "sdy-collective"


def _operand(op: Operation, name: str) -> Operation | None:
    """Return the operation that defines the operand if it has that name, else None."""
    definer = op.operands[0].defining_op
    return definer if definer is not None and definer.name == name else None


def _axes_per_dim(op: Operation, name: str) -> tuple[tuple[AxisRef, ...], ...]:
    return cast(ListOfAxisRefLists, op.properties[name]).lists


def _out_sharding(op: Operation) -> TensorSharding:
    return cast(TensorSharding, op.properties["out_sharding"])


def _both(op: Operation, inner: Operation) -> Location:
    """Return the location of an operation that replaces two."""
    return fused([op.location, inner.location])


# Operations that do nothing


def _nothing_to_do(axes: str) -> Rewrite:
    """Replace a collective without axes by its operand."""

    def apply(op: Operation, rewriter: Rewriter) -> bool:
        stored = op.properties[axes]
        if isinstance(stored, AxisRefList):
            some = bool(stored.axes)
        else:
            some = any(cast(ListOfAxisRefLists, stored).lists)
        if some:
            return False
        rewriter.replace(op, op.operands)
        return True

    return apply


def _permute_to_the_same(op: Operation, rewriter: Rewriter) -> bool:
    sharding = get_sharding(op.operands[0])
    if sharding is None or not is_equivalent(sharding, _out_sharding(op)):
        return False
    rewriter.replace(op, op.operands)
    return True


def _unused_all_to_all(op: Operation, rewriter: Rewriter) -> bool:
    if op.result.has_uses:
        return False
    rewriter.erase(op)
    return True


# One operation that undoes another, or goes on with it


def _reshard_of_reshard(op: Operation, rewriter: Rewriter) -> bool:
    inner = _operand(op, "sdy.reshard")
    if inner is None or not inner.result.has_one_use:
        return False
    sharding = cast(TensorSharding, op.properties["sharding"])
    new = make_reshard(inner.operands[0], sharding, _both(op, inner))
    rewriter.replace(op, rewriter.insert_before(op, new).results)
    return True


def _slice_of_gather(op: Operation, rewriter: Rewriter) -> bool:
    inner = _operand(op, "sdy.all_gather")
    if inner is None or _axes_per_dim(inner, "gathering_axes") != _axes_per_dim(op, "slicing_axes"):
        return False
    rewriter.replace(op, inner.operands)
    return True


def _reduce_of_replicated_to_unreduced(op: Operation, rewriter: Rewriter) -> bool:
    inner = _operand(op, "sdy.replicated_to_unreduced")
    if inner is None or inner.properties["axes"] != op.properties["reduction_axes"]:
        return False
    rewriter.replace(op, inner.operands)
    return True


def _reduce_of_sharded_to_unreduced(op: Operation, rewriter: Rewriter) -> bool:
    """Replace by all_gather: the parts that are summed were only declared to be parts."""
    inner = _operand(op, "sdy.sharded_to_unreduced")
    if inner is None:
        return False
    per_dim = _axes_per_dim(inner, "axes")
    mesh = get_mesh(inner, _out_sharding(inner).mesh)
    axes = sort_and_merge([axis for dim in per_dim for axis in dim], mesh)
    if tuple(axes) != cast(AxisRefList, op.properties["reduction_axes"]).axes:
        return False
    gathered = ListOfAxisRefLists(per_dim)
    new = make_collective(
        "sdy.all_gather", inner.operands[0], gathered, _out_sharding(op), op.location
    )
    rewriter.replace(op, rewriter.insert_before(op, new).results)
    return True


def _all_to_all_of_all_to_all(op: Operation, rewriter: Rewriter) -> bool:
    """Join two all_to_all that have no dimension in common."""
    inner = _operand(op, "sdy.all_to_all")
    if inner is None or not inner.result.has_one_use:
        return False
    params = [
        p for each in (inner, op) for p in cast(AllToAllParamList, each.properties["params"]).params
    ]
    dims = [dim for param in params for dim in (param.src_dim, param.tgt_dim)]
    if len(set(dims)) != len(dims):
        return False
    params.sort(key=lambda param: param.src_dim)
    joined = AllToAllParamList(tuple(params))
    new = make_collective(op.name, inner.operands[0], joined, _out_sharding(op), _both(op, inner))
    rewriter.replace(op, rewriter.insert_before(op, new).results)
    return True


# all_reduce and all_slice are reduce_scatter


@dataclass(frozen=True, slots=True)
class _Scatter:
    """A reduce_scatter that replaces an all_reduce and the all_slices of its result.

    Attributes:
        axes: Its axes, per dimension.
        left: Axes still to be sliced along, per dimension.
        out_sharding: The sharding of its result.
    """

    axes: tuple[tuple[AxisRef, ...], ...]
    left: tuple[tuple[AxisRef, ...], ...]
    out_sharding: TensorSharding


def _split_axes(
    per_dim: Sequence[Sequence[AxisRef]], reduced: Collection[AxisRef]
) -> tuple[list[tuple[AxisRef, ...]], list[tuple[AxisRef, ...]]] | None:
    """Return, per dimension, the longest prefix of axes that are reduced along, and the rest.

    None unless every axis that is reduced along is in a prefix.
    """
    unclaimed = set(reduced)
    scattered: list[tuple[AxisRef, ...]] = []
    left: list[tuple[AxisRef, ...]] = []
    for axes in per_dim:
        count = 0
        while count < len(axes) and axes[count] in unclaimed:
            unclaimed.remove(axes[count])
            count += 1
        scattered.append(tuple(axes[:count]))
        left.append(tuple(axes[count:]))
    return None if unclaimed else (scattered, left)


def _scatter(reduce: Operation, slice_: Operation) -> _Scatter | None:
    reduced = cast(AxisRefList, reduce.properties["reduction_axes"]).axes
    split = _split_axes(_axes_per_dim(slice_, "slicing_axes"), reduced)
    if split is None:
        return None
    scattered, left = split
    mesh = get_mesh(reduce, _out_sharding(reduce).mesh)
    before = get_or_create_sharding(reduce.operands[0], mesh, closed_if_missing=True)
    dims = []
    for dim, more in zip(before.dims, scattered, strict=True):
        axes = list(dim.axes)
        for axis in more:
            add_or_merge(axes, axis, mesh)
        dims.append(DimensionSharding(tuple(axes)))
    out = _out_sharding(slice_)
    sharding = replace(out, mesh=_out_sharding(reduce).mesh, dims=tuple(dims))
    return _Scatter(tuple(scattered), tuple(left), sharding)


def _slice_of_reduce(op: Operation, rewriter: Rewriter) -> bool:
    """Replace by reduce_scatter if all users slice alike, along the axes of the reduction."""
    reduce = _operand(op, "sdy.all_reduce")
    if reduce is None:
        return False
    for user in reduce.result.users:
        if user.name != "sdy.all_slice":
            return False
        if user.properties["slicing_axes"] != op.properties["slicing_axes"]:
            return False
        if user is not op and (user.parent is not op.parent or user.is_before(op)):
            return False
    scatter = _scatter(reduce, op)
    if scatter is None:
        return False
    new = make_collective(
        "sdy.reduce_scatter",
        reduce.operands[0],
        ListOfAxisRefLists(scatter.axes),
        scatter.out_sharding,
        reduce.location,
        reduction_op(reduce),
    )
    rewriter.insert_before(op, new)
    if any(scatter.left):
        left = ListOfAxisRefLists(scatter.left)
        rest = make_collective(op.name, new.result, left, _out_sharding(op), op.location)
        new = rewriter.insert_before(op, rest)
    for user in reduce.result.users:
        rewriter.replace(user, new.results)
    rewriter.erase(reduce)
    return True


# Manual computations


def _unused_inputs(op: Operation, rewriter: Rewriter) -> bool:
    """Drop arguments that the body does not use, together with their operands."""
    arguments = op.body().arguments
    unused = [argument.index for argument in arguments if not argument.has_uses]
    if not unused:
        return False
    shardings = cast(TensorShardingPerValue, op.properties["in_shardings"]).shardings
    op.erase_operands(unused)
    for index in reversed(unused):
        op.body().erase_argument(index)
    gone = set(unused)
    kept = tuple(sharding for i, sharding in enumerate(shardings) if i not in gone)
    op.properties["in_shardings"] = TensorShardingPerValue(kept)
    return True


def _redundant_manual_computation(op: Operation, rewriter: Rewriter) -> bool:
    """Inline a computation whose manual axes have size 1; erase an empty one."""
    shardings = [
        sharding
        for name in ("in_shardings", "out_shardings")
        for sharding in cast(TensorShardingPerValue, op.properties[name]).shardings
    ]
    body = op.body()
    if not shardings and body.first is body.terminator:
        rewriter.erase(op)
        return True
    if shardings:
        mesh = cast(Mesh, common_mesh(shardings, op))
        axes = cast(ManualAxes, op.properties["manual_axes"]).axes
        if any(mesh.axis_size(axis) != 1 for axis in axes):
            return False
    if not can_inline(op):
        return False
    inline_before(op, op.regions[0], op.operands, op.results)
    rewriter.erase(op)
    return True


# StableHLO


def _case_of_constant(op: Operation, rewriter: Rewriter) -> bool:
    """Inline the branch that a constant index selects."""
    definer = op.operands[0].defining_op
    value = definer.properties.get("value") if definer is not None else None
    if definer is None or not definition(definer.name).constant:
        return False
    if not isinstance(value, DenseElementsAttr):
        return False
    index = int.from_bytes(value.data, "little", signed=True)
    if not 0 <= index < len(op.regions):
        return False
    block = op.regions[index].blocks[-1]
    mapping: dict[Value, Value] = {}
    terminator = block.terminator
    for inner in block:
        if inner is not terminator:
            rewriter.insert_before(op, inner.clone(mapping))
    rewriter.replace(op, [mapping.get(value, value) for value in terminator.operands])
    return True


# All of them


@dataclass(frozen=True, slots=True)
class _Labelled:
    pattern: Pattern
    label: str = ""


def _labelled() -> list[_Labelled]:
    """Return the patterns in the order in which those of equal benefit are tried.

    A pattern that matches two operations has benefit 2, as in Shardy.
    """

    def collective(name: str, apply: Rewrite, benefit: int = 1) -> _Labelled:
        return _Labelled(Pattern(apply, f"sdy.{name}", benefit), COLLECTIVE)

    return [
        collective("all_gather", _nothing_to_do("gathering_axes")),
        collective("all_reduce", _nothing_to_do("reduction_axes")),
        collective("all_reduce", _reduce_of_replicated_to_unreduced, 2),
        collective("all_reduce", _reduce_of_sharded_to_unreduced),
        collective("all_slice", _slice_of_gather, 2),
        collective("all_slice", _nothing_to_do("slicing_axes")),
        collective("all_to_all", _all_to_all_of_all_to_all, 2),
        collective("all_to_all", _unused_all_to_all),
        collective("collective_permute", _permute_to_the_same),
        _Labelled(Pattern(_unused_inputs, "sdy.manual_computation")),
        _Labelled(Pattern(_redundant_manual_computation, "sdy.manual_computation")),
        collective("all_slice", _slice_of_reduce),
        collective("reduce_scatter", _nothing_to_do("reduce_scatter_axes")),
        _Labelled(Pattern(equal_reshard, "sdy.reshard")),
        _Labelled(Pattern(_reshard_of_reshard, "sdy.reshard", 2), RESHARD),
        _Labelled(Pattern(_case_of_constant, "stablehlo.case")),
    ]


def canonicalization_patterns(
    enabled: Collection[str] = (), disabled: Collection[str] = ()
) -> PatternSet:
    """Return the patterns, all of them or those with certain labels.

    Args:
        enabled: If not empty, only patterns with one of these labels are returned.
        disabled: Patterns with one of these labels are left out.
    """
    return PatternSet(
        each.pattern
        for each in _labelled()
        if (not enabled or each.label in enabled) and each.label not in disabled
    )
