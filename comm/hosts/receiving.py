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
    APPENDED,
    ARRIVING,
    BATCH,
    BATCH_BYTES,
    NOTHING_TO_DO,
    PAYLOAD,
    RECEIVED_BYTES,
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
from emu.kernels.core.address import move_bytes
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
    if at(state, fields.ERROR):  # what has failed may have left no request
        return -1
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
def _bytes_that_came(state: int) -> Any:
    """Return the size of the message of which the status tells."""
    count, byte = at(state, fields.SCRATCH), at(state, fields.BYTE)
    poke(count, 0)
    note_error(state, call_at(at(state, fields.GET_COUNT), (at(state, fields.STATUS), byte, count)))
    return peek(count) & 0xFFFFFFFF


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
    put_at(state, fields.COUNT, _bytes_that_came(state))
    put_at(state, fields.SENDER, sender)
    put_at(state, fields.HOST, row(state, fields.SENDERS, sender))
    memory = row(state, fields.BATCHES, sender)
    put_row(state, fields.BATCHES, sender, at(state, fields.RECEIVED))
    put_at(state, fields.RECEIVED, memory)
    _ask(state, sender)
    add_row(state, fields.HEARD, at(state, fields.HOST), 1)
    put_at(state, fields.DONE, 0)
    put_at(state, fields.APPENDED, 0)
    put_at(state, fields.IS_HERE, 1)
    return True


@jit()
def _append_batch(state: int) -> None:
    """Put the next batch of the same host, if it has come, behind that which is being handled."""
    count, appended = at(state, fields.COUNT), at(state, fields.APPENDED)
    if appended == APPENDED or count + BATCH_BYTES > RECEIVED_BYTES:
        return
    sender = at(state, fields.SENDER)
    request = at(state, fields.REQUESTS) + sender * at(state, fields.REQUEST_BYTES)
    if not has_come(state, request) or at(state, fields.ERROR):
        return
    more = _bytes_that_came(state)
    move_bytes(at(state, fields.RECEIVED) + count, row(state, fields.BATCHES, sender), more)
    put_at(state, fields.COUNT, count + more)
    put_at(state, fields.APPENDED, appended + 1)
    _ask(state, sender)


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
    return at(state, fields.ARRIVALS) + index % ARRIVING * _ARRIVAL_BYTES


@jit()
def _is_apart(state: int, place: int, nbytes: int) -> Any:
    """Return whether memory overlaps with none of that in which payloads arrive."""
    for index in range(at(state, fields.FIRST_ARRIVAL), at(state, fields.N_ARRIVALS)):
        taken = peek(_arrival(state, index) + 8)
        if place < taken + peek(_arrival(state, index) + 16) and taken < place + nbytes:
            return False
    return True


@jit()
def choose_arrival(state: int) -> Any:
    """Choose the payload of the next record, if it may be received together with those that are; return whether it may."""
    first, count = at(state, fields.CHOSEN), at(state, fields.N_ARRIVALS)
    if (
        first >= at(state, fields.COUNT)
        or count - at(state, fields.FIRST_ARRIVAL) == ARRIVING
        or word_of(at(state, fields.RECEIVED) + first, MODE) != BULK
    ):
        return False
    record = at(state, fields.RECEIVED) + first
    place, nbytes = place_of(state, record), word_of(record, NBYTES)
    taken, done = at(state, fields.ROOMS_TAKEN), at(state, fields.ROOMS_DONE)
    if place == 0:
        if taken - done == ROOMS:
            return False
        place = row(state, fields.ROOM, taken % ROOMS)
        put_at(state, fields.ROOMS_TAKEN, taken + 1)
    elif taken != done or not _is_apart(state, place, nbytes):
        return False
    entry = _arrival(state, count)
    poke(entry, 0)
    poke(entry + 8, place)
    poke(entry + 16, nbytes)
    put_at(state, fields.N_ARRIVALS, count + 1)
    put_at(state, fields.CHOSEN, first + bytes_of(record))
    return True


@jit()
def _begin_arrivals(state: int) -> None:
    """Have MPI receive the payloads of the next records that may come now."""
    receive, byte = at(state, fields.IRECV), at(state, fields.BYTE)
    host, communicator = at(state, fields.HOST), at(state, fields.COMMUNICATOR)
    while choose_arrival(state):
        entry = _arrival(state, at(state, fields.N_ARRIVALS) - 1)
        place, nbytes = peek(entry + 8), peek(entry + 16)
        note_error(
            state, call_at(receive, (place, nbytes, byte, host, PAYLOAD, communicator, entry))
        )


@jit()
def _take_arrival(state: int, record: int) -> Any:
    """Return the address and the size of the payload of the next record, or 0 and 0 if it has not come."""
    first = at(state, fields.FIRST_ARRIVAL)
    if first == at(state, fields.N_ARRIVALS):
        put_at(state, fields.CHOSEN, at(state, fields.DONE))
        _begin_arrivals(state)
    entry = _arrival(state, first)
    if not has_come(state, entry):
        # While it comes, the other host may send those behind it, once they are asked for.
        _append_batch(state)
        _begin_arrivals(state)
        return np.int64(0), np.int64(0)
    add_row(state, fields.HEARD, at(state, fields.HOST), 1)
    put_at(state, fields.FIRST_ARRIVAL, first + 1)
    if place_of(state, record) == 0:
        put_at(state, fields.ROOMS_DONE, at(state, fields.ROOMS_DONE) + 1)
    return peek(entry + 8), peek(entry + 16)


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
        payload, nbytes = _take_arrival(state, record)
        if payload == 0:
            return NOTHING_TO_DO, np.int64(0), np.int64(0), np.int64(0)
    put_at(state, fields.DONE, at(state, fields.DONE) + length)
    return WORKED, record, payload, nbytes
