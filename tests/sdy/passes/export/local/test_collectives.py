"""Collectives on local tensors."""

from __future__ import annotations

import pytest
from sdy_local_programs import CONVERT, ROWS, arg, program

import emu.sdy
from emu.mlir import parse


@pytest.mark.parametrize("by", ["maximum", "minimum", "multiply", "and", "or", "xor"])
def test_partial_results_are_combined_as_the_reduction_does(by: str) -> None:
    element = "i32" if by in {"and", "or", "xor"} else "f32"
    text = program(
        arg("%a", f"tensor<4x4x{element}>", ROWS) + f", %s: tensor<{element}>",
        f"  %0 = stablehlo.reduce(%a init: %s) applies stablehlo.{by} across dimensions = [0, 1] "
        f": (tensor<4x4x{element}>, tensor<{element}>) -> tensor<{element}>\n"
        f'  %1 = sdy.all_reduce {{"r"}} %0 out_sharding=<@grid, []> : tensor<{element}>',
    )
    module = parse(text)
    assert not emu.sdy.run_passes(module, CONVERT)
    (combining,) = [op for op in module.walk() if op.name == "stablehlo.all_reduce"]
    assert [op.name for op in combining.body()] == [f"stablehlo.{by}", "stablehlo.return"]


LARGEST = """\
  %i = stablehlo.iota dim = 0 : tensor<4xi32>
  %j = sdy.all_slice [{"r"}] %i out_sharding=<@grid, [{"r"}]> : tensor<4xi32>
  %0:2 = stablehlo.reduce(%a init: %s), (%j init: %n) across dimensions = [0] : (tensor<4xf32>, \
tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%x: tensor<f32>, %y: tensor<f32>) (%k: tensor<i32>, %l: tensor<i32>)  {
    %2 = stablehlo.compare  GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.select %2, %x, %y : tensor<i1>, tensor<f32>
    %4 = stablehlo.select %2, %k, %l : tensor<i1>, tensor<i32>
    stablehlo.return %3, %4 : tensor<f32>, tensor<i32>
  }
  %5 = sdy.all_reduce {"r"} %0#0 out_sharding=<@grid, []> : tensor<f32>
  %6 = sdy.all_reduce {"r"} %0#1 out_sharding=<@grid, []> : tensor<i32>
"""


def test_results_that_depend_on_each_other_are_reduced_together() -> None:
    """Which element is the greatest: the devices' indices cannot be added up."""
    module = parse(
        program(arg("%a", "tensor<4xf32>", '{"r"}') + ", %s: tensor<f32>, %n: tensor<i32>", LARGEST)
    )
    assert not emu.sdy.run_passes(module, CONVERT)
    names = [op.name for op in module.walk()]
    assert names.count("stablehlo.all_gather") == 2
    assert names.count("stablehlo.reduce") == 2
    assert "stablehlo.all_reduce" not in names
    local, joint = [op for op in module.walk() if op.name == "stablehlo.reduce"]
    assert [str(value.type) for value in joint.operands[:2]] == ["tensor<2xf32>", "tensor<2xi32>"]
    assert [op.name for op in joint.body()] == [op.name for op in local.body()]
