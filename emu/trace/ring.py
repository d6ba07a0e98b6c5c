"""The compiled writers of a PE's ring, and the table of flows.

A ring has any number of writers (threads of the PE) and one reader, the launcher. A writer takes a place by a compare-and-swap, fills
it, and stores its last word last, which is not 0: what has been taken and not stored is not read. When the ring is full the
event is lost, and counted: nobody waits.

*Flows.* Who changes a word leaves the number of its operation's flow in a table, under the word's place, before it does. Who has
waited for that word takes it from there. A table with one entry a place would be as large as the heaps: this one is
direct-mapped, and an entry that another place needs is overwritten. A wait then does not know who ended it; it never
takes the flow of another place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from emu.comm.layout import WRITER_HASH
from emu.comm.sync.clock import clock_ns
from emu.kernels.atomics import (
    add_i64,
    compare_exchange_i64,
    exchange_i64,
    load_i64,
    store_i64,
)
from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, entry_when_called, jit
from emu.trace.area import (
    FLOW_BITS,
    FLOW_WORDS,
    W_HEAD,
    W_LOST,
    W_MASK,
    W_PE,
    W_SERIAL,
    W_TAIL,
    WORDS_BYTES,
)
from emu.trace.events import EVENT

_RECORD_BYTES = EVENT.itemsize
_RECORD_WORDS = _RECORD_BYTES // 8
_LAST_WORD = _RECORD_BYTES - 8
PEER_SHIFT = 48
"""Where in a record's last word the other PE stands; before it: site, kind, thread."""

FLOW_PE_SHIFT = 44
"""Where in a flow of two PEs' operations stands 1 + the number of the first; before it: whether that is a put, and when it began."""

SERIAL_MASK = (1 << FLOW_PE_SHIFT - 1) - 1
"""The bits of a clock's nanoseconds that a flow has."""


@jit()
def put_record(
    ring: int,
    start: int,
    duration: int,
    size: int,
    flow: int | np.int64,
    what: int | np.int64,
) -> None:
    """Append a record.

    Args:
        ring: Address of the PE's words.
        start: As the field of :data:`emu.trace.events.EVENT`.
        duration: The same.
        size: The same.
        flow: The same.
        what: The other fields, as the last word of the record has them.
    """
    mask = load_i64(ring + 8 * W_MASK)
    head = load_i64(ring + 8 * W_HEAD)
    while True:
        if head - load_i64(ring + 8 * W_TAIL) > mask:
            add_i64(ring + 8 * W_LOST, 1)
            return
        seen = compare_exchange_i64(ring + 8 * W_HEAD, head, head + 1)
        if seen == head:
            break
        head = seen
    address = ring + WORDS_BYTES + (head & mask) * _RECORD_BYTES
    record = carray(as_pointer(address), (_RECORD_WORDS,), np.int64)
    record[0] = start
    record[1] = duration
    record[2] = size
    record[3] = flow
    store_i64(address + _LAST_WORD, what)


@jit(nogil=False)  # shorter than giving the GIL back and forth
def end_now(ring: int, begun: int, size: int, flow: int | np.int64, site: int, peer: int) -> None:
    """Append the record of an event that ends now; ``site`` is the last word but for the peer."""
    put_record(ring, begun, clock_ns() - begun, size, flow, site | peer << PEER_SHIFT)


@jit(nogil=False)
def end_at(ring: int, begun: int, ended: int, size: int, flow: int, site: int, peer: int) -> None:
    """Append the record of an event that has ended."""
    duration = ended - begun if ended > begun else 0
    put_record(ring, begun, duration, size, flow, site | peer << PEER_SHIFT)


@jit()
def _entry(flows: int, place: int) -> Any:
    mixed = np.uint64(place) * np.uint64(WRITER_HASH)
    return flows + np.int64(mixed >> np.uint64(64 - FLOW_BITS)) * (8 * FLOW_WORDS)


@jit(nogil=False)
def new_flow(ring: int, is_put: int) -> Any:
    """Return the number of a new flow that this PE begins.

    It says when: in nanoseconds of the clock, of which it has the lower 43 bits, some 2.4 hours.
    """
    last = load_i64(ring + 8 * W_SERIAL)
    while True:
        now = max(clock_ns(), last + 1)  # no other flow of this PE began then
        seen = compare_exchange_i64(ring + 8 * W_SERIAL, last, now)
        if seen == last:
            break
        last = seen
    serial = now & SERIAL_MASK
    return (load_i64(ring + 8 * W_PE) + 1) << FLOW_PE_SHIFT | serial << 1 | is_put


@jit()
def begin_of(flow: int | np.int64, now: int) -> Any:
    """Return when a flow began, which is not more than 2.4 hours ago."""
    return now - ((now - (flow >> 1)) & SERIAL_MASK)


@jit(nogil=False)
def leave_flow(ring: int, flows: int, place: int, is_put: int) -> Any:
    """Begin a flow at a place of a heap; return its number.

    Args:
        ring: Address of the PE's words.
        flows: Address of the table.
        place: The word, or the first byte of what is put: number of the PE times the distance of heaps, plus the offset.
        is_put: 1 of a put, which gets may follow, too; 0 of what only waits do.
    """
    flow = new_flow(ring, is_put)
    entry = _entry(flows, place)
    store_i64(entry, 0)
    store_i64(entry + 8, flow)
    store_i64(entry + 16, load_i64(ring + 8 * W_SERIAL))
    store_i64(entry, place + 1)
    return flow


@jit(nogil=False)
def take_flow(flows: int, place: int, since: int) -> tuple[Any, Any]:
    """Take what was left at a place.

    Args:
        flows: Address of the table.
        place: As for :func:`leave_flow`.
        since: Take nothing that was left before.

    Returns:
        The number of the flow and when it was left; zeros if there is none.
    """
    entry = _entry(flows, place)
    if load_i64(entry) != place + 1:
        return np.int64(0), np.int64(0)
    left = load_i64(entry + 16)
    if left < since:
        return np.int64(0), np.int64(0)
    flow = exchange_i64(entry + 8, 0)
    if flow == 0 or load_i64(entry) != place + 1:
        return np.int64(0), np.int64(0)
    return flow, left


@jit(nogil=False)
def take_put(ring: int, flows: int, place: int) -> Any:
    """Take the flow of another PE's put at a place; return its number, or 0."""
    entry = _entry(flows, place)
    if load_i64(entry) != place + 1:
        return np.int64(0)
    flow = load_i64(entry + 8)
    if flow & 1 == 0 or flow >> FLOW_PE_SHIFT == load_i64(ring + 8 * W_PE) + 1:
        return np.int64(0)
    if compare_exchange_i64(entry + 8, flow, 0) != flow:
        return np.int64(0)
    return flow


write: Callable[..., None] = entry_when_called(end_now, 6)
write_span: Callable[..., None] = entry_when_called(end_at, 7)
leave: Callable[..., int] = entry_when_called(leave_flow, 4)
take: Callable[..., tuple[int, int]] = entry_when_called(take_flow, 3)
take_from_put: Callable[..., int] = entry_when_called(take_put, 3)
begin_flow: Callable[..., int] = entry_when_called(new_flow, 2)
