from __future__ import annotations

import pytest

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.ir import Operation
from emu.mlir.types import DialectType, FloatType, IntegerType, TensorType
from emu.sdy.dialect.attributes import FactorType
from emu.sdy.rules import RuleBuilder, identity_rule
from emu.sdy.rules.reading import DYNAMIC, integers, shape, string

F32 = FloatType("f32")
TOKEN = DialectType("stablehlo", "token")


def tensor(*sizes):
    return TensorType(sizes, F32)


def text(rule):
    return str(rule).removeprefix("#sdy.op_sharding_rule<").removesuffix(">")


def test_factors_are_numbered_as_they_come():
    builder = RuleBuilder([tensor(2, 4), tensor(4, 8)], [tensor(2, 8)])
    builder.add([None, 1], [1], 8).add([0, None], [0], 2)
    builder.add([1, 0], [None], 4, FactorType.REDUCTION)
    assert text(builder.build()) == "([j, k], [k, i])->([j, i]) {i=8, j=2, k=4} reduction={k}"


def test_dimensions_without_a_factor_get_their_own_at_the_end():
    builder = RuleBuilder([tensor(2, 4), tensor(5)], [tensor(7, 4)]).add([1, None], [1], 4)
    assert text(builder.build()) == "([j, i], [k])->([l, i]) {i=4, j=1, k=1, l=1}"
    # Building changes nothing: further factors come before the private ones.
    builder.add([0, None], [0], 2)
    assert text(builder.build()) == "([j, i], [k])->([j, i]) {i=4, j=2, k=1}"


def test_a_dimension_can_have_several_factors():
    builder = RuleBuilder([tensor(8)], [tensor(2, 4)]).add([0], [0], 2).add([0], [1], 4)
    assert text(builder.build()) == "([ij])->([i, j]) {i=2, j=4}"


def test_size_one_does_not_follow_another_factor():
    builder = RuleBuilder([tensor(8)], [tensor(8, 1)]).add([0], [0], 8).add([0], [1], 1)
    assert text(builder.build()) == "([i])->([i, j]) {i=8, j=1}"


def test_size_one_may_come_first():
    builder = RuleBuilder([tensor(1)], [tensor(1)]).add([0], [0], 1)
    assert text(builder.build()) == "([i])->([i]) {i=1}"


def test_kinds_and_blocked_factors():
    builder = RuleBuilder([tensor(2, 3, 4, 5)], [tensor(2, 3, 4, 5)])
    builder.add_everywhere(0, 2, FactorType.PERMUTATION)
    builder.add_everywhere(1, 3, FactorType.NEED_REPLICATION, blocked=True)
    builder.add_everywhere(2, 4)
    builder.add_everywhere(3, 5, blocked=True)
    assert text(builder.build()) == (
        "([i, j, k, l])->([i, j, k, l]) {i=2, j=3, k=4, l=5} need_replication={j} "
        "permutation={i} blocked_propagation={j, l}"
    )


def test_scalars_and_tokens_have_no_dimensions():
    builder = RuleBuilder([tensor(2), tensor(), TOKEN], [tensor(2), TOKEN]).add_everywhere(0, 2)
    assert text(builder.build()) == "([i], [], [])->([i], []) {i=2}"


def test_same_dimension_of_operands_or_results():
    builder = RuleBuilder([tensor(2), tensor(2)], [tensor(4), tensor(4)])
    builder.add_to_operands(0, 2).add_to_results(0, 4, FactorType.NEED_REPLICATION)
    assert text(builder.build()) == "([i], [i])->([j], [j]) {i=2, j=4} need_replication={j}"


def test_pointwise_with_kinds_and_gaps():
    builder = RuleBuilder([tensor(2, 3, 4)], [tensor(2, 3, 4)])
    kinds = [FactorType.PERMUTATION, None, FactorType.PASS_THROUGH]
    builder.add_pointwise(
        (2, 3, 4), kinds.__getitem__, blocked=lambda kind: kind is FactorType.PERMUTATION
    )
    assert text(builder.build()) == (
        "([i, k, j])->([i, l, j]) {i=2, j=4, k=1, l=1} permutation={i} blocked_propagation={i}"
    )


def test_matching_shapes():
    builder = RuleBuilder([tensor(2, 3)], [tensor(2, 5)])
    builder.add_matching((2, 3), (2, 5), FactorType.PERMUTATION, blocked=True)
    assert text(builder.build()) == (
        "([i, j])->([i, j]) {i=2, j=3} permutation={j} blocked_propagation={j}"
    )


def test_custom_rules_say_so():
    rule = RuleBuilder([tensor(2)], [tensor(2)]).add_everywhere(0, 2).build(custom=True)
    assert rule.is_custom
    assert text(rule) == "([i])->([i]) {i=2}, custom"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda b: b.add([0], [0], 2), "operand_dims .* each of 2 operands, but has 1"),
        (lambda b: b.add([0, 0], [], 2), "result_dims .* each of 1 results, but has 0"),
        (lambda b: b.add([0, 1], [0], 2), "operand 1 has rank 1, .* its dimension 1"),
        (lambda b: b.add([0, 0], [-1], 2), "result 0 has rank 1, .* its dimension -1"),
        (lambda b: b.add_everywhere(1, 2), "below the rank 1, but is 1"),
        (
            lambda b: b.add_matching((2,), (2, 3), FactorType.PERMUTATION),
            "one rank, but have 1 and 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    builder = RuleBuilder([tensor(2), tensor(2)], [tensor(2)])
    with pytest.raises(ValueError, match=message):
        wrong(builder)


def test_identity_rule():
    assert text(identity_rule((4, 1), 2, 1)) == "([i, j], [i, j])->([i, j]) {i=4, j=1}"
    assert text(identity_rule(())) == "([])->([])"
    # Equal rules are one object, so that comparing them is cheap.
    assert identity_rule((4, 1)) is identity_rule([4, 1])


def test_shapes(make):
    op = make("test.op", ["2x?x3"], [""])
    assert shape(op.operands[0]) == (2, DYNAMIC, 3)
    assert shape(op.results[0]) == ()
    with pytest.raises(ValueError, match=r"expected a ranked tensor, but got !stablehlo\.token"):
        shape(Operation("test.op", (), [TOKEN]).result)


@pytest.mark.parametrize(
    ("data", "type_", "splat", "expected"),
    [
        (b"\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", (2,), False, (1, -1)),
        (b"\x03\0\0\0\0\0\0\0", (2, 2), True, (3, 3, 3, 3)),
        (b"", (0, 2), False, ()),
    ],
)
def test_lists_of_integers_in_the_old_spelling(make, data, type_, splat, expected):
    dense = DenseElementsAttr(data, TensorType(type_, IntegerType(64)), splat)
    assert integers(make("test.op", [], [], dims=dense), "dims") == expected


def test_lists_of_integers(make):
    op = make("test.op", [], [], dims=[3, 1], text="x")
    assert integers(op, "dims") == (3, 1)
    assert integers(op, "absent") is None
    with pytest.raises(ValueError, match="'text' must be a list of integers"):
        integers(op, "text")
    with pytest.raises(ValueError, match="'dims' of kind StringAttr, but it is array"):
        string(op, "dims")
    with pytest.raises(ValueError, match="'absent' of kind StringAttr, but it is absent"):
        string(op, "absent")
