"""Pages of this process, mapped and protected by libc: files at given addresses, and addresses without memory."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os

from emu.accelerator.hip.errors import MAP_FAILED, OUT_OF_MEMORY, HipError

PAGE = mmap.PAGESIZE
NONE, READ, WRITE = 0, mmap.PROT_READ, mmap.PROT_WRITE
_FIXED = 0x10
_NO_RESERVE = 0x4000


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
    )
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc


def _map(address: int, size: int, protection: int, flags: int, fd: int, offset: int) -> int:
    found = _libc().mmap(address or None, size, protection, flags, fd, offset)
    if found is None or found == ctypes.c_void_p(-1).value:
        raise HipError(MAP_FAILED, f"{size} bytes: {os.strerror(ctypes.get_errno())}")
    return int(found)


def make_file(size: int) -> int:
    """Return the descriptor of new memory that processes can share.

    Raises:
        HipError: The system has no descriptor for it, or not that much memory.
    """
    try:
        fd = os.memfd_create("emu-hip", os.MFD_CLOEXEC)
    except OSError as error:
        raise HipError(OUT_OF_MEMORY, f"{size} bytes: {error.strerror}") from None
    try:
        os.ftruncate(fd, size)
    except OSError as error:
        os.close(fd)
        raise HipError(OUT_OF_MEMORY, f"{size} bytes: {error.strerror}") from None
    return fd


def map_file(
    fd: int, size: int, offset: int = 0, *, at: int = 0, protection: int = READ | WRITE
) -> int:
    """Map memory of a descriptor, at ``at`` in place of what is there, or wherever there is room."""
    return _map(at, size, protection, mmap.MAP_SHARED | (_FIXED if at else 0), fd, offset)


def reserve(size: int, alignment: int, wanted: int = 0) -> int:
    """Return the start of ``size`` bytes of addresses that nothing else gets; an access there is a fault.

    Args:
        size: A multiple of the page size.
        alignment: A power of two, or 0.
        wanted: Where they should begin, if that is free.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    start = _map(wanted, size, NONE, flags, -1, 0)
    if start % max(alignment, 1) == 0:
        return start
    unmap(start, size)
    start = _map(0, size + alignment, NONE, flags, -1, 0)
    first = -(-start // alignment) * alignment
    if first > start:
        unmap(start, first - start)
    unmap(first + size, start + alignment - first)
    return first


def clear(start: int, size: int) -> None:
    """Take the memory away from addresses, and keep the addresses."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE | _FIXED
    _map(start, size, NONE, flags, -1, 0)


def unmap(start: int, size: int) -> None:
    """Give addresses back to the system."""
    if size and _libc().munmap(start, size):
        raise HipError(MAP_FAILED, f"{size} bytes at {start:#x}: {os.strerror(ctypes.get_errno())}")


def protect(start: int, size: int, protection: int) -> None:
    """Set which accesses are allowed."""
    if _libc().mprotect(start, size, protection):
        raise HipError(MAP_FAILED, f"{size} bytes at {start:#x}: {os.strerror(ctypes.get_errno())}")


def whole_pages(size: int) -> int:
    """Return ``size`` rounded up to pages."""
    return -(-size // PAGE) * PAGE


def mapping_around(address: int) -> tuple[int, int] | None:
    """Return (start, size) of the mapping of this process that holds an address, or None."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            first, _, rest = line.partition("-")
            start, end = int(first, 16), int(rest.partition(" ")[0], 16)
            if start <= address < end:
                return start, end - start
    return None
