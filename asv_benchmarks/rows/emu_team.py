"""Our PEs under measurement: ``python emu_team.py ADDRESS N [LINK]`` launches N of them."""

from __future__ import annotations

import functools
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import emu

sys.path.insert(0, str(Path(__file__).parent.parent / "peers"))

from link import Span, own_core, serve, timed

sys.path.insert(0, str(Path(__file__).parent))

import mc2_team
import moe_team
import pypto_team
import shmem_team

_turn = 0  # of ping_pong: the value last sent


def target(nbytes: int) -> Any:
    """Return the symmetric fp32 array of ``nbytes``; all PEs ask for the same ones."""
    return emu.world().alloc(nbytes // 4, np.float32, key=f"target {nbytes}")


@functools.cache
def source(nbytes: int) -> np.ndarray[Any, Any]:
    """Return private memory to store from."""
    return np.ones(nbytes // 4, np.float32)


# --- put ---------------------------------------------------------------------------------------


def put_set(nbytes: int, calls: int) -> Span | None:
    """PE 0 stores to PE 1."""
    world, tile, data = emu.world(), target(nbytes), source(nbytes)
    return None if world.my_pe else timed(partial(world.put, tile, data, 1), calls)


def copyto(nbytes: int, calls: int) -> Span | None:
    """PE 0 copies into the same memory of PE 1 with NumPy."""
    memory, data = target(nbytes).on(1), source(nbytes)
    return None if emu.world().my_pe else timed(partial(np.copyto, memory, data), calls)


def put_add(nbytes: int, calls: int) -> Span | None:
    """PE 0 adds to PE 1."""
    world, tile, data, add = emu.world(), target(nbytes), source(nbytes), emu.AtomicOp.ADD
    return None if world.my_pe else timed(partial(world.put, tile, data, 1, op=add), calls)


def add_shared_tile(pes: int, calls: int) -> Span | None:
    """PEs 0 to ``pes`` - 1 add into one 1024×1024 tile, that of PE 0."""
    world, add, data = emu.world(), emu.AtomicOp.ADD, source(4 << 20).reshape(1024, 1024)
    tile = world.alloc((1024, 1024), np.float32, key="shared tile")
    world.barrier()
    if world.my_pe >= pes:
        return None
    return timed(partial(world.put, tile, data, 0, op=add), calls)


def put_both_ways(nbytes: int, calls: int) -> Span:
    """PEs 0 and 1 store to each other."""
    world, tile, data = emu.world(), target(nbytes), source(nbytes)
    world.barrier()
    return timed(partial(world.put, tile, data, 1 - world.my_pe), calls)


def put_processor(nbytes: int, calls: int) -> float:
    """PE 0 stores to PE 1: seconds of processor time."""
    world, tile, data = emu.world(), target(nbytes), source(nbytes)
    begin = time.process_time()
    if world.my_pe == 0:
        timed(partial(world.put, tile, data, 1), calls)
    return time.process_time() - begin


# --- waiting -----------------------------------------------------------------------------------


def barrier(calls: int) -> Span:
    """All PEs pass barriers."""
    world = emu.world()
    world.barrier()
    return timed(world.barrier, calls)


def ping_pong(calls: int, pinned: int) -> Span:
    """PEs 0 and 1 send ``calls`` signals each way from Python."""
    world, equal = emu.world(), emu.Cmp.EQ
    word = world.alloc(1, np.int32, key="ping")
    signal, wait, other = world.signal_op, world.wait_until, 1 - world.my_pe

    def ping() -> None:
        global _turn
        _turn += 1
        signal(word, _turn, other)
        wait(word, equal, _turn)

    def pong() -> None:
        global _turn
        _turn += 1
        wait(word, equal, _turn)
        signal(word, _turn, other)

    with own_core(world.my_pe, pinned):
        world.barrier()
        return timed(pong if world.my_pe else ping, calls)


@functools.cache
def _ping_pong_kernel() -> Any:
    import numba

    from emu.comm.sync.signal_numbers import SET
    from emu.comm.sync.signals import atomic, wait_word

    @numba.njit
    def exchange(me, other, offset, address, first, turn, calls):
        for value in range(turn + 1, turn + calls + 1):
            if first:
                atomic(me, other, offset, 4, SET, value, 0)
            found, _ = wait_word(me, address, 4, 0, value, False)
            while not found:
                found, _ = wait_word(me, address, 4, 0, value, True)
            if not first:
                atomic(me, other, offset, 4, SET, value, 0)

    return exchange


def ping_pong_kernel(calls: int, pinned: int) -> Span:
    """PEs 0 and 1 send ``calls`` signals each way from inside a compiled kernel."""
    world, kernel = emu.world(), _ping_pong_kernel()
    word = world.alloc(1, np.int32, key="ping in a kernel")
    address = word.local.__array_interface__["data"][0]
    turn = int(word.local[0])
    first = world.my_pe == 0

    def exchange(count: int) -> None:
        kernel(world.me, 1 - world.my_pe, word.offset, address, first, turn, count)

    if not kernel.signatures:
        exchange(0)  # compile
    world.barrier()  # the other PE has read its word: it may change now
    with own_core(world.my_pe, pinned):
        world.barrier()
        return timed(lambda: exchange(calls), 1)


# --- collectives -------------------------------------------------------------------------------


@functools.cache
def _gather(nbytes: int) -> Any:
    world = emu.world()
    extent = nbytes // 4 // world.n_pes
    array = world.alloc((extent,), np.float32, name="gather")
    out = world.alloc((world.n_pes, extent), np.float32, name="gathered")
    array.local[:] = 1 + world.my_pe
    call = partial(world.all_gather, array, out=out)
    call()
    if not (out.local == np.arange(1, world.n_pes + 1)[:, None]).all():
        raise AssertionError("all_gather is wrong")
    return call


@functools.cache
def _reduce(nbytes: int) -> Any:
    world = emu.world()
    array = world.alloc((nbytes // 4,), np.float32, name="reduce")
    out = world.alloc((nbytes // 4,), np.float32, name="reduced")
    array.local[:] = 1
    call = partial(world.all_reduce, array, "sum", out=out)
    call()
    if not (out.local == world.n_pes).all():
        raise AssertionError("all_reduce is wrong")
    return call


def all_gather(nbytes: int, calls: int) -> Span:
    """All PEs gather a result of ``nbytes``; the first result is checked."""
    call = _gather(nbytes)
    emu.world().barrier()
    return timed(call, calls)


def all_reduce(nbytes: int, calls: int) -> Span:
    """All PEs sum arrays of ``nbytes``; the first result is checked."""
    call = _reduce(nbytes)
    emu.world().barrier()
    return timed(call, calls)


@functools.cache
def _small(kind: str, nbytes: int) -> Any:
    """Return a call of a collective in private memory: ``nbytes`` from each member, 4 or more to each."""
    world = emu.world()
    n, count = world.n_pes, max(1, nbytes // 4)
    row = max(1, count // n)
    flat, rows = np.ones(count, np.float32), np.ones((n, row), np.float32)
    source, shape = {
        "all_reduce": (flat, (count,)),
        "broadcast": (flat, (count,)),
        "all_gather": (flat, (n, count)),
        "reduce_scatter": (rows, (row,)),
        "all_to_all": (rows, (n, row)),
    }[kind]
    out = np.zeros(shape, np.float32)
    call = partial(getattr(world, kind), source, out=out)
    call()
    if not (out == (n if kind in ("all_reduce", "reduce_scatter") else 1)).all():
        raise AssertionError(f"{kind} is wrong")
    return call


def small(kind: str, nbytes: int, calls: int, pinned: int = 0) -> Span:
    """All PEs call a small collective; the first result is checked."""
    call, world = _small(kind, nbytes), emu.world()
    with own_core(world.my_pe, pinned):
        world.barrier()
        return timed(call, calls)


@functools.cache
def _torch_tensor(nbytes: int) -> Any:
    import emu.accelerator

    emu.accelerator.install()
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("nccl")
    return torch.zeros(nbytes // 4, device="cuda")


def torch_all_reduce(nbytes: int, calls: int) -> Span:
    """All PEs sum tensors by ``torch.distributed``, on emulated devices, waiting for each result."""
    tensor = _torch_tensor(nbytes)
    import torch.distributed as dist

    emu.world().barrier()
    return timed(lambda: dist.all_reduce(tensor), calls)


# --- PyPTO -------------------------------------------------------------------------------------


@functools.cache
def _store_kernel() -> tuple[Any, Any]:
    from emu import pypto

    group = {"group_name": "pair", "n_pes": 2}
    tensor = pypto.from_numpy(np.ones((16, 64), np.float32), "src")
    symmetric = pypto.distributed.create_shmem_tensor(**group, dtype=pypto.DT_FP32, shape=[16, 64])
    pypto.set_vec_tile_shapes(16, 64)
    return tensor, symmetric


def shmem_store(calls: int) -> Span | None:
    """PE 0 stores [16, 64] fp32 to PE 1 through the PyPTO front end, each complete there."""
    from emu import pypto

    tensor, symmetric = _store_kernel()
    if emu.world().my_pe:
        return None
    store, finish = pypto.experimental.shmem_store, pypto.synchronize

    def once() -> None:
        store(src=tensor, offsets=[0, 0], dst=symmetric, dst_pe=1)
        finish()

    return timed(once, calls)


# --- memory ------------------------------------------------------------------------------------


def memory() -> int:
    """Return this PE's proportional share of memory in bytes: shared pages count in part."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))


TASKS = (
    {
        f.__name__: f
        for f in (
            put_set,
            copyto,
            put_add,
            put_both_ways,
            put_processor,
            add_shared_tile,
            barrier,
            ping_pong,
            ping_pong_kernel,
            all_gather,
            all_reduce,
            torch_all_reduce,
            shmem_store,
            memory,
        )
    }
    | {
        f"small_{kind}": partial(small, kind)
        for kind in ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")
    }
    | mc2_team.TASKS
    | moe_team.TASKS
    | pypto_team.TASKS
    | shmem_team.TASKS
)


def pe_main(address: str) -> None:
    """Serve as one PE."""
    serve(address, emu.world().my_pe, TASKS)


if __name__ == "__main__":
    how = sys.argv[3] if len(sys.argv) > 3 else ""
    is_trace = how.endswith(".emutrace")
    emu.launch(
        pe_main,
        int(sys.argv[2]),
        args=(sys.argv[1],),
        prefix_output=False,
        link=emu.Link.parse(how) if how and not is_trace else None,
        trace=how if is_trace else (),
    )
