"""Lookup of meshes, and the mesh that several shardings share."""

from __future__ import annotations

import pytest
from sdy_dialect_cases import cut, named, read

import emu.sdy.dialect.ops
import emu.stablehlo  # noqa: F401  # makes the operations known
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect import meshes
from emu.sdy.dialect.attributes import (
    Mesh,
    MeshAxis,
)


@pytest.fixture
def module() -> Operation:
    return read(
        "func.func @main(%a: tensor<8xf32>) { %0 = stablehlo.add %a, %a : tensor<8xf32> return }"
    )


def test_looking_up_meshes(module: Operation) -> None:
    table = SymbolTable(module)
    grid = Mesh((MeshAxis("x", 2), MeshAxis("y", 4)))
    for scope in (table, module, named(module, "stablehlo.add")[0]):
        assert meshes.get_mesh(scope, "grid") == grid
        assert meshes.get_mesh(scope, grid) is grid
        assert meshes.find_mesh(scope, "main") is None
        assert meshes.mesh_operation(scope, "grid") is named(module, "sdy.mesh")[0]
        with pytest.raises(ValueError, match="unknown mesh: @nowhere"):
            meshes.get_mesh(scope, "nowhere")


def test_the_mesh_in_common(module: Operation) -> None:
    table = SymbolTable(module)
    grid, other, third = (cut(name, "") for name in ("grid", "other", "third"))
    none, inlined = cut("none", ""), cut(meshes.get_mesh(table, "grid"), "")
    assert meshes.common_mesh_or_name([None, grid, None, grid], table) == "grid"
    assert meshes.common_mesh_or_name([inlined, grid], table) == inlined.mesh
    assert meshes.common_mesh_or_name([grid, inlined], table) == "grid"
    assert meshes.common_mesh([none, grid], table) == meshes.get_mesh(table, "grid")
    assert meshes.common_mesh_or_name([grid, none], table) == "grid"
    assert meshes.common_mesh_or_name([none, none], table) == "none"
    assert meshes.common_mesh_or_name([grid, third], table) is None
    assert meshes.common_mesh([], table) is None
    assert meshes.common_mesh_or_name([grid, other], table) is None
    # Of meshes with the same axes the one in the natural order is preferred.
    assert meshes.common_mesh_or_name([other, grid], table, ignore_device_ids=True) == "grid"
    assert meshes.common_mesh_or_name([other, other], table, ignore_device_ids=True) == "other"
    assert meshes.common_mesh_or_name([grid, third], table, ignore_device_ids=True) is None
    assert meshes.common_mesh_or_name([inlined], table) == inlined.mesh
    assert meshes.first_mesh_or_name([None, cut("one"), third, grid], table) == "third"
    assert meshes.first_mesh_or_name([None, cut("one")], table) is None


def test_inlining_meshes(module: Operation) -> None:
    table = SymbolTable(module)
    mesh = meshes.get_mesh(table, "third")
    assert meshes.inline_mesh(table, cut("third", "z")) == cut(mesh, "z")
    assert meshes.inline_mesh(table, cut(mesh, "z")) == cut(mesh, "z")


def test_a_maximal_mesh_never_equals_another() -> None:
    one, none = Mesh((), (5,)), Mesh(())
    assert one.is_maximal
    assert not one.is_empty
    assert not one.equals(none, ignore_device_ids=True)
    assert one.equals(Mesh((), (6,)), ignore_device_ids=True)
    assert not one.equals(Mesh((), (6,)))
