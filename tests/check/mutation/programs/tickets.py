"""Work by tickets: results are stored before a counter says how many there are."""

import numpy as np

import emu

world = emu.world()
n = world.n_pes
tickets = world.alloc(1, np.int64)
done = world.alloc(1, np.int64)
results = world.alloc(3 * n, np.int32)
for _ in range(3):
    number = world.fetch_add(tickets, 1, 0)
    world.put(results[number : number + 1], np.array([number + 1], np.int32), 0)
    world.quiet()
    world.fetch_add(done, 1, 0)
if world.my_pe == 0:
    world.wait_until(done, emu.Cmp.EQ, 3 * n)
    assert results.local.all()
