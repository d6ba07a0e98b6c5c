"""``sdy-inline-meshes``: makes shardings independent of the module's meshes."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.meshes import find_mesh, inline_mesh
from emu.sdy.dialect.walker import transform_shardings
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.replica_groups import mesh_of_groups, replica_groups_of, with_mesh


class InlineMeshes(ModulePass, name="sdy-inline-meshes"):
    """Inline the meshes of all shardings and replica groups, and drop their symbols."""

    def run(self, op: Operation, session: Session) -> None:
        """Inline the meshes of a module."""
        table = SymbolTable(op)
        transform_shardings(op, lambda sharding, _: inline_mesh(table, sharding))
        for each in op.walk():
            groups = replica_groups_of(each)
            name = None if groups is None else mesh_of_groups(groups)
            mesh = find_mesh(table, name) if isinstance(name, str) else None
            if groups is not None and mesh is not None:
                each.properties["replica_groups"] = with_mesh(groups, mesh)
        for mesh_op in [each for each in op.body() if each.name == "sdy.mesh"]:
            table.erase(mesh_op)
