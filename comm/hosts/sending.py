"""Records on their way to other hosts, in compiled code: collected to batches, which MPI sends.

A large payload is a message of its own, which is sent from where it lies. Messages of one kind between two hosts do not
overtake each other, so that the n-th large payload is that of the n-th record that announces one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.hosts import fields
from emu.comm.hosts.state import (
    BATCH,
    BATCH_BYTES,
    NOTHING_TO_DO,
    PAYLOAD,
    SLACK,
    add_row,
    at,
    peek,
    poke,
    put_at,
    put_row,
    row,
)
from emu.comm.hosts.words import (
    ANSWER_BYTES,
    ASKER,
    BULK,
    CONTROL,
    INLINE,
    INLINE_BYTES,
    KIND,
    MODE,
    NBYTES,
    NEWS,
    NOTHING,
    NUMBER,
    RANK,
    RECORD_BYTES,
    REPLY,
    RESULT,
    SHORT_BYTES,
)
from emu.comm.sync.clock import clock_ns
from emu.kernels.core.address import array_data, as_pointer, move_bytes
from emu.kernels.core.c_calls import call_at
from emu.kernels.core.jit import carray, jit


@jit()
def note_error(state: int, code: int) -> Any:
    """Keep what MPI returned if it is no success; return it."""
    code &= 0xFFFFFFFF  # an int
    if code != 0:
        put_at(state, fields.ERROR, code)
    return code


@jit()
def has_room(state: int) -> Any:
    """Return whether a record and its answer can be sent now."""
    in_flight = at(state, fields.SENT_TAIL) - at(state, fields.SENT_HEAD)
    return (
        at(state, fields.N_FREE) >= SLACK
        and in_flight + SLACK <= at(state, fields.SENDING_MASK) + 1
    )


@jit()
def _start(state: int, memory: int, nbytes: int, host: int, tag: int, free: int) -> None:
    """Have MPI send memory; ``free`` is what can be used again when it has gone, or 0."""
    tail = at(state, fields.SENT_TAIL)
    entry = at(state, fields.SENDING) + 16 * (tail & at(state, fields.SENDING_MASK))
    poke(entry, 0)
    poke(entry + 8, free)
    send, byte, communicator = (
        at(state, fields.ISEND),
        at(state, fields.BYTE),
        at(state, fields.COMMUNICATOR),
    )
    note_error(state, call_at(send, (memory, nbytes, byte, host, tag, communicator, entry)))
    put_at(state, fields.SENT_TAIL, tail + 1)


@jit()
def flush_host(state: int, host: int) -> None:
    """Send what was collected for a host."""
    memory = row(state, fields.OPEN, host)
    if memory != 0:
        _start(state, memory, row(state, fields.USED, host), host, BATCH, memory)
        put_row(state, fields.OPEN, host, 0)


@jit()
def flush_all(state: int) -> None:
    """Send what was collected for all hosts."""
    for host in range(at(state, fields.N_HOSTS)):
        flush_host(state, host)


@jit()
def _open(state: int, host: int, room: int) -> Any:
    """Return where so many bytes more for a host have room."""
    memory = row(state, fields.OPEN, host)
    if memory != 0 and row(state, fields.USED, host) + room > BATCH_BYTES:
        flush_host(state, host)
        memory = np.int64(0)
    if memory == 0:
        left = at(state, fields.N_FREE) - 1
        memory = row(state, fields.FREE, left)
        put_at(state, fields.N_FREE, left)
        put_row(state, fields.OPEN, host, memory)
        put_row(state, fields.USED, host, 0)
    used = row(state, fields.USED, host)
    put_row(state, fields.USED, host, used + room)
    return memory + used


@jit()
def bytes_of(record: int) -> Any:
    """Return how much of a record goes from host to host."""
    kind = peek(record + 8 * KIND)
    if kind == REPLY:
        return ANSWER_BYTES
    return RECORD_BYTES if kind == NEWS or peek(record + 8 * RANK) else SHORT_BYTES


@jit()
def collect(state: int, host: int, words: int, payload: int, nbytes: int) -> None:
    """Send a record soon; :func:`has_room` has said that it can be.

    Args:
        state: The state.
        host: Who gets it.
        words: Address of the record, which is copied.
        payload: Address of its payload. Of up to ``INLINE_BYTES`` it is copied, more must stay as it is until the other host has
            answered.
        nbytes: Size of the payload; -1: there is none, and NBYTES of the record stays as it is.
    """
    mode = NOTHING if nbytes <= 0 else INLINE if nbytes <= INLINE_BYTES else BULK
    length = bytes_of(words)
    record = _open(state, host, length + ((nbytes + 7) & -8 if mode == INLINE else 0))
    move_bytes(record, words, length)
    if nbytes >= 0:
        poke(record + 8 * NBYTES, nbytes)
    poke(record + 8 * MODE, mode)
    if peek(record + 8 * KIND) != CONTROL:
        add_row(state, fields.SENT, peek(record + 8 * ASKER), 1)
    if mode == INLINE:
        move_bytes(record + length, payload, nbytes)
    elif mode == BULK:
        # First the record: the other host asks for the payload then, and MPI need not keep it for later (a copy).
        flush_host(state, host)
        _start(state, payload, nbytes, host, PAYLOAD, 0)
        put_at(state, fields.PAYLOAD_AT, clock_ns())


@jit()
def reply(state: int, host: int, record: int, result: int, payload: int, nbytes: int) -> None:
    """Answer a record of another host; the last two are those of :func:`collect`."""
    words = at(state, fields.REPLY_RECORD)
    answer = carray(as_pointer(words), (ANSWER_BYTES // 8,), np.int64)
    answer[:] = 0
    answer[KIND], answer[ASKER] = REPLY, peek(record + 8 * ASKER)
    answer[NUMBER] = peek(record + 8 * NUMBER)
    answer[RESULT] = result
    collect(state, host, words, payload, nbytes)


@jit()
def forget_sent(state: int) -> None:
    """Give up the memory of messages that have gone, in the order in which they were sent."""
    head, tail = at(state, fields.SENT_HEAD), at(state, fields.SENT_TAIL)
    while head < tail:
        entry = at(state, fields.SENDING) + 16 * (head & at(state, fields.SENDING_MASK))
        if not has_come(state, entry):
            break
        memory = peek(entry + 8)
        if memory != 0:
            free = at(state, fields.N_FREE)
            put_row(state, fields.FREE, free, memory)
            put_at(state, fields.N_FREE, free + 1)
        head += 1
    put_at(state, fields.SENT_HEAD, head)


@jit()
def has_come(state: int, request: int) -> Any:
    """Return whether the message of a request, which stands at an address, has come or gone.

    After an error nothing is asked: what has failed may have left no request, and for Open MPI that is an address.
    """
    if at(state, fields.ERROR):
        return False
    flag = at(state, fields.SCRATCH)
    poke(flag, 0)
    note_error(state, call_at(at(state, fields.TEST), (request, flag, at(state, fields.STATUS))))
    return (peek(flag) & 0xFFFFFFFF) != 0


@jit()
def send_record(state: int, host: int, words: int, payload: int, nbytes: int) -> int:
    """Send a record of Python's: ``words`` and ``payload`` are the ``id()`` of arrays; return 0, or 1 if there is no room.

    With ``nbytes`` -1 there is no payload, and any ``payload`` will do.
    """
    forget_sent(state)
    if not has_room(state):
        return 1
    source = array_data(payload) if nbytes > 0 else 0
    collect(state, host, array_data(words), source, nbytes)
    return NOTHING_TO_DO
