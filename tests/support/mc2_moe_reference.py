"""What the MoE operators mean: loops over all ranks' rows, expert by expert, in NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from emu.kernels.matmul import matmul

BF16 = np.dtype(ml_dtypes.bfloat16)
FP16, INT8 = np.dtype(np.float16), np.dtype(np.int8)
STYLES = ("even", "skewed", "one expert", "one rank", "none", "at home")


def make_counts(rng, style, ranks, experts, most=9):
    """Rows by [owner, holder, expert]."""
    shape = (ranks, ranks, experts)
    counts = rng.integers(0, most, shape)
    if style == "skewed":
        counts = rng.integers(0, most, shape) * (rng.random((1, ranks, experts)) < 0.4)
    elif style == "one expert":
        only = np.zeros(shape, np.int64)
        only[:, rng.integers(ranks), rng.integers(experts)] = 1
        counts = only * rng.integers(0, 4 * most, shape)
    elif style == "one rank":  # owns all rows
        counts = counts * (np.arange(ranks) == rng.integers(ranks))[:, None, None]
    elif style == "none":
        counts = np.zeros(shape, np.int64)
    elif style == "at home":
        counts = counts * np.eye(ranks, dtype=np.int64)[:, :, None]
    return counts.astype(np.int64)


def values(rng, shape, dtype):
    if dtype == INT8:
        return rng.integers(-128, 128, shape).astype(INT8)
    return rng.standard_normal(shape).astype(dtype)


def by_expert(rows, counts):
    """Give each rank the rows for its experts: rows[owner] by rank -> result[holder] by expert."""
    ranks, _, experts = counts.shape
    blocks = {}
    for owner in range(ranks):
        start = 0
        for holder in range(ranks):
            for expert in range(experts):
                end = start + counts[owner, holder, expert]
                blocks[owner, holder, expert] = rows[owner][start:end]
                start = end
        assert start == len(rows[owner])
    return [
        np.concatenate([blocks[o, holder, x] for x in range(experts) for o in range(ranks)])
        for holder in range(ranks)
    ]


def by_rank(rows, counts):
    """Give each rank its rows back: rows[holder] by expert -> result[owner] by rank."""
    ranks, _, experts = counts.shape
    blocks = {}
    for holder in range(ranks):
        start = 0
        for expert in range(experts):
            for owner in range(ranks):
                end = start + counts[owner, holder, expert]
                blocks[owner, holder, expert] = rows[holder][start:end]
                start = end
        assert start == len(rows[holder])
    return [
        np.concatenate([blocks[owner, h, x] for h in range(ranks) for x in range(experts)])
        for owner in range(ranks)
    ]


def product(x, w, x_scale=None, w_scale=None, dtype=None):
    """One product: int8 with scales, or 16 bits in fp32 with one rounding."""
    if x.dtype != INT8:
        y = matmul(x, w)
        exact = x.astype(np.float64) @ w.astype(np.float64)
        size = np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64))
        # Sums round to fp32 (24 bits), the result to 11 or 8 bits.
        step = 2.0**-11 if x.dtype == FP16 else 2.0**-8
        wrong = np.abs(y.astype(np.float64) - exact)
        assert (wrong <= np.abs(exact) * step * 1.01 + size * 2.0**-20 + 1e-7).all()
        return y
    sums = (x.astype(np.int64) @ w.astype(np.int64)).astype(np.int32)
    scaled = sums.astype(np.float32) * w_scale
    if x_scale is not None:
        scaled = scaled * x_scale[:, None]
    return scaled.astype(dtype)


def products(rows, counts, holder, weights, scales=None, weight_scales=None, dtype=None):
    """The products of one rank's experts, rows by expert."""
    ends = np.cumsum(counts[:, holder].sum(0))
    parts = []
    for expert, end in enumerate(ends):
        part = slice(end - counts[:, holder, expert].sum(), end)
        scale = None if scales is None else scales[part]
        columns = None if weight_scales is None else weight_scales[expert]
        parts.append(product(rows[part], weights[expert], scale, columns, dtype))
    return np.concatenate(parts)


def dispatch(x, expert_ids, active, total):
    """Rows of each holder as (owner, token, copy), and counts [owner, holder, expert]."""
    ranks = len(x)
    local = total // ranks
    counts = np.zeros((ranks, ranks, local), np.int64)
    sources = [[] for _ in range(ranks)]
    for expert in range(total):
        for owner in range(ranks):
            for t in range(len(x[owner])):
                for j in range(expert_ids[owner].shape[1]):
                    if expert_ids[owner][t, j] == expert and active[owner][t, j]:
                        sources[expert // local].append((owner, t, j))
                        counts[owner, expert // local, expert % local] += 1
    return sources, counts


def quantize(row, smooth=None):
    """One row to int8 and its scale."""
    v = row.astype(np.float32)
    if smooth is not None:
        v = v * smooth
    scale = np.max(np.abs(v)) / np.float32(127)
    if scale == 0 or not np.isfinite(scale):
        return np.zeros(v.shape, np.int8), scale
    return np.clip(np.rint(v / scale), -128, 127).astype(np.int8), scale


def combine(rows_of, weights, active, h, dtype, shared=None):
    """rows_of[t][j]: what came back of that copy."""
    out = np.zeros((len(weights), h), dtype)
    for t in range(len(weights)):
        total = np.zeros(h, np.float32)
        for j in range(weights.shape[1]):
            if active[t, j]:
                total = total + rows_of[t][j].astype(np.float32) * weights[t, j]
        if shared is not None:
            total = total + shared[t].astype(np.float32)
        out[t] = total.astype(dtype)
    return out


def same(actual, expected):
    assert actual.dtype == expected.dtype, (actual.dtype, expected.dtype)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    assert actual.tobytes() == np.ascontiguousarray(expected).tobytes()
