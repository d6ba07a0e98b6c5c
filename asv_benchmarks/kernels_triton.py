"""Kernels of the kinds that Triton's tutorials teach, as users write them: what the Triton rows launch."""

from __future__ import annotations

import emu.triton.language as tl
from emu import triton


@triton.jit
def add(x_at, y_at, out_at, count, BLOCK: tl.constexpr):
    places = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < count
    x = tl.load(x_at + places, mask=mask)
    y = tl.load(y_at + places, mask=mask)
    tl.store(out_at + places, x + y, mask=mask)


@triton.jit
def nothing(a, b, c, d):
    pass


@triton.jit
def softmax(
    out_at, x_at, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        places = tl.arange(0, BLOCK)
        mask = places < columns
        x = tl.load(x_at + row * x_stride + places, mask=mask, other=-float("inf"))
        powers = tl.exp(x - tl.max(x, axis=0))
        result = powers / tl.sum(powers, axis=0)
        tl.store(out_at + row * out_stride + places, result, mask=mask)


@triton.jit
def layer_norm(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    X += row * stride
    Y += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(X + at, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(X + at, mask=at < N, other=0.0).to(tl.float32)
        x = tl.where(at < N, x - mean, 0.0)
        squares += x * x
    variance = tl.sum(squares, axis=0) / N
    rstd = 1 / tl.sqrt(variance + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < N
        w = tl.load(W + at, mask=mask)
        b = tl.load(B + at, mask=mask)
        x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + at, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def matmul(
    a_at, b_at, c_at, M, N, K, a_row, a_col, b_row, b_col, c_row, c_col,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(axis=0)
    high, wide = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP * wide
    first = program // in_group * GROUP
    height = min(high - first, GROUP)
    block_row = first + (program % in_group) % height
    block_col = (program % in_group) // height
    rows = (block_row * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    cols = (block_col * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    a_places = a_at + (rows[:, None] * a_row + inner[None, :] * a_col)
    b_places = b_at + (inner[:, None] * b_row + cols[None, :] * b_col)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_places, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_places, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        total = tl.dot(a, b, total)
        a_places += BLOCK_K * a_col
        b_places += BLOCK_K * b_row
    out_rows = block_row * BLOCK_M + tl.arange(0, BLOCK_M)
    out_cols = block_col * BLOCK_N + tl.arange(0, BLOCK_N)
    c_places = c_at + c_row * out_rows[:, None] + c_col * out_cols[None, :]
    mask = (out_rows[:, None] < M) & (out_cols[None, :] < N)
    tl.store(c_places, total.to(c_at.dtype.element_ty), mask=mask)
