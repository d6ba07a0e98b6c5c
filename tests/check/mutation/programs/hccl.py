"""Two collectives of Hccl; each is waited for before its result is used, and its memory again."""

import numpy as np

import emu
from emu.mc2 import Hccl

world = emu.world()
me, n = world.my_pe, world.n_pes
mine = np.full(4096, me + 1, np.float16)
gathered = np.zeros(n * 4096, np.float16)
total = np.zeros(4096, np.float16)
with Hccl(world) as hccl:
    first = hccl.AllGather(mine, gathered, 4096, commit=True)
    hccl.Wait(first)
    assert (gathered.reshape(n, 4096) == np.arange(1, n + 1)[:, None]).all()
    mine[:] = 1
    second = hccl.AllReduce(mine, total, 4096, commit=True)
    hccl.Wait(second)
    assert (total == n).all()
