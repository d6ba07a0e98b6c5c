"""Counts of MC2's operators, by hand: products, operands and results of each PE."""

from __future__ import annotations

import numpy as np
import pytest
from mc2_dense import BF16, F16, F32, I8, random

import emu
from emu import mc2
from emu.trace.counting import Counts, collect

M, N, K, PES = 8, 6, 4, 2


def counted(call) -> Counts:
    with collect(operators=True) as found:
        call()
    (counts,) = found
    return counts


def summary(counts: Counts) -> dict[str, object]:
    return {
        "name": counts.name,
        "is here": counts.file == __file__,
        "work": counts.work,
        "dots": [(d.m, d.n, d.k, d.a, d.accumulator, d.times) for d in counts.dots],
        "loaded": {t.name: t.loaded for t in counts.tensors if t.loaded},
        "stored": {t.name: t.stored for t in counts.tensors if t.stored},
    }


def run(name: str, turns: int) -> dict[str, object]:
    me = emu.world().my_pe
    x1, x2, bias = (random([n, me], s, F16) for n, s in enumerate([(M, K), (K, N), (N,)]))
    if name == "all_gather_matmul":
        return summary(counted(lambda: mc2.all_gather_matmul(x1, x2, bias, comm_turn=turns)))
    if name == "all_gather_matmul of int8":
        a, b = random([3, me], (M, K), I8), random([4, me], (K, N), I8)
        scales = {"x1_scale": np.ones(M, F32), "x2_scale": np.ones(N, F32)}
        call = lambda: mc2.all_gather_matmul(a, b, is_gather_out=False, comm_turn=turns, **scales)
        return summary(counted(call))
    if name == "matmul_reduce_scatter":
        return summary(counted(lambda: mc2.matmul_reduce_scatter(x1, x2, comm_turn=turns)))
    if name == "matmul_all_reduce":
        x3 = random([5, me], (M, N), F16)
        return summary(counted(lambda: mc2.matmul_all_reduce(x1, x2, bias, x3, comm_turn=turns)))
    if name == "matmul_all_reduce of int8 weights":
        weight, scale = random([6, me], (K, N), I8), np.ones(N, F16)
        return summary(
            counted(
                lambda: mc2.matmul_all_reduce(x1, weight, antiquant_scale=scale, comm_turn=turns)
            )
        )
    if name == "matmul_all_reduce_add_rms_norm":
        residual, gamma = random([7, me], (M, N), F16), np.ones(N, F32)
        return summary(
            counted(
                lambda: mc2.matmul_all_reduce_add_rms_norm(x1, x2, residual, gamma, comm_turn=turns)
            )
        )
    if name == "all_to_all_matmul":
        wide = random([8, me], (PES * K, N), F16)
        return summary(counted(lambda: mc2.all_to_all_matmul(x1, wide, comm_turn=turns)))
    return summary(counted(lambda: mc2.matmul_all_to_all(x1, x2, comm_turn=turns)))


def wanted(name, m, n, k, loaded, stored, *, a="f16", total="f32", work=None) -> dict[str, object]:
    return {
        "name": name,
        "is here": True,
        "work": {"dot": {a: 2 * m * n * k}, **(work or {})},
        "dots": [(m, n, k, a, total, 1)],
        "loaded": loaded,
        "stored": stored,
    }


X = {"x1": 2 * M * K, "x2": 2 * K * N}
BIAS = {"bias": 2 * N}
OPERATORS = {
    "all_gather_matmul": wanted(
        "all_gather_matmul", PES * M, N, K, {**X, **BIAS},
        {"y": 2 * PES * M * N, "gather_out": 2 * PES * M * K},
    ),
    "all_gather_matmul of int8": wanted(
        "all_gather_matmul", PES * M, N, K,
        {"x1": M * K, "x2": K * N, "x1_scale": 4 * M, "x2_scale": 4 * N},
        {"y": 2 * PES * M * N}, a="i8", total="i32", work={"vector": {"f32": 2 * PES * M * N}},
    ),
    "matmul_reduce_scatter": wanted("matmul_reduce_scatter", M, N, K, X, {"y": M * N}),
    "matmul_all_reduce": wanted(
        "matmul_all_reduce", M, N, K, {**X, **BIAS, "x3": 2 * M * N}, {"y": 2 * M * N}
    ),
    "matmul_all_reduce of int8 weights": wanted(
        "matmul_all_reduce", M, N, K,
        {"x1": 2 * M * K, "x2": K * N, "antiquant_scale": 2 * N}, {"y": 2 * M * N},
        work={"vector": {"f16": 2 * K * N}},
    ),
    "matmul_all_reduce_add_rms_norm": wanted(
        "matmul_all_reduce_add_rms_norm", M, N, K, {**X, "residual": 2 * M * N, "gamma": 4 * N},
        {"y": 2 * M * N, "norm_out": 2 * M * N}, work={"vector": {"f16": 5 * M * N}},
    ),
    "all_to_all_matmul": wanted(
        "all_to_all_matmul", M // PES, N, PES * K, {"x1": 2 * M * K, "x2": 2 * PES * K * N},
        {"y": M * N},
    ),
    "matmul_all_to_all": wanted("matmul_all_to_all", M, N, K, X, {"y": 2 * M * N}),
}  # fmt: skip


@pytest.mark.parametrize("turns", [1, 2])
def test_dense_operators_count_alike_for_any_number_of_turns(turns: int) -> None:
    for found in emu.launch(run_all, PES, args=(turns,), timeout=60):
        assert found == OPERATORS


def run_all(turns: int) -> dict[str, dict[str, object]]:
    return {name: run(name, turns) for name in OPERATORS}


def run_grouped() -> list[dict[str, object]]:
    me = emu.world().my_pe
    x, weight = random([1, me], (5, K), BF16), random([2, me], (2, K, N), BF16)
    # Rows of each PE for (PE 0: expert 0, 1; PE 1: expert 0, 1).
    sent = [[1, 2, 2, 0], [3, 0, 1, 1]]
    received = [[sent[p][2 * me + e] for p in range(PES) for e in range(2)] for me in range(PES)]
    shared = {"mm_x": random([3, me], (3, K), BF16), "mm_weight": random([4, me], (K, 2), BF16)}
    call = lambda: mc2.alltoallv_gmm(x, weight, sent[me], received[me], **shared)
    rows = random([5, me], (sum(received[me]), K), BF16)
    back = lambda: mc2.gmm_alltoallv(rows, weight, received[me], sent[me])
    return [summary(counted(call)), summary(counted(back))]


def test_grouped_products() -> None:
    (out, back), (out_1, _) = emu.launch(run_grouped, PES, timeout=60)
    # PE 0 gets 1 + 3 rows for its first expert and 2 + 0 for the second.
    assert out["dots"] == [
        (4, N, K, "bf16", "f32", 1),
        (2, N, K, "bf16", "f32", 1),
        (3, 2, K, "bf16", "f32", 1),
    ]
    assert out["work"] == {"dot": {"bf16": 2 * K * (6 * N + 3 * 2)}}
    assert out["loaded"] == {
        "gmm_x": 2 * 5 * K,
        "gmm_weight": 4 * K * N,
        "mm_x": 6 * K,
        "mm_weight": 4 * K,
    }
    assert out["stored"] == {"gmm_y": 2 * 6 * N, "mm_y": 12}
    assert [d[0] for d in out_1["dots"]] == [3, 1, 3]
    assert (back["name"], back["is here"]) == ("gmm_alltoallv", True)
    assert back["work"] == {"dot": {"bf16": 2 * K * 6 * N}}
    assert back["stored"] == {"y": 2 * 5 * N}
