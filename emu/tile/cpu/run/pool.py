"""Pool of threads that run the programs of a grid.

A thread takes the next few programs that none has taken, in the order of the grid, until none is left. So a
program that waits for an earlier one always ends, whatever the number of threads: the earliest unfinished program
waits for nothing. Where programs wait for later ones,
too, more threads take turns (see ``turns``).

The threads are Python threads that release the GIL while they are in compiled code, where they take programs from
a common counter. They are started when first needed and wait on a lock between launches. A forked child has none
of its parent's threads and starts its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

from emu.tile.cpu import native
from emu.tile.cpu.reports import HANDED_ON
from emu.tile.cpu.run import turns, watching
from emu.tile.cpu.run.spins import Spin
from emu.tile.cpu.run.thread import thread_state

_PARTS_PER_THREAD = 8
"""Number of parts that a thread's share of the grid is taken in, so that none waits long for the last."""

_SLICE_S = 0.05
"""Time for which the launching thread waits for the others at once; signals are handled in between."""

_SPINS = 2000
"""Pauses (some 10 to 40 ns each) for which a thread waits awake before it sleeps."""

WORTH_THREADS_NS = 200_000
"""Estimated time of a launch below which other threads would take longer to wake than they save."""

Grid: TypeAlias = tuple[int, int, int]

SpinFunction: TypeAlias = Callable[[int, int, int], None]
"""``spin(address, seen, rounds)``: wait while the i32 at the address is ``seen``, at most ``rounds`` times."""


class Runnable(Protocol):
    """The part of a kernel that the pool needs; see :class:`emu.tile.cpu.Kernel`."""

    name: str
    program_ns: int

    def run_part(self, arguments: int, first: int, last: int, grid: Grid) -> int:
        """Run programs ``first`` to before ``last`` on this thread."""

    def run_span(self, arguments: int, first: int, last: int, grid: Grid) -> int:
        """Run programs as ``run_part``, on a thread of a launch whose programs take turns."""

    def run_shared(self, arguments: int, last: int, grid: Grid, counter: int, step: int) -> int:
        """Run programs that no other thread has taken."""

    def check_stopped(self, status: int, grid: Grid) -> None:
        """Raise the error for which this thread was told to stop, if it was."""


class Job:
    """One launch, shared by the threads that work on it.

    Args:
        kernel: Kernel to run.
        arguments: Address of its packed arguments.
        span: The first program, and the one after the last.
        grid: Extents of the grid.
        threads: Number of threads that work on it.
    """

    def __init__(
        self, kernel: Runnable, arguments: int, span: tuple[int, int], grid: Grid, threads: int
    ) -> None:
        first, self._last = span
        self._kernel = kernel
        self._arguments = arguments
        self._grid = grid
        self._next = ctypes.c_int64(first)
        self._step = max(1, (self._last - first) // (threads * _PARTS_PER_THREAD))
        self.status = 0
        self.error: BaseException | None = None
        self._spins: dict[int, Spin | None] = {}
        self._lock, self._working = threading.Lock(), threads
        self._owner = threading.get_ident()
        self._turns: turns.Turns | None = None

    @property
    def failed(self) -> bool:
        """Whether all threads must stop."""
        return self.error is not None

    def fail(self, error: BaseException) -> None:
        """Let no thread take another program, and stop those that poll."""
        self.error = self.error or error
        self._next.value = self._last
        if self._turns is not None:
            self._turns.fail(None)

    def work(self) -> None:
        """Run programs until none is left, or one has failed."""
        me = threading.get_ident()
        thread_state.job, self._spins[me] = self, None
        try:
            status = self._run_rest()
            self._kernel.check_stopped(status, self._grid)
        except BaseException as error:  # noqa: BLE001 - the launching thread raises it
            # A thread that was stopped as another one's assert had failed has nothing to say.
            if self._turns is None or not self._turns.failed:
                self.fail(error)
        else:
            self.status = self.status or status
            if status and self._turns is not None:
                self._turns.fail(None)
        finally:
            thread_state.job = None
            self._spins.pop(me, None)
            with self._lock:
                self._working -= 1
                shared = self._turns
            if shared is not None:
                shared.leave()

    def _run_rest(self) -> int:
        """Run programs that no thread has taken."""
        counter = ctypes.addressof(self._next)
        return self._kernel.run_shared(self._arguments, self._last, self._grid, counter, self._step)

    def take_turns(self) -> None:
        """Let programs that have not begun run while that of the calling thread waits."""
        with self._lock:
            if self._turns is None:
                if self._next.value >= self._last and not turns.has_rest():
                    return
                self._turns = turns.Turns(
                    self._kernel,
                    self._arguments,
                    self._grid,
                    watching.publish,
                    self._working,
                    self._run_rest,
                    lambda: self._next.value < self._last,
                )
            self._turns.join(owner=threading.get_ident() == self._owner)

    def finish(self) -> None:
        """Wait for the threads that were made for programs that wait for each other."""
        if self._turns is None:
            return
        self._turns.finish()
        self.error = self.error or self._turns.error
        self.status = self.status or self._turns.status

    def note_spin(self, spin: Spin | None) -> None:
        """Record the loop that the calling thread is in, if it has been running for long."""
        self._spins[threading.get_ident()] = spin
        self.publish()

    def describe(self) -> str:
        """Return a text with the places of the threads."""
        spins = [s.describe() for s in list(self._spins.values()) if s is not None]
        return "; and in ".join(spins[:4]) or f"kernel {self._kernel.name}"

    def publish(self) -> None:
        """Report that this process waits if each of the threads does."""
        if self._turns is not None:
            self._turns.publish()
            return
        spins = list(self._spins.values())
        watching.publish([s for s in spins if s is not None] if all(spins) else [])


class _Signal:
    """Event that one thread waits for and another sets, any number of times.

    The waiting thread spins for a moment in native code, without the GIL, and then sleeps on a lock: launches
    that follow each other closely find the other threads awake.
    """

    def __init__(self) -> None:
        self._set = threading.Lock()
        self._set.acquire()
        self._count = ctypes.c_int32(0)

    def set(self) -> None:
        """End one wait."""
        # The lock first: a spinning thread that sees the count change must be able to acquire it.
        self._set.release()
        self._count.value += 1

    def wait(self, spin: SpinFunction, seconds: float = -1) -> bool:
        """Wait until it is set, or for ``seconds``; return whether it was set."""
        seen = self._count.value
        if not self._set.acquire(blocking=False):
            spin(ctypes.addressof(self._count), seen, _SPINS)
            return self._set.acquire(timeout=seconds)
        return True


class _Worker(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="emu programs", daemon=True)
        self.job: Job | None = None
        self.ends = False
        self.go, self.done = _Signal(), _Signal()
        self.start()

    def run(self) -> None:
        """Work on one job after the other."""
        spin = _spin()
        while True:
            self.go.wait(spin)
            if self.job is not None and not self.ends:
                self.job.work()
            self.job = None
            if self.ends:
                return
            self.done.set()


def _abandon(helpers: list[_Worker], job: Job) -> None:
    """Wait until no thread works on a failed job, and end its threads: the states of their signals are unknown."""
    del _workers[: len(helpers)]  # the others are not this job's: they wait, and may be used
    for worker in helpers:
        worker.ends = True
        with contextlib.suppress(RuntimeError):  # it was set already
            worker.go.set()
    while any(worker.job is not None for worker in helpers):
        try:
            time.sleep(_SLICE_S / 10)
        except BaseException as error:  # noqa: BLE001 - of another signal's handler; the launch raises the first
            job.fail(error)


@functools.cache
def _spin() -> SpinFunction:
    """Return the function by which threads wait awake, compiled."""
    from llvmlite import ir

    from emu.tile.cpu.numeric import vector_builder as r

    module = ir.Module("spin")
    kinds = [ir.PointerType(), r.I32, r.I64]
    symbol = native.new_name("emu.spin")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), symbol)
    word, seen, rounds = function.args
    begin, again, more, done = (function.append_basic_block() for _ in range(4))
    ir.IRBuilder(begin).branch(again)
    builder = ir.IRBuilder(again)
    left = builder.phi(r.I64)
    left.add_incoming(rounds, begin)
    now = builder.load_atomic(word, "acquire", 4, typ=r.I32)
    same = builder.icmp_signed("==", now, seen)
    goes_on = builder.and_(same, builder.icmp_signed(">", left, r.number(r.I64, 0)))
    builder.cbranch(goes_on, more, done)
    builder.position_at_end(more)
    if native.host_is_x86():
        builder.call(r.declare(builder, "llvm.x86.sse2.pause", ir.VoidType(), ()), [])
    left.add_incoming(builder.sub(left, r.number(r.I64, 1)), more)
    builder.branch(again)
    ir.IRBuilder(done).ret_void()
    address = native.load(native.to_object(str(module)), symbol)
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64)(address)


_workers: list[_Worker] = []
_busy = threading.Lock()


def _after_fork() -> None:
    global _busy
    _workers.clear()
    _busy = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run(kernel: Runnable, arguments: int, total: int, grid: Grid, threads: int) -> int:
    """Run all programs of a grid on up to ``threads`` threads, the calling one included.

    One thread runs them all if more would not pay, judged by the time that the kernel's programs took before, or
    if another thread of this process is using the pool.

    Returns:
        0, or the status of a failed assert.
    """
    first, began = 0, time.perf_counter_ns()
    if not kernel.program_ns:  # never run: measure one program
        with turns.offering(1, total) as left_over:
            status = kernel.run_part(arguments, 0, 1, grid)
            first = 1
            kernel.program_ns = time.perf_counter_ns() - began
            if not left_over():  # the rest has been run, or is being run, by other threads
                return status or turns.settle(HANDED_ON)
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
    kernel: Runnable,
    arguments: int,
    span: tuple[int, int],
    grid: Grid,
    threads: int,
) -> int:
    while len(_workers) < threads - 1:
        _workers.append(_Worker())
    began = time.perf_counter_ns()
    job = Job(kernel, arguments, span, grid, threads)
    helpers = _workers[: threads - 1]
    try:
        for worker in helpers:
            worker.job = job
            worker.go.set()
        job.work()
        for worker in helpers:
            while not worker.done.wait(_spin(), _SLICE_S):
                job.publish()
        job.finish()
    except BaseException as error:  # noqa: BLE001 - of a signal handler; raised below
        watching.add_place(error, job.describe())
        job.fail(error)
        _abandon(helpers, job)
        job.finish()
    spent = (time.perf_counter_ns() - began) * threads
    kernel.program_ns = max(1, spent // (span[1] - span[0]))
    if job.error is not None:
        raise job.error
    return job.status
