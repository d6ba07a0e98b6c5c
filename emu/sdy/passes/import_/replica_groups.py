"""Replica groups given as axes of a mesh.

``#stablehlo.replica_group_mesh_axes<mesh = …, axes = […]>`` refers to its mesh by
symbol, or contains it as ``#sdy.mesh<…>`` or ``#stablehlo.mesh<…>``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from emu.mlir.attributes import DialectAttr
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import Mesh, MeshAxis

_GROUPS = re.compile(r"#stablehlo\.replica_group_mesh_axes<mesh = (.*), (axes = .*)>", re.DOTALL)
_STABLEHLO_AXIS = re.compile(r'name = "([^"]*)", size = (\d+)')
_SDY_AXIS = re.compile(r'"([^"]*)"=(\d+)')
_DEVICE_IDS = re.compile(r"device_ids=\[([\d, ]*)\]")


@dataclass(frozen=True, slots=True)
class StablehloMesh:
    """A ``#stablehlo.mesh``, which is not equal to an ``#sdy.mesh`` with the same axes."""

    mesh: Mesh


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """Replica groups along axes.

    Attributes:
        mesh: The mesh, or its name.
        axes: The rest of the attribute's text.
    """

    mesh: str | Mesh | StablehloMesh
    axes: str

    def with_mesh(self, name: str) -> DialectAttr:
        """Return the attribute with a mesh of that name."""
        symbol = name if re.fullmatch(r"[A-Za-z_][\w$.]*", name) else f'"{name}"'
        return DialectAttr("stablehlo", f".replica_group_mesh_axes<mesh = @{symbol}, {self.axes}>")


def replica_groups_of(op: Operation) -> ReplicaGroups | None:
    """Return the groups of a collective if they are given as axes of a mesh, else None."""
    attribute = op.properties.get("replica_groups")
    found = _GROUPS.fullmatch(str(attribute)) if attribute is not None else None
    if found is None:
        return None
    mesh, axes = found.groups()
    if mesh.startswith("@"):
        return ReplicaGroups(mesh[1:].strip('"'), axes)
    if mesh.startswith("#stablehlo.mesh<"):
        return ReplicaGroups(StablehloMesh(Mesh(_axes(_STABLEHLO_AXIS, mesh))), axes)
    ids = _DEVICE_IDS.search(mesh)
    device_ids = tuple(int(i) for i in ids[1].split(",")) if ids else ()
    return ReplicaGroups(Mesh(_axes(_SDY_AXIS, mesh), device_ids), axes)


def _axes(pattern: re.Pattern[str], text: str) -> tuple[MeshAxis, ...]:
    return tuple(MeshAxis(name, int(size)) for name, size in pattern.findall(text))
