"""The pass on text: what is printed is what Shardy's own pass prints."""

from __future__ import annotations

import pytest

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import PassFailed
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.populate import PopulateOpShardingRules


def populated(text, session=None, **options):
    session = session or Session()
    module = parse(text)
    run_pass(PopulateOpShardingRules(**options), module, session)
    return to_text(module)


LAYER = """\
module {
  func.func @layer(%arg0: tensor<8x16xf32>, %arg1: tensor<16x32xf32>) -> tensor<8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]RULE0 : \
(tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %1 = stablehlo.slice %0 [0:8, 4:20]RULE1 : (tensor<8x32xf32>) -> tensor<8x16xf32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1]RULE2 : \
(tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{?}]>RULE3 : tensor<8xf32>
    return %3 : tensor<8xf32>
  }
  sdy.mesh @mesh = <["x"=2]>
}
"""


def layer(*rules):
    text = LAYER
    for index in range(4):
        rule = f" {{sdy.sharding_rule = #sdy.op_sharding_rule<{rules[index]}>}}" if rules else ""
        text = text.replace(f"RULE{index}", rule)
    return text


def test_every_operation_gets_its_rule():
    assert (
        populated(layer()).rstrip()
        == layer(
            "([i, k], [k, j])->([i, j]) {i=8, j=32, k=16} reduction={k}",
            "([i, j])->([i, j]) {i=8, j=32} permutation={j}",
            "([i, j], [])->([i]) {i=8, j=16} reduction={j}",
            "([i])->([i]) {i=8}",
        ).rstrip()
    )


def test_conservative_rules():
    text = populated(layer(), conservative_propagation=True)
    assert "{i=8, j=32} permutation={j} blocked_propagation={j}>" in text


def test_what_is_there_stays():
    text = populated(layer()).replace("permutation={j}", "need_replication={j}")
    assert populated(text) == text


def test_operations_inside_others():
    text = populated(
        """\
func.func @loop(%arg0: tensor<4xf32>, %arg1: tensor<i1>) -> tensor<4xf32> {
  %0 = stablehlo.while(%iterArg = %arg0) : tensor<4xf32> cond {
    stablehlo.return %arg1 : tensor<i1>
  } do {
    %1 = stablehlo.tanh %iterArg : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
"""
    )
    assert "tanh %iterArg {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=4}>}" in text
    assert text.count("sdy.sharding_rule") == 1


def test_dynamic_shapes_are_refused_by_the_verifier():
    session = Session()
    with pytest.raises(PassFailed):
        populated(
            """\
func.func @f(%a: tensor<4x?xf32>) -> tensor<4x?xf32> {
  %0 = stablehlo.tanh %a : tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
""",
            session,
        )
    (error,) = session.diagnostics.errors
    assert error.message == (
        "'stablehlo.tanh' op operand - expected a ranked tensor with a static shape. "
        "type: 'tensor<4x?xf32>'"
    )
