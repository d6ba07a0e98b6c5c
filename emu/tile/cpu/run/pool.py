"""Threads that run the programs of a grid.

A thread takes the next few programs that nobody has taken, in the order of the grid, until none is left. So
a program that waits for what an earlier one does always gets it, whatever the number of threads: the
earliest program that has not ended waits for nobody. (One that waits for a *later* program needs them to be
resident at once, which no accelerator promises either.)

The threads are Python's, and let the GIL go while they are in compiled code, which takes programs from a
common counter. They are started once, when first needed, and wait on a lock in between. A forked child has none of its parent's and starts its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from emu.tile.cpu import native
from emu.tile.cpu.run import watching
from emu.tile.cpu.run.thread import memory

if TYPE_CHECKING:
    from emu.tile.cpu.run.kernel import Kernel
    from emu.tile.cpu.run.watching import Spin

_SHARES = 8
"""Into how many stretches a thread's part of the grid is cut, so that none waits long for the last."""

_SLICE_S = 0.05
"""For so long the launching thread waits for the others at once; signals reach it at any time."""

_SPINS = 2000
"""Pauses (some 10 to 40 ns each) for which a thread waits awake."""

WORTH_THREADS_NS = 200_000
"""Estimated time of a launch below which other threads would take longer to wake than they save."""


class Job:
    """One launch, shared by the threads that work on it.

    Args:
        kernel: What to run.
        arguments: Address of its arguments.
        span: The first program, and the one after the last.
        grid: Extents.
        threads: How many will work on it.
    """

    def __init__(
        self,
        kernel: Kernel,
        arguments: int,
        span: tuple[int, int],
        grid: tuple[int, int, int],
        threads: int,
    ) -> None:
        first, self._last = span
        self._run = kernel.run_shared
        self._arguments = arguments
        self._grid = grid
        self._next = ctypes.c_int64(first)
        self._step = max(1, (self._last - first) // (threads * _SHARES))
        self.status = 0
        self.error: BaseException | None = None
        self._kernel = kernel
        self._spins: dict[int, Spin | None] = {}

    @property
    def failed(self) -> bool:
        """Whether all threads shall stop."""
        return self.error is not None

    def fail(self, error: BaseException) -> None:
        """Let no thread take another program, and end those that ask whether to go on."""
        self.error = self.error or error
        self._next.value = self._last

    def work(self) -> None:
        """Run programs until none is left, or one has failed."""
        counter, me = ctypes.addressof(self._next), threading.get_ident()
        memory.job, self._spins[me] = self, None
        try:
            status = self._run(self._arguments, self._last, self._grid, counter, self._step)
            self._kernel.check_stopped(status, self._grid)
        except BaseException as error:  # noqa: BLE001 - given to who launched
            self.fail(error)
        else:
            self.status = self.status or status
        finally:
            memory.job = None
            self._spins.pop(me, None)

    def look(self, spin: Spin | None) -> None:
        """Note the loop that this thread is in, if it runs for long."""
        self._spins[threading.get_ident()] = spin
        self.publish()

    def describe(self) -> str:
        """Say where the threads are."""
        spins = [s.describe() for s in list(self._spins.values()) if s is not None]
        return "; and in ".join(spins[:4]) or f"kernel {self._kernel.name}"

    def publish(self) -> None:
        """Say that this process waits if each of the threads does."""
        spins = list(self._spins.values())
        watching.publish([s for s in spins if s is not None] if all(spins) else [])


class _Signal:
    """Something that one thread waits for and another says, any number of times.

    Who waits spins for a moment in native code, without the GIL, and then sleeps on a lock: launches that
    follow each other closely find the other threads awake.
    """

    def __init__(self) -> None:
        self._said = threading.Lock()
        self._said.acquire()
        self._count = ctypes.c_int32(0)

    def say(self) -> None:
        """End one wait."""
        self._said.release()
        self._count.value += 1

    def wait(self, spin: Any, seconds: float = -1) -> bool:
        """Wait until it is said, or so many seconds; say whether it was."""
        seen = self._count.value
        if not self._said.acquire(blocking=False):
            spin(ctypes.addressof(self._count), seen, _SPINS)
            return self._said.acquire(timeout=seconds)
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
            self.done.say()


def _give_up(helping: list[_Worker], job: Job) -> None:
    """Wait until nobody works on a job that has failed, and let these threads end: who said what is lost."""
    _workers.clear()
    for worker in helping:
        worker.ends = True
        with contextlib.suppress(RuntimeError):  # it was said already
            worker.go.say()
    while any(worker.job is not None for worker in helping):
        try:
            time.sleep(_SLICE_S / 10)
        except BaseException as error:  # noqa: BLE001 - of another signal
            job.fail(error)


@functools.cache
def _spin() -> Any:
    """Return ``spin(address, seen, rounds)``: waits while the i32 at an address is ``seen``, so many rounds."""
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
    job = Job(kernel, arguments, span, grid, threads)
    helping = _workers[: threads - 1]
    try:
        for worker in helping:
            worker.job = job
            worker.go.say()
        job.work()
        for worker in helping:
            while not worker.done.wait(_spin(), _SLICE_S):
                job.publish()
    except BaseException as error:  # noqa: BLE001 - of a signal's handler; raised below
        watching.blame(error, job.describe())
        job.fail(error)
        _give_up(helping, job)
    spent = (time.perf_counter_ns() - began) * threads
    kernel.program_ns = max(1, spent // (span[1] - span[0]))
    if job.error is not None:
        raise job.error
    return job.status
