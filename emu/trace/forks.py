"""Forks of a PE: they are no PEs, and must not write among its events, though they may use its World."""

from __future__ import annotations

import ctypes
import mmap
import os

from emu.comm.memory.segment import Segment
from emu.comm.world import recording

_MAP_FIXED = 0x10


def leave_in_forks(segment: Segment, address: int, recorder: recording.Recorder) -> None:
    """Let forks of this process write to copies of the area of events.

    Args:
        segment: The world's.
        address: Where this process has mapped the area.
        recorder: What records this process.
    """
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_longlong,
    )
    layout = segment.layout
    access, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_FIXED

    def leave() -> None:
        if recording.active is not recorder:
            return
        recording.active = None
        library.mmap(address, layout.trace_bytes, access, how, segment.fd, layout.trace)

    os.register_at_fork(after_in_child=leave)
