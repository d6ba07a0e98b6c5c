"""Threads that run the programs of a grid.

A thread takes the next few programs that nobody has taken, in the order of the grid, until none is left. So
a program that waits for what an earlier one does always gets it, whatever the number of threads: the
earliest program that has not ended waits for nobody. (One that waits for a *later* program needs them to be
resident at once, which no accelerator promises either.)

The threads are Python's, and let the GIL go while they are in compiled code. They are started once, when
first needed, and wait on a lock in between. A forked child has none of its parent's and starts its own.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.tile.cpu.kernel import Kernel

_SHARES = 8
"""Into how many stretches a thread's part of the grid is cut, so that none waits long for the last."""

WORTH_THREADS_NS = 200_000
"""Estimated time of a launch below which other threads would take longer to wake than they save."""


class _Job:
    """One launch, shared by the threads that work on it."""

    def __init__(
        self, kernel: Kernel, arguments: int, span: tuple[int, int], grid: tuple[int, int, int]
    ) -> None:
        self._kernel = kernel
        self._arguments = arguments
        self._last = span[1]
        self._grid = grid
        self._starts: Iterator[int] = iter(())
        self._step = 1
        self._first = span[0]
        self.status = 0
        self.error: BaseException | None = None

    def share(self, threads: int) -> None:
        """Cut the grid for so many threads."""
        self._step = max(1, (self._last - self._first) // (threads * _SHARES))
        self._starts = itertools.count(self._first, self._step)

    def work(self) -> None:
        """Run stretches until none is left, or a program has failed."""
        try:
            while not self.status and self.error is None:
                first = next(self._starts)  # atomic under the GIL
                if first >= self._last:
                    return
                last = min(first + self._step, self._last)
                status = self._kernel.run_part(self._arguments, first, last, self._grid)
                if status:
                    self.status = status
        except BaseException as error:  # noqa: BLE001 - given to who launched
            self.error = error


class _Worker(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="emu programs", daemon=True)
        self.job: _Job | None = None
        self.go, self.done = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.done.acquire()
        self.start()

    def run(self) -> None:
        """Work on one job after the other."""
        while True:
            self.go.acquire()
            if self.job is not None:
                self.job.work()
                self.job = None
            self.done.release()


_workers: list[_Worker] = []
_busy = threading.Lock()


def _after_fork() -> None:
    global _busy
    _workers.clear()
    _busy = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run(
    kernel: Kernel, arguments: int, total: int, grid: tuple[int, int, int], threads: int
) -> int:
    """Run all programs of a grid on up to so many threads, this one among them.

    It uses one thread where more would not pay, judged by what the kernel's programs took before, and where
    other threads of this process are using the pool.

    Returns:
        0, or the status of a failed assert.
    """
    first, began = 0, time.perf_counter_ns()
    if not kernel.program_ns:  # never run: see what one program takes
        status = kernel.run_part(arguments, 0, 1, grid)
        first = 1
        kernel.program_ns = time.perf_counter_ns() - began
        if status or total == 1:
            return status
    left = total - first
    if kernel.program_ns * left < WORTH_THREADS_NS or not _busy.acquire(blocking=False):
        began = time.perf_counter_ns()
        status = kernel.run_part(arguments, first, total, grid)
        kernel.program_ns = max(1, (time.perf_counter_ns() - began) // left)
        return status
    try:
        return _run_shared(kernel, arguments, (first, total), grid, min(threads, left))
    finally:
        _busy.release()


def _run_shared(
    kernel: Kernel,
    arguments: int,
    span: tuple[int, int],
    grid: tuple[int, int, int],
    threads: int,
) -> int:
    while len(_workers) < threads - 1:
        _workers.append(_Worker())
    began = time.perf_counter_ns()
    job = _Job(kernel, arguments, span, grid)
    job.share(threads)
    helping = _workers[: threads - 1]
    for worker in helping:
        worker.job = job
        worker.go.release()
    job.work()
    for worker in helping:
        worker.done.acquire()
    spent = (time.perf_counter_ns() - began) * threads
    kernel.program_ns = max(1, spent // (span[1] - span[0]))
    if job.error is not None:
        raise job.error
    return job.status
