"""The words of an area, by their numbers; the launcher knows them too, and loads no compiled code."""

from __future__ import annotations

from emu.comm.layout import SERVERS_NAME

NAME = SERVERS_NAME
"""Name and key of the array of areas."""

# --- words of an area. Each line of eight words has one writer.
# Word 0 is the server's bell: an int32 event counter, and behind it an int32 that says whether it sleeps.
AWAITED_WORD, AWAITED_VALUE = 1, 2
"""What the sleeping server waits for: the code of a word (see ``WORDS_PER_MEMBER``), and the least value that ends the wait."""
SPINS = 3
"""Number of pauses that a server makes before it sleeps."""
POSTED, CLOSING, WANTED = 8, 9, 10
"""Written by the compute side: messages left; 1 when the server shall end; the turn it sleeps for, or 0."""
DECODED = 16
"""Number of tasks whose records stand."""
FAILED = 17
"""1 + the member that failed or left first, written by that member; 0: none."""
READY, REDUCED, PULLED, ANSWERED = 24, 25, 26, 27
COMMITS = 32
"""Number of turns that the compute side has released, for each slot."""
SLOTS = 64
"""Number of tasks that stand in an area at a time."""
LOG = COMMITS + SLOTS
"""(task, turn, start, end) of the last ``LOG_TURNS`` turns."""
LOG_WORDS, LOG_TURNS = 4, 4096
RELEASED = LOG + LOG_WORDS * LOG_TURNS
"""When each turn was released, in nanoseconds; only in a world with an emulated link."""
RELEASED_TURNS = 1 << 14  # more than all turns of a communication kernel
RECORDS = RELEASED + RELEASED_TURNS

ALL_RECORDS, OWN_WORD = -1, -2
"""Values of ``AWAITED_WORD``: the records of all members; any word of the server's own compute side."""
WORDS_PER_MEMBER = 32
"""``AWAITED_WORD`` is ``member * WORDS_PER_MEMBER + word`` for a word of another member."""
