"""A pipeline through all PEs: each adds 1 to every item and passes it on, two buffers per link.

A signal counts what has arrived; a second one, kept by the sender, counts what was taken out, so
that a buffer is never overwritten before its item is used.

Run with: emu run -n 4 examples/comm/signal_pipeline.py
"""

import numpy as np

import emu

ITEMS, WIDTH, BUFFERS = 20, 256, 2

world = emu.world()
me, last = world.my_pe, world.n_pes - 1

inbox = world.alloc((BUFFERS, WIDTH), np.float32, name="inbox")
arrived = world.alloc((1,), np.int64, name="arrived")
taken = world.alloc((1,), np.int64, name="taken")

for item in range(ITEMS):
    slot = item % BUFFERS
    if me == 0:
        data = np.full((1, WIDTH), item, np.float32)
    else:
        world.wait_until(arrived, emu.Cmp.GE, item + 1)
        data = inbox.local[slot : slot + 1].copy()
        world.signal_op(taken, 1, me - 1, op=emu.AtomicOp.ADD)
    data += 1
    if me == last:
        assert np.all(data == item + world.n_pes), f"item {item} came out as {data[0, 0]}"
    else:
        world.wait_until(taken, emu.Cmp.GE, item + 1 - BUFFERS)  # the buffer is free again
        world.fence()  # items arrive in order: else the count could rise by a later one first
        world.put_signal(
            inbox, data, me + 1, arrived, 1, offsets=(slot, 0), sig_op=emu.AtomicOp.ADD
        )

if me == last:
    print(f"{ITEMS} items passed through {world.n_pes} PEs")
