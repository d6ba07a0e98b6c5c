"""Linux's permission to use the tile registers of AMX.

Their 8 KiB of state are saved for a thread only after its process has asked; the first tile instruction without that
ends the process. What was granted holds for all threads, later ones too, and for processes that are forked off. A
process that is executed anew has to ask again.

Internal: names may change in any release.
"""

from __future__ import annotations

import ctypes
import functools
import platform

from emu.kernels.core import system

_ARCH_PRCTL = 158  # number of the system call, of x86-64
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18


@functools.cache
def is_permitted() -> bool:
    """Return whether this process may use tile registers; ask for it at the first call.

    Linux refuses where there are none, before version 5.16, and while a thread has a stack for signals that is too
    small for their state; a container may forbid the call.
    """
    if not system.LINUX or platform.machine() != "x86_64":
        return False
    asked = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return bool(asked == 0)
