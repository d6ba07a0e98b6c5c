"""Arrivals at barriers that span hosts, in compiled code.

A PE that arrives asks its agent to copy what it has staged to the other hosts, and to have it counted there. The members of
a group on one host are counted together, when the last of them has come; one that calls something else than the first of
them goes alone, so that its tag is seen. Members of one host may be a generation apart (one has passed a barrier as soon as
the others have posted their arrival), not more: so there is a place for even and one for odd generations.

Elsewhere PEs are counted before they count themselves on their own host. So these may let their members pass, and the next
arrivals of one of them may be there before those that the barrier still waits for. They are kept until it has come to their
generation.
"""

from __future__ import annotations

from typing import Any

from emu.comm.hosts import fields
from emu.comm.hosts.sending import collect, has_room
from emu.comm.hosts.state import (
    EARLY,
    NOTHING_TO_DO,
    REQUEST,
    ROOM,
    WORKED,
    at,
    peek,
    poke,
    put_at,
    row,
)
from emu.comm.hosts.steps import arrive_for
from emu.comm.hosts.words import (
    ASKER,
    CODE,
    COUNT,
    GENERATION,
    GROUP,
    KIND,
    MEMBERS,
    MIRROR,
    OFFSET,
    RESULT,
    ROWS,
    SHORT_BYTES,
    TAG,
)
from emu.kernels.atomics import load_i32
from emu.kernels.core.address import move_bytes
from emu.kernels.core.jit import jit

_COUNTED, _ALONE, _TOGETHER = 1, 2, 4
"""Of CODE of a request: its PE was counted here; it goes alone; with it all have come that go together."""
_CAME, _ALIKE, _TAG = range(3)
"""Words of a meeting: members of this host that have come, those of them with the first one's tag, and that tag."""
MEETING_WORDS = 3


@jit()
def _meeting(state: int, slot: int) -> Any:
    """Return the address of the words of a meeting."""
    index = 2 * peek(slot + 8 * GROUP) + (peek(slot + 8 * GENERATION) & 1)
    return at(state, fields.MEETINGS) + 8 * MEETING_WORDS * index


@jit()
def _count(state: int, slot: int) -> None:
    """Count a PE of this host as come, and note in its request who is to be counted elsewhere now."""
    meeting, tag, what = _meeting(state, slot), peek(slot + 8 * TAG), _COUNTED
    came = peek(meeting + 8 * _CAME) + 1
    if came == 1:
        poke(meeting + 8 * _TAG, tag)
        poke(meeting + 8 * _ALIKE, 0)
    if peek(meeting + 8 * _TAG) == tag:
        poke(meeting + 8 * _ALIKE, peek(meeting + 8 * _ALIKE) + 1)
    else:
        what |= _ALONE
    if came == row(state, fields.MEMBERS_HERE, peek(slot + 8 * GROUP)):
        what |= _TOGETHER
        came = 0
    poke(meeting + 8 * _CAME, came)
    poke(slot + 8 * CODE, what)


@jit()
def _send_arrival(state: int, slot: int, host: int, alone: bool) -> None:
    """Have this PE, or those that go together, counted on another host."""
    record, meeting = at(state, fields.REPLY_RECORD), _meeting(state, slot)
    move_bytes(record, slot, SHORT_BYTES)
    poke(record + 8 * COUNT, 1 if alone else peek(meeting + 8 * _ALIKE))
    if not alone:
        poke(record + 8 * TAG, peek(meeting + 8 * _TAG))
    collect(state, host, record, 0, -1)


@jit()
def _mirror(state: int, slot: int, entry: int, host: int) -> None:
    """Copy memory of this segment to the same place of another."""
    record = at(state, fields.REPLY_RECORD)
    move_bytes(record, slot, SHORT_BYTES)
    poke(record + 8 * KIND, MIRROR)
    poke(record + 8 * OFFSET, peek(entry))
    collect(state, host, record, at(state, fields.SEGMENT) + peek(entry), peek(entry + 8))


@jit()
def meet(state: int, slot: int, data: int) -> Any:
    """Do what the MEET in a slot asks for, whose lists are in ``data``.

    Returns:
        ``WORKED``; ``REQUEST`` if Python has to say first how many members are here; or ``ROOM``: call again to go on where the
        request's RESULT says.
    """
    if row(state, fields.MEMBERS_HERE, peek(slot + 8 * GROUP)) == 0:
        return REQUEST
    hosts, count = data + 8, peek(data)
    rows, copies = hosts + 8 * count, peek(slot + 8 * ROWS) * count
    for step in range(peek(slot + 8 * RESULT), copies + 2 * count):
        host, turn = peek(hosts + 8 * (step % count)), step // count
        poke(slot + 8 * RESULT, step)
        if not has_room(state):
            return ROOM
        if step < copies:
            entry = rows + 24 * turn
            only = peek(entry + 16)
            if only < 0 or only == host:
                _mirror(state, slot, entry, host)
            continue
        if peek(slot + 8 * CODE) == 0:
            _count(state, slot)
        alone = step < copies + count
        if peek(slot + 8 * CODE) & (_ALONE if alone else _TOGETHER):
            _send_arrival(state, slot, host, alone)
    return WORKED


@jit()
def _arrive(state: int, me: int, record: int) -> Any:
    """Count PEs as arrived at a barrier; return whether it has come to their generation."""
    group = at(state, fields.GROUPS) + peek(record + 8 * GROUP) * at(state, fields.GROUP_BYTES)
    if load_i32(group + 4) != peek(record + 8 * GENERATION):
        return False
    members, tag = peek(record + 8 * MEMBERS), peek(record + 8 * TAG)
    arrive_for(me, group, members, tag, peek(record + 8 * COUNT))
    return True


@jit()
def arrive(state: int, record: int) -> Any:
    """Count PEs of another host as arrived, now or later; return whether there was room to keep them."""
    if _arrive(state, row(state, fields.BLOCKS, peek(record + 8 * ASKER)), record):
        return True
    count = at(state, fields.N_EARLY)
    if count == EARLY:
        return False
    move_bytes(at(state, fields.EARLY) + SHORT_BYTES * count, record, SHORT_BYTES)
    put_at(state, fields.N_EARLY, count + 1)
    return True


@jit()
def look_again(state: int) -> Any:
    """Count the arrivals that were kept and whose generation has come; return ``WORKED`` if there were some."""
    found, index = NOTHING_TO_DO, 0
    while index < at(state, fields.N_EARLY):
        record = at(state, fields.EARLY) + SHORT_BYTES * index
        if _arrive(state, row(state, fields.BLOCKS, peek(record + 8 * ASKER)), record):
            left = at(state, fields.N_EARLY) - 1
            move_bytes(record, at(state, fields.EARLY) + SHORT_BYTES * left, SHORT_BYTES)
            put_at(state, fields.N_EARLY, left)
            found = WORKED
        else:
            index += 1
    return found
