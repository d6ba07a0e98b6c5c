"""What the fork server loads once, so that each PE starts ready.

Importing Numba and loading the kernels takes about a second; a fork of a process that has done it takes
milliseconds. Importing is not enough: a kernel is only ready once it has been called.
"""

from __future__ import annotations

import os
import tempfile

# Written out here: whatever module they could be imported from loads NumPy on the way.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""One thread a PE: n PEs with n thread pools only take each other's cores."""

for _name in THREAD_VARIABLES:  # before NumPy loads its BLAS; a fork must not inherit threads
    os.environ[_name] = "1"

import numpy as np

from emu.comm import entries, heap, linked, polling, server, signals
from emu.comm.layout import B_POLLS, Layout
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.segment import Segment
from emu.comm.world import World
from emu.kernels import matmul
from emu.kernels.address import check_array_layout
from emu.kernels.plans import add_plan, copy_plan
from emu.kernels.stream import stream_bytes, stream_bytes_twice


def warm() -> None:
    """Call every kernel of the machine once, in a world of one PE."""
    check_array_layout()
    layout = Layout(n_pes=1, heap_bytes=1 << 20)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the segment owns the descriptor
    file.truncate(layout.file_bytes)  # no SharedMemory: it would start a resource tracker here
    segment = Segment(os.dup(file.fileno()), layout)
    file.close()
    me = heap.register(segment, 0, 1)
    world = World(segment, me, 0, poison=False)
    words = world.alloc(4, np.int32)
    tile = world.alloc((4, 4), np.float32)
    part = np.ones((4, 4), np.float32)[:, :2]
    world.put(tile, np.ones((4, 4), np.float32), 0)
    world.put(tile[:, :2], part, 0)
    world.put(tile, np.ones((4, 4), np.float32), 0, op=AtomicOp.ADD)
    world.put(tile[:, :2], part, 0, op=AtomicOp.ADD)
    source = np.ones((64, 64), np.float32)
    world.put(world.alloc((64, 64), np.float32), source.T, 0, op=AtomicOp.ADD)
    world.get(tile, 0)
    world.get(tile[:, :2], 0)
    world.put(tile[:, :2], part, 0, offsets=(0, 0))
    world.signal_op(words, 1, 0)
    world.wait_until(words, Cmp.EQ, 1)
    world.wait_until_any(words, Cmp.EQ, 1)
    world.test(words, Cmp.EQ, 1)
    world.test_any(words, Cmp.EQ, 1)
    world.barrier()
    world.quiet()
    entries.wait_word(me, int(segment.address), 8, int(Cmp.NE), 0, 1)
    signals.end_sleep(me, 0)
    entries.barrier_arrive(me, world._barrier, 1)
    signals.barrier_wait(me, world._barrier, -5)
    signals.barrier_leave(me, world._barrier, 0)
    _warm_collectives(world)
    linked._reserve_from(me, 0, 0, 1, 0)
    linked._sleep_slice(me, 0)
    segment.block(0)[B_POLLS] = 0
    for plan in (copy_plan, add_plan):
        plan.cache_clear()
    segment.close()
    polling.place(None)  # a PE that is asked where it is shall not begin to import
    matmul.preload()  # not compiled for those who don't use them
    server.preload()


def _warm_collectives(world: World) -> None:
    large = np.ones(1 << 14, np.float32)
    world.all_reduce(large[:8])
    world.all_reduce(large)
    world.all_to_all(large.reshape(1, -1))
    world.all_gather(large)
    source, target, kept = (np.empty(512, np.uint8) for _ in range(3))
    stream_bytes(target.ctypes.data, source.ctypes.data, 512)
    stream_bytes_twice(target.ctypes.data, kept.ctypes.data, source.ctypes.data, 512)


warm()
