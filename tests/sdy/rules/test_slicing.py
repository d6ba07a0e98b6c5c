from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["stablehlo.slice", "stablehlo.pad"])
def test_slice_and_pad(rule, name):
    operands, result = ["8x6x4"], ["8x3x4"]
    expected = "([i, j, k])->([i, j, k]) {i=8, j=6, k=4} permutation={j}"
    if name == "stablehlo.pad":
        operands, result = ["8x6x4", ""], ["8x9x4"]
        expected = expected.replace("k])->", "k], [])->")
    assert rule(name, operands, result) == expected
    blocked = f"{expected} blocked_propagation={{j}}"
    assert rule(name, operands, result, conservative=True) == blocked


def test_whole_slices_are_pointwise(rule):
    assert rule("stablehlo.slice", ["8x6"], ["8x6"]) == "([i, j])->([i, j]) {i=8, j=6}"


def test_dynamic_slice(rule):
    assert rule("stablehlo.dynamic_slice", ["8x6", "i32", "i32"], ["8x1"]) == (
        "([i, j], [], [])->([i, j]) {i=8, j=6} need_replication={j} blocked_propagation={j}"
    )


def test_dynamic_update_slice(rule):
    name = "stablehlo.dynamic_update_slice"
    assert rule(name, ["8x6", "8x2", "i32", "i32"], ["8x6"]) == (
        "([i, j], [i, k], [], [])->([i, j]) {i=8, j=6, k=2} need_replication={k}"
    )


@pytest.mark.parametrize("constant", ["stablehlo.constant", "sdy.constant"])
def test_dynamic_update_slice_at_constants(make, text_of, constant):
    name = "stablehlo.dynamic_update_slice"
    zero = make(constant, [], ["i32"]).result
    assert text_of(make(name, ["8x6", "8x2", zero, zero], ["8x6"])) == (
        "([i, j], [i, k], [], [])->([i, j]) {i=8, j=6, k=2}"
    )
    # One index that is not known is enough.
    assert text_of(make(name, ["8x6", "8x2", "i32", zero], ["8x6"])) == (
        "([i, j], [i, k], [], [])->([i, j]) {i=8, j=6, k=2} need_replication={k}"
    )


def test_reverse(rule):
    assert rule("stablehlo.reverse", ["2x3x4"], ["2x3x4"], dimensions=[2, 0]) == (
        "([i, j, k])->([i, j, k]) {i=2, j=3, k=4} permutation={i, k}"
    )
    assert rule("stablehlo.reverse", ["2"], ["2"], dimensions=[]) == "([i])->([i]) {i=2}"


def concatenate(make, *values):
    return make("stablehlo.concatenate", values, ["4x30"], dimension=1)


def test_concatenate(make, text_of):
    op = concatenate(make, "4x10", "4x20")
    assert text_of(op) == "([i, j], [i, j])->([i, j]) {i=4, j=30} need_replication={j}"
    assert text_of(op, conservative=True) == "([i, j], [i, k])->([i, l]) {i=4, j=1, k=1, l=1}"


def test_concatenated_slices_are_a_permutation(make, text_of):
    one = make("stablehlo.slice", ["4x40"], ["4x10"]).result
    two = make("stablehlo.slice", ["4x50"], ["4x20"]).result
    permutation = "([i, j], [i, j])->([i, j]) {i=4, j=30} permutation={j}"
    assert text_of(concatenate(make, one, two)) == permutation
    assert "need_replication={j}" in text_of(concatenate(make, one, "4x20"))


def test_parts_of_one_tensor_are_a_permutation(make, text_of):
    whole = make("stablehlo.negate", ["4x20"], ["4x20"]).result
    part = make("stablehlo.slice", [whole], ["4x10"]).result
    assert "permutation={j}" in text_of(concatenate(make, whole, part))
    assert "permutation={j}" in text_of(concatenate(make, part, whole))
    # Copies of the whole are none, and neither are parts of two tensors.
    assert "need_replication={j}" in text_of(concatenate(make, whole, whole))
    assert "need_replication={j}" in text_of(concatenate(make, "4x20", part))
