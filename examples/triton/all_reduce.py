"""An all-reduce in one kernel: each PE adds its tiles to the sums of all PEs, in their memory.

The kernel gets a table of addresses, one per PE, as kernels of symmetric-memory libraries do.

Run with: emu run -n 4 examples/triton/all_reduce.py
"""

import numpy as np
import triton
import triton.language as tl

import emu


@triton.jit
def add_to_all(mine_ptr, sums_ptr, n_pes, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.load(mine_ptr + i, mask=i < n)
    for pe in range(n_pes):
        sums = tl.load(sums_ptr + pe).to(tl.pointer_type(tl.int32))
        tl.atomic_add(sums + i, mine, mask=i < n)


world = emu.world()
size = 10_000
sums = world.alloc((size,), np.int32)
sums.local[:] = 0
table = np.array([sums.on(pe).ctypes.data for pe in range(world.n_pes)], np.int64)
mine = np.arange(size, dtype=np.int32) * (world.my_pe + 1)
world.barrier()  # all sums are zero

add_to_all[(triton.cdiv(size, 1024),)](mine, table, world.n_pes, size, BLOCK=1024)
world.barrier()  # all PEs have added

factor = sum(range(1, world.n_pes + 1))
assert np.array_equal(sums.local, np.arange(size) * factor)
print(f"has the sums of {world.n_pes} PEs")
