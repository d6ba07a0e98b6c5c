"""Text figures of shardings."""

from __future__ import annotations

import pytest

from emu.mlir.text.type_parser import parse_type
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import AxisRef, DimensionSharding, Mesh, MeshAxis, TensorSharding
from emu.sdy.execution.picture import picture
from emu.sdy.execution.shards import Placement

MESH = Mesh((MeshAxis("a", 2), MeshAxis("b", 4)))


def placement(text: str, *dims: str) -> Placement:
    type_ = parse_type(text)
    assert isinstance(type_, TensorType)
    shardings = tuple(DimensionSharding(tuple(AxisRef(name) for name in dim)) for dim in dims)
    return Placement(type_, TensorSharding("mesh", shardings), MESH)


@pytest.mark.parametrize(
    ("text", "dims", "lines"),
    [
        ("tensor<4x8xf32>", ("", ""), ["x 4x8: whole on every device"]),
        ("tensor<f32>", (), ["x scalar: whole on every device"]),
        (
            "tensor<4x8xf32>",
            ("a", ""),
            ["x 4x8, in blocks of 2x8, on devices", "  | 0 1 2 3 | 4 5 6 7 |"],
        ),
        (
            "tensor<4x8xf32>",
            ("a", "b"),
            ["x 4x8, in blocks of 2x2, on devices", "  | 0 | 1 | 2 | 3 |", "  | 4 | 5 | 6 | 7 |"],
        ),
        (
            "tensor<3x6x8xf32>",
            ("", "", "b"),
            ["x 3x6x8, in blocks of 3x6x2, on devices", "  | 0 4 | 1 5 | 2 6 | 3 7 |"],
        ),
        (
            "tensor<5xf32>",
            ("b",),
            [
                "x 5, in blocks of 2, the last ones padded, on devices",
                "  | 0 4 | 1 5 | 2 6 | 3 7 |",
            ],
        ),
    ],
)
def test_every_block_names_its_devices(text: str, dims: tuple[str, ...], lines: list[str]) -> None:
    assert picture("x", placement(text, *dims), 8).splitlines() == lines


def test_of_many_devices_the_first_and_their_number_are_named() -> None:
    mesh = Mesh((MeshAxis("a", 2), MeshAxis("b", 16)))
    found = placement("tensor<4xf32>", "a")
    wide = Placement(found.type, found.sharding, mesh)
    assert picture("x", wide, 32).splitlines()[1] == "  |  0 1 … (16)  | 16 17 … (16) |"
