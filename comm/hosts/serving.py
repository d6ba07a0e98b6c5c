"""The agent's rounds, in compiled code: requests of PEs here are sent, and what other hosts ask for is done.

What is short and frequent is done here: puts, ADDs, atomic operations and gets of dense memory, mirrors, arrivals at barriers, and
answers. All else is left to Python: :func:`serve` returns, says what is next, and is called again (:mod:`emu.comm.hosts.agent`).
It also returns when there is nothing to do for a while, so that Python sleeps, and at the latest after the time that it is given.

After work the agent looks again and again for some time, and yields the core between two looks: most work comes in
chains (an answer is followed by the next request), and a sleep and a wake take longer than a link of such a chain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.comm.hosts import fields
from emu.comm.hosts.meeting import arrive, look_again, meet
from emu.comm.hosts.receiving import (
    heap_of,
    next_record,
    place_of,
    receive_batch,
    slot_of,
    word_of,
)
from emu.comm.hosts.sending import collect, flush_all, forget_sent, has_room, reply
from emu.comm.hosts.state import (
    FAILED,
    IDLE,
    LATE,
    NOTHING_TO_DO,
    RECORD,
    REQUEST,
    ROOM,
    WORKED,
    add_row,
    at,
    data_at,
    poke,
    put_at,
    put_row,
    row,
    slot_at,
)
from emu.comm.hosts.steps import notify, publish
from emu.comm.hosts.words import (
    ADD,
    ASKER,
    ATOMIC,
    BULK,
    CODE,
    DONE,
    ELEMENTS,
    EXPECTED,
    GET,
    ITEMSIZE,
    KIND,
    LANE_BIT,
    MEET,
    MIRROR,
    MODE,
    NBYTES,
    NUMBER,
    OFFSET,
    OPERATION,
    PORT_BYTES,
    POSTED,
    PUT,
    RANK,
    REPLY,
    RESULT,
    SIZE,
    SLOTS,
    SOURCE,
    SPAN,
    TARGET,
    VALUE,
)
from emu.comm.sync.clock import clock_ns
from emu.comm.sync.futex import sched_yield
from emu.comm.sync.signals import atomic, put_bytes
from emu.kernels.atomics import load_i64, store_i64
from emu.kernels.core.address import move_bytes
from emu.kernels.core.c_calls import call_at
from emu.kernels.core.jit import entry_when_called, jit

_TAKEN_AT_ONCE = 8
"""Requests of one PE that are taken before those of the next."""
_RECORDS_AT_ONCE = 64
"""Records that are handled before requests are looked at again."""
_LOOKS = 4
"""Least number of looks that find nothing before there is nothing to do: MPI may need one to read what it tells in the next."""
_EARLY_NS = 1_000_000
"""For so long after work the agent does not rest while arrivals wait for their generation, which nobody tells."""
_SENDING_NS = 300_000
"""For so long after a large payload began to go the agent does not rest: MPI sends it in its calls only."""


@jit()
def finish(state: int, index: int, number: int, slot: int, result: int) -> None:
    """Answer a request of a PE here."""
    poke(slot + 8 * RESULT, result)
    port = at(state, fields.PORTS) + index * PORT_BYTES
    pe = at(state, fields.FIRST_LOCAL) + index % at(state, fields.N_LOCAL)
    for more in range(number + 1, number + word_of(slot, SPAN)):
        store_i64(port + 8 * (DONE + 8 * (more % SLOTS)), more + 1)
    publish(at(state, fields.ME), port + 8 * (DONE + 8 * (number % SLOTS)), number + 1, pe)


@jit()
def _take(state: int, index: int, slot: int, data: int) -> Any:
    """Send the request in a slot of a port; return ``WORKED``, or ``REQUEST`` or ``ROOM``, and then nothing was done."""
    kind = word_of(slot, KIND)
    if kind not in (PUT, ADD, GET, ATOMIC, MEET, ELEMENTS):
        put_at(state, fields.INDEX, index)
        return REQUEST
    if not has_room(state):
        return ROOM
    number, local = row(state, fields.TAKEN, index), at(state, fields.N_LOCAL)
    lane, place = index // local, index % local
    poke(slot + 8 * ASKER, at(state, fields.FIRST_LOCAL) + place)
    poke(slot + 8 * NUMBER, number | lane << LANE_BIT)
    if kind == MEET:
        found = meet(state, slot, data)
        if found == WORKED:
            put_row(state, fields.TAKEN, index, number + 1)
            finish(state, index, number, slot, 0)
        else:
            put_at(state, fields.INDEX, index)
        return found
    put_row(state, fields.TAKEN, index, number + max(1, word_of(slot, SPAN)))
    host = row(state, fields.HOST_OF, word_of(slot, TARGET))
    payload, nbytes = 0, -1
    if kind in (PUT, ADD, ELEMENTS) and word_of(slot, NBYTES):
        nbytes, source = word_of(slot, NBYTES), word_of(slot, SOURCE)
        payload = data if source < 0 else at(state, fields.SEGMENT) + source
    collect(state, host, slot, payload, nbytes)
    return WORKED


@jit()
def _take_requests(state: int) -> Any:
    """Send what PEs have asked for; return ``NOTHING_TO_DO`` or what :func:`_take` returns."""
    found = NOTHING_TO_DO
    for index in range(at(state, fields.N_PORTS)):
        port = at(state, fields.PORTS) + index * PORT_BYTES
        number = row(state, fields.TAKEN, index)
        posted = min(load_i64(port + 8 * POSTED), number + _TAKEN_AT_ONCE)
        while number < posted:
            found = _take(state, index, slot_at(port, number), data_at(port, number))
            if found != WORKED:
                return found
            number = row(state, fields.TAKEN, index)
    return found


@jit()
def _take_reply(state: int, record: int, payload: int, nbytes: int) -> None:
    index, number, slot, _ = slot_of(state, record)
    if nbytes and word_of(record, MODE) != BULK:
        move_bytes(place_of(state, record), payload, nbytes)
    finish(state, index, number, slot, word_of(record, RESULT))


@jit()
def _handle(state: int, record: int, payload: int, nbytes: int) -> Any:
    """Do what a record asks for, and answer; return whether that was done, else Python has to."""
    kind, host = word_of(record, KIND), at(state, fields.HOST)
    if kind == REPLY:
        _take_reply(state, record, payload, nbytes)
        return True
    if kind == MIRROR:
        if word_of(record, MODE) != BULK and nbytes:
            move_bytes(place_of(state, record), payload, nbytes)
        return True
    if kind not in (MEET, PUT, ADD, GET, ATOMIC):
        return False
    if kind == MEET:
        return arrive(state, record)
    me = row(state, fields.BLOCKS, word_of(record, ASKER))
    pe, offset = word_of(record, TARGET), word_of(record, OFFSET)
    if kind == ATOMIC:
        size, operation = word_of(record, SIZE), word_of(record, OPERATION)
        value, expected = word_of(record, VALUE), word_of(record, EXPECTED)
        old = atomic(me, pe, offset, size, operation, value, expected)
        reply(state, host, record, old, 0, -1)
        return True
    if word_of(record, RANK):
        return False
    if kind == GET:
        reply(state, host, record, 0, heap_of(state, record), word_of(record, NBYTES))
        return True
    result = 0
    if kind == ADD:
        header, code, size = (
            at(state, fields.HEADER),
            word_of(record, CODE),
            word_of(record, ITEMSIZE),
        )
        poke(header + 8 * 2, payload)
        result = call_at(at(state, fields.ADD_DENSE), (me, pe, offset, header, code, size, nbytes))
    elif word_of(record, MODE) == BULK:
        notify(me, pe)
    else:
        put_bytes(me, pe, offset, payload, nbytes)
    reply(state, host, record, result, 0, -1)
    return True


@jit()
def _receive(state: int) -> Any:
    """Do what has come; return ``NOTHING_TO_DO``, ``WORKED``, ``RECORD`` or ``ROOM``."""
    if not receive_batch(state):
        return NOTHING_TO_DO
    for count in range(_RECORDS_AT_ONCE):
        if not has_room(state):
            return ROOM
        found, record, payload, nbytes = next_record(state)
        if found != WORKED:
            return WORKED if count else NOTHING_TO_DO
        if not _handle(state, record, payload, nbytes):
            put_at(state, fields.RECORD, record)
            put_at(state, fields.CONTENT, payload)
            put_at(state, fields.CONTENT_BYTES, nbytes)
            return RECORD
        add_row(state, fields.HANDLED, word_of(record, ASKER), 1)
    return WORKED


@jit()
def _is_idle(state: int, now: int) -> Any:
    """Return whether there has been nothing to do for a while, after a round that found nothing."""
    looks = at(state, fields.LOOKS) + 1
    put_at(state, fields.LOOKS, looks)
    if looks < _LOOKS or now - at(state, fields.WORKED_AT) < at(state, fields.SPIN_NS):
        return False
    if at(state, fields.N_EARLY) and now - at(state, fields.WORKED_AT) < _EARLY_NS:
        return False
    is_sending = at(state, fields.SENT_HEAD) < at(state, fields.SENT_TAIL)
    return not is_sending or now - at(state, fields.PAYLOAD_AT) > _SENDING_NS


@jit()
def rounds(state: int, limit_ns: int) -> Any:
    """Do what there is to do, until Python has to do something, or for the given time; return one of the codes of ``state``."""
    begun = clock_ns()
    while True:
        found = _take_requests(state)
        if found == WORKED:
            flush_all(state)  # who waits for it has waited longer than for what is received now
        if found <= WORKED:
            found = max(found, _receive(state))
        if found <= WORKED and at(state, fields.N_EARLY):
            found = max(found, look_again(state))
        if found == ROOM or found <= WORKED:
            flush_all(state)
            forget_sent(state)
        if at(state, fields.ERROR):
            return FAILED
        now = clock_ns()
        if found != NOTHING_TO_DO:
            put_at(state, fields.WORKED_AT, now)
            put_at(state, fields.LOOKS, 0)
            if found > WORKED:
                return found
        elif _is_idle(state, now):
            return IDLE
        else:
            sched_yield()
        if now - begun > limit_ns:
            return LATE


serve: Callable[..., int] = entry_when_called(rounds, 2)
