"""Two groups, each with its barrier, and one of all before the results are read."""

import numpy as np

import emu

world = emu.world()
me, n = world.my_pe, world.n_pes
team = world.group("even" if me % 2 == 0 else "odd", range(me % 2, n, 2))
mine = team.alloc(team.n_pes, np.int64)
everyone = world.alloc(n, np.int64)
for pe in range(team.n_pes):
    team.put(mine[team.my_pe : team.my_pe + 1], np.array([me + 1]), pe)
team.barrier()
world.put(everyone[me : me + 1], np.array([mine.local.sum()]), 0)
world.barrier()
if me == 0:
    assert everyone.local.sum() == sum(everyone.local)
    assert everyone.local.all()
