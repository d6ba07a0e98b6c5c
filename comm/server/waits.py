"""The waits of communication servers and of their compute sides, and what ends them.

A server that has to wait publishes which word of which member it waits for, and sleeps on a bell of
its own, apart from its PE's doorbell: compute and server don't wake each other. Whoever stores a
word looks at what the others wait for, and wakes only those whose wait is over. On a machine
with more PEs than cores useless wakes would cost more than the copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.arrays import Words
from emu.comm.layout import B_SLICE_S, B_YIELDS
from emu.comm.server.words import (
    ALL_RECORDS,
    ANSWERED,
    AWAITED_VALUE,
    AWAITED_WORD,
    CLOSING,
    DECODED,
    FAILED,
    OWN_WORD,
    PULLED,
    RECORDS,
    SLOTS,
    SPINS,
    WANTED,
    WORDS_PER_MEMBER,
)
from emu.comm.sync.futex import futex_wait, futex_wake, pause
from emu.comm.sync.locks import word
from emu.comm.sync.signals import ALL_SLEEPERS, begin_sleep, end_sleep, relax, ring, stopped
from emu.kernels.atomics import add_i32, fence, load_i32, load_i64, store_i64
from emu.kernels.core.jit import jit

INCOMPLETE, AGREED, DIFFERENT = 0, 1, 2
"""Results of :func:`await_records`."""

NOT_DONE, DONE, SERVER_FAILED = 0, 1, 2
"""Results of :func:`await_done`."""


@jit()
def publish(me: int, areas: Words, my: int, index: int, value: int) -> None:
    """Store a word of this member's area, and wake the servers that waited for it."""
    store_i64(areas[my] + 8 * index, value)
    fence()
    code = my * WORDS_PER_MEMBER + index
    for pe in range(areas.size):
        area = areas[pe]
        if pe != my and load_i32(area + 4) != 0:
            wanted = load_i64(area + 8 * AWAITED_WORD)
            if wanted == code and value >= load_i64(area + 8 * AWAITED_VALUE):
                ring_server(area)


@jit(
    nogil=False
)  # the server needs the GIL to read the message: let whoever prepares it finish first
def post(areas: Words, my: int, index: int, value: int) -> None:
    """Store a word of the compute side and wake its own server."""
    store_i64(areas[my] + 8 * index, value)
    fence()
    ring_server(areas[my])


@jit()
def load_member_word(areas: Words, my: int, index: int) -> Any:
    """Load a word of a member's area; what the member stored before that word is visible then."""
    return load_i64(areas[my] + 8 * index)


@jit()
def ring_server(area: int) -> None:
    """Wake the server of an area if it sleeps; call it after a store and a full barrier."""
    if load_i32(area + 4) != 0:
        add_i32(area, np.int32(1))
        futex_wake(area, ALL_SLEEPERS)


@jit()
def _begin_server_sleep(area: int, code: int, value: int) -> None:
    """Publish what the server waits for, and that it sleeps; it looks once more before it does."""
    store_i64(area + 8 * AWAITED_WORD, code)
    store_i64(area + 8 * AWAITED_VALUE, value)
    add_i32(area + 4, np.int32(1))


@jit()
def _end_server_sleep(area: int) -> None:
    add_i32(area + 4, np.int32(-1))


@jit()
def _must_end(me: int, area: int) -> Any:
    """Return whether the world was stopped, or the server shall end."""
    return stopped(me) or load_i64(area + 8 * CLOSING) != 0


@jit()
def await_word(me: int, areas: Words, my: int, pe: int, index: int, target: int) -> Any:
    """Wait in the server until a member's word has reached ``target``.

    Returns:
        Whether it has; False: the server must end.
    """
    address, area = areas[pe] + 8 * index, areas[my]
    for _ in range(load_i64(area + 8 * SPINS) + 1):
        if load_i64(address) >= target:
            return True
        pause()
    _begin_server_sleep(area, OWN_WORD if pe == my else pe * WORDS_PER_MEMBER + index, target)
    while True:
        bell = load_i32(area)
        found = load_i64(address) >= target
        if found or _must_end(me, area):
            break
        futex_wait(area, bell, me + 8 * B_SLICE_S)
    _end_server_sleep(area)
    return found


@jit()
def _differ(areas: Words, one: int, other: int, number: int, width: int, agreed: int) -> bool:
    """Return whether two members' records of a task differ in the words that must be the same."""
    start = 8 * (RECORDS + (number % SLOTS) * width)
    for index in range(agreed):
        if load_i64(areas[one] + start + 8 * index) != load_i64(areas[other] + start + 8 * index):
            return True
    return False


@jit()
def publish_record(me: int, areas: Words, my: int, decoded: int, width: int, agreed: int) -> None:
    """Publish that the record of task ``decoded - 1`` stands.

    Of the servers that wait for the records of this task, the last member to come wakes all, and one
    whose record differs wakes those from whose it does.

    Args:
        me: Address of this PE's block.
        areas: Address of every member's area, ``int64[n]``.
        my: This member.
        decoded: Number of records of this member that stand now.
        width: Words of a record.
        agreed: Number of words, from the first, that must be the same on every member.
    """
    store_i64(areas[my] + 8 * DECODED, decoded)
    fence()
    complete = True
    for pe in range(areas.size):
        if load_i64(areas[pe] + 8 * DECODED) < decoded:
            complete = False
    for pe in range(areas.size):
        area = areas[pe]
        if pe == my or load_i32(area + 4) == 0 or load_i64(area + 8 * AWAITED_WORD) != ALL_RECORDS:
            continue
        if load_i64(area + 8 * AWAITED_VALUE) == decoded and (
            complete or _differ(areas, my, pe, decoded - 1, width, agreed)
        ):
            ring_server(area)


@jit()
def _compare_records(areas: Words, my: int, decoded: int, width: int, agreed: int) -> int:
    """Compare the records of task ``decoded - 1`` that stand with this member's."""
    complete = True
    for pe in range(areas.size):
        if load_i64(areas[pe] + 8 * DECODED) < decoded:
            complete = False
        elif pe != my and _differ(areas, my, pe, decoded - 1, width, agreed):
            return DIFFERENT
    return AGREED if complete else INCOMPLETE


@jit()
def await_records(me: int, areas: Words, my: int, decoded: int, width: int, agreed: int) -> int:
    """Wait for every member's record of task ``decoded - 1``; for the arguments see :func:`publish_record`.

    Returns:
        ``AGREED`` when all stand and agree, ``DIFFERENT`` as soon as one of them differs, ``INCOMPLETE``: the
        server must end.
    """
    area = areas[my]
    for _ in range(load_i64(area + 8 * SPINS) + 1):
        outcome = _compare_records(areas, my, decoded, width, agreed)
        if outcome != INCOMPLETE:
            return outcome
        pause()
    _begin_server_sleep(area, ALL_RECORDS, decoded)
    while True:
        bell = load_i32(area)  # before the look: a ring in between ends the sleep at once
        outcome = _compare_records(areas, my, decoded, width, agreed)
        if outcome != INCOMPLETE or _must_end(me, area):
            break
        futex_wait(area, bell, me + 8 * B_SLICE_S)
    _end_server_sleep(area)
    return outcome


# --- the compute side's waits -----------------------------------------------------------------


@jit()
def count_done(areas: Words, my: int) -> Any:
    """Return the number of turns that are done: pulled by every member, and answered here."""
    least = load_i64(areas[my] + 8 * ANSWERED)
    for pe in range(areas.size):
        least = min(least, load_i64(areas[pe] + 8 * PULLED))
    return least


@jit()
def wake_waiters(me: int, areas: Words, worlds: Words) -> None:
    """Wake the compute sides for which the turn that they sleep for is now pulled by all."""
    least = load_i64(areas[0] + 8 * PULLED)
    for pe in range(1, areas.size):
        least = min(least, load_i64(areas[pe] + 8 * PULLED))
    for pe in range(areas.size):
        wanted = load_i64(areas[pe] + 8 * WANTED)
        if wanted != 0 and wanted <= least:
            ring(me, worlds[pe])


@jit()
def _look_for_done(areas: Words, my: int, target: int) -> int:
    if count_done(areas, my) >= target:
        return DONE
    return SERVER_FAILED if load_i64(areas[my] + 8 * FAILED) != 0 else NOT_DONE


@jit()
def await_done(me: int, areas: Words, my: int, target: int, resumed: bool) -> int:
    """Wait in the compute side until ``target`` turns are done.

    Returns:
        ``DONE``; ``SERVER_FAILED``; or ``NOT_DONE`` after a slice or a stop: then call again
        with ``resumed``, or :func:`leave_wait`.
    """
    area = areas[my]
    if not resumed:
        for spin in range(load_i64(area + 8 * SPINS) + word(me, B_YIELDS) + 1):
            outcome = _look_for_done(areas, my, target)
            if outcome != NOT_DONE:
                return outcome
            relax(me, spin)
        begin_sleep(me)
        store_i64(area + 8 * WANTED, target)
        fence()
    while True:
        bell = load_i32(me)
        outcome = _look_for_done(areas, my, target)
        if outcome != NOT_DONE or stopped(me):
            break
        futex_wait(me, bell, me + 8 * B_SLICE_S)
        if load_i32(me) == bell:
            break
    if outcome != NOT_DONE:
        leave_wait(me, area, outcome == DONE)
    return outcome


@jit()
def leave_wait(me: int, area: int, progress: bool) -> None:
    """End a wait of the compute side."""
    store_i64(area + 8 * WANTED, 0)
    end_sleep(me, 1 if progress else 0)
