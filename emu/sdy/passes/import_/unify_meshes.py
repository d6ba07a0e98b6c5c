"""``emu-unify-meshes``: puts all shardings on meshes with the same axes.

A program of JAX may name the same devices by the axes of several meshes, ``["data"=2, "model"=4]`` and
``["flat"=8]``. Shardings do not propagate from one mesh to another, and Shardy has no collectives for
a reshard between two of them. This pass, which Shardy does not have, replaces the meshes by one of finer axes where it
can, and by meshes that differ in the order of their devices only where it cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from emu.mlir.attributes import ArrayAttr, Attribute
from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import (
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    ListOfAxisRefLists,
    ManualAxes,
    Mesh,
    SubAxisInfo,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.names import COLLECTIVES
from emu.sdy.dialect.walker import transform_shardings_of
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.import_.mesh_refinement import Refined, refine
from emu.sdy.passes.import_.meshes import STABLEHLO_MESH, LiftInlinedMeshes
from emu.sdy.passes.replica_groups import mesh_of_groups, replica_groups_of, with_mesh
from emu.stablehlo.attributes import AxisRef as GroupAxis
from emu.stablehlo.attributes import SubAxisInfo as GroupSubAxis

_MOST_DEVICES = 1 << 20


class UnifyMeshes(ModulePass, name="emu-unify-meshes"):
    """Replace meshes of different axes by meshes of the same axes.

    A mesh with fewer devices than the others have is repeated on the rest of the devices, which
    hold copies. Meshes of one device without axes stay. Run it before propagation.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Replace the meshes of a module; raise PassFailed if there is no mesh that can replace them."""
        LiftInlinedMeshes().run(op, session)
        operations = {
            each.symbol_name or "": each
            for each in op.body()
            if each.name == "sdy.mesh" and _mesh_of(each).axes
        }
        meshes = {name: _mesh_of(each) for name, each in operations.items()}
        if len({mesh.axes for mesh in meshes.values()}) < 2:
            return
        _check_sizes(operations, meshes, session)
        refined = refine(meshes, max(mesh.total_size for mesh in meshes.values()))
        names = _replace_meshes(operations, refined)
        replacement = _Replacement(refined, names)
        for each in op.walk():
            try:
                replacement.operation(each)
                transform_shardings_of(each, replacement.sharding)
            except ValueError as error:
                session.diagnostics.error(each.location, str(error))
                raise PassFailed(str(error)) from None


def _mesh_of(op: Operation) -> Mesh:
    mesh = op.properties["mesh"]
    assert isinstance(mesh, Mesh)  # checked by the verifier
    return mesh


def _check_sizes(
    operations: Mapping[str, Operation], meshes: Mapping[str, Mesh], session: Session
) -> None:
    largest = max(meshes, key=lambda name: meshes[name].total_size)
    count = meshes[largest].total_size
    for name, mesh in meshes.items():
        message = ""
        if count % mesh.total_size:
            message = (
                f"mesh @{name} has {mesh.total_size} devices, which do not divide the {count} of mesh "
                f"@{largest}: a program with several meshes runs on the devices of the largest one, and "
                "repeats the others on them (JAX wants the same devices in all)"
            )
        elif count > _MOST_DEVICES:
            message = (
                f"mesh @{name} must have at most {_MOST_DEVICES} devices beside meshes of other "
                f"axes, but has {count}"
            )
        if message:
            session.diagnostics.error(operations[name].location, message)
            raise PassFailed(message)


def _replace_meshes(
    operations: Mapping[str, Operation], refined: Mapping[str, Refined]
) -> dict[str, str]:
    """Put the new meshes in the place of the old ones; return the new name for each old one."""
    made: dict[Mesh, str] = {}
    # A mesh that stays as it is keeps its name.
    for name in sorted(refined, key=lambda name: refined[name].mesh != _mesh_of(operations[name])):
        made.setdefault(refined[name].mesh, name)
    for name, op in operations.items():
        mesh = refined[name].mesh
        if made[mesh] != name:
            op.erase()
        elif mesh != _mesh_of(op):
            op.properties["mesh"] = mesh
            op.attributes.pop(STABLEHLO_MESH, None)
    return {name: made[each.mesh] for name, each in refined.items()}


class _Replacement:
    """The new shardings and axes for old ones."""

    def __init__(self, refined: Mapping[str, Refined], names: Mapping[str, str]) -> None:
        self._refined = refined
        self._names = names

    def sharding(self, old: TensorSharding) -> TensorSharding:
        """Return the same sharding on the new mesh."""
        if not isinstance(old.mesh, str) or old.mesh not in self._refined:
            return old  # on one device, or on an empty mesh
        to = self._refined[old.mesh]
        dims = tuple(replace(dim, axes=to.replace_all(dim.axes)) for dim in old.dims)
        return TensorSharding(
            self._names[old.mesh],
            dims,
            to.replace_all(old.replicated_axes),
            to.replace_all(old.unreduced_axes),
            old.reduction_op,
        )

    def operation(self, op: Operation) -> None:
        """Replace the axes that an operation has beside its shardings, which are the old ones still."""
        if op.name == "sdy.manual_computation":
            self._manual_computation(op)
        elif op.name in COLLECTIVES:
            sharding, key = op.properties["out_sharding"], COLLECTIVES[op.name]
            assert isinstance(sharding, TensorSharding)
            to = self._refined.get(sharding.mesh_name)
            if to is not None and key is not None:
                op.properties[key] = _axes(op.properties[key], to)
        elif (groups := replica_groups_of(op)) is not None:
            name = mesh_of_groups(groups)
            if isinstance(name, str) and name in self._refined:
                axes = _group_axes(groups.axes, self._refined[name])
                new = with_mesh(groups, self._names[name])
                op.properties["replica_groups"] = replace(new, axes=axes)

    def _manual_computation(self, op: Operation) -> None:
        axes = op.properties["manual_axes"]
        assert isinstance(axes, ManualAxes)
        for key in ("in_shardings", "out_shardings"):
            per_value = op.properties[key]
            assert isinstance(per_value, TensorShardingPerValue)
            for sharding in per_value.shardings:
                # One of them may be on an empty mesh.
                to = self._refined.get(sharding.mesh_name)
                if to is not None:
                    names = tuple(new for axis in axes.axes for new in to.axes[axis])
                    op.properties["manual_axes"] = ManualAxes(names)
                    return


def _axes(given: Attribute, to: Refined) -> Attribute:
    """Return the new axes of a collective."""
    if isinstance(given, AxisRefList):
        return AxisRefList(to.replace_all(given.axes))
    if isinstance(given, ListOfAxisRefLists):
        return ListOfAxisRefLists(tuple(map(to.replace_all, given.lists)))
    assert isinstance(given, AllToAllParamList)
    return AllToAllParamList(
        tuple(replace(param, axes=to.replace_all(param.axes)) for param in given.params)
    )


def _group_axes(axes: ArrayAttr, to: Refined) -> ArrayAttr:
    """Return the new axes of replica groups."""
    found: list[Attribute] = []
    for axis in axes.elements:
        assert isinstance(axis, GroupAxis)
        part = axis.sub_axis
        old = AxisRef(axis.name, None if part is None else SubAxisInfo(part.pre_size, part.size))
        for new in to.replace(old):
            sub = new.sub_axis
            found.append(
                GroupAxis(new.name, None if sub is None else GroupSubAxis(sub.pre_size, sub.size))
            )
    return ArrayAttr(tuple(found))
