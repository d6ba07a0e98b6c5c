"""Passes that lift inlined meshes, and drop axes of size one."""

from __future__ import annotations

from dataclasses import replace

from emu.mlir.attributes import ArrayAttr, DenseElementsAttr, DictAttr, IntegerAttr, StringAttr
from emu.mlir.diagnostics import Location
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import IntegerType
from emu.sdy.dialect.attributes import AxisRef, DimensionSharding, Mesh, TensorSharding
from emu.sdy.dialect.meshes import get_mesh
from emu.sdy.dialect.walker import Place, transform_shardings
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.replica_groups import (
    ForeignMesh,
    mesh_of_groups,
    replica_groups_of,
    with_mesh,
)

_I64 = IntegerType(64)
STABLEHLO_MESH = "stablehlo.mesh"
_COLLECTIVES = (
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.reduce_scatter",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
)


def _mesh_ops(module: Operation) -> list[Operation]:
    return [op for op in module.body() if op.name == "sdy.mesh"]


def _mesh_of(op: Operation) -> Mesh:
    mesh = op.properties["mesh"]
    assert isinstance(mesh, Mesh)  # checked by the verifier
    return mesh


class LiftInlinedMeshes(ModulePass, name="sdy-lift-inlined-meshes"):
    """Replace inlined meshes of shardings by symbols, one per mesh.

    Equal meshes are merged. A new one is called ``mesh``, ``maximal_mesh_<device>``
    or ``empty_mesh``, with a number if the name is taken. Every mesh gets the
    attribute ``stablehlo.mesh``.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Lift the meshes of a module."""
        lifting = _Lifting(op)
        transform_shardings(op, lifting.sharding)
        for name in _COLLECTIVES:
            for collective in op.walk(post_order=True):
                if collective.name == name:
                    lifting.replica_groups(collective)
        for mesh_op in _mesh_ops(op):
            if STABLEHLO_MESH not in mesh_op.attributes:
                mesh_op.attributes[STABLEHLO_MESH] = _as_stablehlo(_mesh_of(mesh_op))


class _Lifting:
    """Meshes of a module during lifting.

    ``new_name`` maps a mesh, or the name of a duplicate that was dropped, to
    the name that replaces it.
    """

    def __init__(self, module: Operation) -> None:
        self._module = module
        self._table = SymbolTable(module)
        self._new_name: dict[str | Mesh | ForeignMesh, str] = {}
        last: Operation | None = None
        for op in _mesh_ops(module):
            name = op.symbol_name
            assert name is not None  # checked by the verifier
            kept = self._new_name.setdefault(_mesh_of(op), name)
            if kept != name:
                self._new_name[name] = kept
                self._table.erase(op)
            else:
                last = op
        # New meshes go after the last one, or to the front of the module.
        self._place = module.body().first if last is None else last.next_op

    def sharding(self, sharding: TensorSharding, _: Place) -> TensorSharding:
        name = self._lifted(sharding.mesh, self._module.location)
        return sharding if name is None else replace(sharding, mesh=name)

    def replica_groups(self, op: Operation) -> None:
        groups = replica_groups_of(op)
        if groups is not None:
            name = self._lifted(mesh_of_groups(groups), op.location)
            if name is not None:
                op.properties["replica_groups"] = with_mesh(groups, name)

    def _lifted(self, mesh: str | Mesh | ForeignMesh | None, location: Location) -> str | None:
        """Return the name that replaces a mesh; None if its name stays."""
        if mesh is None:
            return None
        name = self._new_name.get(mesh)
        if name is None and not isinstance(mesh, str):
            name = self._new_name[mesh] = self._insert(mesh, location)
        return name

    def _insert(self, mesh: Mesh | ForeignMesh, location: Location) -> str:
        written = mesh if isinstance(mesh, Mesh) else mesh.mesh
        name = "mesh"
        if isinstance(mesh, Mesh) and mesh.is_maximal:
            name = f"maximal_mesh_{mesh.device_ids[0]}"
        elif isinstance(mesh, Mesh) and mesh.is_empty:
            name = "empty_mesh"
        op = Operation(
            "sdy.mesh",
            properties={"sym_name": StringAttr(name), "mesh": written},
            location=location,
        )
        self._module.body().insert_before(self._place, op)
        return self._table.insert(op)


def _as_stablehlo(mesh: Mesh) -> DictAttr:
    axes = [
        DictAttr.of({"name": StringAttr(axis.name), "size": IntegerAttr(axis.size, _I64)})
        for axis in mesh.axes
    ]
    entries = {"axes": ArrayAttr(tuple(axes))}
    if not mesh.device_ids:
        return DictAttr.of(entries)
    ids = DenseElementsAttr.of(mesh.device_ids, (len(mesh.device_ids),))
    return DictAttr.of({**entries, "device_ids": ids})


class RemoveSizeOneAxes(ModulePass, name="sdy-remove-size-one-axes"):
    """Drop axes of size one from all shardings; the meshes keep them."""

    def run(self, op: Operation, session: Session) -> None:
        """Drop the axes in a module."""
        if not any(axis.size == 1 for mesh in _mesh_ops(op) for axis in _mesh_of(mesh).axes):
            return
        table = SymbolTable(op)

        def drop(sharding: TensorSharding, _: Place) -> TensorSharding:
            return _without_size_one(sharding, get_mesh(table, sharding.mesh))

        transform_shardings(op, drop)


def _without_size_one(sharding: TensorSharding, mesh: Mesh) -> TensorSharding:
    def kept(axes: tuple[AxisRef, ...]) -> tuple[AxisRef, ...]:
        return tuple(axis for axis in axes if axis.size(mesh) != 1)

    dims = []
    for dim in sharding.dims:
        axes = kept(dim.axes)
        # An empty closed dimension may not have a priority.
        priority = dim.priority if axes or not dim.is_closed else None
        dims.append(DimensionSharding(axes, dim.is_closed, priority))
    return TensorSharding(
        sharding.mesh,
        tuple(dims),
        kept(sharding.replicated_axes),
        kept(sharding.unreduced_axes),
        sharding.reduction_op,
    )
