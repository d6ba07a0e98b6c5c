"""Products in loops whose blocks are read where they lie, or copied where a mask leaves something out: in any layout of B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emu import triton
from emu.triton import language as tl


@triton.jit
def _product(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    sa,
    sk,
    sn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TURNED: tl.constexpr,
):
    m = tl.arange(0, BM)
    n = tl.arange(0, BN)
    total = tl.zeros((BM, BN), c_ptr.dtype.element_ty)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(
            a_ptr + m[:, None] * sa + k[None, :], (m[:, None] < M) & (k[None, :] < K), other=0
        )
        if TURNED:
            at = n[:, None] * sn + k[None, :] * sk
            b = tl.load(b_ptr + at, (n[:, None] < N) & (k[None, :] < K), other=0).T
        else:
            at = k[:, None] * sk + n[None, :] * sn
            b = tl.load(b_ptr + at, (k[:, None] < K) & (n[None, :] < N), other=0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, (m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("columns", [16, 32])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("side_by_side", ["k", "n"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_blocks_that_a_mask_cuts(dtype: Any, side_by_side: str, turned: bool, columns: int) -> None:
    random = np.random.default_rng(columns)
    for m, n, k in [(16, columns, 64), (16, columns, 67), (13, columns - 3, 64), (9, 5, 3)]:
        a = random.integers(-8, 8, (m, k)).astype(dtype)
        b = random.integers(-8, 8, (k, n)).astype(dtype)
        stored = np.ascontiguousarray(b if side_by_side == "n" else b.T)
        sk, sn = (n, 1) if side_by_side == "n" else (1, k)
        c = np.full((m, n), 99, np.int32 if dtype is np.int8 else np.float32)
        _product[(1,)](a, stored, c, m, n, k, k, sk, sn, 16, columns, 32, turned)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
