"""Meshes and shardings for tests of the dialect."""

from __future__ import annotations

import emu.sdy.dialect.ops
import emu.stablehlo  # noqa: F401  # makes the operations known
from emu.mlir import parse
from emu.mlir.ir import Operation
from emu.mlir.types import FloatType
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    Mesh,
    TensorSharding,
)

F32 = FloatType("f32")


MESHES = """
sdy.mesh @grid = <["x"=2, "y"=4]>
sdy.mesh @other = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
sdy.mesh @third = <["z"=8]>
sdy.mesh @one = <[], device_ids=[5]>
sdy.mesh @none = <[]>
"""


def read(text: str) -> Operation:
    return parse(MESHES + text, verify=False)


def named(module: Operation, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


def cut(mesh: str | Mesh, *dims: str, open_: bool = False) -> TensorSharding:
    """``cut("grid", "x y", "")``: the axes of each dimension."""
    return TensorSharding(
        mesh,
        tuple(DimensionSharding(tuple(map(AxisRef, dim.split())), not open_) for dim in dims),
    )
