"""All-gather and product in one kernel: tiles of rows are multiplied as they arrive from the other PEs.

Run with: emu run -n 4 examples/shmem/all_gather_matmul.py
"""

import numpy as np
import triton
import triton.language as tl

import emu
from emu import shmem


@triton.jit
def all_gather_matmul(
    a_ptr, all_ptr, flags_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """Program 0 sends this PE's rows to everyone; program p multiplies what comes from PE p - 1."""
    me = shmem.my_pe()
    sender = tl.program_id(0) - 1
    if sender < 0:
        for step in range(shmem.n_pes()):
            peer = (me + step) % shmem.n_pes()
            shmem.put_signal(all_ptr + me * M * K, a_ptr, M * K * 4, flags_ptr + me, 1, peer)
    else:
        shmem.wait_until(flags_ptr + sender, "eq", 1)
        rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
        a = tl.load(all_ptr + sender * M * K + rows[:, None] * K + inner[None, :])
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :])
        c_tile = c_ptr + (sender * M + rows[:, None]) * N + columns[None, :]
        tl.store(c_tile, tl.dot(a, b, input_precision="ieee"))


world = emu.world()
m, n, k = 64, 64, 128
rng = np.random.default_rng(world.my_pe)
a = rng.integers(-8, 8, (m, k)).astype(np.float32)
b = rng.integers(-8, 8, (k, n)).astype(np.float32)
gathered = world.alloc((world.n_pes, m, k), np.float32)
flags = world.alloc(world.n_pes, np.int64, poison=False)
c = np.empty((world.n_pes * m, n), np.float32)

all_gather_matmul[(world.n_pes + 1,)](a, gathered.local, flags.local, b, c, m, n, k)

whole = world.all_gather(a).reshape(-1, k)
assert np.array_equal(c, whole @ b)
print(f"product of {whole.shape} and {b.shape}, gathered from {world.n_pes} PEs in the kernel")
