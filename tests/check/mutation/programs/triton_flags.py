"""Programs of a grid that hand data over by release and acquire, and share a sum under a lock."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def hand_over(data, flag, out):
    if tl.program_id(0) == 0:
        tl.store(data, 7)
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        while tl.atomic_add(flag, 0, sem="acquire") == 0:
            pass
        tl.store(out, tl.load(data) + 1)


@triton.jit
def locked_sum(x, lock, total, B: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)))
    while tl.atomic_cas(lock, 0, 1, sem="acquire") != 0:
        pass
    tl.store(total, tl.load(total) + part)
    tl.atomic_xchg(lock, 0, sem="release")


data, flag, out = (np.zeros(1, np.int32) for _ in range(3))
hand_over[(2,)](data, flag, out)
assert out[0] == 8
x = np.arange(64, dtype=np.int32)
lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
locked_sum[(4,)](x, lock, total, B=16)
assert total[0] == x.sum()
