"""Memory without a name, which processes share by its descriptor."""

from __future__ import annotations

import os
import tempfile
from multiprocessing import shared_memory

from emu.comm.memory import helpers
from emu.kernels.core import system


def make() -> int:
    """Return a descriptor of fresh memory of any size but the right one: set it with ``os.ftruncate``.

    On Linux it lies in ``/dev/shm``. Elsewhere it is a file that has been removed from the folder of temporary files:
    macOS takes the size of shared memory only once, when it is made, and can neither read it by its descriptor nor
    reserve it, which watching and allocations need. The pages of both are those that processes map.

    Raises:
        OSError: It cannot be made.
    """
    return _shared_memory() if system.LINUX else _removed_file()


def _shared_memory() -> int:
    # Its full size comes later: where that cannot be mapped, SharedMemory fails with noise.
    with helpers.importing_alike():  # the first one starts a resource tracker
        shared = shared_memory.SharedMemory(create=True, size=1)
    # SharedMemory has no public way to its descriptor; the attribute is the same on 3.8 to 3.14.
    descriptor = os.dup(getattr(shared, "_fd"))  # noqa: B009 - a name that type checkers do not know
    shared.unlink()
    shared.close()
    return descriptor


def _removed_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
