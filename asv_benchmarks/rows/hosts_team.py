"""Our PEs over hosts under measurement: ``mpiexec -n HOSTS python hosts_team.py ADDRESS N``, N PEs a host."""

from __future__ import annotations

import functools
import sys
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import emu
from emu.comm.process.hosts import launch_over_hosts
from emu.comm.process.launch_options import LaunchOptions

sys.path.insert(0, str(Path(__file__).parent.parent / "peers"))

from link import Span, serve, timed

DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


@functools.cache
def source(nbytes: int, dtype: str) -> np.ndarray[Any, Any]:
    """Return private memory to store from."""
    return np.ones(nbytes // DTYPES[dtype].itemsize, DTYPES[dtype])


def target(nbytes: int, dtype: str) -> Any:
    """Return the symmetric array of ``nbytes``; all PEs ask for the same ones."""
    count = nbytes // DTYPES[dtype].itemsize
    return emu.world().alloc(count, DTYPES[dtype], key=f"{dtype} {nbytes}")


def _put(
    nbytes: int, dtype: str, op: emu.AtomicOp, finish: bool, calls: int, heap: int = 0
) -> Span | None:
    world, tile = emu.world(), target(nbytes, dtype)
    data = source(nbytes, dtype)
    if heap:
        data = world.alloc(data.shape, data.dtype, key=f"source {nbytes}").local
        data[...] = 1
    far = world.n_pes // 2
    put, quiet = partial(world.put, tile, data, far, op=op), world.quiet
    if world.my_pe:
        return None
    put()
    quiet()
    if op is emu.AtomicOp.SET and not (world.get(tile, far) == 1).all():
        raise AssertionError("put is wrong")

    def once() -> None:
        put()
        quiet()

    if finish:
        return timed(once, calls)
    start, _ = timed(put, calls)
    _, end = timed(quiet, 1)
    return start, end


def put_and_quiet(nbytes: int, calls: int) -> Span | None:
    """PE 0 stores to a PE of the second half of the hosts, each complete there."""
    return _put(nbytes, "float32", emu.AtomicOp.SET, True, calls)


def puts(nbytes: int, calls: int, heap: int = 0) -> Span | None:
    """PE 0 stores again and again, from private or, with ``heap``, from symmetric memory; the last ``quiet`` ends it."""
    return _put(nbytes, "float32", emu.AtomicOp.SET, False, calls, heap)


def add(nbytes: int, calls: int, bf16: int = 0) -> Span | None:
    """PE 0 adds, each complete there."""
    return _put(nbytes, "bfloat16" if bf16 else "float32", emu.AtomicOp.ADD, True, calls)


def barrier(calls: int) -> Span:
    """All PEs pass barriers."""
    world = emu.world()
    world.barrier()
    return timed(world.barrier, calls)


@functools.cache
def _reduce(nbytes: int) -> Any:
    world = emu.world()
    data, out = np.ones(nbytes // 4, np.float32), np.zeros(nbytes // 4, np.float32)
    call = partial(world.all_reduce, data, "sum", out=out)
    call()
    if not (out == world.n_pes).all():
        raise AssertionError("all_reduce is wrong")
    return call


def all_reduce(nbytes: int, calls: int) -> Span:
    """All PEs sum arrays of ``nbytes`` in private memory; the first result is checked."""
    call = _reduce(nbytes)
    emu.world().barrier()
    return timed(call, calls)


@functools.cache
def _join_torch() -> None:
    import emu.accelerator

    emu.accelerator.install()
    import torch.distributed as dist

    dist.init_process_group("nccl")


def ddp_step(calls: int) -> Span:
    """All PEs train with DistributedDataParallel over nccl, on emulated devices."""
    _join_torch()
    from ddp_step import ddp_step as step

    return step(calls, "cuda")


def pe_main(address: str) -> None:
    """Serve as one PE."""
    tasks = (put_and_quiet, puts, add, barrier, all_reduce, ddp_step)
    serve(address, emu.world().my_pe, {task.__name__: task for task in tasks})


if __name__ == "__main__":
    launch_over_hosts(
        pe_main,
        int(sys.argv[2]),
        args=(sys.argv[1],),
        options=LaunchOptions(prefix_output=False, heap_size=1 << 30, timeout=600.0),
    )
