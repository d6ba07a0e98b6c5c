"""Whether a process can do nothing but wait: it sleeps, and has no other thread, no child and no signal handler.

A wait that has just been satisfied is over before its PE sleeps again. So a PE that sleeps is really in the wait
that it has announced.
"""

from __future__ import annotations

import signal
import time

from emu.comm.watchdog.progress import QUERY_SIGNAL
from emu.kernels.core import system


def _mask(*numbers: int) -> int:
    found = 0
    for number in numbers:
        found |= 1 << number - 1
    return found


_LIBC = (32, 33)
"""Those that the C library handles in a process that has had threads."""
_OURS = _mask(
    # Those that comm/process/pe.py, Python, faulthandler and readline (SIGWINCH) handle.
    signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGABRT, getattr(signal, "SIGWINCH", signal.SIGTERM), QUERY_SIGNAL or signal.SIGTERM,
    *_LIBC,
)  # fmt: skip

_TRIES, _PAUSE_S = 4, 0.001


def only_waits(pid: int, servers: int) -> bool:
    """Return whether a process whose main thread waits is asleep and can do nothing else.

    Args:
        pid: The process.
        servers: Number of its other threads that are known to wait.
    """
    if not system.LINUX:  # nothing tells how many threads there are
        return False
    for _ in range(_TRIES):  # a waiter looks about every 50 ms, and sleeps again
        sleeps, threads, caught = _status(pid)
        if threads != 1 + servers or caught & ~_OURS:
            return False
        if sleeps:
            return not _has_children(pid)
        time.sleep(_PAUSE_S)
    return False


def _status(pid: int) -> tuple[bool, int, int]:
    """Return whether a process sleeps, its number of threads, and its mask of signals with handlers."""
    sleeps, threads, caught = False, 0, 0
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("State:"):
                    sleeps = line.split()[1] == "S"
                elif line.startswith("Threads:"):
                    threads = int(line.split()[1])
                elif line.startswith("SigCgt:"):
                    caught = int(line.split()[1], 16)
    except (OSError, ValueError):
        return False, 0, 0
    return sleeps, threads, caught


def _has_children(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return bool(file.read(1))
    except OSError:  # a kernel without this file
        return False
