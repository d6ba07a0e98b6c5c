"""What PEs and agents do with ports, in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.comm.sync.signals import barrier_count, ring
from emu.kernels.atomics import fence, store_i64
from emu.kernels.core.jit import entry_when_called, jit


@jit()
def publish(me: int, address: int, value: int, pe: int) -> None:
    """Store a word behind everything that was stored before it, and wake PE ``pe``, or the agent that has its block."""
    fence()
    store_i64(address, value)
    fence()
    ring(me, pe)


@jit()
def notify(me: int, pe: int) -> None:
    """Wake PE ``pe`` after its memory was changed by other means."""
    fence()
    ring(me, pe)


@jit()
def set_word(address: int, value: int) -> None:
    """Store a word before everything that is loaded behind it."""
    store_i64(address, value)
    fence()


@jit()
def arrive_for(me: int, barrier: int, n_pes: int, tag: int, count: int) -> Any:
    """Count some PEs of another host, of which one has the block ``me`` here, as arrived at a barrier."""
    fence()
    for _ in range(count):
        barrier_count(me, barrier, n_pes, tag)


publish_word: Callable[..., None] = entry_when_called(publish, 4)
notify_pe: Callable[..., None] = entry_when_called(notify, 2)
store_word: Callable[..., None] = entry_when_called(set_word, 2)
count_arrivals: Callable[..., None] = entry_when_called(arrive_for, 5)
