"""The communication layer under pytest-benchmark: a developer's quick look.

``pytest tests/benchmarks -n0 --benchmark-only`` shows the times. In a normal run each does its call, and
what is asserted is what it did; no test asserts a time.
"""

import numpy as np
import pytest

import emu
from emu.comm.layout import Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.world.world import World

pytestmark = pytest.mark.benchmark(max_time=0.05, min_rounds=3, warmup=False)

SIZES = pytest.mark.parametrize("nbytes", [4 << 10, 1 << 20], ids=["4 KiB", "1 MiB"])


@pytest.fixture
def world():
    """A world of one PE in this process: what a call costs, without another process."""
    segment = Segment.create(Layout(n_pes=1, heap_bytes=16 << 20))
    yield World(segment, register(segment, 0, 1), 0, poison=False)
    segment.close()


@SIZES
def test_put_set(benchmark, world, nbytes):
    tile = world.alloc(nbytes // 4, np.float32)
    source = np.full(nbytes // 4, 2, np.float32)
    benchmark(world.put, tile, source, 0)
    assert (tile.local == 2).all()


@SIZES
def test_put_add(benchmark, world, nbytes):
    tile = world.alloc(nbytes // 4, np.float32)
    source = np.ones(nbytes // 4, np.float32)
    benchmark(world.put, tile, source, 0, op=emu.AtomicOp.ADD)
    assert tile.local[0] >= 1
    assert (tile.local == tile.local[0]).all()


def test_put_strided(benchmark, world):
    tile = world.alloc((64, 64), np.float32)
    source = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)[:, :64]
    benchmark(world.put, tile, source, 0)
    np.testing.assert_array_equal(tile.local, source)


def test_signal_and_wait(benchmark, world):
    word = world.alloc(1, np.int32)

    def signal_and_wait():
        world.signal_op(word, 1, 0)
        return world.wait_until(word, emu.Cmp.EQ, 1)

    assert benchmark(signal_and_wait) == 1


def test_barrier_of_one(benchmark, world):
    assert benchmark(world.barrier) is None


def meet():
    world = emu.world()
    world.barrier()
    return world.my_pe


def test_launch_of_two(benchmark):
    assert benchmark.pedantic(emu.launch, args=(meet, 2), rounds=3, warmup_rounds=1) == [0, 1]
