"""The shared segment of a world: one piece of nameless shared memory.

It loses its name the moment it exists (:mod:`emu.comm.memory.nameless`): PEs receive its file descriptor,
not its name. So nothing is left in ``/dev/shm`` however a process dies, and two launchers can never meet. It is sparse: address space is generous, memory is taken
when touched. The launcher uses this module too, which is why nothing here loads Numba.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from multiprocessing import reduction
from typing import Any

import numpy as np

from emu.comm.arrays import Array, Bytes, Words
from emu.comm.errors import SymmetricMemoryError
from emu.comm.layout import (
    ALLOCATION,
    ALLOCATIONS,
    B_PLACE_LENGTH,
    B_TEXT_LENGTH,
    BLOCK_BYTES,
    CALL_BYTES,
    H_LINK_BANDWIDTH,
    H_LINK_LATENCY,
    H_MAGIC,
    MAGIC,
    PAGE,
    PLACE_BYTES,
    TEXT_BYTES,
    Layout,
    round_up,
)
from emu.comm.link_model import Link
from emu.comm.memory import nameless


class Segment:
    """A nameless shared memory segment; pickles (to a process being started) as its descriptor."""

    def __init__(self, fd: int, layout: Layout) -> None:
        self.fd = fd
        self.layout = layout
        self._map = mmap.mmap(fd, layout.total)
        self.bytes: Bytes = np.frombuffer(self._map, np.uint8)
        self.address = self.bytes.ctypes.data

    @classmethod
    def create(cls, layout: Layout, *, link: Link | None = None) -> Segment:
        """Make a fresh, zeroed segment, with or without an emulated link, and take its name away.

        Raises:
            SymmetricMemoryError: If the segment cannot be made or mapped.
        """
        try:
            fd = nameless.make()
        except OSError as error:
            raise _not_made(layout, error) from error
        try:
            os.ftruncate(fd, layout.file_bytes)
            _reserve_control(fd, layout)
            segment = cls(fd, layout)
        except (OSError, SymmetricMemoryError) as error:
            os.close(fd)
            if isinstance(error, SymmetricMemoryError):
                raise
            raise _not_made(layout, error) from error
        segment.header[H_MAGIC] = MAGIC
        if link is not None:
            numbers = segment.header.view(np.float64)
            numbers[H_LINK_BANDWIDTH], numbers[H_LINK_LATENCY] = link.bandwidth, link.latency
        return segment

    def __reduce__(self) -> tuple[object, ...]:
        return _attach, (reduction.DupFd(self.fd), self.layout)

    @property
    def header(self) -> Words:
        """Header words."""
        return self.bytes[:PAGE].view(np.int64)

    @property
    def link(self) -> Link | None:
        """The emulated link between the PEs, if there is one."""
        numbers = self.header.view(np.float64)
        bandwidth, latency = float(numbers[H_LINK_BANDWIDTH]), float(numbers[H_LINK_LATENCY])
        return Link(bandwidth=bandwidth, latency=latency) if bandwidth else None

    def block(self, pe: int) -> Words:
        """Words of PE ``pe``'s block."""
        start = self.layout.blocks + pe * BLOCK_BYTES
        return self.bytes[start : start + BLOCK_BYTES].view(np.int64)

    def text(self, pe: int) -> Bytes:
        """Room for PE ``pe``'s description of what it waits for."""
        start = self.layout.texts + pe * TEXT_BYTES
        return self.bytes[start : start + TEXT_BYTES]

    def write_text(self, pe: int, text: str) -> None:
        """Publish what PE ``pe`` waits for."""
        self._write(pe, text, 0, TEXT_BYTES - PLACE_BYTES, B_TEXT_LENGTH)

    def read_text(self, pe: int) -> str:
        """Return what PE ``pe`` last published."""
        return self._read(pe, 0, B_TEXT_LENGTH)

    def write_place(self, pe: int, text: str) -> None:
        """Publish the position of PE ``pe`` in its program."""
        self._write(pe, text, TEXT_BYTES - PLACE_BYTES, PLACE_BYTES, B_PLACE_LENGTH)

    def read_place(self, pe: int) -> str:
        """Return the position that PE ``pe`` last published."""
        return self._read(pe, TEXT_BYTES - PLACE_BYTES, B_PLACE_LENGTH)

    def _write(self, pe: int, text: str, start: int, room: int, length: int) -> None:
        data = text.encode(errors="backslashreplace")[:room]
        self.block(pe)[length] = 0
        self.text(pe)[start : start + len(data)] = np.frombuffer(data, np.uint8)
        self.block(pe)[length] = len(data)

    def _read(self, pe: int, start: int, length: int) -> str:
        count = int(self.block(pe)[length])
        return bytes(self.text(pe)[start : start + count]).decode(errors="replace")

    def _call(self, pe: int) -> Bytes:
        start = self.layout.calls + pe * CALL_BYTES
        return self.bytes[start : start + CALL_BYTES]

    def write_call(self, pe: int, text: str) -> None:
        """Publish the call of PE ``pe``, for the members that called something else."""
        self._call(pe)[:] = np.frombuffer(text.encode()[:CALL_BYTES].ljust(CALL_BYTES), np.uint8)

    def read_call(self, pe: int) -> str:
        """Return the call that PE ``pe`` last published."""
        return bytes(self._call(pe)).decode(errors="replace").rstrip()

    @property
    def allocations(self) -> Array:
        """The allocation table."""
        start = self.layout.allocations
        return self.bytes[start : start + ALLOCATIONS * ALLOCATION.itemsize].view(ALLOCATION)

    def members(self, group: int) -> tuple[int, ...]:
        """Return the world numbers of a group's members."""
        if group == 0:
            return tuple(range(self.layout.n_pes))
        entry = self.group_entry(group)
        return tuple(int(pe) for pe in entry["members"][: entry["n_pes"]])

    @property
    def heap_addresses(self) -> range:
        """Addresses of all heaps in this process."""
        first = self.address + self.layout.heaps
        return range(first, first + self.layout.n_pes * self.layout.stride)

    def map_listeners(self) -> Bytes:
        """Map the area that the listeners of the PEs share; it may be empty."""
        return self._map_area(self.layout.listeners, self.layout.listener_bytes)

    def map_schedule(self) -> Bytes:
        """Map the area of PEs that take turns; it may be empty."""
        return self._map_area(self.layout.schedule, self.layout.schedule_bytes)

    def map_trace(self) -> Bytes:
        """Map the area of the PEs' events; it may be empty."""
        return self._map_area(self.layout.trace, self.layout.trace_bytes)

    def map_ports(self) -> Bytes:
        """Map the ports of PEs whose World spans hosts; the area may be empty."""
        return self._map_area(self.layout.ports, self.layout.port_bytes)

    def _map_area(self, start: int, nbytes: int) -> Bytes:
        if not nbytes:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(self.fd, nbytes, offset=start), np.uint8)

    def group_entry(self, group: int) -> Any:
        """Return a group's entry in the table of groups."""
        layout = self.layout
        start = layout.groups + group * layout.group_bytes
        return self.bytes[start : start + layout.group_dtype.itemsize].view(layout.group_dtype)[0]

    def close(self) -> None:
        """Close the descriptor; the mapping goes with the last array that uses it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def backed_bytes(self) -> int:
        """Return the number of bytes of the segment that have memory."""
        return os.fstat(self.fd).st_blocks * 512

    def discard(self, start: int, nbytes: int) -> None:
        """Return the memory of the system's pages that lie wholly in a range, where it takes them back."""
        first = round_up(start, mmap.PAGESIZE)  # 4 KiB on x86, up to 64 KiB on Arm
        last = (start + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        advice = getattr(mmap, "MADV_REMOVE", None)  # Linux only
        if advice is not None and first < last:
            with contextlib.suppress(OSError):  # not every file system can
                self._map.madvise(advice, first, last - first)

    def free_bytes(self) -> int:
        """Return the bytes still free in the file system that holds the segment."""
        return _free_bytes(self.fd)


def _free_bytes(fd: int) -> int:
    status = os.fstatvfs(fd)
    return status.f_bavail * status.f_frsize


def _not_made(layout: Layout, error: OSError) -> SymmetricMemoryError:
    return SymmetricMemoryError(
        f"a shared segment for {layout.n_pes} PEs with heaps of {layout.heap_bytes} bytes could not "
        f"be made: {error}"
    )


def _reserve_control(fd: int, layout: Layout) -> None:
    """Take the memory of the control region now: later its lack would be a SIGBUS."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(fd, 0, layout.control_bytes)
    except OSError as error:
        raise SymmetricMemoryError(
            f"a world of {layout.n_pes} PEs needs {layout.control_bytes} bytes of shared memory "
            f"before it allocates any, but {_free_bytes(fd)} bytes are free in /dev/shm "
            f"({error.strerror}); end what uses it, or enlarge it (docker: --shm-size)"
        ) from error


def _attach(descriptor: Any, layout: Layout) -> Segment:
    return Segment(descriptor.detach(), layout)
