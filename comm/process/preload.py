"""Kernels and modules that the fork server loads once, so that each PE starts ready.

Importing Numba and loading the kernels takes about half a second; a fork of a process that has done it
takes milliseconds. Importing is not enough: a kernel is only ready once it has been called. Kernels that are
not in the cache of compiled code are left out, because compiling them all takes many seconds: a PE that
calls such a kernel compiles it then.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator

from emu.kernels.core.environment import THREAD_VARIABLES

for _name in THREAD_VARIABLES:  # before NumPy loads its BLAS; a fork must not inherit threads
    os.environ[_name] = "1"

import numpy as np

from emu.comm.layout import B_POLLS, Layout
from emu.comm.memory import heap
from emu.comm.memory.segment import Segment
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.process.input import occupy_descriptor
from emu.comm.server import server
from emu.comm.sync import entry_points, signals
from emu.comm.watchdog import polling
from emu.comm.world import linked
from emu.comm.world.world import World
from emu.kernels import matmul
from emu.kernels.core.address import check_array_layout
from emu.kernels.core.jit import NotStoredError, load_stored_entries, only_stored
from emu.kernels.stream import stream_bytes, stream_bytes_twice
from emu.kernels.strided.access_plan import add_plan, copy_plan

Step = Callable[[], object]


def compile_all() -> None:
    """Call every communication kernel once, in a world of one PE, so that its code is in the cache."""
    with _world() as world:
        for step in itertools.chain(_alone(world), _together(world)):
            step()
    server.load_kernels()


def load() -> None:
    """Call every communication kernel that is in the cache of compiled code."""
    occupy_descriptor()
    check_array_layout()
    load_stored_entries()
    with only_stored(), contextlib.suppress(NotStoredError), _world() as world:
        for step in _alone(world):
            with contextlib.suppress(NotStoredError):
                step()
        for step in _together(world):  # after one that ended half way the next would wait for ever
            step()
    polling.position_of(None)  # a PE that is queried shall not begin to import
    matmul.preload()  # not compiled for those who don't use them
    server.preload()


@contextlib.contextmanager
def _world() -> Iterator[World]:
    layout = Layout(n_pes=1, heap_bytes=1 << 20)
    segment = _PrivateSegment(_nameless_memory(layout.file_bytes), layout)
    try:
        yield World(segment, heap.register(segment, 0, 1), 0, poison=False)
    finally:
        segment.block(0)[B_POLLS] = 0
        for plan in (copy_plan, add_plan):
            plan.cache_clear()
        segment.close()


class _PrivateSegment(Segment):
    """A segment of one process: no file system bounds it."""

    def free_bytes(self) -> int:
        """Return more than can be asked for."""
        return 8 * self.layout.total


def _nameless_memory(nbytes: int) -> int:
    """Return a descriptor of fresh memory; SharedMemory would start a resource tracker here."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("emu-preload")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, nbytes)
    return descriptor


def _alone(world: World) -> Iterator[Step]:
    """Yield calls of one kernel each, any of which can be left out."""
    words = world.alloc(4, np.int32)
    tile = world.alloc((4, 4), np.float32)
    square = world.alloc((64, 64), np.float32)
    whole, part = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)[:, :2]
    turned = np.ones((64, 64), np.float32).T
    me, first = world.me, int(world.segment.address)
    yield lambda: world.put(tile, whole, 0)
    yield lambda: world.put(tile[:, :2], part, 0)
    yield lambda: world.put(tile, whole, 0, op=AtomicOp.ADD)
    yield lambda: world.put(tile[:, :2], part, 0, op=AtomicOp.ADD)
    yield lambda: world.put(square, turned, 0, op=AtomicOp.ADD)
    yield lambda: world.get(tile, 0)
    yield lambda: world.get(tile[:, :2], 0)
    yield lambda: world.put(tile[:, :2], part, 0, offsets=(0, 0))
    yield lambda: world.signal_op(words, 1, 0)
    yield lambda: world.test(words, Cmp.NE, 7)
    yield lambda: world.test_any(words, Cmp.NE, 7)
    yield lambda: entry_points.wait_word(me, first, 8, int(Cmp.NE), 0, 1)
    yield lambda: entry_points.end_sleep(me, 0)
    yield lambda: linked._reserve_from(me, 0, 0, 1, 0)
    yield lambda: linked._sleep_slice(me, 0)
    memory = np.empty((3, 512), np.uint8)

    def row(number: int) -> int:
        return int(memory[number].ctypes.data)  # the steps keep the memory that they write

    yield lambda: stream_bytes(row(0), row(1), 512)
    yield lambda: stream_bytes_twice(row(0), row(1), row(2), 512)


def _together(world: World) -> Iterator[Step]:
    """Yield calls of several kernels each, one after the other."""
    words = world.alloc(4, np.int32)
    me = world.me
    yield lambda: world.signal_op(words, 1, 0)
    yield lambda: world.wait_until(words, Cmp.EQ, 1)
    yield lambda: world.wait_until_any(words, Cmp.EQ, 1)
    yield world.barrier
    yield world.quiet
    yield lambda: entry_points.barrier_arrive(me, world.barrier_address, 1, 1)
    yield lambda: signals.barrier_arrive(me, world.barrier_address, 1, 1)
    yield lambda: entry_points.barrier_wait(me, world.barrier_address, -5)
    yield lambda: entry_points.barrier_leave(me, world.barrier_address, 0)
    large = np.ones(1 << 14, np.float32)
    yield lambda: world.all_reduce(large[:8])
    yield lambda: world.all_reduce(large[:8])  # this one is prepared
    yield lambda: world.all_reduce(large)
    yield lambda: world.all_to_all(large.reshape(1, -1))
    yield lambda: world.all_gather(large)


load()
