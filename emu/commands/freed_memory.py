"""Memory that a PE keeps when a program frees it: large tensors come and go without a page fault for each page.

The C library maps what is larger than 32 MiB anew each time, and gives it back when it is freed. On a GPU torch keeps
freed memory; programs written for one make new tensors in their loops, and on a CPU would spend most of the time in the
system, clearing pages.
"""

from __future__ import annotations

import ctypes
import os

# Parameters of glibc's mallopt; other C libraries have none of that name, or take other numbers.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_MOST = 1 << 30  # bytes that stay free at the end of a PE's heap, at most
_SHARE = 16  # all PEs together keep at most this part of the machine's memory


def keep_freed_memory(n_pes: int) -> bool:
    """Let this process keep what it frees, and use it again; return whether it does.

    Nothing changes where the program's environment says how memory is allocated (``MALLOC_…``, ``GLIBC_TUNABLES``), or
    the C library is not glibc. It must be called before torch is imported for its large tensors to get large pages.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return False
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # read by torch: pages of 2 MiB
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kept = min(_MOST, memory // (_SHARE * n_pes))
    return all(library.mallopt(name, n) for name, n in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, kept)))
