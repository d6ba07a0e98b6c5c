"""The fused operators, unfused: the whole product, then one collective, each in NumPy.

Lists hold what the PEs have, in their order; every function returns such a list. The product itself
is given, so that the same formulas serve two comparisons: bit for bit, with a product of one chain of
multiply-adds an element, and independently of that with NumPy's in fp64.
"""

from __future__ import annotations

import numpy as np

from emu.kernels.matmul import matmul


def chain(x1, x2):
    """One chain an element: fp32 sums of fp16 and bf16, int32 of int8."""
    dtype = np.int32 if x1.dtype == np.int8 else np.float32
    return matmul(np.ascontiguousarray(x1), np.ascontiguousarray(x2), dtype=dtype)


def rounded(x, dtype):
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)


def finished(sums, bias, scale, tokens, more, dtype):
    """What is applied to the sums of one PE, each operation rounded; then one rounding."""
    with np.errstate(all="ignore"):
        if sums.dtype == np.int32:
            total = (sums if bias is None else sums + bias).astype(np.float32) * np.float32(scale)
            total = total if tokens is None else total * tokens.reshape(-1, 1)
            total = total if more is None else total + np.float32(more)
        else:
            total = sums if more is None else sums + np.float32(more)
            total = total if bias is None else total + np.float32(bias)
    return rounded(total, dtype)


def reduced(parts):
    """The sum in the order of the PEs, in fp32 with one rounding."""
    with np.errstate(all="ignore"):
        total = parts[0].astype(np.float32)
        for part in parts[1:]:
            total = total + part.astype(np.float32)
    return rounded(total, parts[0].dtype)


def all_gather_matmul(x1, x2, bias, scale, tokens, dtype):
    gathered = np.concatenate(x1)
    scales = None if tokens[0] is None else np.concatenate(tokens)
    return [
        (finished(chain(gathered, w), b, s, scales, None, dtype), gathered)
        for w, b, s in zip(x2, bias, scale, strict=True)
    ]


def partial_products(x1, x2, bias, scale, tokens, more, dtype):
    return [
        finished(chain(x, w), b, s, t, m, dtype)
        for x, w, b, s, t, m in zip(x1, x2, bias, scale, tokens, more, strict=True)
    ]


def matmul_reduce_scatter(*arguments):
    total = reduced(partial_products(*arguments))
    return np.split(total, len(arguments[0]))


def matmul_all_reduce(*arguments):
    return [reduced(partial_products(*arguments))] * len(arguments[0])


def add_rms_norm(total, residual, gamma, epsilon):
    with np.errstate(all="ignore"):
        y = rounded(total.astype(np.float32) + residual.astype(np.float32), total.dtype)
        wide = y.astype(np.float32)
        mean = np.mean(wide * wide, axis=1, keepdims=True)
        return y, rounded(wide / np.sqrt(mean + np.float32(epsilon)) * np.float32(gamma), y.dtype)


def all_to_all_matmul(x1, x2, bias, scale, dtype):
    n = len(x1)
    blocks = [np.split(x, n) for x in x1]
    return [
        finished(
            chain(np.hstack([blocks[i][j] for i in range(n)]), x2[j]),
            bias[j],
            scale[j],
            None,
            None,
            dtype,
        )
        for j in range(n)
    ]


def matmul_all_to_all(x1, x2, bias, scale, tokens, dtype):
    n = len(x1)
    products = partial_products(x1, x2, bias, scale, tokens, [None] * n, dtype)
    blocks = [np.split(p, n, axis=1) for p in products]
    return [np.concatenate([blocks[i][j] for i in range(n)]) for j in range(n)]
