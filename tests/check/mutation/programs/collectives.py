"""Collectives that order: what is put before one is read behind it, once it is complete."""

import numpy as np

import emu

world = emu.world()
me, n = world.my_pe, world.n_pes
board = world.alloc(n, np.float32)
for pe in range(n):
    world.put(board[me : me + 1], np.array([me + 1], np.float32), pe)
world.quiet()
total = world.all_reduce(np.array([me + 1], np.float32))
assert board.local.sum() == total[0]
world.sync()
world.put(board[me : me + 1], np.zeros(1, np.float32), (me + 1) % n)
