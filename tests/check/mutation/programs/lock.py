"""A counter and its history on PE 0, which whoever has the lock changes."""

import numpy as np

import emu

world = emu.world()
n = world.n_pes
lock = world.alloc(1, np.int64)
total = world.alloc(1, np.int64)
history = world.alloc(4 * n, np.int64)
world.barrier()
for _ in range(4):
    world.set_lock(lock)
    count = int(world.get(total, 0)[0])
    world.put(history[count : count + 1], np.array([world.my_pe + 1]), 0)
    world.put(total, np.array([count + 1]), 0)
    world.clear_lock(lock)
world.barrier()
if world.my_pe == 0:
    assert total.local[0] == 4 * n
    assert history.local.all()
