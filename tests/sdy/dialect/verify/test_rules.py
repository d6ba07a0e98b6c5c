"""Sharding rules on operations, and records of propagation: each rule broken once."""

from __future__ import annotations

import pytest

from emu.mlir.ir import Block, Operation
from emu.mlir.types import FloatType, TensorType
from emu.sdy.dialect.attributes import DimMapping, OpShardingRule, TensorMapping
from emu.sdy.dialect.text import factor_symbol
from emu.sdy.dialect.verify.rules import sharding_rule_problem

F32 = FloatType("f32")


def _mapping(*dims: tuple[int, ...]) -> TensorMapping:
    return TensorMapping(tuple(DimMapping(factors) for factors in dims))


def _message(rule: OpShardingRule, operands=((8, 6),), results=((8, 6),)) -> str | None:
    block = Block(TensorType(shape, F32) for shape in operands)
    op = Operation("some.op", block.arguments, [TensorType(shape, F32) for shape in results])
    problem = sharding_rule_problem(rule, op)
    return None if problem is None else problem.message


ID = _mapping((0,), (1,))
ALL = (8, 6)

RULES = [
    (
        "no mapping for the operand",
        OpShardingRule(ALL, (), (ID,)),
        "number of operands and mappings must match: 1 != 0",
    ),
    (
        "two for the result",
        OpShardingRule(ALL, (ID,), (ID, ID)),
        "number of results and mappings must match: 1 != 2",
    ),
    (
        "rank",
        OpShardingRule(ALL, (_mapping((0,)),), (ID,)),
        "operand - mapping rank must match: 1 != 2",
    ),
    (
        "a dimension without factors",
        OpShardingRule(ALL, (ID,), (_mapping((0,), ()),)),
        "result - dim mapping must have at least one factor",
    ),
    (
        "a factor that is not there",
        OpShardingRule(ALL, (ID,), (_mapping((0,), (2,)),)),
        (
            "result - expecting factor indices to be within 0<=...<num_factors; received: 2, "
            "num_factors: 2"
        ),
    ),
    (
        "a factor twice",
        OpShardingRule(ALL, (_mapping((0,), (0,)),), (ID,)),
        "operand - cannot reuse factors for the same tensor value",
    ),
    (
        "one of size 1 among others",
        OpShardingRule((8, 6, 1), (_mapping((0, 2), (1,)),), (ID,)),
        "operand - dim mapping can't have a factor of size 1 if there are multiple factors",
    ),
    (
        "one that nothing uses",
        OpShardingRule((8, 6, 5), (ID,), (ID,)),
        "has factor k=5 that isn't used in operand and result mappings",
    ),
    (
        "special factors out of order",
        OpShardingRule(ALL, (ID,), (ID,), need_replication=(1, 0)),
        "indices of special factors must be sorted",
    ),
    (
        "special factor twice",
        OpShardingRule(ALL, (ID,), (ID,), permutation=(1, 1)),
        "indices of special factors must be unique",
    ),
    (
        "negative special factor",
        OpShardingRule(ALL, (ID,), (ID,), blocked_propagation=(-1,)),
        "index must be non-negative",
    ),
    (
        "special factor that is not there",
        OpShardingRule(ALL, (ID,), (ID,), blocked_propagation=(0, 4)),
        "index must be less than 2, got: 4",
    ),
    (
        "of two kinds",
        OpShardingRule(ALL, (ID,), (ID,), need_replication=(1,), permutation=(1,)),
        (
            "a factor can only be in one of the reduction, need replication, or permutation factor "
            "sets"
        ),
    ),
    (
        "a reduced factor of the result",
        OpShardingRule(ALL, (ID,), (ID,), reduction=(0,)),
        "reduction factor cannot be in result mappings",
    ),
]


@pytest.mark.parametrize(("rule", "message"), [c[1:] for c in RULES], ids=[c[0] for c in RULES])
def test_a_rule(rule, message):
    assert _message(rule) == message


def test_values_are_numbered_where_there_are_several():
    rule = OpShardingRule(ALL, (ID, _mapping((0,))), (ID,))
    assert (
        _message(rule, operands=((8, 6), (8, 6))) == "operand 1 - mapping rank must match: 1 != 2"
    )


def test_shapes_are_static():
    rule = OpShardingRule(ALL, (ID,), (ID,))
    assert _message(rule, results=((8, None),)) == (
        "result - expected a ranked tensor with a static shape. type: 'tensor<8x?xf32>'"
    )


def test_there_are_operands_and_results():
    assert _message(OpShardingRule((), (), ()), operands=(), results=()) == (
        "number of operands mappings cannot be 0. Op sharding rules can only be defined on "
        "operations with at least one operand and result."
    )


def test_a_good_rule():
    matmul = OpShardingRule(
        (8, 6, 4), (_mapping((0,), (2,)), _mapping((2,), (1,))), (ID,), reduction=(2,)
    )
    assert _message(matmul, operands=((8, 4), (4, 6))) is None


@pytest.mark.parametrize(("factor", "text"), [(0, "i"), (17, "z"), (18, "z_1"), (29, "z_12")])
def test_symbols_of_factors(factor, text):
    assert factor_symbol(factor) == text


# On operations

ADD = """
sdy.mesh @m = <["u"=2, "v"=2]>
sdy.mesh @n = <["u"=4]>
func.func @f(%x: tensor<8x8xf32> ARGUMENT) -> tensor<8x8xf32> {
  %0 = stablehlo.add %x, %x {ATTRIBUTES} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""
ON_M = 'sdy.sharding = #sdy.sharding_per_value<[<@m, [{"u"}, {}]>]>'


def _edges(text: str) -> str:
    return f"sdy.propagation_edges = #sdy.propagation_edges<{text}>"


ATTRIBUTES = [
    (
        "sdy.sharding = 4",
        "should have a sharding attribute of type TensorShardingPerValueAttr",
    ),
    (
        'sdy.sharding = #sdy.sharding_per_value<[<@m, [{"u"}]>]>',
        "result - sharding doesn't match tensor rank: 1 != 2",
    ),
    (
        "sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}]>, <@m, [{}, {}]>]>",
        "result shardings don't match number of values: 2 shardings vs 1 values",
    ),
    (
        'sdy.sharding_rule = "pointwise"',
        (
            "should have a sharding rule attribute of type OpShardingRuleAttr for attr named "
            "'sdy.sharding_rule'"
        ),
    ),
    (
        "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i]) {i=8, j=8}>",
        "result - mapping rank must match: 1 != 2",
    ),
    (
        "sdy.propagation_edges = []",
        (
            "should have a propagation edges attribute of type PropagationEdgesAttr for attr named "
            "'sdy.propagation_edges'"
        ),
    ),
    (
        "sdy.result_propagation_edges = [1]",
        (
            "should have a propagation edges attribute of type ArrayAttr<PropagationEdgesAttr> for "
            "attr named 'sdy.result_propagation_edges' or 'sdy.block_arg_propagation_edges'"
        ),
    ),
    (
        "sdy.block_arg_propagation_edges = {}",
        (
            "should have a propagation edges attribute of type ArrayAttr<PropagationEdgesAttr> for "
            "attr named 'sdy.result_propagation_edges' or 'sdy.block_arg_propagation_edges'"
        ),
    ),
    (
        _edges('[{step-1 = [{"u" = operand-0 -> [result-0]}]}]'),
        "expected propagation edges attr to reference a sharding.",
    ),
    (
        f"{ON_M}, " + _edges('[{step-1 = [{"w" = operand-0 -> [result-0]}]}]'),
        "expected axis ref to be in one of the meshes",
    ),
    (
        f"{ON_M}, " + _edges('[{step-1 = [{"u" = result-0 -> [operand-2]}]}]'),
        "expected a value ref to have an operand index in range [0, 2), got: 2",
    ),
    (
        f"{ON_M}, " + _edges('[{step-1 = [{"u" = operand-0 -> [result-0, result-5]}]}]'),
        "expected a value ref to have a result index in range [0, 1), got: 5",
    ),
]


@pytest.mark.parametrize(("attributes", "message"), ATTRIBUTES)
def test_an_attribute_of_an_operation(complaints, attributes, message):
    text = ADD.replace("ATTRIBUTES", attributes).replace("ARGUMENT", "")
    assert complaints(text) == [(5, f"'stablehlo.add' op {message}")]


def test_edges_between_two_meshes(complaints):
    edges = _edges('[{step-1 = [{"u" = operand-0 -> [result-0]}]}]')
    text = ADD.replace("ATTRIBUTES", f"{ON_M}, {edges}")
    text = text.replace("ARGUMENT", "{sdy.sharding = #sdy.sharding<@n, [{}, {}]>}")
    assert complaints(text) == [
        (5, "'stablehlo.add' op expected a common mesh for propagation edges attr.")
    ]


EDGES = [
    (
        '[{step--2 = [{"u" = operand-0 -> [result-0]}]}]',
        "propagation edges have negative step index: -2",
    ),
    (
        (
            '[{step-3 = [{"u" = operand-0 -> [result-0]}]}, {step-3 = [{"u" = operand-1 -> '
            "[result-0]}]}]"
        ),
        "propagation edges have duplicate step index: 3",
    ),
    (
        '[{step-3 = [{"u" = operand-0 -> [result-0, operand-0]}]}]',
        "propagation edges have a source that is the same as a target",
    ),
    (
        '[{step-3 = [{"v" = operand-0 -> [result-0, result-0]}]}]',
        "propagation edges have duplicate targets for step index: 3 and axis: v",
    ),
]


@pytest.mark.parametrize(("edges", "message"), EDGES)
def test_edges_by_themselves(complaints, edges, message):
    text = ADD.replace("ATTRIBUTES", _edges(edges)).replace("ARGUMENT", "")
    assert complaints(text)[0] == (5, message)


def test_a_good_record(complaints):
    edges = _edges('[{step-0 = [{"u" = operand-0 -> [operand-1, result-0]}]}]')
    text = ADD.replace("ATTRIBUTES", f"{ON_M}, {edges}").replace("ARGUMENT", "")
    assert complaints(text) == []
