"""What a PE does, as compiled code: each function notes one operation, and does it where it is atomic."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.check.races import clocks
from emu.check.races.clocks import (
    S_CHAINS,
    S_FOUND,
    S_LOCKS,
    S_ME,
    S_PE,
    state_of,
    words_at,
)
from emu.check.races.records import (
    ATOMIC,
    ATOMICS,
    OPEN,
    PROGRAM,
    R_LINE,
    R_NEXT,
    R_SERIAL,
    R_TIME,
    SERIAL_BITS,
    WRITES,
    line_of,
    new_record,
    record_at,
    separate_record,
    time_of,
)
from emu.check.races.shadow import touch_run, touch_tile
from emu.check.races.signal_words import (
    ADDS,
    PUTS_WORD,
    SETS,
    forget_words,
    join_first,
    join_newest,
    publish,
)
from emu.comm.layout import B_HEAPS, B_N_PES, B_STRIDE, LINE
from emu.comm.sync import locks, signal_numbers, signals
from emu.kernels.atomics import load_i32, load_i64
from emu.kernels.core.address import array_data
from emu.kernels.core.jit import entry_when_called, jit

FETCHES = 9
"""In the place of a line: the program's own, which learns what goes with the word."""


@jit()
def lock(state: int, heap: int) -> None:
    """Take the lock of a heap."""
    words = state_of(state)
    locks.acquire(words[S_ME], words[S_LOCKS] + heap * LINE)


@jit()
def unlock(state: int, heap: int) -> None:
    """Release the lock of a heap."""
    locks.release(state_of(state)[S_LOCKS] + heap * LINE)


@jit()
def _touch(
    state: int, heap: int, offset: int, walk: int, span: int, identity: int, kind: int, sends: int
) -> None:
    """Note an access of a tile, or without a walk of ``span`` bytes, while the heap is locked."""
    lock(state, heap)
    if walk:
        touch_tile(state, heap, offset, walk, identity, kind, sends)
    else:
        touch_run(state, heap, offset, offset + span, identity, kind, sends)
    unlock(state, heap)


@jit()
def _sends(purpose: int) -> Any:
    """Return 1 of lines on which a PE sends, for which its fences count, 0 of others."""
    return np.int64(1 if purpose >= ATOMICS else 0)


@jit(nogil=False)
def touch(
    state: int, heap: int, offset: int, walk: int, purpose: int, kind: int, site: int, span: int
) -> Any:
    """Note an access of a tile; return the number of findings.

    Args:
        state: The PE.
        heap: Whose heap it is.
        offset: Of the first element.
        walk: As :func:`emu.check.races.shadow.touch_tile` takes it; 0: ``span`` bytes.
        purpose: Kind of the line.
        kind: Kind of the access.
        site: Number of the line of the program.
        span: Bytes from the first to behind the last.
    """
    words = state_of(state)
    words[S_FOUND] = 0
    identity = new_record(state, purpose, heap, kind, site, offset, offset + span)
    _touch(state, heap, offset, walk, span, identity, kind, _sends(purpose))
    return words[S_FOUND]


@jit()
def _touch_source(state: int, address: int, nbytes: int, purpose: int, site: int) -> None:
    """Note a read of dense memory, if it is in a heap."""
    me = state_of(state)[S_ME]
    first, stride = locks.word(me, B_HEAPS), locks.word(me, B_STRIDE)
    place = address - first
    if place < 0 or place >= stride * locks.word(me, B_N_PES):
        return
    heap = place // stride
    offset = place - heap * stride
    _touch_dense(state, heap, offset, nbytes, purpose, 0, site)


@jit()
def _touch_dense(
    state: int, heap: int, offset: int, nbytes: int, purpose: int, kind: int, site: int
) -> None:
    """Note an access of dense memory."""
    identity = new_record(state, purpose, heap, kind, site, offset, offset + nbytes)
    _touch(state, heap, offset, 0, nbytes, identity, kind, _sends(purpose))


@jit(nogil=False)
def put_dense(
    state: int, heap: int, offset: int, source: int, nbytes: int, purpose: int, site: int
) -> Any:
    """Do, and note, the put of a dense ndarray, given by its ``id()``; return the number of findings."""
    words = state_of(state)
    words[S_FOUND] = 0
    signals.put_dense(words[S_ME], heap, offset, source, nbytes)
    _touch_source(state, array_data(source), nbytes, PROGRAM, site)
    _touch_dense(state, heap, offset, nbytes, purpose, WRITES, site)
    return words[S_FOUND]


@jit(nogil=False)
def add_dense(
    state: int,
    heap: int,
    offset: int,
    source: int,
    arithmetic: int,
    size: int,
    nbytes: int,
    purpose: int,
    kind: int,
    site: int,
) -> Any:
    """Do, and note, the ADD of a dense ndarray; return the number of findings, negative less 1 if a lock was recovered."""
    words = state_of(state)
    words[S_FOUND] = 0
    me = words[S_ME]
    recovered = signals.add_dense(me, heap, offset, source, arithmetic, size, nbytes)
    _touch_source(state, array_data(source), nbytes, PROGRAM, site)
    _touch_dense(state, heap, offset, nbytes, purpose, kind, site)
    return -1 - words[S_FOUND] if recovered else words[S_FOUND]


@jit(nogil=False)
def get_dense(state: int, heap: int, offset: int, target: int, nbytes: int, site: int) -> Any:
    """Do, and note, the get of dense memory into a new ndarray; return the number of findings."""
    words = state_of(state)
    words[S_FOUND] = 0
    signals.get_dense(words[S_ME], heap, offset, target, nbytes)
    _touch_dense(state, heap, offset, nbytes, PROGRAM, 0, site)
    return words[S_FOUND]


@jit(nogil=False)
def come(state: int, rows: int, member: int, parity: int, barrier: int, completes: int) -> Any:
    """Note that the PE comes to a barrier or a collective; return the number of the meeting.

    Args:
        state: The PE.
        rows: Address of the group's rows.
        member: Its number in the group.
        parity: Which of its two rows to use.
        barrier: Address of the group's barrier, whose generation cannot change before all members have come.
        completes: Whether all that it has sent is complete.
    """
    if completes:
        clocks.quiet(state)
    meeting: Any = (np.int64(load_i32(barrier + 4)) << 1) | 1  # never the 0 of fresh memory
    size = clocks.row_bytes(state)
    clocks.publish_row(state, rows + (2 * member + parity) * size, meeting)
    return meeting


@jit(nogil=False)
def part(state: int, rows: int, first: int, behind: int, meeting: int) -> None:
    """Note that the PE leaves it, after what members ``first`` to before ``behind`` did before they came."""
    for member in range(first, behind):
        clocks.join_rows(state, rows, member, meeting)


@jit(nogil=False)
def address_of(array: int) -> Any:
    """Return the address of the data of the ndarray with an ``id()``."""
    return array_data(array)


@jit(nogil=False)
def touch_elements(
    state: int, heap: int, offsets: int, count: int, size: int, kind: int, site: int
) -> Any:
    """Note the program's access of elements at an array of offsets; return the number of findings."""
    words = state_of(state)
    words[S_FOUND] = 0
    places = words_at(offsets, count)
    identity = new_record(state, PROGRAM, heap, kind, site, np.min(places), np.max(places) + size)
    lock(state, heap)
    for place in places:
        touch_run(state, heap, place, place + size, identity, kind, 0)
    unlock(state, heap)
    return words[S_FOUND]


@jit()
def _load(state: int, heap: int, offset: int, size: int) -> Any:
    me = state_of(state)[S_ME]
    address = locks.word(me, B_HEAPS) + heap * locks.word(me, B_STRIDE) + offset
    return np.int64(load_i32(address)) if abs(size) == 4 else load_i64(address)


@jit(nogil=False)
def atomic(
    state: int,
    heap: int,
    offset: int,
    size: int,
    operation: int,
    value: int,
    expected: int,
    site: int,
    purpose: int,
    kind: int,
) -> Any:
    """Do, and note, an atomic operation; return the old value. Findings are left in the state.

    Args:
        state: The PE.
        heap: Whose word it is.
        offset: Where.
        size: Bytes of the word.
        operation: As :func:`emu.comm.sync.signals.atomic` has it.
        value: Operand.
        expected: Of a compare-and-swap.
        site: Number of the line of the program.
        purpose: Kind of the line; ``FETCHES``: the call gives the old value, and so is over when it returns.
        kind: Class of atomic operations that the word's dtype has, shifted.
    """
    words = state_of(state)
    words[S_FOUND] = 0
    lock(state, heap)
    old = signals.atomic(words[S_ME], heap, offset, size, operation, value, expected)
    writes = operation != signal_numbers.FETCH and (
        operation != signal_numbers.CAS or old == expected
    )
    if purpose == FETCHES:
        join_newest(state, heap, offset)
        purpose = PROGRAM
    kind = kind | ATOMIC | (WRITES if writes else 0)
    identity = new_record(state, purpose, heap, kind, site, offset, offset + size)
    touch_run(state, heap, offset, offset + size, identity, kind, _sends(purpose))
    if writes:
        how = ADDS if operation == signal_numbers.ADD else SETS
        publish(state, heap, offset, _load(state, heap, offset, size), how, 0, 0)
    unlock(state, heap)
    return old


@jit(nogil=False)
def signal_put(
    state: int,
    heap: int,
    offset: int,
    size: int,
    operation: int,
    value: int,
    site: int,
    head: int,
    put: int,
    kind: int,
) -> Any:
    """Do, and note, the signal of a put_signal, whose chain begins and ends with ids; return the number of findings."""
    words = state_of(state)
    words[S_FOUND] = 0
    if head != put:
        record_at(state, head)[R_NEXT] = put
    lock(state, heap)
    signals.atomic(words[S_ME], heap, offset, size, operation, value, 0)
    kind = kind | ATOMIC | WRITES
    identity = new_record(state, ATOMICS, heap, kind, site, offset, offset + size)
    touch_run(state, heap, offset, offset + size, identity, kind, 1)
    how = ADDS if operation == signal_numbers.ADD else SETS
    publish(state, heap, offset, _load(state, heap, offset, size), how, head, put)
    unlock(state, heap)
    return words[S_FOUND]


@jit(nogil=False)
def touch_separately(
    state: int, heap: int, offset: int, walk: int, purpose: int, kind: int, site: int, span: int
) -> Any:
    """Note a part of a put_signal; return its id."""
    words = state_of(state)
    words[S_FOUND] = 0
    line = line_of(state, purpose, heap)
    identity = separate_record(state, line, heap, kind, site, offset, offset + span)
    _touch(state, heap, offset, walk, span, identity, kind, _sends(purpose))
    return identity


@jit(nogil=False)
def open_scope(
    state: int, heap: int, offset: int, walk: int, kind: int, site: int, span: int
) -> Any:
    """Note an access of the program that goes on until :func:`close_scope`; return its id."""
    words = state_of(state)
    words[S_FOUND] = 0
    line = line_of(state, PROGRAM, heap)
    identity = separate_record(state, line, heap, kind, site, offset, offset + span)
    record_at(state, identity)[R_TIME] = OPEN
    _touch(state, heap, offset, walk, span, identity, kind, 0)
    return identity


@jit(nogil=False)
def close_scope(
    state: int, heap: int, offset: int, walk: int, kind: int, identity: int, span: int
) -> Any:
    """Note that such an access is over; return the number of findings."""
    words = state_of(state)
    words[S_FOUND] = 0
    lock(state, heap)
    record = record_at(state, identity)
    is_known = record[R_SERIAL] == identity & ((1 << SERIAL_BITS) - 1)
    if is_known:
        record[R_TIME] = time_of(state, record[R_LINE])
    unlock(state, heap)
    if is_known:  # again: what the PE wrote itself in between took its place
        _touch(state, heap, offset, walk, span, identity, kind, 0)
    return words[S_FOUND]


@jit(nogil=False)
def begin_store(state: int, heap: int) -> None:
    """Keep others from a heap's words while one is put."""
    lock(state, heap)


@jit(nogil=False)
def end_store(
    state: int, heap: int, offset: int, size: int, purpose: int, site: int, value: int
) -> Any:
    """Note the put of one integer, which others may wait for; return the number of findings."""
    words = state_of(state)
    words[S_FOUND] = 0
    line = line_of(state, purpose, heap)
    identity = separate_record(state, line, heap, WRITES, site, offset, offset + size)
    touch_run(state, heap, offset, offset + size, identity, WRITES, 1)
    publish(state, heap, offset, value, PUTS_WORD, identity, identity)
    unlock(state, heap)
    return words[S_FOUND]


@jit(nogil=False)
def wait(
    state: int,
    heap: int,
    offset: int,
    size: int,
    comparison: int,
    wanted: int,
    site: int,
    kind: int,
) -> Any:
    """Note a wait that is over; return the number of findings."""
    words = state_of(state)
    words[S_FOUND] = 0
    kind = kind | ATOMIC
    nbytes = abs(size)
    lock(state, heap)
    join_first(state, heap, offset, size, comparison, wanted)
    identity = new_record(state, PROGRAM, heap, kind, site, offset, offset + nbytes)
    touch_run(state, heap, offset, offset + nbytes, identity, kind, 0)
    unlock(state, heap)
    return words[S_FOUND]


@jit(nogil=False)
def take_lock(state: int, heap: int, offset: int) -> None:
    """Note that the PE got a lock."""
    lock(state, heap)
    join_newest(state, heap, offset)
    unlock(state, heap)


@jit(nogil=False)
def give_lock(state: int, heap: int, offset: int) -> None:
    """Note that the PE, all of whose stores are complete, is about to release a lock."""
    clocks.quiet(state)
    lock(state, heap)
    publish(state, heap, offset, 0, SETS, 0, 0)
    unlock(state, heap)


@jit(nogil=False)
def free(state: int, clock: int, low: int, high: int) -> None:
    """Note that the PE, all of whose stores are complete, frees memory.

    Args:
        state: The PE.
        clock: Address of a common clock, which then has what the PE knows.
        low: Where the memory begins in the PE's heap.
        high: Where it ends.
    """
    clocks.quiet(state)
    heap = state_of(state)[S_PE]
    lock(state, heap)
    forget_words(state, heap, low, high)
    unlock(state, heap)
    lock(state, 0)
    known = clocks.known_clock(state)
    common = words_at(clock, known.size)
    for line in range(known.size):
        common[line] = max(common[line], known[line])
    unlock(state, 0)
    clocks.tick(state)


@jit(nogil=False)
def allocate(state: int, clock: int) -> None:
    """Note that the PE got memory: all that was freed before is over."""
    lock(state, 0)
    clocks.join(state, clock)
    unlock(state, 0)


@jit(nogil=False)
def use_chains(state: int, chains: int) -> None:
    """Let all clocks have room for a number of chains."""
    lock(state, 0)
    used = words_at(state_of(state)[S_CHAINS], 1)
    used[0] = max(used[0], chains)
    unlock(state, 0)


begin = entry_when_called(clocks.begin, 1)
fence = entry_when_called(clocks.fence, 1)
quiet = entry_when_called(clocks.quiet, 1)
mark_unseen = entry_when_called(clocks.mark_unseen, 1)
join_all = entry_when_called(clocks.join_all, 1)
do_put_dense = entry_when_called(put_dense, 7)
do_add_dense = entry_when_called(add_dense, 10)
do_get_dense = entry_when_called(get_dense, 6)
do_come = entry_when_called(come, 6)
do_part = entry_when_called(part, 5)
do_address_of = entry_when_called(address_of, 1)
do_touch = entry_when_called(touch, 8)
do_touch_elements = entry_when_called(touch_elements, 7)
do_atomic = entry_when_called(atomic, 10)
do_signal_put = entry_when_called(signal_put, 10)
do_touch_separately = entry_when_called(touch_separately, 8)
do_open_scope = entry_when_called(open_scope, 7)
do_close_scope = entry_when_called(close_scope, 7)
do_begin_store = entry_when_called(begin_store, 2)
do_end_store = entry_when_called(end_store, 7)
do_wait = entry_when_called(wait, 8)
do_take_lock = entry_when_called(take_lock, 3)
do_give_lock = entry_when_called(give_lock, 3)
do_free = entry_when_called(free, 4)
do_allocate = entry_when_called(allocate, 2)
do_use_chains = entry_when_called(use_chains, 2)
