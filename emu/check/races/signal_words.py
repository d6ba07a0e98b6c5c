"""Integers that PEs signal with: which clock goes with which value.

Who stores to such a word publishes what it knows; who is seen to have waited for a value, or fetches it, joins that. Of each
word the last few *versions* are kept: the value, the clock, and the chain of put_signals that came with it. A SET starts
anew, an ADD goes on from the version before. A wait that is over joins the *first* version since the one that this PE joined
last whose value satisfies it: that is all the program may count on, whatever has come since. So a wait for one of two
senders does not stand for the other only because that was quick.

The heap's lock is held in all of these functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.check.area import BUCKETS, VERSION_WORDS, VERSIONS, WORDS
from emu.check.races.clocks import (
    S_LINE,
    S_LINES,
    S_N_PES,
    S_PE,
    S_UNSEEN,
    S_WORD_WORDS,
    S_WORDS,
    S_WORDS_BYTES,
    atomic_line,
    current_clock,
    join,
    join_all,
    known_clock,
    ordered_clock,
    put_line,
    state_of,
    tick,
    words_at,
)
from emu.check.races.records import R_NEXT, note_seen, record_at
from emu.comm.sync.signals import holds
from emu.kernels.core.jit import jit

W_OFFSET, W_COUNT = 0, 1
W_SEEN = 4
"""Behind the head: the version that each PE joined last; then the versions."""

V_VALUE, V_CHAIN, V_HOW, V_LINE, V_TIME = range(VERSION_WORDS)
V_CLOCK = VERSION_WORDS
"""Of a version: its value, its chain, how the value came, from which line at which time; then the clock."""

SETS, ADDS, PUTS_WORD = range(3)
"""How a value came: a SET; an ADD, which goes on from the value before; a put, which a wait may be for, but which is
not atomic, so that who fetches the word learns nothing."""


@jit()
def _hash(offset: int) -> Any:
    mixed = np.uint64(offset) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(44))  # 20 bits


@jit()
def find_word(state: int, heap: int, offset: int, make: bool) -> Any:
    """Return the address of what is known of a word; 0: nothing, and ``make`` is false, or there is no room."""
    words = state_of(state)
    base = words[S_WORDS] + heap * words[S_WORDS_BYTES]
    buckets = words_at(base, BUCKETS + 1)
    size = words[S_WORD_WORDS]
    first = base + 8 * (BUCKETS + 8)
    place = _hash(offset)
    for _ in range(BUCKETS):
        index = buckets[place]
        if index == 0:
            if not make or buckets[BUCKETS] + 1 >= WORDS:
                return np.int64(0)
            buckets[BUCKETS] += 1
            index = buckets[BUCKETS]
            buckets[place] = index
            address = first + index * size * 8
            words_at(address, 4)[W_OFFSET] = offset
            return np.int64(address)
        address = first + index * size * 8
        if words_at(address, 4)[W_OFFSET] == offset:
            return np.int64(address)
        place = (place + 1) % BUCKETS
    return np.int64(0)


@jit()
def forget_words(state: int, heap: int, low: int, high: int) -> None:
    """Forget the values of all words of a heap at ``low`` to before ``high``: the memory is freed, and zeroed when it is used again."""
    words = state_of(state)
    base = words[S_WORDS] + heap * words[S_WORDS_BYTES]
    size = words[S_WORD_WORDS]
    for index in range(1, words_at(base, BUCKETS + 1)[BUCKETS] + 1):
        address = base + 8 * (BUCKETS + 8 + index * size)
        about = words_at(address, W_SEEN + words[S_N_PES])
        if low <= about[W_OFFSET] < high:
            about[W_COUNT] = 0
            about[W_SEEN:] = 0


@jit()
def _version(state: int, word: int, number: int) -> Any:
    """Return the address of a version; those after the ``VERSIONS`` last have no memory of their own."""
    words = state_of(state)
    size = V_CLOCK + words[S_LINES]
    place = W_SEEN + words[S_N_PES] + (number % VERSIONS) * size
    return word + 8 * place


@jit()
def publish(state: int, heap: int, offset: int, value: int, how: int, head: int, put: int) -> None:
    """Note that the PE has stored a value to a word, and what it knows.

    Args:
        state: The PE.
        heap: Whose word it is.
        offset: Where.
        value: The new value.
        how: ``SETS``, ``ADDS`` or ``PUTS_WORD``.
        head: First of the parts of a put_signal, a chain of ids; 0: it has none.
        put: The last of them.
    """
    word = find_word(state, heap, offset, True)
    if word:
        about = words_at(word, 4)
        before = _version(state, word, about[W_COUNT])
        last = words_at(before, V_CLOCK)
        has_before = how == ADDS and about[W_COUNT] > 0 and last[V_HOW] != PUTS_WORD
        chain: Any = last[V_CHAIN] if has_before else np.int64(0)
        about[W_COUNT] += 1
        address = _version(state, word, about[W_COUNT])
        version = words_at(address, V_CLOCK)
        known, ordered, current = known_clock(state), ordered_clock(state), current_clock(state)
        clock = words_at(address + 8 * V_CLOCK, known.size)
        if has_before:
            old = words_at(before + 8 * V_CLOCK, clock.size)
            for line in range(clock.size):
                clock[line] = max(old[line], known[line])
        else:
            clock[:] = known
        line = put_line(state, heap)
        clock[line] = max(clock[line], ordered[line])
        line = atomic_line(state)
        clock[line] = max(clock[line], current[line])
        version[V_VALUE] = value
        version[V_HOW] = how
        mine = state_of(state)[S_LINE]
        version[V_LINE], version[V_TIME] = mine, known[mine]
        version[V_CHAIN] = head if put else chain
        if put and chain:
            _chain(state, put, chain)
    current_clock(state)[atomic_line(state)] += 1
    tick(state)


@jit()
def _chain(state: int, put: int, chain: int) -> None:
    record_at(state, put)[R_NEXT] = chain


@jit()
def _join_version(state: int, word: int, number: int) -> None:
    address = _version(state, word, number)
    join(state, address + 8 * V_CLOCK)
    note_seen(state, words_at(address, V_CLOCK)[V_CHAIN])
    words = state_of(state)
    if words[S_LINE] == words[S_PE]:
        words_at(word + 8 * W_SEEN, words[S_N_PES])[words[S_PE]] = number


@jit()
def join_newest(state: int, heap: int, offset: int) -> None:
    """Join what goes with a word's present value."""
    if state_of(state)[S_UNSEEN]:
        join_all(state)
    word = find_word(state, heap, offset, False)
    if word and words_at(word, 4)[W_COUNT]:
        count = words_at(word, 4)[W_COUNT]
        if words_at(_version(state, word, count), V_CLOCK)[V_HOW] != PUTS_WORD:
            _join_version(state, word, count)


@jit()
def join_first(state: int, heap: int, offset: int, size: int, comparison: int, wanted: int) -> None:
    """Join what goes with the first value that satisfies a condition, of those that the PE has not joined."""
    if state_of(state)[S_UNSEEN]:
        join_all(state)
    word = find_word(state, heap, offset, False)
    if word == 0:
        return
    count = words_at(word, 4)[W_COUNT]
    if state_of(state)[S_LINE] != state_of(state)[S_PE]:
        _join_first_of_task(state, word, count, size, comparison, wanted)
        return
    seen = words_at(word + 8 * W_SEEN, state_of(state)[S_N_PES])[state_of(state)[S_PE]]
    oldest = max(seen + 1, count - VERSIONS + 1)
    for number in range(oldest, count + 1):
        value = words_at(_version(state, word, number), V_CLOCK)[V_VALUE]
        if holds(as_compared(value, size), comparison, wanted):
            _join_version(state, word, number)
            return
    if oldest > seen + 1:  # it may have been one that is kept no more
        _join_version(state, word, count)


@jit()
def _join_first_of_task(
    state: int, word: int, count: int, size: int, comparison: int, wanted: int
) -> None:
    """Join what goes with the first value that a task may have seen, and that satisfies a condition.

    Tasks of one PE wait for a word in any order, so what counts is what each knows: it sees the newest value that is known
    to have been there, or a later one.
    """
    known = known_clock(state)
    oldest: Any = max(np.int64(1), count - VERSIONS + 1)
    may_be_lost: Any = oldest > 1
    for number in range(count, oldest - 1, -1):
        version = words_at(_version(state, word, number), V_CLOCK)
        if known[version[V_LINE]] >= version[V_TIME]:
            oldest, may_be_lost = np.int64(number), False
            break
    for number in range(oldest, count + 1):
        value = words_at(_version(state, word, number), V_CLOCK)[V_VALUE]
        if holds(as_compared(value, size), comparison, wanted):
            _join_version(state, word, number)
            return
    if may_be_lost:
        _join_version(state, word, count)


@jit()
def as_compared(value: int, size: int) -> Any:
    """Return a word's bits as :func:`emu.comm.sync.signals.load_word` does."""
    if size == -8:
        return value ^ np.int64(-(2**63))
    if size == -4:
        return value & 0xFFFFFFFF
    return np.int64(value)
