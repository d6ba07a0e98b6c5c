"""One rank of MPI beside a World over hosts: ``mpiexec -n N python mpi_hosts_worker.py ADDRESS``."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
from link import Span, serve, timed
from mpi4py import MPI
from mpi_worker import all_reduce, barrier

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
FAR = SIZE // 2
"""The first rank of the second half."""


@functools.cache
def memory(nbytes: int) -> np.ndarray[Any, Any]:
    """Return touched memory."""
    return np.ones(nbytes // 4, np.float32)


def send_and_answer(nbytes: int, calls: int) -> Span | None:
    """Rank 0 sends ``nbytes`` to another host, and waits for an empty answer to each."""
    data, empty = memory(nbytes), np.zeros(0, np.uint8)

    def ask() -> None:
        COMM.Send(data, FAR)
        COMM.Recv(empty, FAR)

    def answer() -> None:
        COMM.Recv(data, 0)
        COMM.Send(empty, 0)

    if RANK not in (0, FAR):
        return None
    return timed(answer if RANK else ask, calls)


def stream(nbytes: int, calls: int) -> Span | None:
    """Rank 0 sends ``nbytes`` to another host again and again; an empty answer to the last ends it."""
    data, empty = memory(nbytes), np.zeros(0, np.uint8)
    if RANK == FAR:
        span = timed(lambda: COMM.Recv(data, 0), calls)
        COMM.Send(empty, 0)
        return span
    if RANK:
        return None
    start, _ = timed(lambda: COMM.Send(data, FAR), calls)
    _, end = timed(lambda: COMM.Recv(empty, FAR), 1)
    return start, end


@functools.cache
def window(nbytes: int) -> MPI.Win:
    """Return a window of ``nbytes`` on each rank."""
    win = MPI.Win.Allocate(nbytes, 4, comm=COMM)
    win.Lock_all()
    COMM.Barrier()
    return win


def accumulate(nbytes: int, calls: int) -> Span | None:
    """Rank 0 adds ``nbytes`` of fp32 into a window of another host, each complete there.

    The owner waits inside MPI meanwhile: MPI does nothing for others while a rank is elsewhere.
    """
    win, empty = window(nbytes), np.zeros(0, np.uint8)
    if RANK == FAR:
        COMM.Recv(empty, 0)
        return None
    if RANK:
        return None
    buffer = [memory(nbytes), MPI.FLOAT]

    def once() -> None:
        win.Accumulate(buffer, FAR, op=MPI.SUM)
        win.Flush(FAR)

    span = timed(once, calls)
    COMM.Send(empty, FAR)
    return span


if __name__ == "__main__":
    tasks = (send_and_answer, stream, accumulate, barrier, all_reduce)
    serve(sys.argv[1], RANK, {task.__name__: task for task in tasks})
