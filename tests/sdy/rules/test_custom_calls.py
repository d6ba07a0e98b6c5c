from __future__ import annotations

import pytest

from emu.mlir.diagnostics import MlirError
from emu.sdy.rules import names

POINTWISE = [
    "Cholesky",
    "CompactWyHelper",
    "InspectSharding",
    "InvertDiagBlocksLowerTriangular",
    "InvertDiagBlocksUpperTriangular",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "X64Combine",
    "X64SplitHigh",
    "X64SplitLow",
    "_SPMDInternalOp_MultiPad",
    "_SPMDInternalOp_MultiRotate",
    "_SPMDInternalOp_MultiSlice",
    "_SPMDInternalOp_RotateRight",
    "_SPMDInternalOp_Wrap",
    "annotate_device_placement",
    "mhlo.erf",
    "xla.megascale.provide_metadata",
]


@pytest.fixture
def call(rule):
    def rule_of(target, operands, results):
        return rule("stablehlo.custom_call", operands, results, call_target_name=target)

    return rule_of


@pytest.mark.parametrize("target", POINTWISE)
def test_pointwise(call, target):
    assert call(target, ["4x1"], ["4x1"]) == "([i, j])->([i, j]) {i=4, j=1}"
    assert call(target, ["6", ""], ["6", "6"]) == "([i], [])->([i], [i]) {i=6}"


def test_26_targets_are_known():
    assert len([name for name in names() if name.startswith("@")]) == 26


def test_eigh(call):
    assert call("Eigh", ["3x5x5"], ["3x5x5", "3x5"]) == (
        "([i, j, k])->([i, j, k], [i, k]) {i=3, j=5, k=5}"
    )


@pytest.mark.parametrize("target", ["Qr", "QrDecompositionBlock"])
def test_qr(call, target):
    assert call(target, ["3x7x5"], ["3x7x5", "3x4"]) == (
        "([i, j, k])->([i, j, k], [i, l]) {i=3, j=7, k=5, l=4} need_replication={j, k, l}"
    )


def test_householder_product(call):
    assert call("ProductOfElementaryHouseholderReflectors", ["3x7x5", "3x4"], ["3x7x5"]) == (
        "([i, j, k], [i, l])->([i, j, k]) {i=3, j=7, k=5, l=4} need_replication={j, k, l}"
    )


def test_top_k(call):
    assert call("mhlo.topk", ["4x9"], ["4x2", "4x2xi32"]) == (
        "([i, j])->([i, j], [i, j]) {i=4, j=9} need_replication={j} blocked_propagation={j}"
    )


@pytest.mark.parametrize("target", ["ApproxTopK", "PartialReduce"])
def test_approximate_top_k(call, target):
    assert call(target, ["4x9", "4x9xi32", "", "i32"], ["4x2", "4x2xi32"]) == (
        "([i, j], [i, j], [], [])->([i, k], [i, k]) {i=4, j=9, k=2} need_replication={k} "
        "blocked_propagation={k}"
    )


def test_the_state_of_random_numbers_is_kept_apart(make, text_of):
    combine = make(
        "stablehlo.custom_call", ["2xi32", "2xi32"], ["2xi64"], call_target_name="X64Combine"
    )
    assert text_of(combine) == "([i], [i])->([i]) {i=2}"
    make("stablehlo.rng_bit_generator", [combine.result], ["2xi64", "8xi32"])
    assert text_of(combine) == (
        "([i], [i])->([i]) {i=2} need_replication={i} blocked_propagation={i}"
    )


@pytest.mark.parametrize(
    ("target", "operands", "results", "message"),
    [
        ("Eigh", ["4x4", "4x4"], ["4x4", "4"], "must have 1 operand.* but has 2 and 2"),
        ("Qr", ["4"], ["4", ""], "operand 0 must have at least rank 2, but has 1"),
        ("mhlo.topk", ["4"], ["4x1", "4"], "must have one rank, but have 1 and 2"),
        ("ApproxTopK", ["4"], ["4"], "must have 4 operand.* but has 1 and 1"),
    ],
)
def test_calls_that_are_not_as_known(call, target, operands, results, message):
    with pytest.raises(MlirError, match=rf"'stablehlo.custom_call' op .*{message}.*'@{target}'"):
        call(target, operands, results)
