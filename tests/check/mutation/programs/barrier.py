"""Phases between barriers: each PE writes its part, all read all, and write again."""

import numpy as np

import emu

world = emu.world()
me, n = world.my_pe, world.n_pes
cells = world.alloc(n, np.int64)
for step in range(3):
    for pe in range(n):
        world.put(cells[me : me + 1], np.array([step * n + me]), pe)
    world.barrier()
    assert cells.local.tolist() == [step * n + pe for pe in range(n)]
    world.barrier()
