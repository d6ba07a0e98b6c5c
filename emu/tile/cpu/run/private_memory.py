"""Memory that no other process sees, and how many launches run: when an atomic operation needs no lock.

An update in two steps is as good as an atomic one where nobody can come between them: the memory is private to this process, and no other
thread of it runs a kernel. The first is asked of the operating system at launches that are worth it;
the second is settled by two words that all threads share, see :data:`LAUNCHES`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

LAUNCHES = (ctypes.c_int64 * 16)()
"""Two words that kernels count in, on a cache line of their own: threads that run a kernel, and the address of the call
table of the one that updates without locks, or 0.

A thread that enters a kernel counts itself first and then waits until the second word is 0. One that wants to go without
locks takes the second word first and then looks whether it is alone. Both steps are sequentially consistent, so that of two threads at
least one sees the other.
"""

LAUNCHES_ADDRESS = -(-ctypes.addressof(LAUNCHES) // 64) * 64

_UNKNOWN = 1 << 32  # far from 1: locks are kept


def _forget_other_threads() -> None:
    """In a forked process: the other threads are gone, whatever they did; this one may be in a kernel."""
    words = (ctypes.c_int64 * 2).from_address(LAUNCHES_ADDRESS)
    if words[0]:
        words[0] = _UNKNOWN
    words[1] = 0


os.register_at_fork(after_in_child=_forget_other_threads)

_QUERY = struct.Struct("9Q4I2Q")
_REQUEST = 3 << 30 | _QUERY.size << 16 | ord("f") << 8 | 17  # PROCMAP_QUERY, since Linux 6.11
_WRITABLE, _SHARED = 2, 8
_MAPS = "/proc/self/maps"
_JOINED = 8

WORTH_LANES = 1 << 16
"""Atomic updates of a launch for which it is worth a system call of some microseconds to ask about memory."""

_WORTH_READING = 1 << 20
"""Likewise, to read the table of all mappings."""


def find_private_range(address: int, lanes: int) -> tuple[int, int]:
    """Return the first and the last address plus 1 of private, writable memory around an address.

    Args:
        address: In this process's memory.
        lanes: Number of atomic updates that would gain by it.

    Returns:
        ``(0, 0)`` if there is no such mapping, or it is not worth looking for.
    """
    if lanes < WORTH_LANES:
        return 0, 0
    try:
        # Opened anew: of a forked process, the file that is open shows the parent's memory.
        maps = os.open(_MAPS, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0, 0
    try:
        return _joined(address, partial(_ask, maps))
    except OSError as error:
        if error.errno != errno.ENOTTY or lanes < _WORTH_READING:
            return 0, 0
        return _joined(address, partial(_look_up, Path(_MAPS).read_text("ascii", "replace")))
    finally:
        os.close(maps)


def _joined(address: int, find: Callable[[int], tuple[int, int]]) -> tuple[int, int]:
    """Return the private mapping around an address with those right behind it, which advice to the system splits."""
    start, end = find(address)
    for _ in range(_JOINED if end else 0):
        _, following = find(end)
        if not following:
            break
        end = following
    return start, end


def _ask(maps: int, address: int) -> tuple[int, int]:
    """Return the mapping around an address, ``(0, 0)`` if it is not private and writable or there is none.

    Raises:
        OSError: The system cannot be asked (``ENOTTY``).
    """
    query = bytearray(_QUERY.pack(_QUERY.size, 0, address, *[0] * 12))
    try:
        fcntl.ioctl(maps, _REQUEST, query)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return 0, 0
        raise
    _, _, _, start, end, flags, *_ = _QUERY.unpack(query)
    return (start, end) if flags & (_WRITABLE | _SHARED) == _WRITABLE else (0, 0)


def _look_up(text: str, address: int) -> tuple[int, int]:
    """Do the same with the table of all mappings."""
    for line in text.splitlines():
        span, rights = line.split(maxsplit=2)[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end:
            return (start, end) if rights[1] == "w" and rights[3] == "p" else (0, 0)
    return 0, 0
