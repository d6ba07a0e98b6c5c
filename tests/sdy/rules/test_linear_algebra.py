from __future__ import annotations

import pytest

from emu.stablehlo.attributes import Transpose


@pytest.mark.parametrize(
    ("shape", "dimension", "expected"),
    [
        ("4x8", 1, "([i, j])->([i, j]) {i=4, j=8} need_replication={j}"),
        ("4x8", 0, "([i, j])->([i, j]) {i=4, j=8} need_replication={i}"),
        # No other dimension could take its axes.
        ("1x8", 1, "([i, j])->([i, j]) {i=1, j=8} need_replication={j} blocked_propagation={j}"),
        ("8", 0, "([i])->([i]) {i=8} need_replication={i} blocked_propagation={i}"),
        # Shardy does not count from the end.
        ("4x8", -1, "([i, j])->([i, j]) {i=4, j=8}"),
    ],
)
def test_sort(rule, shape, dimension, expected):
    assert rule("stablehlo.sort", [shape], [shape], dimension=dimension) == expected


def test_sort_of_several_tensors_along_the_default(rule):
    assert rule("stablehlo.sort", ["4x8", "4x8"], ["4x8", "4x8"]) == (
        "([i, j], [i, j])->([i, j], [i, j]) {i=4, j=8}"
    )


@pytest.mark.parametrize(
    ("result", "length", "expected"),
    [
        ("4x6x8", [8], "need_replication={k}"),
        ("4x6x8", [6, 8], "need_replication={j, k}"),
        ("4x6x5", [6, 8], "need_replication={j, k} blocked_propagation={k}"),
    ],
)
def test_fft(rule, result, length, expected):
    assert rule("stablehlo.fft", ["4x6x8"], [result], fft_length=length) == (
        f"([i, j, k])->([i, j, k]) {{i=4, j=6, k=8}} {expected}"
    )


def test_cholesky(rule):
    assert rule("stablehlo.cholesky", ["3x5x5"], ["3x5x5"]) == (
        "([i, j, k])->([i, j, k]) {i=3, j=5, k=5} need_replication={j, k}"
    )


@pytest.mark.parametrize(
    ("left", "transpose", "expected"),
    [
        (True, "NO_TRANSPOSE", "([i, j, l], [i, j, k])->([i, l, k]) {i=3, j=5, k=7, l=5}"),
        (True, "TRANSPOSE", "([i, l, j], [i, j, k])->([i, l, k]) {i=3, j=5, k=7, l=5}"),
        (True, "ADJOINT", "([i, l, j], [i, j, k])->([i, l, k]) {i=3, j=5, k=7, l=5}"),
        (False, "NO_TRANSPOSE", "([i, l, k], [i, j, k])->([i, j, l]) {i=3, j=7, k=5, l=5}"),
        (False, "TRANSPOSE", "([i, k, l], [i, j, k])->([i, j, l]) {i=3, j=7, k=5, l=5}"),
    ],
)
def test_triangular_solve(rule, left, transpose, expected):
    b = "3x5x7" if left else "3x7x5"
    found = rule(
        "stablehlo.triangular_solve",
        ["3x5x5", b],
        [b],
        left_side=left,
        transpose_a=Transpose(transpose),
    )
    assert found == f"{expected} need_replication={{j, k, l}}"


def test_rng_bit_generator(rule):
    assert rule("stablehlo.rng_bit_generator", ["2xi64"], ["2xi64", "6x8xi32"]) == (
        "([i])->([i], [j, k]) {i=2, j=6, k=8} need_replication={i} blocked_propagation={i}"
    )
