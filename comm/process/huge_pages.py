"""Huge pages for the memory of the process that is forked: a fork copies an entry for 2 MiB instead of 512.

What a fork takes, and what the end of each copy takes again, is mostly the table of pages. The fork server holds some
90 MB of Python objects and compiled code; with 50 of them joined a fork takes 2.0 to 3.0 ms of processor time instead of
3.3 to 5.2 (Linux 6.18, two cores of Zen 4). A PE that writes to a huge page gets a copy of 4 KiB of it, as before.
To join them takes 60 ms, with torch 240, so the server does it when it has been idle for a moment after its first launch.
Linux 6.1 and later join the pages of a range when asked; where they do not, nothing is different.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from types import FrameType

_HUGE = 2 << 20
_MADV_COLLAPSE = 25
_IDLE_S = 0.3

_owner = 0
"""Process that is to join its pages; 0: none, or it has done so."""


def join_when_idle() -> None:
    """Have this process, which is forked by its main thread, join its pages once, a moment after forks."""
    global _owner
    if sys.platform != "linux":
        return
    _owner = os.getpid()
    signal.signal(signal.SIGALRM, _join)
    os.register_at_fork(after_in_parent=_wait, after_in_child=_forget)


def _wait() -> None:
    if _owner == os.getpid():
        signal.setitimer(signal.ITIMER_REAL, _IDLE_S)


def _join(number: int, frame: FrameType | None) -> None:
    _forget()
    join_pages()


def _forget() -> None:
    """Leave the alarm to whoever wants it, as copies of the process do from their start."""
    global _owner
    if _owner:
        _owner = 0
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def join_pages() -> int:
    """Join the private writable pages of this process where that can be; return the number of ranges that were."""
    if sys.platform != "linux":
        return 0
    joined = 0
    with contextlib.suppress(OSError, ValueError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
        for line in lines:
            addresses, permissions, *_, inode = line.split(maxsplit=5)[:5]
            if permissions != "rw-p" or inode != "0":
                continue
            start, end = (int(number, 16) for number in addresses.split("-"))
            first, last = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
            if first < last:  # one call for all: each waits for a moment of every core
                joined += advise(first, last - first, _MADV_COLLAPSE) == 0
    return joined
