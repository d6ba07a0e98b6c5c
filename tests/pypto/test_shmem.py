"""Symmetric tensors: views, slots and their lifetimes."""

from __future__ import annotations

import numpy as np
import pytest
from pypto_kernels import FP32, d, deadlock_of

import emu
import emu.pypto as p


def other_tiles(signal_tile, wait_tile, signal_view, wait_view) -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, FP32, [8, 8])
    p.set_vec_tile_shapes(*signal_tile)
    d.shmem_signal(data, me, 1, *signal_view, target_pe=1 - me)
    p.set_vec_tile_shapes(*wait_tile)
    d.shmem_wait_until(data, 1 - me, 1, *wait_view)
    p.synchronize()


WHOLE, TOP = ([8, 8], [0, 0]), ([4, 8], [0, 0])


@pytest.mark.parametrize(
    "arguments", [((4, 8), (8, 8), WHOLE, WHOLE), ((4, 8), (4, 8), TOP, WHOLE)]
)
def test_other_tiles_or_views_are_other_slots(arguments):
    deadlock_of(other_tiles, args=arguments)


def test_the_same_view_however_written_is_the_same_slots():
    emu.launch(other_tiles, 2, args=((4, 8), (4, 8), (), WHOLE), timeout=10)


def views_of_views() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, p.DT_INT32, [2, 4, 6])
    p.set_vec_tile_shapes(1, 2, 2)
    values = np.arange(48, dtype=np.int32).reshape(2, 4, 6)
    stored = d.shmem_put(p.from_numpy(values), [0, 0, 0], data, me)
    inner = d.shmem_view(d.shmem_view(data, [2, 3, 4], [0, 1, 2]), [1, 2, 2], [1, 1, 1])
    seen = d.shmem_get(inner, me, pred=[stored])
    np.testing.assert_array_equal(seen.numpy(), values[1:2, 2:4, 3:5])
    d.shmem_put(p.full([1, 1, 1], -1, p.DT_INT32), [0, 1, 0], inner, me, pred=[seen])
    p.synchronize()
    assert data.memory.data.local[1, 3, 3] == -1
    with pytest.raises(p.ArgumentError, match="offsets"):
        d.shmem_put(p.full([1, 1, 2], -1, p.DT_INT32), [0, 1, 1], inner, me)


def test_views_of_views():
    emu.launch(views_of_views, 2, timeout=10)


def kernels_give_memory_back(times) -> int:

    kept = []

    @p.frontend.jit
    def kernel(x):
        me, n = d.my_symbolic_pe("tp"), emu.world().n_pes
        data = d.create_shmem_tensor("tp", n, x.dtype, list(x.shape))
        signals = d.create_shmem_signal("tp", n)
        p.set_vec_tile_shapes(2, 2)
        # Each pair of neighbours has slots of its own, which the other PEs never hear of.
        right, left = (me + 1) % n, (me - 1) % n
        d.shmem_signal(data, 0, 1, [1, 4], [me, 0], target_pe=right)
        d.shmem_wait_until(data, 0, 1, [1, 4], [left, 0])
        d.shmem_barrier_all(signals)
        kept[:] = [data, signals]

    world = emu.world()
    for _ in range(times):
        kernel(np.ones((4, 4), np.float32))
    for used in (
        lambda: d.shmem_get(kept[0], 0),
        lambda: d.shmem_signal(kept[0], 0, 1, target_pe=0),
        lambda: d.shmem_signal(kept[1], 0, 1, target_pe=0),
        lambda: d.shmem_barrier_all(kept[1]),
    ):
        with pytest.raises(p.ArgumentError, match="freed at the end of the kernel"):
            used()
    world.barrier()
    for _ in range(3):
        # What is left over goes with a later create, once all have drained.
        d.create_shmem_signal("tp", world.n_pes)
        world.barrier()
    return int((world.segment.allocations["used"] == 1).sum())


def test_symmetric_memory_goes_back_with_its_kernel():
    few = emu.launch(kernels_give_memory_back, 3, args=(1,), timeout=10)
    assert emu.launch(kernels_give_memory_back, 3, args=(25,), timeout=10) == few
    assert set(few) == {4}  # the three creates above, and the word that says who has drained


def fail_and_give_back() -> list[int]:
    world, used = emu.world(), []

    @p.frontend.jit
    def kernel(out):
        d.create_shmem_tensor("tp", 2, FP32, [64, 64])
        d.create_shmem_signal("tp", 2)
        raise KeyError("mine")

    for _ in range(4):
        with pytest.raises(KeyError, match="mine"):
            kernel(np.zeros((2, 2), np.float32))
        world.barrier()
        used.append(int((world.segment.allocations["used"] == 1).sum()))
        world.barrier()
    return used


def test_a_failing_kernel_gives_its_memory_back():
    for used in emu.launch(fail_and_give_back, 2, timeout=20):
        assert used == [used[0]] * 4
