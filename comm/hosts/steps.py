"""What PEs and agents do with ports, in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from emu.comm.hosts.state import data_at, peek, slot_at
from emu.comm.hosts.words import (
    DONE,
    INLINE_BYTES,
    NBYTES,
    OFFSET,
    POSTED,
    SHORT_BYTES,
    SLOT_DATA,
    SLOTS,
    SPAN,
)
from emu.comm.layout import B_SPINS, B_YIELDS
from emu.comm.ops import Cmp
from emu.comm.sync.clock import clock_ns
from emu.comm.sync.futex import sched_yield
from emu.comm.sync.locks import word
from emu.comm.sync.signals import barrier_count, begin_sleep, ring, wait_word
from emu.kernels.atomics import fence, load_i64, store_i64
from emu.kernels.core.address import array_data, as_pointer, move_bytes
from emu.kernels.core.jit import carray, entry_when_called, jit

_YIELDS_NS, _MOST_YIELDS = 150_000, 1000
"""For so long, and so often, a PE yields for an answer before it sleeps: a wake costs as much as a link of the way."""
_GREATER = int(Cmp.GT)


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


@jit()
def post_dense(
    me: int, port: int, number: int, agent: int, words: int, source: int, first: int, nbytes: int
) -> Any:
    """Post the store of a part of a dense tile, with a copy of it in the port.

    Args:
        me: Address of the PE's block.
        port: Of its port.
        number: Of the request, which takes the slots that its data need.
        agent: Whose block the agent has.
        words: ``id()`` of the words of the request, of which NBYTES and SPAN are set here.
        source: ``id()`` of the ndarray.
        first: Where the part begins in it, and behind OFFSET.
        nbytes: Size of the part.

    Returns:
        The number of slots, or, if one is not free, 0: then nothing was done.
    """
    span = max(1, (nbytes + SLOT_DATA - 1) // SLOT_DATA)
    for old in range(max(0, number - SLOTS), number - SLOTS + span):
        if load_i64(port + 8 * (DONE + 8 * (old % SLOTS))) <= old:
            return 0
    slot = slot_at(port, number)
    record = carray(as_pointer(slot), (SHORT_BYTES // 8,), np.int64)
    record[:] = carray(as_pointer(array_data(words)), (SHORT_BYTES // 8,), np.int64)
    record[OFFSET] += first
    record[NBYTES], record[SPAN] = nbytes, span
    move_bytes(data_at(port, number), array_data(source) + first, nbytes)
    publish(me, port + 8 * POSTED, number + span, agent)
    return span


@jit()
def await_answer(me: int, port: int, number: int) -> Any:
    """Wait for the answer to a request for one slice; return whether it came, else go on with ``wait_word``, resumed.

    What takes long is slept for at once: a PE that looks for it takes the core that an agent needs.
    """
    address = port + 8 * (DONE + 8 * (number % SLOTS))
    if load_i64(address) > number:
        return True
    nbytes = peek(slot_at(port, number) + 8 * NBYTES)
    limit = _YIELDS_NS if nbytes <= INLINE_BYTES and word(me, B_SPINS) else 0
    end = clock_ns() + limit
    for look in range(_MOST_YIELDS):
        sched_yield()
        if load_i64(address) > number:
            return True
        if look >= word(me, B_YIELDS) and clock_ns() > end:
            break
    begin_sleep(me)
    found, _ = wait_word(me, address, 8, _GREATER, number, 1)
    return found


publish_word: Callable[..., None] = entry_when_called(publish, 4)
notify_pe: Callable[..., None] = entry_when_called(notify, 2)
store_word: Callable[..., None] = entry_when_called(set_word, 2)
post_tile: Callable[..., int] = entry_when_called(post_dense, 8)
await_request: Callable[..., bool] = entry_when_called(await_answer, 3)
count_arrivals: Callable[..., None] = entry_when_called(arrive_for, 5)
