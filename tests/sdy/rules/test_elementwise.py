from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir.diagnostics import MlirError
from emu.mlir.ir import Block, Operation
from emu.mlir.types import DialectType, FloatType, TensorType
from emu.sdy.rules import is_elementwise, names, sharding_rule

POINTWISE = [
    "abs",
    "add",
    "all_reduce",
    "and",
    "atan2",
    "cbrt",
    "ceil",
    "collective_broadcast",
    "collective_permute",
    "compare",
    "complex",
    "convert",
    "cosine",
    "count_leading_zeros",
    "cross-replica-sum",
    "divide",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "popcnt",
    "power",
    "real",
    "reduce_precision",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "xor",
]


@pytest.mark.parametrize(
    "name", [*(f"stablehlo.{n}" for n in POINTWISE), "sdy.sharding_constraint"]
)
def test_pointwise(rule, name):
    assert rule(name, ["3x1x8"], ["3x1x8"]) == "([i, j, k])->([i, j, k]) {i=3, j=1, k=8}"
    assert rule(name, ["6", "6"], ["6"]) == "([i], [i])->([i]) {i=6}"
    assert rule(name, [""], [""]) == "([])->([])"
    assert rule(name, ["0x5"], ["0x5"]) == "([i, j])->([i, j]) {i=0, j=5}"


def test_there_are_79_operations_with_rules():
    ops = {name for name in names() if name.startswith("stablehlo.")}
    # Custom calls are known by their targets.
    assert len(ops | {"stablehlo.custom_call"}) == 79


def test_pointwise_over_several_values(rule):
    assert rule("stablehlo.all_reduce", ["2x4", "2x4"], ["2x4", "2x4"]) == (
        "([i, j], [i, j])->([i, j], [i, j]) {i=2, j=4}"
    )


def test_tokens_have_no_rule(make):
    op = make("stablehlo.add", ["4"], ["4"])
    op.results[0].type = DialectType("stablehlo", "token")
    assert sharding_rule(op) is None
    assert sharding_rule(make("stablehlo.add", ["4"], [])) is None


@pytest.mark.parametrize(
    ("source", "result", "expected"),
    [
        ("6x4", "6x4", "([i, j])->([i, j]) {i=6, j=4}"),
        ("6x4", "6x4x8", "([i, j])->([i, j, k]) {i=6, j=4, k=8} need_replication={k}"),
        ("6x4x8", "6x4", "([i, j, k])->([i, j]) {i=6, j=4, k=8} need_replication={k}"),
        ("", "2", "([])->([i]) {i=2} need_replication={i}"),
    ],
)
def test_bitcast_convert(rule, source, result, expected):
    assert rule("stablehlo.bitcast_convert", [source], [result]) == expected


def test_batch_norm_inference(rule):
    operands = ["2x5x7", "5", "5", "5", "5"]
    assert rule("stablehlo.batch_norm_inference", operands, ["2x5x7"], feature_index=1) == (
        "([i, j, k], [j], [j], [j], [j])->([i, j, k]) {i=2, j=5, k=7}"
    )


@pytest.mark.parametrize(
    ("source", "dims", "result", "expected"),
    [
        ("3x5", [0, 2], "3x4x5", "([i, k])->([i, j, k]) {i=3, j=4, k=5}"),
        ("3x5", [1, 0], "5x3", "([j, i])->([i, j]) {i=5, j=3}"),
        ("", [], "6x1", "([])->([i, j]) {i=6, j=1}"),
        # A stretched dimension shares nothing, one that stays 1 does.
        ("1x5", [0, 1], "9x5", "([i, k])->([j, k]) {i=1, j=9, k=5}"),
        ("1x5", [0, 1], "1x5", "([i, j])->([i, j]) {i=1, j=5}"),
        ("1x5", [0, 1], "0x5", "([i, k])->([j, k]) {i=1, j=0, k=5}"),
        ("0", [1], "2x0", "([j])->([i, j]) {i=2, j=0}"),
    ],
)
def test_broadcast_in_dim(rule, source, dims, result, expected):
    name = "stablehlo.broadcast_in_dim"
    assert rule(name, [source], [result], broadcast_dimensions=dims) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("2x6", "2x6", "([i, j], [i, j], [i, j])->([i, j]) {i=2, j=6}"),
        ("", "2x6", "([], [i, j], [i, j])->([i, j]) {i=2, j=6}"),
        ("", "", "([], [i, j], [])->([i, j]) {i=2, j=6}"),
    ],
)
def test_clamp(rule, low, high, expected):
    assert rule("stablehlo.clamp", [low, "2x6", high], ["2x6"]) == expected


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("3x9xi1", "([i, j], [i, j], [i, j])->([i, j]) {i=3, j=9}"),
        ("i1", "([], [i, j], [i, j])->([i, j]) {i=3, j=9}"),
    ],
)
def test_select(rule, predicate, expected):
    assert rule("stablehlo.select", [predicate, "3x9", "3x9"], ["3x9"]) == expected


def test_transpose(rule):
    assert rule("stablehlo.transpose", ["2x3x5"], ["5x2x3"], permutation=[2, 0, 1]) == (
        "([j, k, i])->([i, j, k]) {i=5, j=2, k=3}"
    )
    assert rule("stablehlo.transpose", [""], [""], permutation=[]) == "([])->([])"


@pytest.mark.parametrize(
    ("source", "result", "expected"),
    [
        ("12", "3x4", "([ij])->([i, j]) {i=3, j=4}"),
        ("3x4", "12", "([i, j])->([ij]) {i=3, j=4}"),
        ("4x6", "8x3", "([i, jk])->([ij, k]) {i=4, j=2, k=3}"),
        ("4x6", "4x1x6x1", "([i, k])->([i, j, k, l]) {i=4, j=1, k=6, l=1}"),
        ("1x1", "1", "([i, j])->([k]) {i=1, j=1, k=1}"),
        # No common divisor at first: each side goes alone until the sides meet.
        ("2x3", "3x2", "([i, k])->([j, l]) {i=2, j=3, k=3, l=2}"),
        ("6x10", "4x15", "([ij, mn])->([ik, ln]) {i=2, j=3, k=2, l=3, m=2, n=5}"),
        ("10x3x7", "6x35", "([ij, m, n])->([ik, l]) {i=2, j=5, k=3, l=35, m=3, n=7}"),
        ("", "1x1", "([])->([i, j]) {i=1, j=1}"),
        ("", "", "([])->([])"),
        ("0x4", "4x0", None),
        ("?x4", "4x2", None),
    ],
)
def test_reshape(rule, source, result, expected):
    assert rule("stablehlo.reshape", [source], [result]) == expected


def test_reshape_keeps_the_number_of_elements(rule):
    with pytest.raises(MlirError, match="tensor<2x3xf32> and tensor<0xf32> differ in their number"):
        rule("stablehlo.reshape", ["2x3"], ["0"])


FACTORS = st.lists(st.sampled_from([1, 2, 2, 3, 5, 7]), max_size=7)


@settings(deadline=None)
@given(FACTORS, st.randoms(use_true_random=False))
def test_reshape_splits_both_shapes_completely(factors, random):
    def grouped():
        shuffled = random.sample(factors, len(factors))
        shape = []
        while shuffled:
            take = random.randint(1, 3)
            shape.append(math.prod(shuffled[:take]))
            shuffled = shuffled[take:]
        return shape

    source, result = (TensorType(tuple(grouped()), FloatType("f32")) for _ in range(2))
    op = Operation("stablehlo.reshape", Block([source]).arguments, [result])
    found = sharding_rule(op)
    for type_, mapping in ((source, found.operands[0]), (result, found.results[0])):
        for size, dim in zip(type_.shape, mapping.dims, strict=True):
            assert math.prod(found.factor_sizes[f] for f in dim.factors) == size
    used = [f for m in (*found.operands, *found.results) for d in m.dims for f in d.factors]
    assert set(used) == set(range(len(found.factor_sizes)))


def test_elementwise_operations(make):
    for name in ("stablehlo.add", "stablehlo.clamp", "stablehlo.select", "stablehlo.compare"):
        assert is_elementwise(make(name, ["4"], ["4"]))
    for name in ("sdy.propagation_barrier", "sdy.reshard", "sdy.sharding_constraint"):
        assert is_elementwise(make(name, ["4"], ["4"]))
    for name in ("stablehlo.transpose", "stablehlo.all_reduce", "test.unknown"):
        assert not is_elementwise(make(name, ["4"], ["4"]))
    assert is_elementwise(make("stablehlo.bitcast_convert", ["4x2"], ["4x2"]))
    assert not is_elementwise(make("stablehlo.bitcast_convert", ["4x2"], ["4"]))
