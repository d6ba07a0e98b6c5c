"""A tiled matrix product with a fused epilogue, autotuned, on NumPy arrays: no torch and no GPU.

Run with: python examples/triton/matmul.py
"""

import numpy as np

import emu.triton.language as tl
from emu import triton


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}),
    ],
    key=["m", "n", "k"],
)
@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    stride_a,
    stride_b,
    stride_c,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACTIVATION: tl.constexpr = None,
):
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows % m)[:, None] * stride_a + steps[None, :]
    b_ptrs = b_ptr + steps[:, None] * stride_b + (columns % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs, mask=steps[None, :] < k - start, other=0.0)
        b = tl.load(b_ptrs, mask=steps[:, None] < k - start, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_b
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_ptr + rows[:, None] * stride_c + columns[None, :], total, mask=inside)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    m, n, k = 500, 700, 300
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    c = np.empty((m, n), np.float32)

    def grid(meta):
        return triton.cdiv(n, meta["BLOCK_N"]), triton.cdiv(m, meta["BLOCK_M"])

    matmul[grid](a, b, c, m, n, k, k, n, n, ACTIVATION=silu)

    x = a.astype(np.float64) @ b.astype(np.float64)
    worst = np.abs(c - x / (1 + np.exp(-x))).max()
    assert worst < 1e-3, worst
    print(f"{m} x {k} x {n} in fp16 with {matmul.best_config}: off by {worst:.1e} at most")
