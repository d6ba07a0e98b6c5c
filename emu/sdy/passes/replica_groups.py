"""Replica groups given as axes of a mesh.

``#stablehlo.replica_group_mesh_axes<mesh = …, axes = […]>`` refers to its mesh by
symbol, or contains it as ``#sdy.mesh<…>`` or ``#stablehlo.mesh<…>``.
"""

from __future__ import annotations

from dataclasses import dataclass

from emu.mlir.attributes import Attribute, DenseElementsAttr, SymbolRefAttr
from emu.mlir.dense import integer_values
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import Mesh, MeshAxis
from emu.stablehlo.attributes import Mesh as StablehloMesh
from emu.stablehlo.attributes import MeshAxis as StablehloMeshAxis
from emu.stablehlo.attributes import ReplicaGroupMeshAxes


def replica_groups_of(op: Operation) -> ReplicaGroupMeshAxes | None:
    """Return the groups of a collective if they are given as axes of a mesh, else None."""
    groups = op.properties.get("replica_groups")
    return groups if isinstance(groups, ReplicaGroupMeshAxes) else None


@dataclass(frozen=True, slots=True)
class ForeignMesh:
    """A ``#stablehlo.mesh``, which is not equal to an ``#sdy.mesh`` with the same axes."""

    mesh: Mesh


def mesh_of_groups(groups: ReplicaGroupMeshAxes) -> str | Mesh | ForeignMesh | None:
    """Return the mesh of replica groups, or its name; None for any other attribute."""
    mesh = groups.mesh
    if isinstance(mesh, SymbolRefAttr):
        return mesh.root
    if isinstance(mesh, StablehloMesh):
        return ForeignMesh(_from_stablehlo(mesh))
    return mesh if isinstance(mesh, Mesh) else None


def with_mesh(groups: ReplicaGroupMeshAxes, mesh: str | Mesh) -> ReplicaGroupMeshAxes:
    """Return the groups on a mesh: on the one of that name, or on an inlined one."""
    given: Attribute = SymbolRefAttr(mesh) if isinstance(mesh, str) else as_stablehlo(mesh)
    return ReplicaGroupMeshAxes(given, groups.axes)


def as_stablehlo(mesh: Mesh) -> StablehloMesh:
    """Return a mesh as StableHLO writes it."""
    axes = tuple(StablehloMeshAxis(axis.name, axis.size) for axis in mesh.axes)
    ids = mesh.device_ids
    return StablehloMesh(axes, DenseElementsAttr.of(ids, (len(ids),)) if ids else None)


def _from_stablehlo(mesh: StablehloMesh) -> Mesh:
    ids = mesh.device_ids
    devices = integer_values(ids) if isinstance(ids, DenseElementsAttr) else ()
    return Mesh(tuple(MeshAxis(axis.name, axis.size) for axis in mesh.axes), devices)
