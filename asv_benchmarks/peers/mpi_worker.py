"""One rank of the MPI peer: ``mpiexec -n N python mpi_worker.py ADDRESS``."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
from link import Span, serve, timed
from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()


@functools.cache
def window(nbytes: int) -> tuple[MPI.Win, np.ndarray[Any, Any]]:
    """Return a shared-memory window of ``nbytes`` on every rank, and something to store into it."""
    win = MPI.Win.Allocate_shared(nbytes, 4, comm=COMM)
    memory, _ = win.Shared_query(RANK)
    np.frombuffer(memory, np.float32)[:] = 0
    win.Lock_all()
    COMM.Barrier()
    return win, np.ones(nbytes // 4, np.float32)


def accumulate(nbytes: int, calls: int) -> Span | None:
    """Rank 0 adds ``nbytes`` of fp32 into rank 1's window, each complete there."""
    win, source = window(nbytes)
    if RANK:
        return None
    buffer = [source, MPI.FLOAT]

    def once() -> None:
        win.Accumulate(buffer, 1, op=MPI.SUM)
        win.Flush(1)

    return timed(once, calls)


def put(nbytes: int, calls: int) -> Span | None:
    """Rank 0 stores ``nbytes`` into rank 1's window, each complete there."""
    win, source = window(nbytes)
    if RANK:
        return None
    buffer = [source, MPI.FLOAT]

    def once() -> None:
        win.Put(buffer, 1)
        win.Flush(1)

    return timed(once, calls)


def barrier(calls: int) -> Span:
    """All ranks pass barriers."""
    COMM.Barrier()
    return timed(COMM.Barrier, calls)


@functools.cache
def buffers(inputs: int, outputs: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return touched fp32 arrays of so many bytes."""
    return np.ones(inputs // 4, np.float32), np.zeros(outputs // 4, np.float32)


def all_gather(nbytes: int, calls: int) -> Span:
    """All ranks gather a result of ``nbytes``."""
    source, out = buffers(nbytes // SIZE, nbytes)
    COMM.Barrier()
    return timed(functools.partial(COMM.Allgather, source, out), calls)


def all_reduce(nbytes: int, calls: int) -> Span:
    """All ranks sum arrays of ``nbytes``."""
    source, out = buffers(nbytes, nbytes)
    COMM.Barrier()
    return timed(lambda: COMM.Allreduce(source, out, op=MPI.SUM), calls)


def small(kind: str, nbytes: int, calls: int) -> Span:
    """All ranks call a small collective: ``nbytes`` from each, 4 or more to each."""
    row = max(4, nbytes // 4 // SIZE * 4)
    flat, rows = max(4, nbytes), row * SIZE
    inputs, outputs = {
        "all_reduce": (flat, flat),
        "broadcast": (flat, 0),
        "all_gather": (flat, flat * SIZE),
        "reduce_scatter": (rows, row),
        "all_to_all": (rows, rows),
    }[kind]
    source, out = buffers(inputs, outputs)
    call = {
        "all_reduce": lambda: COMM.Allreduce(source, out, op=MPI.SUM),
        "broadcast": lambda: COMM.Bcast(source, 0),
        "all_gather": lambda: COMM.Allgather(source, out),
        "reduce_scatter": lambda: COMM.Reduce_scatter_block(source, out, op=MPI.SUM),
        "all_to_all": lambda: COMM.Alltoall(source, out),
    }[kind]
    COMM.Barrier()
    return timed(call, calls)


KINDS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")


if __name__ == "__main__":
    serve(
        sys.argv[1],
        RANK,
        {f.__name__: f for f in (accumulate, put, barrier, all_gather, all_reduce)}
        | {f"small_{kind}": functools.partial(small, kind) for kind in KINDS},
    )
