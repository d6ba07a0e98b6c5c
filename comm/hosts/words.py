"""The words of requests, as PEs leave them for their agent and as agents send them to each other.

A record is ``WORDS`` 64-bit words, and a payload behind them or in a message of its own. Between agents go only as many of
the words as a kind of records needs: networks send what is short at once, and without an acknowledgement.
"""

from __future__ import annotations

import numpy as np

from emu.comm.layout import MAX_RANK, PAGE

WORDS = 32
RECORD_BYTES = 8 * WORDS
SHORT_BYTES, ANSWER_BYTES = 8 * 16, 8 * 6
"""What goes of a record without a shape and without news; and of an answer."""

# --- kinds of records: what PEs ask for,
PUT, ADD, GET, ATOMIC, MEET, TABLE, PUSH, ELEMENTS = range(1, 9)
# what agents tell each other because of that,
REPLY, MIRROR, NEWS = 16, 17, 18
# and what agents tell each other of themselves.
CONTROL = 32

# --- words of a record
KIND, MODE, NBYTES, ASKER, NUMBER, RESULT = range(6)
"""MODE: how the payload comes; ASKER, NUMBER: who has asked, and which of its requests it is; RESULT: of an answer."""
TARGET, OFFSET, SOURCE, ITEMSIZE, CODE, RANK = range(6, 12)
"""SOURCE: offset in the file of the sender's segment where the payload lies, or is to come; -1: the slot's data."""
SIZE, OPERATION, VALUE, EXPECTED = range(12, 16)
GROUP, MEMBERS, TAG, ROWS = range(12, 16)
SHAPE = 16
STRIDES = SHAPE + MAX_RANK
GENERATION, COUNT = OFFSET, ITEMSIZE
HOW_MANY, LISTS = 14, 15
"""Of elements, with OPERATION: how many there are, and how many words of each go there: places, values, what is expected."""
AREA, MEMBER, WORD, AMOUNT, WAY = range(SHAPE, SHAPE + 5)
"""Of news: offset of a communicator's areas in the heaps, the member whose word has changed, which word, its value, and
one of the ways below in which others hear of it."""
TURN_WORD, RECORD_WORD, FAILURE = range(3)

NOTHING, INLINE, BULK = range(3)
"""Modes of a payload: there is none; behind the record; in a message of its own."""
INLINE_BYTES = 64 << 10
"""Largest payload that is copied, on both sides, to go behind its record: a message of its own costs more, below some 100 KiB."""

# --- ports: a page of words, the records of the slots, then their data
SLOTS = 16
SLOT_DATA = 256 << 10
PORT_RECORDS = PAGE
PORT_DATA = PORT_RECORDS + PAGE
PORT_BYTES = PORT_DATA + SLOTS * SLOT_DATA
SPAN = MODE
"""Of a request in its slot: how many slots it takes, as it uses the data of those behind its own, too; 0: one."""
MOST_SLOTS = 4
"""What a request takes at most: each costs the agents some messages, and what is copied first can be sent first."""
LANES = 2
"""Ports of a PE: that of its program, and that of its communication servers. First come all of the one kind."""
LANE_BIT = 62
"""Bit of NUMBER that says of which lane a request is."""
POSTED, ASLEEP, BELL_PROCESS, BELL_DESCRIPTOR = range(4)
DONE = 8
"""Words of a port: the number of requests so far; of the first port of a host: whether the agent sleeps, and the pipe
that wakes it, as a process and its descriptor; from ``DONE`` on, a cache line for each slot, the number of the
request that was answered last in it, plus 1."""
DIRECT_BYTES = 4 << 20
"""Largest piece of a transfer straight from, or to, the heap."""


def empty_words() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the words of a record in which nothing stands."""
    return np.zeros(WORDS, np.int64)
