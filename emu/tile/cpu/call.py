"""What the entry of a kernel is told, word by word: one source for Python and for the code that is emitted.

A thread has one such table, behind which lie the arguments of its launch and, at the very end, the functions
by which kernels ask Python whether to go on.
"""

from __future__ import annotations

import struct

ARGUMENTS, FIRST, LAST, X, Y, Z, SCRATCH, FACTS, COUNTER, STEP, ACTIVE, NUMBER = range(12)
"""Words: address of the arguments; the first program, the one after the last; the grid; scratch; what is
constant for the kernel (below); where several threads share the programs the address of the number of the next
that nobody has taken, and how many to take at once. The code itself says in ``ACTIVE`` whether it runs, and in
``NUMBER`` which program. One table: ctypes takes longer for ten arguments than all else."""

CALL = struct.Struct("Q5q2QQq16x")
BYTES = CALL.size + (1 << 16)
"""Of the table with the arguments."""

GUARD, WATCH = BYTES // 8, BYTES // 8 + 1
"""Words behind all that: functions to call before Python is asked, and to ask it."""

ALL_BYTES = BYTES + 16

PRINT, PREPARE, NOTE, NOTE_BYTES, KERNEL = range(5)
"""Words of a kernel's constants: the function that prints; the one that fills ``GUARD`` and ``WATCH``; address
and length of what is said of the kernel if it crashes; its number."""

FACTS_WORDS = 5

LOOP, ASKED, BUDGET, CALLED, SEEN, COUNT, PAIRS = range(7)
"""Words of what a loop tells: its number; when Python was asked last, or 0; rounds between two looks at the
clock; whether Python was asked at all; when the clock was read last; how many pairs follow: an address (or 0)
and what was read there."""

PROGRAMS, ENDED = 0, -1
"""Instead of a loop's number: the loop over the programs of a grid; a loop that has ended after Python was
asked."""
