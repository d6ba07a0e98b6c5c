"""HIP's virtual memory management: addresses that are reserved, memory that is mapped there, and who may access it."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass

from emu.accelerator.hip import memory, pages
from emu.accelerator.hip.errors import INVALID_HANDLE, INVALID_VALUE, HipError

GRANULARITY = pages.PAGE
"""What sizes of memory are multiples of."""

_ALIGNMENT = 2 << 20
"""What reserved addresses are multiples of, whatever is asked for."""

_ACCESS = {0: pages.NONE, 1: pages.READ, 3: pages.READ | pages.WRITE}
"""Protections by HIP's flags of access."""


@dataclass
class _Physical:
    """Memory that can be mapped: a part of a file."""

    fd: int
    offset: int
    size: int


_numbers = itertools.count(1)
_physical: dict[int, _Physical] = {}
_reserved: dict[int, int] = {}  # sizes by start
_mapped: dict[int, int] = {}


def create(size: int) -> int:
    """Return the handle of new memory.

    Raises:
        HipError: The size is no multiple of the granularity, or there is no such memory.
    """
    if size <= 0 or size % GRANULARITY:
        raise HipError(
            INVALID_VALUE, f"size must be a positive multiple of {GRANULARITY}, but got {size}"
        )
    return _keep(_Physical(pages.make_file(size), 0, size))


def release(handle: int) -> None:
    """Give a handle back; memory stays where it is mapped."""
    os.close(_known(handle).fd)
    del _physical[handle]


def export(handle: int) -> int:
    """Return a new descriptor of a handle's memory.

    Raises:
        HipError: There is no such handle, or its memory is a part of other memory.
    """
    known = _known(handle)
    if known.offset:
        raise HipError(INVALID_VALUE, f"handle must be one of hipMemCreate, but got {handle}")
    return os.dup(known.fd)


def import_from(fd: int) -> int:
    """Return the handle of the memory that a descriptor stands for."""
    place = memory.open_place(fd)
    if place.fd < 0:
        raise HipError(
            INVALID_VALUE,
            f"fd must be of memory that can be mapped a second time, but got {fd}, of memory that is private to this "
            "process, such as a torch tensor's: it can be neither mapped elsewhere nor shared",
        )
    return _keep(_Physical(place.fd, place.offset, place.size))


def reserve(size: int, alignment: int, wanted: int) -> int:
    """Return the start of addresses that are reserved."""
    if size <= 0 or size % pages.PAGE:
        raise HipError(
            INVALID_VALUE, f"size must be a positive multiple of {pages.PAGE}, but got {size}"
        )
    if alignment & alignment - 1:
        raise HipError(INVALID_VALUE, f"alignment must be a power of 2, but got {alignment}")
    start = pages.reserve(size, max(alignment, _ALIGNMENT), wanted)
    _reserved[start] = size
    return start


def give_back(start: int, size: int) -> None:
    """End a reservation.

    Raises:
        HipError: It is none, or memory is still mapped there.
    """
    if _reserved.get(start) != size:
        raise HipError(
            INVALID_VALUE, f"ptr and size must be of a reservation, but got {start:#x} and {size}"
        )
    if any(start <= there < start + size for there in _mapped):
        raise HipError(
            INVALID_VALUE, f"memory must be unmapped first, but some is mapped at {start:#x}"
        )
    pages.unmap(start, size)
    del _reserved[start]


def map_at(start: int, size: int, offset: int, handle: int) -> None:
    """Map memory at reserved addresses; nobody may access it yet.

    Raises:
        HipError: The addresses are not reserved or taken, or the memory is smaller.
    """
    known = _known(handle)
    if size <= 0 or offset < 0 or offset + size > known.size:
        raise HipError(
            INVALID_VALUE,
            f"offset and size must lie in the handle's {known.size} bytes, but got {offset} and {size}",
        )
    if not _is_reserved(start, size):
        raise HipError(INVALID_VALUE, f"ptr must be reserved, but got {size} bytes at {start:#x}")
    if any(there < start + size and start < there + took for there, took in _mapped.items()):
        raise HipError(INVALID_VALUE, f"ptr must be free, but memory is mapped at {start:#x}")
    pages.map_file(known.fd, size, known.offset + offset, at=start, protection=pages.NONE)
    _mapped[start] = size
    memory.BLOCKS.add(start, memory.Block(size, os.dup(known.fd)))


def unmap(start: int, size: int) -> None:
    """Take memory away from its addresses, which stay reserved.

    Raises:
        HipError: It is not what was mapped.
    """
    there = _mapped.get(start)
    if there != size:
        raise HipError(
            INVALID_VALUE, f"ptr and size must be those of hipMemMap, but got {start:#x} and {size}"
        )
    pages.clear(start, size)
    del _mapped[start]
    block = memory.BLOCKS.take(start)
    if block is not None:
        os.close(block.fd)


def set_access(start: int, size: int, flags: int) -> None:
    """Allow accesses to mapped memory; all of the range must be mapped.

    Raises:
        HipError: Some of it is not, or the flags are unknown.
    """
    if flags not in _ACCESS:
        raise HipError(INVALID_VALUE, f"flags must be one of {sorted(_ACCESS)}, but got {flags}")
    at = start
    while at < start + size:
        found = _mapped_around(at)
        if found is None:
            raise HipError(INVALID_VALUE, f"memory must be mapped, but none is at {at:#x}")
        at = found
    pages.protect(start, size, _ACCESS[flags])


def _mapped_around(address: int) -> int | None:
    """Return where the mapping that holds an address ends."""
    for start, size in _mapped.items():
        if start <= address < start + size:
            return start + size
    return None


def _is_reserved(start: int, size: int) -> bool:
    return any(there <= start and start + size <= there + room for there, room in _reserved.items())


def _keep(memory_: _Physical) -> int:
    handle = next(_numbers)
    _physical[handle] = memory_
    return handle


def _known(handle: int) -> _Physical:
    known = _physical.get(handle)
    if known is None:
        raise HipError(INVALID_HANDLE, f"handle must be one of hipMemCreate, but got {handle}")
    return known
