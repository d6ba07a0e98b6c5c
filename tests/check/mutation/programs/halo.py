"""A stencil: rims go to the neighbours, signals count the steps both ways."""

import numpy as np

import emu

world = emu.world()
me, n = world.my_pe, world.n_pes
left, right = (me - 1) % n, (me + 1) % n
cells = world.alloc(10, np.float64)
came = world.alloc(2, np.int64)
used = world.alloc(2, np.int64)
cells.local[:] = me
world.barrier()
for step in range(4):
    world.wait_until(used, emu.Cmp.GE, step, index=0)
    world.wait_until(used, emu.Cmp.GE, step, index=1)
    world.put_signal(
        cells[9:], cells.local[1:2].copy(), left, came, 1, index=1, sig_op=emu.AtomicOp.ADD
    )
    world.put_signal(
        cells[:1], cells.local[8:9].copy(), right, came, 1, index=0, sig_op=emu.AtomicOp.ADD
    )
    world.wait_until(came, emu.Cmp.GE, step + 1, index=0)
    world.wait_until(came, emu.Cmp.GE, step + 1, index=1)
    before = cells.local.copy()
    world.signal_op(used, 1, left, op=emu.AtomicOp.ADD, index=1)
    world.signal_op(used, 1, right, op=emu.AtomicOp.ADD, index=0)
    cells.local[1:9] = (before[:8] + before[1:9] + before[2:]) / 3
