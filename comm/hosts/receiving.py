"""Records that come from other hosts, in compiled code: a batch at a time, and the large payloads of its records.

No call waits: what has not come whole is asked for again in the next round, so that a host that died keeps nobody.

Records are done in their order. What goes straight to where it belongs may be there before its turn, so only such
payloads are received ahead together whose places do not overlap, with nothing in between that reads or writes memory. What is
handled first (ADD, strided tiles) waits in a room of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.hosts import fields
from emu.comm.hosts.sending import bytes_of, has_come, note_error
from emu.comm.hosts.state import (
    ARRIVING,
    BATCH,
    BATCH_BYTES,
    NOTHING_TO_DO,
    PAYLOAD,
    ROOMS,
    WORKED,
    add_row,
    at,
    data_at,
    peek,
    poke,
    put_at,
    put_row,
    row,
    slot_at,
)
from emu.comm.hosts.words import (
    ASKER,
    BULK,
    INLINE,
    KIND,
    LANE_BIT,
    MIRROR,
    MODE,
    NBYTES,
    NUMBER,
    OFFSET,
    PORT_BYTES,
    PUT,
    RANK,
    REPLY,
    SOURCE,
    TABLE,
    TARGET,
)
from emu.kernels.core.c_calls import call_at
from emu.kernels.core.jit import jit

_ARRIVAL_BYTES = 8 * 3


@jit()
def word_of(record: int, place: int) -> Any:
    """Load a word of a record."""
    return peek(record + 8 * place)


@jit()
def _ask(state: int, sender: int) -> None:
    """Have MPI receive the next batch of another host; what it has asked for comes without a copy."""
    receive, memory = at(state, fields.IRECV), row(state, fields.BATCHES, sender)
    host, byte = row(state, fields.SENDERS, sender), at(state, fields.BYTE)
    communicator = at(state, fields.COMMUNICATOR)
    request = at(state, fields.REQUESTS) + sender * at(state, fields.REQUEST_BYTES)
    note_error(
        state, call_at(receive, (memory, BATCH_BYTES, byte, host, BATCH, communicator, request))
    )


@jit()
def _look(state: int) -> Any:
    """Return the number of a sender whose batch has come, or -1."""
    count, first = at(state, fields.N_SENDERS), at(state, fields.FIRST_SENDER)
    while at(state, fields.N_ASKED) < count:
        _ask(state, at(state, fields.N_ASKED))
        put_at(state, fields.N_ASKED, at(state, fields.N_ASKED) + 1)
    put_at(state, fields.FIRST_SENDER, 0)
    requests = at(state, fields.REQUESTS) + first * at(state, fields.REQUEST_BYTES)
    found, status = at(state, fields.SCRATCH), at(state, fields.STATUS)
    poke(found, -1)
    poke(found + 8, 0)
    test = at(state, fields.TESTANY)
    note_error(state, call_at(test, (count - first, requests, found, found + 8, status)))
    sender = first + (peek(found) & 0xFFFFFFFF)
    if peek(found + 8) & 0xFFFFFFFF == 0 or sender >= count:  # MPI_UNDEFINED is negative
        return -1
    return sender


@jit()
def receive_batch(state: int) -> Any:
    """Look for a batch; return whether the records of one are here."""
    if at(state, fields.IS_HERE):
        return True
    sender = _look(state)
    if sender < 0 or at(state, fields.ERROR):
        return False
    # Who has sent is looked at last in the next look, else one host could keep the agent from hearing others.
    put_at(state, fields.FIRST_SENDER, (sender + 1) % at(state, fields.N_SENDERS))
    count, byte = at(state, fields.SCRATCH), at(state, fields.BYTE)
    poke(count, 0)
    note_error(state, call_at(at(state, fields.GET_COUNT), (at(state, fields.STATUS), byte, count)))
    put_at(state, fields.COUNT, peek(count) & 0xFFFFFFFF)
    put_at(state, fields.HOST, row(state, fields.SENDERS, sender))
    memory = row(state, fields.BATCHES, sender)
    put_row(state, fields.BATCHES, sender, at(state, fields.RECEIVED))
    put_at(state, fields.RECEIVED, memory)
    _ask(state, sender)
    add_row(state, fields.HEARD, at(state, fields.HOST), 1)
    put_at(state, fields.DONE, 0)
    put_at(state, fields.IS_HERE, 1)
    return True


@jit()
def slot_of(state: int, record: int) -> Any:
    """Return the index of the port that the request of a reply came through, its number there, its slot, and its data."""
    asker, number = word_of(record, ASKER), word_of(record, NUMBER)
    lane = number >> LANE_BIT
    number &= (1 << LANE_BIT) - 1
    index = lane * at(state, fields.N_LOCAL) + asker - at(state, fields.FIRST_LOCAL)
    port = at(state, fields.PORTS) + index * PORT_BYTES
    return index, number, slot_at(port, number), data_at(port, number)


@jit()
def place_of(state: int, record: int) -> Any:
    """Return the address at which a payload goes as it is; 0: it needs to be handled."""
    kind = word_of(record, KIND)
    if kind == REPLY:
        _, _, slot, data = slot_of(state, record)
        source = word_of(slot, SOURCE)
        if word_of(slot, KIND) == TABLE or source < 0:
            return data
        return at(state, fields.SEGMENT) + source
    if kind == MIRROR:
        return at(state, fields.SEGMENT) + word_of(record, OFFSET)
    if kind == PUT and word_of(record, RANK) == 0:
        return heap_of(state, record)
    return np.int64(0)


@jit()
def heap_of(state: int, record: int) -> Any:
    """Return the address of the memory in a heap here that a record is about."""
    heap = at(state, fields.HEAPS) + word_of(record, TARGET) * at(state, fields.STRIDE)
    return heap + word_of(record, OFFSET)


@jit()
def _arrival(state: int, index: int) -> Any:
    """Return the address of one of the payloads that are being received."""
    return at(state, fields.ARRIVALS) + index * _ARRIVAL_BYTES


@jit()
def _is_apart(state: int, count: int, place: int, nbytes: int) -> Any:
    """Return whether memory overlaps with none of that in which the first ``count`` payloads arrive."""
    for index in range(count):
        taken = peek(_arrival(state, index) + 8)
        if place < taken + peek(_arrival(state, index) + 16) and taken < place + nbytes:
            return False
    return True


@jit()
def choose_arrivals(state: int, first: int) -> int:
    """Choose the payloads that may be received together with that of the record at ``first`` of the batch; return their number."""
    memory, end = at(state, fields.RECEIVED), at(state, fields.COUNT)
    count = rooms = 0
    while first < end and count < ARRIVING:
        record = memory + first
        if word_of(record, MODE) != BULK:
            break
        nbytes = word_of(record, NBYTES)
        place = place_of(state, record)
        if place == 0:
            if rooms == ROOMS:
                break
            place = row(state, fields.ROOM, rooms)
            rooms += 1
        elif rooms or not _is_apart(state, count, place, nbytes):
            break
        poke(_arrival(state, count), 0)
        poke(_arrival(state, count) + 8, place)
        poke(_arrival(state, count) + 16, nbytes)
        count += 1
        first += bytes_of(record)
    return count


@jit()
def _begin_arrivals(state: int) -> None:
    """Have MPI receive the payload of the next record, and those that may come together with it."""
    count = choose_arrivals(state, at(state, fields.DONE))
    put_at(state, fields.FIRST_ARRIVAL, 0)
    put_at(state, fields.N_ARRIVALS, count)
    receive, byte = at(state, fields.IRECV), at(state, fields.BYTE)
    host, communicator = at(state, fields.HOST), at(state, fields.COMMUNICATOR)
    for index in range(count):
        entry = _arrival(state, index)
        place, nbytes = peek(entry + 8), peek(entry + 16)
        note_error(
            state, call_at(receive, (place, nbytes, byte, host, PAYLOAD, communicator, entry))
        )


@jit()
def next_record(state: int) -> Any:
    """Take the next record of the batch whose payload is here.

    Returns:
        ``WORKED`` if there was one, else ``NOTHING_TO_DO``; the addresses of the record and of its payload; the latter's size.
    """
    if at(state, fields.DONE) >= at(state, fields.COUNT):
        put_at(state, fields.IS_HERE, 0)
        return NOTHING_TO_DO, np.int64(0), np.int64(0), np.int64(0)
    record = at(state, fields.RECEIVED) + at(state, fields.DONE)
    mode, nbytes = word_of(record, MODE), np.int64(0)
    payload, length = np.int64(0), np.int64(bytes_of(record))
    if mode == INLINE:
        nbytes, payload = word_of(record, NBYTES), record + length
        length += (nbytes + 7) & -8
    elif mode == BULK:
        if at(state, fields.FIRST_ARRIVAL) == at(state, fields.N_ARRIVALS):
            _begin_arrivals(state)
        entry = _arrival(state, at(state, fields.FIRST_ARRIVAL))
        if not has_come(state, entry):
            return NOTHING_TO_DO, np.int64(0), np.int64(0), np.int64(0)
        add_row(state, fields.HEARD, at(state, fields.HOST), 1)
        put_at(state, fields.FIRST_ARRIVAL, at(state, fields.FIRST_ARRIVAL) + 1)
        payload, nbytes = peek(entry + 8), peek(entry + 16)
    put_at(state, fields.DONE, at(state, fields.DONE) + length)
    return WORKED, record, payload, nbytes
