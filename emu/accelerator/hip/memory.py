"""Device memory of this process, and descriptors through which other processes reach it.

Three kinds of memory can be given to another process. What the library has allocated lies in a file of its own, which
both processes map. Symmetric memory is mapped everywhere: its descriptor tells the PE and the place in that PE's heap.
All else, such as torch's tensors, belongs to this process alone: a descriptor of it is good for this process, and is
refused by others.
"""

from __future__ import annotations

import bisect
import os
import struct
from dataclasses import dataclass, field

from emu.accelerator.hip import pages
from emu.accelerator.hip.errors import INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, HipError
from emu.comm.world.current import check_one_host, current

_NOTE = struct.Struct("=16sqqqq")  # the mark, the process, the PE or -1, the place, and the size
_MARK = b"emu-hip-alias\0\0\0"


@dataclass(frozen=True)
class Place:
    """Memory that a descriptor stands for.

    Attributes:
        address: Where it is in this process, for memory that is mapped already; else 0.
        fd: A descriptor of the file that it lies in, for the caller to close; -1 where there is none.
        offset: Its place in the file.
        size: Bytes.
    """

    address: int
    fd: int
    offset: int
    size: int


@dataclass
class Block:
    """Memory that the library has allocated or mapped: its size, and its file where it owns one."""

    size: int
    fd: int = -1


@dataclass
class Blocks:
    """Blocks of this process by their first addresses."""

    _by_start: dict[int, Block] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def add(self, start: int, block: Block) -> None:
        """Note a block; what was noted at the same start ends."""
        if start not in self._by_start:
            bisect.insort(self._starts, start)
        self._by_start[start] = block

    def take(self, start: int) -> Block | None:
        """Forget the block that begins at ``start``, and return it."""
        block = self._by_start.pop(start, None)
        if block is not None:
            self._starts.remove(start)
        return block

    def find(self, address: int) -> tuple[int, Block] | None:
        """Return the start of the block that holds an address, and the block."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        block = self._by_start[start]
        return (start, block) if address < start + block.size else None


BLOCKS = Blocks()
"""What ``hipMalloc`` has allocated, and heaps that are told to the library."""


def allocate(size: int) -> int:
    """Return the address of new memory, which is clear; of no bytes it is 0, as HIP's.

    Raises:
        HipError: The size is negative, or there is no such memory.
    """
    if size < 0:
        raise HipError(INVALID_VALUE, f"size must not be negative, but got {size}")
    if not size:
        return 0
    fd = pages.make_file(pages.whole_pages(size))
    try:
        start = pages.map_file(fd, pages.whole_pages(size))
    except HipError:
        os.close(fd)
        raise
    BLOCKS.add(start, Block(size, fd))
    return start


def free(address: int) -> None:
    """Give memory of :func:`allocate` back; nothing for 0.

    Raises:
        HipError: The address is not the first of such memory.
    """
    if not address:
        return
    found = BLOCKS.find(address)
    if found is None or found[0] != address or found[1].fd < 0:
        raise HipError(
            INVALID_VALUE, f"ptr must be one that hipMalloc returned, but got {address:#x}"
        )
    block = BLOCKS.take(address)
    assert block is not None
    pages.unmap(address, pages.whole_pages(block.size))
    os.close(block.fd)


def range_of(address: int) -> tuple[int, int]:
    """Return (start, size) of the memory that holds an address: a block, or else the mapping it lies in.

    Raises:
        HipError: There is no memory.
    """
    found = BLOCKS.find(address)
    if found is not None:
        return found[0], found[1].size
    mapping = pages.mapping_around(address) if address else None
    if mapping is None:
        raise HipError(
            INVALID_VALUE, f"ptr must be an address of device memory, but got {address:#x}"
        )
    return mapping


def export(address: int, size: int) -> int:
    """Return a new descriptor of the block that holds ``size`` bytes at ``address``.

    Raises:
        HipError: There is no memory, or less.
    """
    start, whole = range_of(address)
    if size <= 0 or address + size > start + whole:
        raise HipError(
            INVALID_VALUE,
            f"size must be in [1, {start + whole - address}] for {address:#x}, but got {size}",
        )
    found = BLOCKS.find(address)
    if found is not None and found[1].fd >= 0:
        return os.dup(found[1].fd)
    pe, place = _symmetric_place(start) or (-1, start)
    note = os.memfd_create("emu-hip-alias", os.MFD_CLOEXEC)
    os.write(note, _NOTE.pack(_MARK, os.getpid(), pe, place, whole))
    return note


def open_place(fd: int) -> Place:
    """Return the memory that a descriptor of :func:`export`, or of ``hipMemCreate``, stands for.

    Raises:
        HipError: It is no such descriptor, or of memory that belongs to another process alone.
    """
    try:
        name = os.readlink(f"/proc/self/fd/{fd}")
        size = os.fstat(fd).st_size
    except OSError:
        raise HipError(INVALID_HANDLE, f"fd must be an open descriptor, but got {fd}") from None
    if name.startswith("/memfd:emu-hip-alias"):
        return _open_note(os.pread(fd, _NOTE.size, 0))
    if not name.startswith("/memfd:emu-hip"):
        raise HipError(INVALID_HANDLE, f"fd must be one of device memory, but got {fd}, of {name}")
    return Place(0, os.dup(fd), 0, size)


def _open_note(note: bytes) -> Place:
    mark, process, pe, place, size = _NOTE.unpack(note)
    if mark != _MARK:
        raise HipError(INVALID_HANDLE, "fd must be one of device memory")
    if pe < 0:
        if process != os.getpid():
            raise HipError(
                NOT_SUPPORTED,
                f"fd is of memory of process {process} alone, such as a torch tensor's: what processes share must "
                "come from a symmetric heap, hipMalloc or hipMemCreate",
            )
        return Place(place, -1, 0, size)
    check_one_host("HIP's handles of memory")
    world = current()
    if world is None:
        raise HipError(
            NOT_SUPPORTED, f"fd is of PE {pe}'s symmetric heap, but this process is no PE"
        )
    segment = world.segment
    start = segment.layout.heaps + pe * segment.layout.stride + place
    return Place(segment.address + start, os.dup(segment.fd), start, size)


def _symmetric_place(address: int) -> tuple[int, int] | None:
    """Return the PE in whose symmetric heap an address lies, and the place there; None: it is in no heap."""
    check_one_host("HIP's handles of memory")
    world = current()
    if world is None:
        return None
    segment = world.segment
    layout = segment.layout
    offset = address - segment.address - layout.heaps
    if not 0 <= offset < layout.n_pes * layout.stride:
        return None
    return divmod(offset, layout.stride)
