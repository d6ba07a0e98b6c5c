"""Take memory away from a process, so that touching it ends as it does where shared memory has run full: with SIGBUS."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile

from emu.comm.layout import PAGE, round_up
from emu.comm.memory.segment import Segment

_PAGE = max(PAGE, mmap.PAGESIZE)
_MAP_FIXED = 0x10  # on Linux and macOS
_FAILED = ctypes.c_void_p(-1).value


def take_away(segment: Segment, pe: int, start: int, end: int) -> None:
    """Take the bytes from ``start`` to ``end`` of the heap of PE ``pe`` away from this process: those of an array.

    A system gives no memory behind the end of a file, so that a file without bytes comes in the place of the segment. Only
    whole pages can be taken: those that lie in the array or, if none does, those that it lies in.

    Raises:
        OSError: The system does not let it.
    """
    base = segment.address + segment.layout.heaps + pe * segment.layout.stride
    first, behind = round_up(base + start, _PAGE), (base + end) // _PAGE * _PAGE
    if first >= behind:
        first, behind = (base + start) // _PAGE * _PAGE, round_up(base + end, _PAGE)
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_long,
    ]
    flags, access = mmap.MAP_SHARED | _MAP_FIXED, mmap.PROT_READ | mmap.PROT_WRITE
    with tempfile.TemporaryFile() as empty:
        if library.mmap(first, behind - first, access, flags, empty.fileno(), 0) == _FAILED:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
