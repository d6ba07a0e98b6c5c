"""A stream through two buffers: the sender waits until a buffer was read before it fills it again."""

import numpy as np

import emu

world = emu.world()
inbox = world.alloc((2, 32), np.int32)
full = world.alloc(2, np.int64)
free = world.alloc(2, np.int64)
for item in range(8):
    slot, turn = item % 2, item // 2
    if world.my_pe == 0:
        world.wait_until(free, emu.Cmp.GE, turn, index=slot)
        world.put(inbox[slot], np.full(32, item, np.int32), 1)
        world.fence()
        world.signal_op(full, 1, 1, op=emu.AtomicOp.ADD, index=slot)
    elif world.my_pe == 1:
        world.wait_until(full, emu.Cmp.GE, turn + 1, index=slot)
        assert (inbox.local[slot] == item).all()
        world.signal_op(free, 1, 0, op=emu.AtomicOp.ADD, index=slot)
