"""Which mesh a sharding is bound to, and which one several have in common.

Meshes are symbols of the module. Who asks often should make one
``emu.mlir.symbols.SymbolTable`` and ask with it: that is a look into a dict,
whereas asking with an operation walks up to its module and along its symbols.
"""

from __future__ import annotations

from collections.abc import Iterable

from emu.mlir import symbols
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.attributes import Mesh, TensorSharding, TensorShardingPerValue

__all__ = [
    "common_mesh",
    "common_mesh_name",
    "common_mesh_or_name",
    "find_mesh",
    "first_mesh_or_name",
    "get_mesh",
    "inline_mesh",
    "inline_meshes",
    "mesh_operation",
]

Scope = Operation | SymbolTable
"""Where to look up a mesh: a symbol table, or any operation of the module."""


def mesh_operation(scope: Scope, name: str) -> Operation | None:
    """Return the ``sdy.mesh`` of that name, or None."""
    op = scope.lookup(name) if isinstance(scope, SymbolTable) else symbols.lookup(scope, name)
    return op if op is not None and op.name == "sdy.mesh" else None


def find_mesh(scope: Scope, mesh: str | Mesh) -> Mesh | None:
    """Return a mesh, or the one of that name; None where there is none."""
    if isinstance(mesh, Mesh):
        return mesh
    op = mesh_operation(scope, mesh)
    found = op.properties.get("mesh") if op is not None else None
    return found if isinstance(found, Mesh) else None


def get_mesh(scope: Scope, mesh: str | Mesh) -> Mesh:
    """As ``find_mesh``, but raises ValueError where there is none.

    The verifier rejects shardings of unknown meshes, so that a verified
    module never comes to that.
    """
    found = find_mesh(scope, mesh)
    if found is None:
        raise ValueError(f"unknown mesh: @{mesh}")
    return found


def common_mesh_or_name(
    shardings: Iterable[TensorSharding | None], scope: Scope, *, ignore_device_ids: bool = False
) -> str | Mesh | None:
    """Return the mesh, or its name, that all shardings have; None if they differ.

    Empty meshes do not count unless all are empty. It is given as the first
    sharding that has it writes it.

    Args:
        shardings: The shardings; None is passed over.
        scope: Where meshes are looked up.
        ignore_device_ids: Meshes of equal axes are one; of these the last one
            whose devices are in the natural order is preferred.
    """
    chosen: str | Mesh | None = None
    mesh: Mesh | None = None
    for sharding in shardings:
        if sharding is None or (mesh is not None and sharding.mesh == chosen):
            continue
        other = get_mesh(scope, sharding.mesh)
        if mesh is None or mesh.is_empty:
            mesh, chosen = other, sharding.mesh
            continue
        if other.is_empty:
            continue
        if not other.equals(mesh, ignore_device_ids=ignore_device_ids):
            return None
        if ignore_device_ids and not other.device_ids:
            mesh, chosen = other, sharding.mesh
    return chosen


def common_mesh(shardings: Iterable[TensorSharding | None], scope: Scope) -> Mesh | None:
    """Return the mesh that all shardings have (see ``common_mesh_or_name``)."""
    found = common_mesh_or_name(shardings, scope)
    return None if found is None else get_mesh(scope, found)


def common_mesh_name(
    shardings: Iterable[TensorSharding | None], scope: Scope, *, ignore_device_ids: bool = False
) -> str | None:
    """Return the name of the mesh that all shardings have; no mesh may be inlined."""
    found = common_mesh_or_name(shardings, scope, ignore_device_ids=ignore_device_ids)
    if found is None or isinstance(found, str):
        return found
    raise ValueError("the common mesh is inlined, so it has no name")


def first_mesh_or_name(
    shardings: Iterable[TensorSharding | None], scope: Scope
) -> str | Mesh | None:
    """Return the mesh, as written, of the first sharding whose mesh is not maximal."""
    for sharding in shardings:
        if sharding is not None and not get_mesh(scope, sharding.mesh).is_maximal:
            return sharding.mesh
    return None


def inline_mesh(scope: Scope, sharding: TensorSharding) -> TensorSharding:
    """Return the same sharding with its mesh written in place."""
    if isinstance(sharding.mesh, Mesh):
        return sharding
    return TensorSharding(
        get_mesh(scope, sharding.mesh),
        sharding.dims,
        sharding.replicated_axes,
        sharding.unreduced_axes,
    )


def inline_meshes(scope: Scope, per_value: TensorShardingPerValue) -> TensorShardingPerValue:
    """Return the same shardings with their meshes written in place."""
    return TensorShardingPerValue(tuple(inline_mesh(scope, s) for s in per_value.shardings))
