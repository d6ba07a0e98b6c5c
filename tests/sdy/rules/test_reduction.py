from __future__ import annotations

import pytest

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.types import IntegerType, TensorType


@pytest.mark.parametrize(
    ("dims", "result", "expected"),
    [
        ([1], "2x5", "([i, j, k], [])->([i, k]) {i=2, j=3, k=5} reduction={j}"),
        ([0, 2], "3", "([i, j, k], [])->([j]) {i=2, j=3, k=5} reduction={i, k}"),
        ([], "2x3x5", "([i, j, k], [])->([i, j, k]) {i=2, j=3, k=5}"),
    ],
)
def test_reduce(rule, dims, result, expected):
    assert rule("stablehlo.reduce", ["2x3x5", ""], [result], dimensions=dims) == expected


def test_reduce_of_several_tensors(rule):
    operands = ["2x3", "2x3", "", ""]
    assert rule("stablehlo.reduce", operands, ["3", "3"], dimensions=[0]) == (
        "([i, j], [i, j], [], [])->([j], [j]) {i=2, j=3} reduction={i}"
    )


def padding(*values):
    data = b"".join(v.to_bytes(8, "little", signed=True) for v in values)
    return DenseElementsAttr(data, TensorType((len(values) // 2, 2), IntegerType(64)), False)


@pytest.mark.parametrize(
    ("attributes", "special"),
    [
        ({"window_dimensions": [1, 1]}, ""),
        ({"window_dimensions": [1, 3]}, "j"),
        ({"window_dimensions": [1, 1], "window_strides": [2, 1]}, "i"),
        ({"window_dimensions": [1, 1], "padding": padding(0, 0, 0, 0)}, ""),
        ({"window_dimensions": [1, 1], "padding": padding(1, 0, 0, 0)}, "i"),
        ({"window_dimensions": [1, 1], "padding": padding(0, 0, 0, -1)}, "j"),
        ({"window_dimensions": [2, 3]}, "i, j"),
    ],
)
def test_reduce_window(rule, attributes, special):
    name, base = "stablehlo.reduce_window", "([i, j], [])->([i, j]) {i=4, j=6}"
    permutation = f" permutation={{{special}}}" if special else ""
    assert rule(name, ["8x8", ""], ["4x6"], **attributes) == base + permutation
    blocked = f" blocked_propagation={{{special}}}" if special else ""
    found = rule(name, ["8x8", ""], ["4x6"], **attributes, conservative=True)
    assert found == base + permutation + blocked


def test_select_and_scatter(rule):
    name, operands = "stablehlo.select_and_scatter", ["8x12", "8x4", ""]
    attributes = {"window_dimensions": [1, 3], "window_strides": [1, 3]}
    expected = (
        "([i, k], [i, j], [])->([i, k]) {i=8, j=4, k=12} need_replication={j} permutation={k}"
    )
    assert rule(name, operands, ["8x12"], **attributes) == expected
    assert rule(name, operands, ["8x12"], **attributes, conservative=True) == (
        f"{expected} blocked_propagation={{j, k}}"
    )


def test_select_and_scatter_without_windows(rule):
    assert rule("stablehlo.select_and_scatter", ["8", "8", ""], ["8"]) == (
        "([i], [i], [])->([i]) {i=8}"
    )
