"""Attention over a sequence that is spread over PEs: a kernel reads the keys and values of each by remote loads.

Run with: emu run -n 4 examples/shmem/ring_attention.py
"""

import numpy as np
import triton
import triton.language as tl

import emu
from emu import shmem


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, rows_per_pe, BLOCK: tl.constexpr, D: tl.constexpr
):
    """Program p computes a block of this PE's rows; it begins with the keys that are its own PE's."""
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    width, lanes = tl.arange(0, D), tl.arange(0, BLOCK)
    q = tl.load(q_ptr + rows[:, None] * D + width[None, :])
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    result = tl.zeros([BLOCK, D], tl.float32)
    for step in range(n_pes):
        peer = (me + step) % n_pes
        for start in range(0, rows_per_pe, BLOCK):
            tile = (start + lanes[:, None]) * D + width[None, :]
            k, v = shmem.load(k_ptr + tile, peer), shmem.load(v_ptr + tile, peer)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            higher = tl.maximum(highest, tl.max(scores, 1))
            shrink, weights = tl.exp(highest - higher), tl.exp(scores - higher[:, None])
            result = result * shrink[:, None] + tl.dot(weights, v, input_precision="ieee")
            total = total * shrink + tl.sum(weights, 1)
            highest = higher
    tl.store(out_ptr + rows[:, None] * D + width[None, :], result / total[:, None])


world = emu.world()
rows, width = 128, 32
rng = np.random.default_rng(world.my_pe)
q, k, v = (rng.standard_normal((rows, width)).astype(np.float32) for _ in range(3))
keys, values = world.alloc((rows, width), np.float32), world.alloc((rows, width), np.float32)
keys.local[:], values.local[:] = k, v
out, scale = np.empty_like(q), width**-0.5
world.barrier()  # all keys and values are there

attention[(rows // 32,)](q, keys.local, values.local, out, scale, rows, 32, width)
world.barrier()  # nobody reads this PE's memory any more

scores = q @ world.all_gather(k).reshape(-1, width).T * scale
weights = np.exp(scores - scores.max(1, keepdims=True))
expected = weights @ world.all_gather(v).reshape(-1, width) / weights.sum(1, keepdims=True)
np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-6)
print(f"attention of {rows} rows a PE over {rows * world.n_pes} keys on {world.n_pes} PEs")
