"""Product and reduce-scatter in one kernel: a signal a tile says that a partial product has come.

Run with: emu run -n 4 examples/shmem/matmul_reduce_scatter.py
"""

import numpy as np
import triton
import triton.language as tl

import emu
from emu import shmem


@triton.jit
def matmul_reduce_scatter(
    a_ptr, b_ptr, parts_ptr, flags_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """Program p multiplies the rows of PE p and stores the tile there; the last program adds up this PE's."""
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    owner = tl.program_id(0)
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    tile = rows[:, None] * N + columns[None, :]
    if owner < n_pes:
        a = tl.load(a_ptr + (owner * M + rows[:, None]) * K + inner[None, :])
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :])
        part = tl.dot(a, b, input_precision="ieee")
        shmem.store(parts_ptr + me * M * N + tile, part, owner)
        shmem.fence()  # the tile comes before its signal
        shmem.signal(flags_ptr + me, 1, owner)
    else:
        total = tl.zeros([M, N], tl.float32)
        for pe in range(n_pes):
            shmem.wait_until(flags_ptr + pe, "eq", 1)
            total += tl.load(parts_ptr + pe * M * N + tile)
        tl.store(out_ptr + tile, total)


world = emu.world()
m, n, k = 32, 64, 64
rng = np.random.default_rng(world.my_pe)
a = rng.integers(-8, 8, (world.n_pes * m, k)).astype(np.float32)
b = rng.integers(-8, 8, (k, n)).astype(np.float32)
parts = world.alloc((world.n_pes, m, n), np.float32)
flags = world.alloc(world.n_pes, np.int64, poison=False)
out = np.empty((m, n), np.float32)

matmul_reduce_scatter[(world.n_pes + 1,)](a, b, parts.local, flags.local, out, m, n, k)

products = (a @ b).reshape(world.n_pes, m, n)
assert np.array_equal(out, world.reduce_scatter(products))
print(f"rows of a sum of {world.n_pes} products, each PE its own")
