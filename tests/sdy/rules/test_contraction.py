from __future__ import annotations

import pytest

from emu.mlir.diagnostics import MlirError
from emu.stablehlo.attributes import ConvDimensionNumbers, DotDimensionNumbers


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "expected"),
    [
        ("2x3", "3x4", "2x4", "([i, k], [k, j])->([i, j]) {i=2, j=4, k=3} reduction={k}"),
        ("3", "3x4", "4", "([j], [j, i])->([i]) {i=4, j=3} reduction={j}"),
        ("2x3", "3", "2", "([i, j], [j])->([i]) {i=2, j=3} reduction={j}"),
        ("3", "3", "", "([i], [i])->([]) {i=3} reduction={i}"),
        ("2x1", "1x4", "2x4", "([i, k], [k, j])->([i, j]) {i=2, j=4, k=1} reduction={k}"),
    ],
)
def test_dot(rule, lhs, rhs, result, expected):
    assert rule("stablehlo.dot", [lhs, rhs], [result]) == expected


@pytest.mark.parametrize(
    ("numbers", "lhs", "rhs", "result", "expected"),
    [
        (
            ((0,), (0,), (2,), (1,)),
            "5x2x3",
            "5x3x4",
            "5x2x4",
            "([i, j, l], [i, l, k])->([i, j, k]) {i=5, j=2, k=4, l=3} reduction={l}",
        ),
        # Batch dimensions come first in the result, wherever they were.
        (
            ((2, 0), (1, 3), (), ()),
            "5x2x7",
            "4x7x3x5",
            "7x5x2x4x3",
            "([j, k, i], [l, i, m, j])->([i, j, k, l, m]) {i=7, j=5, k=2, l=4, m=3}",
        ),
        (
            ((), (), (0, 1), (1, 0)),
            "2x3",
            "3x2",
            "",
            "([i, j], [j, i])->([]) {i=2, j=3} reduction={i, j}",
        ),
        (((), (), (), ()), "2", "3x0", "2x3x0", "([i], [j, k])->([i, j, k]) {i=2, j=3, k=0}"),
    ],
)
def test_dot_general(rule, numbers, lhs, rhs, result, expected):
    attribute = DotDimensionNumbers(*numbers)
    name = "stablehlo.dot_general"
    assert rule(name, [lhs, rhs], [result], dot_dimension_numbers=attribute) == expected


NHWC = ConvDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
NCW = ConvDimensionNumbers(0, 1, (2,), 1, 0, (2,), 0, 1, (2,))
POINT = ConvDimensionNumbers(1, 0, (), 0, 1, (), 1, 0, ())

CONVOLUTIONS = {
    # More windows than elements in one: windows are the major factor.
    "windows": (NHWC, (1, 1), "2x32x32x6", "5x1x6x8", "2x16x32x8"),
    # The other way round; one of what is left of the input is no factor.
    "large window": (NCW, (1, 1), "2x3x40", "8x3x30", "2x8x11"),
    "batch groups": (NCW, (2, 1), "4x3x8", "6x3x3", "2x6x6"),
    "feature groups": (NCW, (1, 2), "4x6x8", "10x3x3", "4x10x6"),
    "depthwise": (NCW, (1, 4), "4x4x8", "4x1x3", "4x4x6"),
    "no space": (POINT, (1, 1), "3x5", "3x7", "7x5"),
}

WITH_WINDOWS = {
    "windows": "([i, jk, l, m], [k, o, m, n])->([i, j, l, n]) "
    "{i=2, j=16, k=2, l=32, m=6, n=8, o=1} reduction={k, m} permutation={j, l}",
    "large window": "([i, k, j], [l, k, j])->([i, l, m]) {i=2, j=30, k=3, l=8, m=1} "
    "reduction={j, k}",
    "batch groups": "([ij, l, k], [im, l, n])->([j, im, k]) {i=2, j=2, k=6, l=3, m=3, n=1} "
    "reduction={l} permutation={k}",
    "feature groups": "([i, kl, j], [km, l, n])->([i, km, j]) {i=4, j=6, k=2, l=3, m=5, n=1} "
    "reduction={l} permutation={j}",
    "depthwise": "([i, k, j], [k, l, m])->([i, k, j]) {i=4, j=6, k=4, l=1, m=1} reduction={l} "
    "permutation={j}",
    "no space": "([j, i], [j, k])->([k, i]) {i=5, j=3, k=7} reduction={j}",
}

CONSERVATIVE = {
    "windows": "([i, l, m, j], [n, o, j, k])->([i, p, q, k]) "
    "{i=2, j=6, k=8, l=1, m=1, n=1, o=1, p=1, q=1} reduction={j}",
    "large window": "([i, j, l], [k, j, m])->([i, k, n]) {i=2, j=3, k=8, l=1, m=1, n=1} "
    "reduction={j}",
    "batch groups": "([ij, k, m], [il, k, n])->([j, il, o]) {i=2, j=2, k=3, l=3, m=1, n=1, o=1} "
    "reduction={k}",
    "feature groups": "([i, jk, m], [jl, k, n])->([i, jl, o]) "
    "{i=4, j=2, k=3, l=5, m=1, n=1, o=1} reduction={k}",
    "depthwise": "([i, j, l], [j, k, m])->([i, j, n]) {i=4, j=4, k=1, l=1, m=1, n=1} reduction={k}",
    "no space": WITH_WINDOWS["no space"],
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("conservative", [False, True])
def test_convolution(rule, name, conservative):
    numbers, (batch_groups, feature_groups), lhs, rhs, result = CONVOLUTIONS[name]
    found = rule(
        "stablehlo.convolution",
        [lhs, rhs],
        [result],
        dimension_numbers=numbers,
        batch_group_count=batch_groups,
        feature_group_count=feature_groups,
        conservative=conservative,
    )
    assert found == (CONSERVATIVE if conservative else WITH_WINDOWS)[name]


def test_dimension_numbers_are_required(rule):
    with pytest.raises(MlirError, match="'dot_dimension_numbers' of kind DotDimensionNumbers"):
        rule("stablehlo.dot_general", ["2", "2"], [""])
