"""Masks: a length that no block divides, in one and in two dimensions."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    tl.store(out + i, a + b, mask=i < n)


@triton.jit
def transpose(x, out, rows, columns, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    j = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    inside = (i < rows) & (j < columns)
    tile = tl.load(x + i * columns + j, mask=inside)
    tl.store(out + j * rows + i, tile, mask=inside)


x = np.arange(100, dtype=np.float32)
out = np.zeros_like(x)
add[(4,)](x, x, out, 100, B=32)
assert (out == 2 * x).all()
table = np.arange(21 * 35, dtype=np.float32).reshape(21, 35)
turned = np.zeros((35, 21), np.float32)
transpose[(2, 3)](table, turned, 21, 35, B=16)
assert (turned == table.T).all()
