"""Lookup of the mesh of a sharding, and of the mesh that several shardings share.

Meshes are symbols of the module. Callers with many lookups should create one
``emu.mlir.symbols.SymbolTable`` and pass it as the scope: then a lookup is a
dict access, whereas from an operation it walks up to the module and along its
symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from emu.mlir import symbols
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.attributes import Mesh, TensorSharding

Scope = Operation | SymbolTable
"""Scope of a lookup: a symbol table, or any operation of the module."""


def mesh_operation(scope: Scope, name: str) -> Operation | None:
    """Return the ``sdy.mesh`` of that name, or None."""
    op = scope.lookup(name) if isinstance(scope, SymbolTable) else symbols.lookup(scope, name)
    return op if op is not None and op.name == "sdy.mesh" else None


def find_mesh(scope: Scope, mesh: str | Mesh) -> Mesh | None:
    """Return an inlined mesh itself, or the mesh of that name; None if there is none."""
    if isinstance(mesh, Mesh):
        return mesh
    op = mesh_operation(scope, mesh)
    found = op.properties.get("mesh") if op is not None else None
    return found if isinstance(found, Mesh) else None


def get_mesh(scope: Scope, mesh: str | Mesh) -> Mesh:
    """Return the mesh as ``find_mesh`` does, but raise ValueError if there is none.

    The verifier rejects shardings on unknown meshes, so that cannot happen in a
    verified module.
    """
    found = find_mesh(scope, mesh)
    if found is None:
        raise ValueError(f"unknown mesh: @{mesh}")
    return found


def common_mesh_or_name(
    shardings: Iterable[TensorSharding | None], scope: Scope, *, ignore_device_ids: bool = False
) -> str | Mesh | None:
    """Return the mesh, or its name, that all shardings share; None if they differ.

    Empty meshes do not count unless all are empty. The result has the form (mesh or
    name) of the first sharding that has it.

    Args:
        shardings: The shardings; None is skipped.
        scope: Scope in which meshes are looked up.
        ignore_device_ids: Treat meshes with equal axes as one; of these, the last
            one whose devices are in natural order is preferred.
    """
    chosen: str | Mesh | None = None
    mesh: Mesh | None = None
    for sharding in shardings:
        if sharding is None or (mesh is not None and sharding.mesh == chosen):
            continue
        other = get_mesh(scope, sharding.mesh)
        # An empty mesh is replaced by any other one, since a sharding on it has no axes.
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
    """Return the mesh that all shardings share (see ``common_mesh_or_name``)."""
    found = common_mesh_or_name(shardings, scope)
    return None if found is None else get_mesh(scope, found)


def first_mesh_or_name(
    shardings: Iterable[TensorSharding | None], scope: Scope
) -> str | Mesh | None:
    """Return the mesh, as written, of the first sharding whose mesh is not maximal."""
    for sharding in shardings:
        if sharding is not None and not get_mesh(scope, sharding.mesh).is_maximal:
            return sharding.mesh
    return None


def inline_mesh(scope: Scope, sharding: TensorSharding) -> TensorSharding:
    """Return the same sharding with its mesh inlined."""
    if isinstance(sharding.mesh, Mesh):
        return sharding
    return replace(sharding, mesh=get_mesh(scope, sharding.mesh))


def single_device_mesh(sharding: TensorSharding | None, scope: Scope) -> Mesh | None:
    """Return the mesh of a sharding on one device (a maximal mesh); None for any other."""
    mesh = None if sharding is None else find_mesh(scope, sharding.mesh)
    return mesh if mesh is not None and mesh.is_maximal else None


def is_on_single_device(sharding: TensorSharding | None, scope: Scope) -> bool:
    """Return whether a sharding puts its tensor on one device."""
    return single_device_mesh(sharding, scope) is not None


def global_mesh_name(module: Operation) -> str | None:
    """Return the name of the module's first mesh with axes, or None."""
    for op in module.body():
        mesh = op.properties.get("mesh") if op.name == "sdy.mesh" else None
        if isinstance(mesh, Mesh) and mesh.axes:
            return op.symbol_name
    return None
