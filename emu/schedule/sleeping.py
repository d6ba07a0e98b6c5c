"""What PEs that take turns do as compiled code: they take the lock of their area, sleep, and wake each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emu.comm.layout import B_SLICE_S
from emu.comm.sync import locks
from emu.comm.sync.futex import futex_wait, futex_wake
from emu.kernels.atomics import add_i32, load_i32
from emu.kernels.core.jit import entry_when_called, jit


@jit()
def lock(me: int, address: int) -> None:
    """Take the lock at ``address`` for the PE whose block is at ``me``."""
    locks.acquire(me, address)


@jit()
def unlock(address: int) -> None:
    """Release it."""
    locks.release(address)


@jit()
def sleep(me: int, address: int, seen: int) -> np.int64:
    """Sleep until the int32 at ``address`` is no longer ``seen``, at most for a slice; return what it is."""
    if load_i32(address) == np.int32(seen):
        futex_wait(address, np.int32(seen), me + 8 * B_SLICE_S)
    return np.int64(load_i32(address))


@jit()
def wake(address: int) -> None:
    """Change the int32 at ``address``, and wake who sleeps on it."""
    add_i32(address, np.int32(1))
    futex_wake(address, 1)


do_lock: Callable[[int, int], None] = entry_when_called(lock, 2)
do_unlock: Callable[[int], None] = entry_when_called(unlock, 1)
do_sleep: Callable[[int, int, int], int] = entry_when_called(sleep, 3)
do_wake: Callable[[int], None] = entry_when_called(wake, 1)
