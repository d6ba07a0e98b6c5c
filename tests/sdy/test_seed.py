"""The examples of the document that ordered this, word for word where they are whole."""

from __future__ import annotations

import pytest

import emu.sdy
from emu.mlir.registry import definition, load_dialects
from emu.sdy import attributes

OPERATIONS = {
    "sdy.constant": {"value"},
    "sdy.data_flow_edge": {"sharding"},
    "sdy.manual_computation": {"in_shardings", "out_shardings", "manual_axes"},
    "sdy.mesh": {"sym_name", "mesh"},
    "sdy.named_computation": {"name", "in_shardings", "out_shardings"},
    "sdy.propagation_barrier": {"allowed_direction"},
    "sdy.reshard": {"sharding"},
    "sdy.return": set(),
    "sdy.sharding_constraint": {"sharding"},
    "sdy.sharding_group": {"group_id"},
}
ATTRIBUTES = [
    "AxisRef",
    "DimMapping",
    "DimensionSharding",
    "ManualAxes",
    "Mesh",
    "MeshAxis",
    "OpShardingRule",
    "SubAxisInfo",
    "TensorMapping",
    "TensorSharding",
    "TensorShardingPerValue",
]


def test_its_operations_have_its_attributes() -> None:
    load_dialects()
    assert {name: set(definition(name).properties) for name in OPERATIONS} == OPERATIONS


def test_its_attributes_and_its_directions_are_there() -> None:
    assert set(ATTRIBUTES) <= set(attributes.__all__)
    assert [d.name for d in attributes.PropagationDirection] == [
        "NONE",
        "FORWARD",
        "BACKWARD",
        "BOTH",
    ]


@pytest.mark.parametrize(
    ("mesh", "maximal"),
    [
        ("<[]>", False),
        ("<[], device_ids=[3]>", True),
        ('<["a"=2, "b"=3]>', False),
        ('<["a"=3, "b"=2], device_ids=[0, 2, 4, 1, 3, 5]>', False),
    ],
)
def test_its_meshes(mesh: str, maximal: bool) -> None:
    module = emu.sdy.parse(f"sdy.mesh @m = {mesh}")
    assert f"sdy.mesh @m = {mesh}\n" in str(module)
    (op,) = module.body()
    assert op.properties["mesh"].is_maximal is maximal


NAMED = """\
%1 = sdy.named_computation<"foo">(%0) (%arg1: tensor<16x32xf32>) {
sdy.return %arg1 : tensor<16x32xf32>
} : (tensor<16x32xf32>) -> tensor<16x32xf32>"""
SUM = """\
%0 = stablehlo.add %arg0, %arg1 {
sdy.sharding_rule = #sdy.op_sharding_rule<
([i, j],[i, j])->([i, j])
{i=8, j=8}>
} : tensor<8x8xf32>"""
PRODUCT = """\
%1 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [1] x [0] {
sdy.sharding_rule = #sdy.op_sharding_rule<
([i, k],[k, j])->([i, j])
{i=8, j=16, k=8}>
}: (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>"""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("", "%output = sdy.constant dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf32>"),
        ("%0: tensor<16x32xf32>", NAMED),
        ("%arg0: tensor<8x8xf32>, %arg1: tensor<8x8xf32>", SUM),
        ("%arg2: tensor<8x8xf32>, %arg3: tensor<8x16xf32>", PRODUCT),
    ],
)
def test_its_lines(arguments: str, line: str) -> None:
    text = f"func.func @f({arguments}) {{\n{line}\nreturn\n}}"
    module = emu.sdy.parse(text)
    assert str(emu.sdy.parse(str(module))) == str(module)
