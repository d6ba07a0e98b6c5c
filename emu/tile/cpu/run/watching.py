"""Polls of kernels that run for long: handling signals, stopping with the world, reporting waits.

Kernels poll about every 20 ms (see ``emit.polling``). A poll calls a generator's ``send``: Python runs the
handlers of pending signals before anything else in the generator, and so inside its ``try``; a plain callback
could not catch what they raise. A kernel that is told to stop returns, and its launch raises the exception of the
handler.

In a PE, a loop that keeps reading the same values is a wait. The PE reports it to the launcher, which names the
loops and what they wait for when every PE of a world waits.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import threading
import weakref
from collections.abc import Generator
from typing import NoReturn

from emu.tile.cpu import call
from emu.tile.cpu.run import thread, turns
from emu.tile.cpu.run.spins import KernelInfo, Spin, where
from emu.tile.cpu.run.symmetric import current_world
from emu.tile.cpu.run.thread import ThreadState, new_buffers, thread_state

_GUARD = ctypes.CFUNCTYPE(None)
_WATCH = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)

_MOST_TOLD = 8
"""Loops that are described to the launcher, at most."""

_numbers = itertools.count(1)
_kernels: weakref.WeakValueDictionary[int, KernelInfo] = weakref.WeakValueDictionary()


def register_kernel(kernel: KernelInfo) -> int:
    """Return a number by which polls find the kernel for as long as it lives."""
    number = next(_numbers)
    _kernels[number] = kernel
    return number


def _install_callbacks(state: ThreadState) -> object:
    # When the thread's state is made, not at its first poll: no Python code may run in a poll before the
    # generator's, or what a signal handler raises in it would be lost.
    generator = _watch()
    next(generator)
    # Runs before each poll: a handler that launches kernels gets buffers of its own.
    guard = _GUARD(functools.partial(setattr, state, "buffers", new_buffers()))
    watch = _WATCH(generator.send)
    table = state.own_buffers[0]
    for which, function in ((call.GUARD, guard), (call.WATCH, watch)):
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
        struct.pack_into("Q", table, 8 * which, address)
    return generator, guard, watch


def _watch() -> Generator[int, int]:
    """Receive addresses of poll records; answer each with whether the kernel must stop."""
    answer = 0
    while True:
        try:
            while True:
                record = yield answer  # signal handlers run here, and may raise
                thread_state.buffers = thread_state.own_buffers
                answer = 1  # if anything below raises
                answer = _poll(record)
        except GeneratorExit:
            return
        except BaseException as error:  # noqa: BLE001 - the launch raises it
            thread_state.buffers = thread_state.own_buffers
            thread_state.error = error
            answer = 1


def _poll(record: int) -> int:
    if _is_over():
        return 1
    words = (ctypes.c_int64 * call.PAIRS).from_address(record)
    loop = words[call.LOOP]
    if loop == call.ENDED:
        leave_loop()
        return 0
    check_stopped()
    _note_reads(loop, record, words[call.COUNT])
    return int(_is_over())


def _is_over() -> bool:
    """Return whether the launch has ended: by other threads, or by an error of this one."""
    job, shared = thread_state.job, turns.current()
    if thread_state.error is not None:  # of an observer
        return True
    return (job is not None and job.failed) or (shared is not None and shared.failed)


def _note_reads(loop: int, record: int, count: int) -> None:
    """Record the loop that polls, and whether it reads what it read at the poll before."""
    pairs = (ctypes.c_int64 * (2 * count)).from_address(record + 8 * call.PAIRS)
    table = struct.unpack_from(f"{call.END + 1}q", thread_state.own_buffers[0])
    kernel = _kernels[
        (ctypes.c_int64 * call.FACTS_WORDS).from_address(table[call.FACTS])[call.KERNEL]
    ]
    grid = table[call.X], table[call.Y], table[call.Z]
    number = table[call.NUMBER]
    program = number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
    before = thread_state.spin
    bases = (ctypes.c_int64 * len(kernel.parameters)).from_address(table[call.ARGUMENTS])
    spin = Spin(kernel, loop, program, grid, tuple(pairs), tuple(bases))
    if count and before is not None and spin.reads_as(before):
        spin.same, spin.since = True, before.since
    thread_state.spin = spin
    if spin.same and turns.current() is None:
        _take_turns(kernel, table[call.ARGUMENTS], grid)
    shared = turns.current()
    if shared is not None:
        shared.note(spin, turns.record_at(record))
    elif thread_state.job is None:
        turns.ask_less_often()
        publish([spin])
    else:
        turns.ask_less_often()
        thread_state.job.note_spin(spin)


def _take_turns(kernel: KernelInfo, arguments: int, grid: tuple[int, int, int]) -> None:
    """Let other programs of the launch run while this one waits, if there are any that have not begun."""
    if thread_state.job is not None:
        thread_state.job.take_turns()
    elif turns.has_rest() and isinstance(kernel, turns.Runnable):
        turns.Turns(kernel, arguments, grid, publish).join(owner=True)


def leave_loop() -> None:
    """Forget the loop that this thread was in."""
    if thread_state.spin is not None:
        thread_state.spin = None
        shared = turns.current()
        if shared is not None:
            shared.note(None)
        elif thread_state.job is None:
            publish([])
        else:
            thread_state.job.note_spin(None)


def raise_error(kernel: KernelInfo, loop: int, program: tuple[int, int, int]) -> NoReturn:
    """Raise the exception for which a kernel was told to stop, with a note on the loop that it was in."""
    spin, error = thread_state.spin, thread_state.error
    thread_state.error = None
    leave_loop()
    if error is None:
        error = RuntimeError(f"kernel {kernel.name} was stopped with no reason")
    described = spin is not None and (spin.loop, spin.program) == (loop, program)
    text = spin.describe() if described and spin is not None else where(kernel, loop, program, None)
    add_place(error, text)
    raise error


def add_place(error: BaseException, text: str) -> None:
    """Add to an exception where it interrupted the program."""
    if isinstance(error, KeyboardInterrupt) and not error.args:
        error.args = (f"in {text}",)
    else:
        error.add_note(f"in {text}")


# ---- in a PE


def check_stopped() -> None:
    """Raise the reason why the world of this PE was stopped, if it was."""
    world = current_world()
    if world is not None:
        from emu.comm.memory.stop import check_stopped

        check_stopped(world.segment)


def publish(spins: list[Spin], note: str = "") -> None:
    """Report to the launcher what this PE waits for, or that it goes on.

    Args:
        spins: Loop of each thread of the launch; empty if a thread is in none. The PE waits if all of them
            read the same as at the poll before.
        note: Text that is added to the description of the loops.
    """
    world = current_world()
    if world is None or threading.current_thread() is not threading.main_thread():
        return
    from emu.comm.watchdog import spinning

    if spins and all(spin.same for spin in spins):
        told = [spins[0].waits(), *(s.describe() for s in spins[1:_MOST_TOLD])]
        if len(spins) > _MOST_TOLD:
            note = f"; and {len(spins) - _MOST_TOLD} more{note}"
        reads = [word for spin in spins[:_MOST_TOLD] for word in spin.symmetric_words()]
        text = "; another thread: ".join(told) + note
        barrier = spins[0].barrier() if len(spins) == 1 else None
        spinning.wait(world, spins[0].where(), text, reads[:_MOST_TOLD], barrier)
    else:
        spinning.go_on(world)


thread.install_callbacks = _install_callbacks
thread_state.callbacks = _install_callbacks(thread_state)  # this thread's was made without
