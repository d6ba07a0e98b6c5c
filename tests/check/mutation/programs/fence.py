"""Two puts, a fence, a signal; and the way back by quiet and a put of the signal word."""

import numpy as np

import emu

world = emu.world()
me = world.my_pe
data = world.alloc((2, 64), np.float32)
flags = world.alloc(2, np.int64)
if me == 0:
    world.put(data[0], np.ones(64, np.float32), 1)
    world.put(data[1], np.ones(64, np.float32), 1)
    world.fence()
    world.signal_op(flags, 1, 1, index=0)
    world.wait_until(flags, emu.Cmp.EQ, 1, index=1)
    assert data.local.sum() == 256
elif me == 1:
    world.wait_until(flags, emu.Cmp.EQ, 1, index=0)
    answer = data.local * 2
    world.put(data, answer, 0)
    world.quiet()
    world.signal_op(flags, 1, 0, index=1)
