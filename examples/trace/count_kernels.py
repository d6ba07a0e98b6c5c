"""What a kernel does, counted exactly: a product with ragged edges, and a loop whose length depends on the data.

Run with: emu run -n 1 examples/trace/count_kernels.py
"""

import numpy as np
import triton
import triton.language as tl

from emu.trace.counting import count


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for begin in range(0, K, BK):
        k = begin + tl.arange(0, BK)
        x = tl.load(a + i[:, None] * K + k, mask=(i[:, None] < M) & (k < K), other=0.0)
        y = tl.load(b + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * N + j, total, mask=(i[:, None] < M) & (j < N))


@triton.jit
def collatz(x, steps):
    value = tl.load(x + tl.program_id(0))
    n = 0
    while value != 1:
        value = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        n += 1
    tl.store(steps + tl.program_id(0), n)


a, b = np.ones((100, 90), np.float32), np.ones((90, 70), np.float32)
c = np.zeros((100, 70), np.float32)
found = count(matmul, (2, 2), a, b, c, 100, 70, 90, BM=64, BN=64, BK=32)
assert (c == 90).all()
assert found.work["dot"]["f32"] == 2 * 128 * 128 * 96  # whole tiles, whatever is masked off
assert found.unique == 4 * (100 * 90 + 90 * 70 + 100 * 70)
print(found.table())

x, steps = np.array([1, 7, 27], np.int32), np.zeros(3, np.int32)
found = count(collatz, (3,), x, steps)
assert steps.tolist() == [0, 16, 111]
assert found.work["select"]["i32"] == steps.sum()
print(found.table())
