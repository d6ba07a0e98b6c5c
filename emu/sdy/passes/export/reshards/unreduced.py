"""Reduction and creation of partial sums.

A tensor that is unreduced along an axis is the sum of the devices' tensors along
it. Where a user needs the sum, an all-reduce is inserted. Where a user needs an
unreduced tensor that is replicated or sharded along the axis,
``sdy.replicated_to_unreduced`` or ``sdy.sharded_to_unreduced`` converts it.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, Use, Value
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.attributes import (
    AxisRef,
    AxisRefList,
    DimensionSharding,
    ListOfAxisRefLists,
    Mesh,
    TensorSharding,
)
from emu.sdy.dialect.axes import axis_set_difference, sort_and_merge, suffix_without_overlap
from emu.sdy.dialect.builders import (
    make_collective,
    make_reshard,
)
from emu.sdy.dialect.meshes import get_mesh
from emu.sdy.dialect.shardings import get_or_create_sharding, get_sharding
from emu.sdy.passes.base import Session
from emu.sdy.passes.insertion_point import Place, location_of, replace_other_uses
from emu.sdy.propagation.projection import Prefix, list_prefix


def reduce_results(
    op: Operation, reduction_axes: Sequence[AxisRef], mesh_name: str, mesh: Mesh
) -> None:
    """All-reduce the results of an operation along the axes of its reduction factors.

    Axes along which the results stay unreduced are left out.
    """
    unreduced = _unreduced_axes(get_sharding(op.results[0]))
    axes = axis_set_difference(reduction_axes, unreduced, mesh)
    if not axes:
        return
    reduction = AxisRefList(tuple(sort_and_merge(axes, mesh)))
    place = Place.after(op)
    for result in op.results:
        # The result's own sharding already says that it is reduced.
        sharding = get_or_create_sharding(result, mesh_name, closed_if_missing=True)
        added = make_collective(
            "sdy.all_reduce", result, reduction, sharding, op.location, sharding.reduction_op
        )
        place.insert(added)
        replace_other_uses(result, added.result)


def _unreduced_axes(sharding: TensorSharding | None) -> tuple[AxisRef, ...]:
    return () if sharding is None else sharding.unreduced_axes


class Reducer:
    """An inserter of operations that create or reduce partial sums."""

    def __init__(self, table: SymbolTable, session: Session) -> None:
        self._table = table
        self._session = session

    def fail(self, op: Operation, message: str) -> PassFailed:
        """Report an error, and return the exception to raise."""
        self._session.diagnostics.error(op.location, message)
        return PassFailed(message)

    def add_up(self, use: Use, value: Value, target: TensorSharding | None, place: Place) -> Value:
        """All-reduce an operand along the axes that its user does not accept as unreduced.

        Args:
            use: The use of the operand.
            value: The operand.
            target: The sharding that the user accepts.
            place: Insertion point.

        Returns:
            The new operand.
        """
        source = get_sharding(value)
        if source is None or not source.unreduced_axes:
            return value
        mesh = get_mesh(self._table, source.mesh)
        if target is not None and mesh != get_mesh(self._table, target.mesh):
            raise self.fail(
                use[0], "source and user shardings have different meshes for unreduced axes."
            )
        axes = axis_set_difference(source.unreduced_axes, _unreduced_axes(target), mesh)
        if not axes:
            return value
        sharding = source.with_unreduced(axis_set_difference(source.unreduced_axes, axes, mesh))
        reduction, place_of = AxisRefList(tuple(axes)), location_of(value)
        added = make_collective(
            "sdy.all_reduce", value, reduction, sharding, place_of, source.reduction_op
        )
        return _replace(use, place.insert(added).result)

    def add_up_operands(self, op: Operation) -> None:
        """Apply ``add_up`` to every operand; the results must all be unreduced alike."""
        unreduced = [i for i, v in enumerate(op.operands) if _unreduced_axes(get_sharding(v))]
        if len(op.results) != 1:
            self._check_results(op, any_unreduced=bool(unreduced))
        if unreduced:
            target = get_sharding(op.results[0])
            place = Place.before(op)
            for index in unreduced:
                self.add_up((op, index), op.operands[index], target, place)

    def _check_results(self, op: Operation, *, any_unreduced: bool) -> None:
        if not op.results:
            if any_unreduced:
                raise self.fail(
                    op, "Some operands have unreduced axes but the operation has no results."
                )
            return
        first, *others = [_unreduced_axes(get_sharding(result)) for result in op.results]
        if any(axes != first for axes in others):
            raise self.fail(op, "Unreduced axes mismatch between results for multi-result op.")

    def make_unreduced(
        self, use: Use, value: Value, target: TensorSharding | None, place: Place
    ) -> Value:
        """Make an operand unreduced along axes along which ``target`` is.

        Axes that shard dimensions of the operand but not of the target are taken from
        there, the others from replication. A reshard may come first.

        Args:
            use: The use of the operand.
            value: The operand.
            target: The sharding that the user accepts.
            place: Insertion point.

        Returns:
            The new operand, or ``value`` if nothing is to be done.
        """
        if target is None or not target.unreduced_axes:
            return value
        user = use[0]
        source = get_sharding(value)
        if source is None:
            return value
        mesh = get_mesh(self._table, source.mesh)
        if mesh != get_mesh(self._table, target.mesh):
            raise self.fail(
                user,
                "Input and output shardings have different meshes. The result has "
                "non-empty unreduced axes.",
            )
        new = axis_set_difference(target.unreduced_axes, source.unreduced_axes, mesh)
        if not new:
            return value
        if axis_set_difference(source.unreduced_axes, target.unreduced_axes, mesh):
            raise self.fail(
                user,
                "Both input and output have unreduced axes that does not appear in the other.",
            )
        return _replace(use, _make_unreduced(value, source, target, new, mesh, place))

    def convert_reshard(self, op: Operation) -> bool:
        """Replace a reshard that makes its operand unreduced; return whether it did."""
        value = op.operands[0]
        made = self.make_unreduced((op, 0), value, get_sharding(op.result), Place.before(op))
        if made is value:
            return False
        op.replace_with([made])
        return True


def _replace(use: Use, value: Value) -> Value:
    user, index = use
    user.set_operand(index, value)
    return value


def _make_unreduced(
    value: Value,
    source: TensorSharding,
    target: TensorSharding,
    new: Sequence[AxisRef],
    mesh: Mesh,
    place: Place,
) -> Value:
    """Insert a reshard, then replicated_to_unreduced, then sharded_to_unreduced, as needed."""
    freed: list[tuple[AxisRef, ...]] = []
    dims: list[DimensionSharding] = []
    aligned = True
    for old, wanted in zip(source.dims, target.dims, strict=True):
        # Axes that the dimension loses become unreduced only if all of them do; otherwise a
        # reshard first gives the dimension its wanted axes.
        taken, fits = _freed_axes(old.axes, wanted.axes, new, mesh)
        freed.append(taken)
        dims.append(old if taken else wanted)
        aligned = aligned and fits
    result, location = value, location_of(value)
    if not aligned:
        result = place.insert(make_reshard(result, source.with_dims(dims), location)).result
    sharded = [axis for axes in freed for axis in axes]
    replicated = axis_set_difference(new, sharded, mesh)
    if replicated:
        unreduced = sort_and_merge([*source.unreduced_axes, *replicated], mesh)
        sharding = TensorSharding(
            source.mesh,
            tuple(dims),
            target.replicated_axes,
            tuple(unreduced),
            target.reduction_op,
        )
        added = AxisRefList(tuple(replicated))
        made = make_collective("sdy.replicated_to_unreduced", result, added, sharding, location)
        result = place.insert(made).result
    if sharded:
        lists = ListOfAxisRefLists(tuple(freed))
        made = make_collective("sdy.sharded_to_unreduced", result, lists, target, location)
        result = place.insert(made).result
    return result


def _freed_axes(
    old: Sequence[AxisRef], wanted: Sequence[AxisRef], new: Sequence[AxisRef], mesh: Mesh
) -> tuple[tuple[AxisRef, ...], bool]:
    """Return the axes at the end of ``old`` that become unreduced.

    Returns also whether the dimension needs no reshard before.
    """
    prefix = list_prefix(wanted, old)
    if prefix is not Prefix.STRICT:
        return (), prefix is Prefix.EQUAL
    rest = list(old[len(wanted) :])
    # The last wanted axis may be a part of the old one; the part after it is freed too.
    if wanted and wanted[-1] != old[len(wanted) - 1]:
        suffix = suffix_without_overlap(old[len(wanted) - 1], wanted[-1], mesh)
        if suffix is not None:
            rest.insert(0, suffix)
    if axis_set_difference(rest, new, mesh):
        return (), False
    return tuple(rest), True
