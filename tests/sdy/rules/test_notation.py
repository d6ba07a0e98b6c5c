from __future__ import annotations

import pytest

from emu.sdy.dialect.verify.rules import sharding_rule_problem
from emu.sdy.rules import einsum_rule


@pytest.fixture
def written(make):
    def text(operands, results, notation, **options):
        op = make("test.op", operands, results)
        rule = einsum_rule(op, notation, **options)
        assert sharding_rule_problem(rule, op) is None
        return str(rule).removeprefix("#sdy.op_sharding_rule<").removesuffix(">")

    return text


def test_a_matrix_product(written):
    assert written(["2x3", "3x4"], ["2x4"], "i k, k j -> i j", reduction="k") == (
        "([i, j], [j, k])->([i, k]) {i=2, j=3, k=4} reduction={j}"
    )


def test_scalars_and_long_names(written):
    assert written(["2x3", ""], ["2x3", ""], "rows columns, -> rows columns,") == (
        "([i, j], [])->([i, j], []) {i=2, j=3}"
    )


def test_leading_dimensions(written):
    assert written(["5x6x2x3", "5x6x3"], ["5x6x2"], "... m n, ... n -> ... m") == (
        "([i, j, k, l], [i, j, l])->([i, j, k]) {i=5, j=6, k=2, l=3}"
    )
    assert written(["2x3"], ["2"], "... m n -> ... m") == "([i, j])->([i]) {i=2, j=3}"


def test_dimensions_of_several_factors(written):
    assert written(["12"], ["3x4"], "(a b) -> a b") == "([ij])->([i, j]) {i=3, j=4}"
    # The order is what is written, not that of the numbers.
    assert written(["3x4"], ["12"], "a b -> (b a)") == "([i, j])->([ji]) {i=3, j=4}"
    assert written(["12"], ["12"], "(a b) -> (a b)", sizes={"a": 2}) == (
        "([ij])->([ij]) {i=2, j=6}"
    )


def test_size_one_does_not_share_a_dimension(written):
    assert written(["8x1"], ["8"], "a b -> (a b)") == "([i, j])->([i]) {i=8, j=1}"
    assert written(["1"], ["1"], "(a b) -> (a b)", sizes={"a": 1}, reduction="") == (
        "([i])->([i]) {i=1}"
    )
    # Where a factor has gone from all dimensions, its kind has too.
    assert written(["8"], ["8"], "(a b) -> (a b)", sizes={"a": 1}, permutation="a b") == (
        "([i])->([i]) {i=8} permutation={i}"
    )


def test_kinds(written):
    assert written(
        ["2x3x4x5"],
        ["2x3x4"],
        "a b c d -> a b c",
        need_replication=["b"],
        permutation="a",
        reduction="d",
        blocked="b a",
        custom=True,
    ) == (
        "([i, j, k, l])->([i, j, k]) {i=2, j=3, k=4, l=5} reduction={l} need_replication={j} "
        "permutation={i} blocked_propagation={i, j}, custom"
    )


@pytest.mark.parametrize(
    ("operands", "notation", "options", "message"),
    [
        (["2"], "i, i", {}, "must have '->'"),
        (["2"], "i, i -> i", {}, "has 2 operands, but the operation 1"),
        (["2"], "i -> i, i", {}, "has 2 results, but the operation 1"),
        (["2x2"], "i -> i", {}, "operand 0 has rank 2, but 1 dimensions in 'i'"),
        (["3"], "i -> i", {}, "size 2 cannot be i: i=3"),
        (["2"], "i -> [i]", {}, r"result 0 of the notation is not understood: '\[i\]'"),
        (["2x2"], "i ... -> i", {}, "'...' must lead"),
        (["2"], "i ... j k -> i", {}, "'...' must lead"),
        (["2x3x2"], "... i -> ... ", {}, r"'...' stands for \[1, 2\] dimensions"),
        (["2"], "(i j) -> (i j)", {}, "sizes must give all but one of i, j"),
        (["2"], "(i j) -> (i j)", {"sizes": {"i": 3}}, "size 2 cannot be i j: i=3"),
        (["2"], "i -> i", {"reduction": "k"}, "reduction names 'k', which is not in 'i -> i'"),
    ],
)
def test_what_does_not_fit_is_refused(make, operands, notation, options, message):
    with pytest.raises(ValueError, match=message):
        einsum_rule(make("test.op", operands, ["2"]), notation, **options)


def test_without_operands(make):
    rule = einsum_rule(make("test.op", [], ["2"]), "-> i")
    assert rule.operands == ()
    assert rule.factor_sizes == (2,)
