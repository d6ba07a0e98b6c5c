"""State of each thread that launches kernels: call table, scratch memory, and the loop it is in."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

from emu.tile.cpu import call
from emu.tile.cpu.run.spins import Spin

_LINE = 64
CharArray: TypeAlias = "ctypes.Array[ctypes.c_char]"  # generic for type checkers only

CallBuffers: TypeAlias = tuple[CharArray, int, int, int, int, CharArray]
"""A call table, its address, the address of the arguments behind it, address and size of scratch, and the
object that keeps scratch alive: one tuple, so that a launch pays for one attribute look-up."""


def _new_key() -> int | None:
    """Return the key under which native code finds a thread's table; None if there is no such service."""
    key = ctypes.c_uint()
    try:
        failed = ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None)
    except (AttributeError, OSError):
        return None
    return None if failed else key.value


KEY = _new_key()


class SharedLaunch(Protocol):
    """A launch that several threads work on; see :class:`emu.tile.cpu.run.pool.Job`."""

    @property
    def failed(self) -> bool:
        """Whether all threads must stop."""

    def note_spin(self, spin: Spin | None) -> None:
        """Record the loop that the calling thread is in."""

    def take_turns(self) -> None:
        """Let other programs run while that of the calling thread waits."""


class ThreadState(threading.local):
    """Launch state of one thread.

    Attributes:
        buffers: Call table and scratch of the current launch. A signal handler that runs in the middle of
            a kernel sees other ones than the kernel, so that it may launch kernels itself.
        own_buffers: Value of ``buffers`` outside such handlers.
        error: Exception for which a running kernel was told to stop.
        spin: Loop that has been running for long, if any.
        job: Launch that this thread shares with others, if any.
        callbacks: References that keep the functions alive by which native code asks Python.
    """

    def __init__(self) -> None:
        self.buffers = self.own_buffers = new_buffers()
        if KEY is not None:
            ctypes.CDLL(None).pthread_setspecific(KEY, ctypes.c_void_p(self.own_buffers[1]))
        self.error: BaseException | None = None
        self.spin: Spin | None = None
        self.job: SharedLaunch | None = None
        self.callbacks = install_callbacks(self) if install_callbacks is not None else None

    def grow(self, count: int) -> int:
        """Make scratch ``count`` bytes large, and return its address."""
        grown = (*self.buffers[:3], *_scratch(count))
        if self.buffers is self.own_buffers:
            self.own_buffers = grown
        self.buffers = grown
        return grown[3]


install_callbacks: Callable[[ThreadState], object] | None = None
"""Function that makes a new thread's kernels poll, and returns what must stay alive for it; set by ``watching``."""


def new_buffers() -> CallBuffers:
    """Return a new call table without scratch; kernels launched with it do not poll."""
    table = ctypes.create_string_buffer(call.TABLE_BYTES)
    address = ctypes.addressof(table)
    struct.pack_into("q", table, 8 * call.INTERVAL, call.ASK_NS)
    return (table, address, address + call.CALL.size, *_scratch(0))


def _scratch(count: int) -> tuple[int, int, CharArray]:
    buffer = ctypes.create_string_buffer(count + _LINE)
    # Whole cache lines: the emitter aligns each tile in scratch to a line.
    return -(-ctypes.addressof(buffer) // _LINE) * _LINE, count, buffer


thread_state = ThreadState()
