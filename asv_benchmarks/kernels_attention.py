"""Flash attention as users of Triton write it: what the attention rows launch.

Tensors are of shape (batch x heads, length, D), contiguous; a program handles one block of rows of one head.
"""

from __future__ import annotations

import emu.triton.language as tl
from emu import triton

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def attention_forward(
    q_at, k_at, v_at, out_at, lse_at, scale, length,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * length * D
    rows = first + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    inner = tl.arange(0, D)
    q = tl.load(q_at + base + rows[:, None] * D + inner[None, :])
    k_places = k_at + base + columns[:, None] * D + inner[None, :]
    v_places = v_at + base + columns[:, None] * D + inner[None, :]
    most = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    out = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    factor = scale * LOG2E
    end = first + BLOCK_M if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        k = tl.load(k_places)
        scores = tl.dot(q, tl.trans(k)) * factor
        if CAUSAL:
            scores = tl.where(rows[:, None] >= (start + columns)[None, :], scores, float("-inf"))
        new = tl.maximum(most, tl.max(scores, axis=1))
        powers = tl.math.exp2(scores - new[:, None])
        shrink = tl.math.exp2(most - new)
        total = total * shrink + tl.sum(powers, axis=1)
        out = out * shrink[:, None]
        v = tl.load(v_places)
        out = tl.dot(powers.to(v.dtype), v, out)
        most = new
        k_places += BLOCK_N * D
        v_places += BLOCK_N * D
    out = out / total[:, None]
    tl.store(out_at + base + rows[:, None] * D + inner[None, :], out.to(out_at.dtype.element_ty))
    tl.store(lse_at + tl.program_id(1) * length + rows, most + tl.math.log2(total))


@triton.jit
def attention_delta(out_at, dout_at, delta_at, D: tl.constexpr, BLOCK_M: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    places = rows[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_at + places).to(tl.float32)
    dout = tl.load(dout_at + places).to(tl.float32)
    tl.store(delta_at + rows, tl.sum(out * dout, axis=1))


@triton.jit
def attention_backward_kv(
    q_at, k_at, v_at, dout_at, lse_at, delta_at, dk_at, dv_at, scale, length,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_N
    base = tl.program_id(1) * length * D
    columns = first + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, D)
    places = base + columns[:, None] * D + inner[None, :]
    k, v = tl.load(k_at + places), tl.load(v_at + places)
    dk = tl.zeros([BLOCK_N, D], dtype=tl.float32)
    dv = tl.zeros([BLOCK_N, D], dtype=tl.float32)
    factor = scale * LOG2E
    begin = first // BLOCK_M * BLOCK_M if CAUSAL else 0
    for start in range(begin, length, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        q = tl.load(q_at + base + rows[:, None] * D + inner[None, :])
        dout = tl.load(dout_at + base + rows[:, None] * D + inner[None, :])
        lse = tl.load(lse_at + tl.program_id(1) * length + rows)
        delta = tl.load(delta_at + tl.program_id(1) * length + rows)
        # Transposed, so that the products below take it as it lies.
        powers = tl.math.exp2(tl.dot(k, tl.trans(q)) * factor - lse[None, :])
        if CAUSAL:
            powers = tl.where(rows[None, :] >= columns[:, None], powers, 0.0)
        dv = tl.dot(powers.to(dout.dtype), dout, dv)
        slopes = powers * (tl.dot(v, tl.trans(dout)) - delta[None, :])
        dk = tl.dot(slopes.to(q.dtype), q, dk)
    tl.store(dv_at + places, dv.to(dv_at.dtype.element_ty))
    tl.store(dk_at + places, (dk * scale).to(dk_at.dtype.element_ty))


@triton.jit
def attention_backward_q(
    q_at, k_at, v_at, dout_at, lse_at, delta_at, dq_at, scale, length,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * length * D
    rows = first + tl.arange(0, BLOCK_M)
    inner = tl.arange(0, D)
    places = base + rows[:, None] * D + inner[None, :]
    q, dout = tl.load(q_at + places), tl.load(dout_at + places)
    lse = tl.load(lse_at + tl.program_id(1) * length + rows)
    delta = tl.load(delta_at + tl.program_id(1) * length + rows)
    dq = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    factor = scale * LOG2E
    end = first + BLOCK_M if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_at + base + columns[:, None] * D + inner[None, :])
        v = tl.load(v_at + base + columns[:, None] * D + inner[None, :])
        powers = tl.math.exp2(tl.dot(q, tl.trans(k)) * factor - lse[:, None])
        if CAUSAL:
            powers = tl.where(rows[:, None] >= columns[None, :], powers, 0.0)
        slopes = powers * (tl.dot(dout, tl.trans(v)) - delta[:, None])
        dq = tl.dot(slopes.to(k.dtype), k, dq)
    tl.store(dq_at + places, (dq * scale).to(dq_at.dtype.element_ty))
