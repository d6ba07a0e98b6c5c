"""Shadow of the heaps: the accesses of each byte that a later one may conflict with.

Each granule of 64 bytes has two numbers. Where they are not negative, they are the ids of the last write and of the last
read since, of all its bytes; 0: there was none. So a dense transfer compares, and writes, two numbers a granule. A
negative first number leads to a list of *entries*, each with the id of an access, a mask of the bytes that it is of, and
its kind: accesses of some bytes, of several readers, and atomic ones are there. Granules that have the same accesses share a
list, and what comes to a run of them is compared with it once; the first entry of a list counts the granules, and a list
of several is copied before one of them changes it.

What is forgotten, without losing a race between others (``A`` is in the list, ``X`` comes):

* X is a plain write: all; what conflicts with A and is not ordered after it is not ordered after X either, or X raced with A;
* X is a plain read: plain reads A that are ordered before X, or earlier on its line; what does not come after A does
  not come after X;
* X is atomic: atomic A of its class for which that holds and that are no more than X is: a write stays when a read comes.
  Plain accesses stay: another atomic operation may race with those.

The heap's lock is held in all of these functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.check.area import ENTRY_WORDS, GRANULE, GRANULE_BITS
from emu.check.races.clocks import (
    FINDINGS,
    S_ENTRIES,
    S_ENTRIES_BYTES,
    S_ENTRIES_MOST,
    S_FINDINGS,
    S_FOUND,
    S_LOST,
    S_PE,
    S_SHADOW,
    S_SHADOW_BYTES,
    state_of,
    words_at,
)
from emu.check.races.records import (
    ATOMIC,
    CLASS_SHIFT,
    OPEN,
    R_KIND,
    R_LINE,
    R_TIME,
    SERIAL_BITS,
    WRITES,
    is_over,
    record_at,
)
from emu.kernels.core.address import move_bytes
from emu.kernels.core.jit import jit
from emu.kernels.strided.access_plan import MAX_AXES
from emu.kernels.strided.odometer import stack_counters

E_MASK, E_ID, E_KIND, E_NEXT, E_GRANULES = range(ENTRY_WORDS)
"""``E_GRANULES`` counts, in the first entry of a list, the granules that have it."""

_BLOCK = 32
"""Granules that are looked at, and written, at once where they have the same accesses."""

WHOLE = -1
"""The mask of all bytes of a granule."""


@jit()
def _entry(entries: int, index: int) -> Any:
    return words_at(entries + index * 8 * ENTRY_WORDS, ENTRY_WORDS)


@jit()
def _new_entry(
    state: int, entries: int, mask: int, identity: int, kind: int, following: int
) -> Any:
    """Return the index of a new entry; 0: there is no room, and the access is not remembered."""
    head = words_at(entries, 2)  # entry 0 is none
    index = head[1]
    if index:
        head[1] = _entry(entries, index)[E_NEXT]
    else:
        if head[0] + 1 >= state_of(state)[S_ENTRIES_MOST]:
            state_of(state)[S_LOST] = 1
            return np.int64(0)
        head[0] += 1
        index = head[0]
    entry = _entry(entries, index)
    entry[E_MASK], entry[E_ID], entry[E_KIND], entry[E_NEXT] = mask, identity, kind, following
    return np.int64(index)


@jit()
def _free_entry(entries: int, index: int) -> None:
    head = words_at(entries, 2)
    _entry(entries, index)[E_NEXT] = head[1]
    head[1] = index


@jit()
def _own_list(state: int, entries: int, head: int) -> Any:
    """Return a list that one granule alone has, for one of those that have the list at ``head``."""
    if _entry(entries, head)[E_GRANULES] == 1:
        return np.int64(head)
    _entry(entries, head)[E_GRANULES] -= 1
    first: Any = np.int64(0)
    last: Any = np.int64(0)
    index: Any = np.int64(head)
    while index:
        entry = _entry(entries, index)
        new = _new_entry(state, entries, entry[E_MASK], entry[E_ID], entry[E_KIND], 0)
        if last:
            _entry(entries, last)[E_NEXT] = new
        else:
            first = new
        last = new
        index = entry[E_NEXT] if new else np.int64(0)
    return first


@jit()
def _leave_list(entries: int, head: int, granules: int) -> None:
    """Note that so many granules have a list no more."""
    _entry(entries, head)[E_GRANULES] -= granules
    index: Any = np.int64(head if _entry(entries, head)[E_GRANULES] == 0 else 0)
    while index:
        following = _entry(entries, index)[E_NEXT]
        _free_entry(entries, index)
        index = following


@jit()
def kind_of(state: int, identity: int) -> Any:
    """Return the kind of an access; as a plain write where its record is gone, which is ordered before all."""
    return record_at(state, identity)[R_KIND]


@jit()
def _conflict(one: int, other: int) -> bool:
    """Return whether accesses of two kinds conflict if they are of the same bytes."""
    if (one | other) & WRITES == 0:
        return False
    return one & other & ATOMIC == 0 or one >> CLASS_SHIFT != other >> CLASS_SHIFT


@jit()
def _find(state: int, other: int, identity: int, heap: int, granule: int, mask: int) -> None:
    """Leave a finding: two accesses that nothing orders."""
    words = state_of(state)
    if (other >> SERIAL_BITS) - 1 == words[S_PE] and record_at(state, other)[R_TIME] == OPEN:
        return  # inside of a scope of the PE's own
    count = words[S_FOUND]
    for number in range(min(count, FINDINGS)):
        if (
            words[S_FINDINGS + 5 * number] == other
            and words[S_FINDINGS + 5 * number + 1] == identity
        ):
            return
    if count < FINDINGS:
        at = S_FINDINGS + 5 * count
        words[at] = other
        words[at + 1] = identity
        words[at + 2] = heap
        words[at + 3] = granule
        words[at + 4] = mask
        words[S_FOUND] = count + 1


@jit()
def _is_before(state: int, other: int, identity: int) -> Any:
    """Return whether an access is an earlier one of a later one's line: what is after the later is after both."""
    one, two = record_at(state, other), record_at(state, identity)
    return one[R_LINE] == two[R_LINE] and one[R_TIME] <= two[R_TIME]


@jit()
def _is_forgotten(kind: int, other: int, over: bool) -> bool:
    """Return whether an access of kind ``other`` is forgotten when one of ``kind`` comes; see the head of this file."""
    if kind & ATOMIC == 0:
        return kind & WRITES != 0 or (over and other & (WRITES | ATOMIC) == 0)
    alike = other & ATOMIC != 0 and kind >> CLASS_SHIFT == other >> CLASS_SHIFT
    return over and alike and other & WRITES <= kind & WRITES


@jit()
def _granule(state: int, heap: int, granule: int) -> Any:
    """Return the address of a granule's numbers."""
    words = state_of(state)
    return words[S_SHADOW] + heap * words[S_SHADOW_BYTES] + granule * 16


@jit()
def touch_part(
    state: int, heap: int, granule: int, mask: int, identity: int, kind: int, sends: int
) -> None:
    """Note an access of some bytes of a granule."""
    words = state_of(state)
    entries = words[S_ENTRIES] + heap * words[S_ENTRIES_BYTES]
    pair = words_at(_granule(state, heap, granule), 2)
    head: Any = np.int64(0)
    if pair[0] < 0:
        head = _own_list(state, entries, -pair[0])
    else:
        if pair[1]:
            head = _new_entry(state, entries, WHOLE, pair[1], kind_of(state, pair[1]), head)
        if pair[0]:
            head = _new_entry(state, entries, WHOLE, pair[0], kind_of(state, pair[0]), head)
    before: Any = np.int64(0)
    mine: Any = np.int64(0)
    index = head
    while index:
        entry = _entry(entries, index)
        following = entry[E_NEXT]
        if entry[E_ID] == identity and entry[E_KIND] == kind:
            mine = index
        elif entry[E_MASK] & mask and entry[E_ID] != identity:
            over = is_over(state, entry[E_ID], sends)
            if not over and _conflict(kind, entry[E_KIND]):
                _find(state, entry[E_ID], identity, heap, granule, entry[E_MASK] & mask)
            if _is_forgotten(kind, entry[E_KIND], over or _is_before(state, entry[E_ID], identity)):
                entry[E_MASK] &= ~mask
        if entry[E_MASK] == 0:
            if before:
                _entry(entries, before)[E_NEXT] = following
            else:
                head = following
            _free_entry(entries, index)
        else:
            before = index
        index = following
    if mine:
        _entry(entries, mine)[E_MASK] |= mask
    else:
        new = _new_entry(state, entries, mask, identity, kind, head)
        head = new if new else head
    _settle(state, entries, pair, head)


@jit()
def _settle(state: int, entries: int, pair: Any, head: int) -> None:
    """Store a list in a granule's numbers, as two ids if that says the same."""
    pair[1] = 0
    if head == 0:
        pair[0] = 0
        return
    pair[0] = -head
    first = _entry(entries, head)
    first[E_GRANULES] = 1
    if first[E_MASK] != WHOLE:
        return
    second = first[E_NEXT]
    if second == 0:
        if first[E_KIND] & WRITES:
            pair[0] = first[E_ID]
        else:
            pair[0], pair[1] = 0, first[E_ID]
        _free_entry(entries, head)
        return
    other = _entry(entries, second)
    reads_then_written = first[E_KIND] == 0 and other[E_KIND] == WRITES
    if other[E_MASK] == WHOLE and other[E_NEXT] == 0 and reads_then_written:
        pair[0], pair[1] = other[E_ID], first[E_ID]
        _free_entry(entries, second)
        _free_entry(entries, head)


@jit()
def _touch_alike(
    state: int,
    heap: int,
    first: int,
    pairs: Any,
    place: int,
    identity: int,
    kind: int,
    sends: int,
) -> Any:
    """Note an access of whole granules, from ``place`` on, as far as they have the same accesses; return the place behind."""
    last_write, last_read = pairs[2 * place], pairs[2 * place + 1]
    behind: Any = np.int64(place + 1)
    while (
        behind < pairs.size // 2
        and pairs[2 * behind] == last_write
        and pairs[2 * behind + 1] == last_read
    ):
        behind += 1
    touch_part(state, heap, first + place, WHOLE, identity, kind, sends)
    more = behind - place - 1
    if more:
        wrote, read = pairs[2 * place], pairs[2 * place + 1]
        for number in range(place + 1, behind):
            pairs[2 * number] = wrote
            pairs[2 * number + 1] = read
        words = state_of(state)
        entries = words[S_ENTRIES] + heap * words[S_ENTRIES_BYTES]
        if wrote < 0:
            _entry(entries, -wrote)[E_GRANULES] += more
        if last_write < 0:
            _leave_list(entries, -last_write, more)
    return behind


@jit()
def _mask(low: int, high: int) -> Any:
    """Return the mask of bytes ``low`` to before ``high`` of a granule."""
    if high - low >= GRANULE:
        return np.int64(WHOLE)
    return np.int64(((1 << (high - low)) - 1) << low)


@jit()
def touch_run(
    state: int, heap: int, low: int, high: int, identity: int, kind: int, sends: int
) -> None:
    """Note an access of bytes ``low`` to before ``high`` of a heap."""
    first, last = low >> GRANULE_BITS, (high - 1) >> GRANULE_BITS
    inside = GRANULE - 1
    if first == last:
        mask = _mask(low & inside, ((high - 1) & inside) + 1)
        touch_part(state, heap, first, mask, identity, kind, sends)
        return
    if low & inside:
        touch_part(state, heap, first, _mask(low & inside, GRANULE), identity, kind, sends)
        first += 1
    if high & inside:
        touch_part(state, heap, last, _mask(0, high & inside), identity, kind, sends)
        last -= 1
    pairs = words_at(_granule(state, heap, first), 2 * (last - first + 1))
    if kind == WRITES:
        _write_granules(state, heap, first, pairs, identity, sends)
    elif kind == 0:
        _read_granules(state, heap, first, pairs, identity, sends)
    else:
        _update_granules(state, heap, first, pairs, identity, kind, sends)


@jit()
def _is_uniform(block: Any) -> Any:
    """Return whether all granules of a block have the same two numbers; LLVM compiles it to a few vectors."""
    differ = np.int64(0)
    for place in range(2 * _BLOCK - 2):
        differ |= block[place] ^ block[place + 2]
    return differ == 0


@jit()
def _write_granules(
    state: int, heap: int, first: int, pairs: Any, identity: int, sends: int
) -> None:
    """Note a plain write of whole granules; neighbours mostly have the same accesses, which are looked at once."""
    wrote, read = np.int64(0), np.int64(0)  # known to be over, or told
    written: Any = np.int64(-1)  # address of a block that has been written
    shadow = _granule(state, heap, first)
    place, count = 0, pairs.size // 2
    while place < count:
        last_write, last_read = pairs[2 * place], pairs[2 * place + 1]
        if last_write < 0:
            place = _touch_alike(state, heap, first, pairs, place, identity, WRITES, sends)
            continue
        if last_write != wrote:
            if last_write not in (0, identity) and not is_over(state, last_write, sends):
                _find(state, last_write, identity, heap, first + place, WHOLE)
            wrote = last_write
        if last_read != read:
            if last_read not in (0, identity) and not is_over(state, last_read, sends):
                _find(state, last_read, identity, heap, first + place, WHOLE)
            read = last_read
        block = pairs[2 * place : 2 * (place + _BLOCK)]
        if count - place < _BLOCK or not _is_uniform(block):
            pairs[2 * place] = identity
            pairs[2 * place + 1] = 0
            place += 1
            continue
        if written < 0:
            for number in range(_BLOCK):
                block[2 * number] = identity
                block[2 * number + 1] = 0
            written = shadow + 16 * place
        else:  # LLVM makes no vectors of the loop
            move_bytes(shadow + 16 * place, written, 16 * _BLOCK)
        place += _BLOCK


@jit()
def _read_granules(
    state: int, heap: int, first: int, pairs: Any, identity: int, sends: int
) -> None:
    """Note a plain read of whole granules."""
    wrote, read = np.int64(0), np.int64(0)
    place, count = 0, pairs.size // 2
    while place < count:
        last_write, last_read = pairs[2 * place], pairs[2 * place + 1]
        if last_write < 0 or not _is_replaced(state, last_read, read, identity, sends):
            place = _touch_alike(state, heap, first, pairs, place, identity, 0, sends)
            continue
        read = last_read
        if last_write != wrote:
            if last_write not in (0, identity) and not is_over(state, last_write, sends):
                _find(state, last_write, identity, heap, first + place, WHOLE)
            wrote = last_write
        block = pairs[2 * place : 2 * (place + _BLOCK)]
        if count - place < _BLOCK or not _is_uniform(block):
            pairs[2 * place + 1] = identity
            place += 1
            continue
        if last_read != identity:
            for number in range(_BLOCK):
                block[2 * number + 1] = identity
        place += _BLOCK


@jit()
def _is_replaced(state: int, other: int, known: Any, identity: int, sends: int) -> bool:
    """Return whether a plain read takes the place of the last read; ``known`` is one of which it does."""
    if other in (0, known, identity):
        return True
    if kind_of(state, other) != 0:
        return False
    return is_over(state, other, sends) or _is_before(state, other, identity)


@jit()
def _update_granules(
    state: int, heap: int, first: int, pairs: Any, identity: int, kind: int, sends: int
) -> None:
    """Note an atomic access of whole granules, such as the ADD of a tile."""
    place: Any = np.int64(0)
    while place < pairs.size // 2:
        place = _touch_alike(state, heap, first, pairs, place, identity, kind, sends)


@jit()
def touch_tile(
    state: int, heap: int, offset: int, walk: int, identity: int, kind: int, sends: int
) -> None:
    """Note an access of a tile of a heap.

    Args:
        state: The PE.
        heap: Whose heap it is.
        offset: Of the first element.
        walk: Address of words: bytes of a run, number of axes, and for each axis, innermost last, its extent and stride.
        identity: The access.
        kind: Its kind.
        sends: Whether it is sent: then the PE's fences count.
    """
    head = words_at(walk, 2)
    run, rank = head[0], head[1]
    if rank == 0:
        touch_run(state, heap, offset, offset + run, identity, kind, sends)
        return
    axes = words_at(walk + 16, 2 * rank)
    counters = words_at(stack_counters(), MAX_AXES)
    counters[:] = 0
    inner, stride = axes[2 * rank - 2], axes[2 * rank - 1]
    at = offset
    while True:
        _touch_row(state, heap, at, run, inner, stride, identity, kind, sends)
        axis = rank - 2
        while axis >= 0:
            counters[axis] += 1
            at += axes[2 * axis + 1]
            if counters[axis] < axes[2 * axis]:
                break
            at -= counters[axis] * axes[2 * axis + 1]
            counters[axis] = 0
            axis -= 1
        if axis < 0:
            return


@jit()
def _touch_row(
    state: int,
    heap: int,
    offset: int,
    run: int,
    count: int,
    stride: int,
    identity: int,
    kind: int,
    sends: int,
) -> None:
    """Note an access of runs at regular distances; short ones of a granule together."""
    if run >= GRANULE:
        for number in range(count):
            low = offset + number * stride
            touch_run(state, heap, low, low + run, identity, kind, sends)
        return
    granule: Any = np.int64(-1)
    mask: Any = np.int64(0)
    for number in range(count):
        low = offset + number * stride
        high = low + run
        if low >> GRANULE_BITS != granule:
            if mask:
                touch_part(state, heap, granule, mask, identity, kind, sends)
            granule, mask = low >> GRANULE_BITS, np.int64(0)
        begin = low & (GRANULE - 1)
        if begin + run <= GRANULE:
            mask |= _mask(begin, begin + run)
        else:
            touch_part(state, heap, granule, mask | _mask(begin, GRANULE), identity, kind, sends)
            granule, mask = granule + 1, _mask(0, high & (GRANULE - 1))
    if mask:
        touch_part(state, heap, granule, mask, identity, kind, sends)
