"""Completion of manual axes: sorted, and named in every in- and out-sharding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType, UnrankedTensorType
from emu.sdy.dialect.attributes import (
    AxisRef,
    ManualAxes,
    Mesh,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.axes import axis_set_difference, sort_and_merge
from emu.sdy.dialect.meshes import common_mesh_or_name, get_mesh
from emu.sdy.passes.base import ModulePass, Session


class ManualAxesCleanup(ModulePass, name="sdy-manual-axes-cleanup"):
    """Sort manual axes in the mesh's order, and name each in every sharding.

    A manual axis that an in- or out-sharding does not mention becomes one of
    its replicated axes.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Clean up each manual computation of a module."""
        table = SymbolTable(op)
        failed = False
        for manual in op.walk(post_order=True):
            if manual.name == "sdy.manual_computation":
                failed |= not _clean_up(manual, table, session)
        if failed:
            raise PassFailed("a manual computation has neither inputs nor outputs")


def _clean_up(manual: Operation, table: SymbolTable, session: Session) -> bool:
    ins, outs = _shardings(manual, "in_shardings"), _shardings(manual, "out_shardings")
    axes = manual.properties["manual_axes"]
    assert isinstance(axes, ManualAxes)  # checked by the verifier
    if not ins and not outs:
        first = manual.body().first
        if axes.axes and first is not None and first.name != "sdy.return":
            session.diagnostics.error(
                manual.location,
                "op has manual_axes when there are no in/out shardings and the body is not "
                "empty. This isn't allowed at this stage, please contact the Shardy team or "
                "file a bug.",
            )
            return False
        return True
    common = common_mesh_or_name([*ins, *outs], table)
    if common is None:
        raise ValueError("the in- and out-shardings of a manual computation have different meshes")
    mesh = get_mesh(table, common)
    names = tuple(sorted(axes.axes, key=mesh.axis_index))
    manual.properties["manual_axes"] = ManualAxes(names)
    manual_refs = [AxisRef(name) for name in names]
    for name, values in (("in_shardings", manual.operands), ("out_shardings", manual.results)):
        new = _completed(_shardings(manual, name), values, manual_refs, common, mesh)
        if new is not None:
            manual.properties[name] = TensorShardingPerValue(tuple(new))
    return True


def _shardings(manual: Operation, name: str) -> tuple[TensorSharding, ...]:
    found = manual.properties[name]
    assert isinstance(found, TensorShardingPerValue)  # checked by the verifier
    return found.shardings


def _completed(
    shardings: Sequence[TensorSharding],
    values: Sequence[Value],
    manual_axes: Sequence[AxisRef],
    common: str | Mesh,
    mesh: Mesh,
) -> list[TensorSharding] | None:
    """Return the shardings with unmentioned manual axes replicated; None if all are there."""
    new = []
    modified = False
    for sharding, value in zip(shardings, values, strict=True):
        unused: Sequence[AxisRef] = ()
        if isinstance(value.type, TensorType | UnrankedTensorType):
            unused = axis_set_difference(manual_axes, sharding.all_axes(), mesh)
        if not unused:
            new.append(sharding)
            continue
        # The sharding may be on an empty mesh, which has none of the axes: so the mesh changes.
        replicated = sort_and_merge([*sharding.replicated_axes, *unused], mesh)
        new.append(replace(sharding, mesh=common, replicated_axes=tuple(replicated)))
        modified = True
    return new if modified else None
