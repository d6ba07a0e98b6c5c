"""What belongs to a thread that launches kernels: scratch, and what it tells their entries."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

from emu.tile.cpu import call

if TYPE_CHECKING:
    from emu.tile.cpu.run.pool import Job
    from emu.tile.cpu.run.watching import Spin

_LINE = 64
All = tuple[Any, int, int, int, int, Any]


def _new_key() -> int | None:
    """Return the key by which native code finds a thread's table; None where there are none."""
    key = ctypes.c_uint()
    try:
        failed = ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None)
    except (AttributeError, OSError):
        return None
    return None if failed else key.value


KEY = _new_key()


class Memory(threading.local):
    """Scratch, in whole cache lines, and the table that entries read, with what a launch leaves behind.

    Attributes:
        all: The table, its address, the address of the arguments behind it, address and size of scratch,
            and what keeps scratch alive: in one look. While a signal's handler runs in the middle of a
            kernel it is another one, so that the handler may launch kernels, too.
        mine: What ``all`` is otherwise.
        error: Why a kernel was told to stop.
        spin: The loop that runs for long, if any.
        job: The launch that this thread shares with others, if any.
        kept: What asks Python.
    """

    def __init__(self) -> None:
        self.all = self.mine = fresh()
        if KEY is not None:
            ctypes.CDLL(None).pthread_setspecific(KEY, ctypes.c_void_p(self.mine[1]))
        self.error: BaseException | None = None
        self.spin: Spin | None = None
        self.job: Job | None = None
        self.kept: Any = None

    def grow(self, count: int) -> int:
        """Let scratch have so many bytes, and return its address."""
        grown = (*self.all[:3], *_scratch(count))
        if self.all is self.mine:
            self.mine = grown
        self.all = grown
        return grown[3]


def fresh() -> All:
    """Return a table of its own, with no scratch yet."""
    table = ctypes.create_string_buffer(call.ALL_BYTES)
    address = ctypes.addressof(table)
    return (table, address, address + call.CALL.size, *_scratch(0))


def _scratch(count: int) -> tuple[int, int, Any]:
    buffer = ctypes.create_string_buffer(count + _LINE)
    return -(-ctypes.addressof(buffer) // _LINE) * _LINE, count, buffer


memory = Memory()
