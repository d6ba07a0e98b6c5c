"""Kernels of the kinds that libraries of Triton kernels hold, as users write them: what the library rows launch."""

from __future__ import annotations

import emu.triton.language as tl
from emu import triton


@triton.jit
def cross_entropy(logits_at, labels_at, losses_at, stride, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits_at += row * stride
    label = tl.load(labels_at + row)
    most = float("-inf")
    total = 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits_at + at, mask=at < classes, other=float("-inf")).to(tl.float32)
        new = tl.maximum(most, tl.max(x, axis=0))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(x - new), axis=0)
        most = new
    chosen = tl.load(logits_at + label).to(tl.float32)
    tl.store(losses_at + row, most + tl.log(total) - chosen)


@triton.jit
def rms_norm(x_at, w_at, out_at, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(x_at + row * stride + at, mask=mask, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(x * x, axis=0) / columns + eps)
    w = tl.load(w_at + at, mask=mask)
    tl.store(out_at + row * stride + at, x * scale * w, mask=mask)


@triton.jit
def rope(x_at, cos_at, sin_at, out_at, length, HEADS: tl.constexpr, D: tl.constexpr):
    token = tl.program_id(0)
    half = tl.arange(0, D // 2)
    cos = tl.load(cos_at + token % length * (D // 2) + half)[None, :]
    sin = tl.load(sin_at + token % length * (D // 2) + half)[None, :]
    places = token * HEADS * D + tl.arange(0, HEADS)[:, None] * D + half[None, :]
    left = tl.load(x_at + places)
    right = tl.load(x_at + places + D // 2)
    tl.store(out_at + places, left * cos - right * sin)
    tl.store(out_at + places + D // 2, right * cos + left * sin)


@triton.jit
def softmax_row(out_at, x_at, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(x_at + row * stride + at, mask=mask, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_at + row * stride + at, powers / tl.sum(powers, axis=0), mask=mask)


@triton.jit
def quantize_fp8(x_at, out_at, scales_at, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_at + at).to(tl.float32)
    scale = tl.max(tl.abs(x)) / 448.0
    tl.store(out_at + at, (x / scale).to(out_at.dtype.element_ty))
    tl.store(scales_at + program, scale)


@triton.jit
def embedding(table_at, ids_at, out_at, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    number = tl.load(ids_at + row)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    tl.store(
        out_at + row * columns + at, tl.load(table_at + number * columns + at, mask=mask), mask=mask
    )


@triton.jit
def embedding_block(
    table_at, ids_at, out_at, count, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    at = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    numbers = tl.load(ids_at + rows, mask=rows < count, other=0)
    mask = (rows < count)[:, None] & (at < columns)[None, :]
    x = tl.load(table_at + numbers[:, None] * columns + at[None, :], mask=mask, other=0.0)
    tl.store(out_at + rows[:, None] * columns + at[None, :], x, mask=mask)


@triton.jit
def topk_row(x_at, out_at, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_at + row * N + tl.arange(0, N))
    tl.store(out_at + row * K + tl.arange(0, K), tl.topk(x, K))


@triton.jit
def sort_row(x_at, out_at, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_at + at, tl.sort(tl.load(x_at + at)))


@triton.jit
def cumsum_row(x_at, out_at, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_at + at, tl.cumsum(tl.load(x_at + at), 0))


@triton.jit
def cumsum_blocks(x_at, out_at, count, BLOCK: tl.constexpr):
    before = 0.0
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_at + at, mask=at < count, other=0.0)
        tl.store(out_at + at, tl.cumsum(x, 0) + before, mask=at < count)
        before += tl.sum(x, axis=0)


@triton.jit
def scatter_add(values_at, places_at, out_at, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    places = tl.load(places_at + at, mask=mask, other=0)
    tl.atomic_add(out_at + places, tl.load(values_at + at, mask=mask, other=0), mask=mask)


@triton.jit
def histogram(x_at, out_at, count, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    counts = tl.histogram(tl.load(x_at + at, mask=mask, other=0), BINS, mask=mask)
    tl.atomic_add(out_at + tl.arange(0, BINS), counts)


@triton.jit
def gemv(a_at, x_at, out_at, stride, columns, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    for start in range(0, columns, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        mask = at < columns
        a = tl.load(a_at + rows[:, None] * stride + at[None, :], mask=mask[None, :], other=0.0)
        x = tl.load(x_at + at, mask=mask, other=0.0)
        total += tl.sum(a.to(tl.float32) * x.to(tl.float32)[None, :], axis=1)
    tl.store(out_at + rows, total)


@triton.jit
def matmul_int8(
    a_at, b_at, c_at, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_places = a_at + rows[:, None] * K + inner[None, :]
    b_places = b_at + inner[:, None] * N + cols[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_places, mask=inner[None, :] < K - k, other=0)
        b = tl.load(b_places, mask=inner[:, None] < K - k, other=0)
        total = tl.dot(a, b, total)
        a_places += BLOCK_K
        b_places += BLOCK_K * N
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_at + rows[:, None] * N + cols[None, :], total, mask=mask)
