"""Small programs that are right, or wrong in some orders of their operations."""

from __future__ import annotations

import numpy as np

import emu
from emu.comm.ops import AtomicOp, Cmp


def passes_on(*, fenced: bool) -> None:
    """Send an array to the next PE, and a signal; ``fenced``: in this order."""
    world = emu.world()
    data = world.alloc(4, np.int64, name="data")
    flag = world.alloc(1, np.int64, name="flag", poison=False)
    me, n = world.my_pe, world.n_pes
    world.put(data, np.full(4, me + 1), (me + 1) % n)
    if fenced:
        world.fence()
    world.signal_op(flag, 1, (me + 1) % n)
    world.wait_until(flag, Cmp.EQ, 1)
    found = int(data.local.sum())
    world.barrier()
    assert found == 4 * ((me - 1) % n + 1), found


def counts(*, atomically: bool) -> int:
    """Let each PE add 1 to a word of PE 0; return what it holds."""
    world = emu.world()
    word = world.alloc(1, np.int64, name="word", poison=False)
    if atomically:
        world.fetch_add(word, 1, 0)
    else:
        world.signal_op(word, world.fetch(word, 0) + 1, 0)
    world.barrier()
    found = world.fetch(word, 0)
    assert found == world.n_pes, found
    return found


def locks() -> int:
    """Let each PE add 1 to a word of PE 0 while it holds a lock; return what it holds."""
    world = emu.world()
    lock = world.alloc(1, np.int64, name="lock", poison=False)
    word = world.alloc(1, np.int64, name="word", poison=False)
    world.set_lock(lock)
    world.signal_op(word, world.fetch(word, 0) + 1, 0)
    world.clear_lock(lock)
    world.barrier()
    return world.fetch(word, 0)


def counts_items(*, fenced: bool) -> None:
    """Send two items, and let a signal count them; ``fenced``: they arrive in order."""
    world = emu.world()
    slots = world.alloc((2, 4), np.int64, name="slots")
    arrived = world.alloc(1, np.int64, name="arrived", poison=False)
    if world.my_pe == 0:
        for item in range(2):
            if fenced:
                world.fence()
            data = np.full((1, 4), item + 1)
            world.put_signal(slots, data, 1, arrived, 1, offsets=(item, 0), sig_op=AtomicOp.ADD)
    else:
        world.wait_until(arrived, Cmp.GE, 1)
        assert slots.local[0, 0] == 1


def answers_at_once() -> None:
    """Wait for an answer that PE 1 only gives if the question has come already."""
    world = emu.world()
    flags = world.alloc(2, np.int64, name="flags", poison=False)
    if world.my_pe == 0:
        world.signal_op(flags, 1, 1)
        world.wait_until(flags, Cmp.EQ, 1, index=1)
    elif world.test(flags, Cmp.EQ, 1):
        world.signal_op(flags, 1, 0, index=1)


def polls(*, raw: bool) -> None:
    """Look at a word of PE 1's until PE 0 has written it."""
    world = emu.world()
    flag = world.alloc(1, np.int64, name="flag", poison=False)
    if world.my_pe == 0:
        world.signal_op(flag, 1, 1)
    elif raw:
        while flag.local[0] == 0:
            pass
    else:
        while not world.test(flag, Cmp.EQ, 1):
            pass


def meets() -> list[int]:
    """Use collectives, a group and memory; return the sums."""
    world = emu.world()
    pair = world.group("pair", [0, 1]) if world.my_pe < 2 else None
    sums = [int(world.all_reduce(np.array([world.my_pe + 1]))[0])]
    if pair is not None:
        sums.append(int(pair.all_reduce(np.array([1]))[0]))
    spare = world.alloc(8, np.float32, name="spare")
    world.put(spare, np.ones(8, np.float32), 0, op=AtomicOp.ADD)
    world.quiet()
    world.barrier()
    sums.append(int(spare.local.sum()))
    world.barrier()
    spare.free()
    return sums


def takes_long() -> None:
    """Compute for longer than the others wait for a turn."""
    import time

    world = emu.world()
    word = world.alloc(1, np.int64, name="word", poison=False)
    if world.my_pe == 0:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            pass
    world.fetch_add(word, 1, 0)
    world.barrier()
    assert world.fetch(word, 0) == world.n_pes


def stores_and_signals(is_ordered: bool) -> None:
    """Send a tile to the other PE by a graph of PyPTO; ``is_ordered``: the signal comes after it."""
    from emu import pypto

    dist = pypto.distributed
    data = dist.create_shmem_tensor("all", 2, pypto.DT_FP32, [4, 4])
    pypto.set_vec_tile_shapes(4, 4)
    me = emu.world().my_pe
    stored = dist.shmem_put(pypto.full([4, 4], 1.0, pypto.DT_FP32), [0, 0], data, 1 - me)
    pred = [stored] if is_ordered else []
    dist.shmem_signal(data, 0, 1, target_pe=1 - me, pred=pred)
    arrived = dist.shmem_wait_until(data, 0, 1)
    found = dist.shmem_get(data, me, pred=[arrived]).numpy().sum()
    assert found == 16, found


def sums_of_a_server() -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    """Gather and reduce by the tasks of a communication server."""
    from emu.mc2 import Hccl

    world = emu.world()
    mine = np.full(4096, world.my_pe + 1, np.float16)
    gathered = np.zeros(world.n_pes * 4096, np.float16)
    total = np.zeros(4096, np.float16)
    with Hccl(world) as hccl:
        hccl.Wait(hccl.AllGather(mine, gathered, 4096, commit=True))
        hccl.Wait(hccl.AllReduce(mine, total, 4096, commit=True))
    return np.concatenate([gathered, total])


def takes_the_last() -> None:
    """Launch a grid whose result depends on the order of its programs."""
    from schedule_kernels import last_program

    out = np.zeros(1, np.int32)
    last_program[(8,)](out)
    assert out[0] == 7, out
