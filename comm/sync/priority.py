"""Short time slices, for threads that are woken to do a little work at once.

A woken thread waits for the one that runs on its core to end its slice, some 3 ms beside a computation.
Linux 6.12 and later let a thread ask for short slices, without privileges and without more of the
processor in all; woken, it then goes before those whose slices are longer. Elsewhere nothing happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform

from emu.kernels.core import system

_SLICE_NS = 100_000  # the shortest that Linux gives
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355, "s390x": 345}


class _Attributes(ctypes.Structure):
    """``struct sched_attr`` of the kernel, first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def ask_for_short_slices() -> bool:
    """Request short time slices for the calling thread; return whether the system took the request.

    The thread keeps its niceness.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if not system.LINUX or number is None:
        return False
    import os

    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        wanted = _Attributes(
            size=ctypes.sizeof(_Attributes),
            nice=os.getpriority(os.PRIO_PROCESS, 0),
            runtime=_SLICE_NS,
        )
        return bool(libc.syscall(number, 0, ctypes.byref(wanted), 0) == 0)
    return False
