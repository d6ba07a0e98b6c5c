from __future__ import annotations


def test_all_gather(rule):
    assert rule("stablehlo.all_gather", ["4x6", "4x6"], ["8x6", "8x6"], all_gather_dim=0) == (
        "([j, i], [j, i])->([k, i], [k, i]) {i=6, j=4, k=8} need_replication={j, k}"
    )


def test_reduce_scatter(rule):
    assert rule("stablehlo.reduce_scatter", ["4x6"], ["4x3"], scatter_dimension=1) == (
        "([i, j])->([i, k]) {i=4, j=6, k=3} need_replication={j, k}"
    )


def test_all_to_all(rule):
    dims = {"split_dimension": 2, "concat_dimension": 0}
    assert rule("stablehlo.all_to_all", ["4x5x6"], ["8x5x3"], **dims) == (
        "([l, i, j])->([m, i, k]) {i=5, j=6, k=3, l=4, m=8} need_replication={j, k, l, m}"
    )


def test_all_to_all_within_a_dimension(rule):
    dims = {"split_dimension": 1, "concat_dimension": 1}
    assert rule("stablehlo.all_to_all", ["4x6"], ["4x6"], **dims) == (
        "([i, j])->([i, k]) {i=4, j=6, k=6} need_replication={j, k}"
    )
