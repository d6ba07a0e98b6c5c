"""All-gather around a ring: in each step every PE passes the block it received last to its neighbour.

Run with: emu run -n 4 examples/comm/ring.py
"""

import numpy as np

import emu

world = emu.world()
me, n = world.my_pe, world.n_pes
right = (me + 1) % n

blocks = world.alloc((n, 1000), np.float32)
arrived = world.alloc((n,), np.int32)  # arrived[i] is 1 once block i is here

blocks.local[me] = me + 0.5
arrived.local[me] = 1
for step in range(n - 1):
    block = (me - step) % n  # in step 0 my own, then what the left neighbour sent
    world.wait_until(arrived, emu.Cmp.EQ, 1, index=block)
    world.put_signal(
        blocks, blocks.local[block : block + 1], right, arrived, 1, index=block, offsets=(block, 0)
    )
world.wait_until(arrived, emu.Cmp.EQ, 1, index=(me + 1) % n)

expected = np.arange(n, dtype=np.float32)[:, None] + 0.5
assert np.array_equal(blocks.local, np.broadcast_to(expected, (n, 1000)))
print(f"has all {n} blocks")
