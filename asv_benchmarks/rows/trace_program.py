"""The program whose trace is measured: what PEs of a step do, one of each."""

from __future__ import annotations

import numpy as np

import emu


def steps(count: int) -> None:
    """Put, signal, wait, reduce and name ranges, ``count`` times."""
    world = emu.world()
    inbox = world.alloc(256, np.float32)
    flag = world.alloc(2, np.int64, poison=False)
    data, ahead = np.ones(256, np.float32), (world.my_pe + 1) % world.n_pes
    for step in range(1, count + 1):
        with emu.trace.range("step"):
            world.put(inbox, data, ahead)
            world.put_signal(inbox, data, ahead, flag, step)
            world.wait_until(flag, emu.Cmp.GE, step)
            world.signal_op(flag, step, ahead, index=1)
            world.wait_until(flag, emu.Cmp.GE, step, index=1)
            world.all_reduce(data)
            world.barrier()
