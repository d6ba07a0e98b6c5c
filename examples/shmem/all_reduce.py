"""All-reduce in one kernel, three ways: one shot, two shots, and around a ring.

Run with: emu run -n 4 examples/shmem/all_reduce.py
"""

import numpy as np
import triton
import triton.language as tl

import emu
from emu import shmem


@triton.jit
def one_shot(mine_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each PE reads the blocks of all, and adds them up itself."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for pe in range(shmem.n_pes()):
        total += shmem.load(mine_ptr + i, pe, mask=i < n)
    tl.store(out_ptr + i, total, mask=i < n)


@triton.jit
def two_shot(mine_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Program p of PE q adds up block q + p * n_pes, and stores the sum to everyone."""
    block = tl.program_id(0) * shmem.n_pes() + shmem.my_pe()
    i = block * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for pe in range(shmem.n_pes()):
        total += shmem.load(mine_ptr + i, pe, mask=i < n)
    for pe in range(shmem.n_pes()):
        shmem.store(out_ptr + i, total, pe, mask=i < n)


@triton.jit
def ring(inbox_ptr, flags_ptr, mine_ptr, out_ptr, share, BLOCK: tl.constexpr):
    """Partial sums travel to the right: after n_pes - 1 steps each share is complete somewhere; then it travels on."""
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    right = (me + 1) % n_pes
    for step in range(2 * n_pes - 2):
        which = (me - step + 2 * n_pes) % n_pes
        shmem.put_signal(
            inbox_ptr + step * share, out_ptr + which * share, share * 4, flags_ptr + step, 1, right
        )
        came = (which + n_pes - 1) % n_pes
        shmem.wait_until(flags_ptr + step, "eq", 1)
        for start in range(0, share, BLOCK):
            i = start + tl.arange(0, BLOCK)
            value = tl.load(inbox_ptr + step * share + i, mask=i < share)
            if step < n_pes - 1:
                value += tl.load(mine_ptr + came * share + i, mask=i < share)
            tl.store(out_ptr + came * share + i, value, mask=i < share)


world = emu.world()
n_pes, share = world.n_pes, 3000
size = n_pes * share
mine, out = world.alloc(size, np.float32), world.alloc(size, np.float32)
inbox = world.alloc((2 * n_pes, share), np.float32)
flags = world.alloc(2 * n_pes, np.int64, poison=False)
mine.local[:] = np.arange(size) % 97 * (world.my_pe + 1)
world.barrier()
expected = np.arange(size) % 97 * sum(range(1, n_pes + 1))

one_shot[(triton.cdiv(size, 1024),)](mine.local, out.local, size, BLOCK=1024)
assert np.array_equal(out.local, expected)
world.barrier()

two_shot[(triton.cdiv(size, 1024 * n_pes),)](mine.local, out.local, size, BLOCK=1024)
world.barrier()
assert np.array_equal(out.local, expected)
world.barrier()

out.local[:] = mine.local
ring[(1,)](inbox.local, flags.local, mine.local, out.local, share, BLOCK=1024)
assert np.array_equal(out.local, expected)
print(f"one shot, two shots and a ring of {n_pes} PEs give the same sums")
