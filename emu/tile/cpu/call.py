"""Layout of the call table, word by word: one source for Python and for the code that is emitted.

Each thread has one table. Behind its fixed words follow the packed arguments of the launch and, at the very
end, the functions through which kernels ask Python whether to go on.
"""

from __future__ import annotations

import struct

(
    ARGUMENTS,
    FIRST,
    LAST,
    X,
    Y,
    Z,
    SCRATCH,
    FACTS,
    COUNTER,
    STEP,
    LOW,
    HIGH,
    ACTIVE,
    NUMBER,
    END,
) = range(15)
"""Words of the table.

``ARGUMENTS``: address of the packed arguments. ``FIRST``, ``LAST``: the first program and the one after the
last. ``X``, ``Y``, ``Z``: extents of the grid. ``SCRATCH``: address of scratch. ``FACTS``: address of the
kernel's constants (below). ``COUNTER``: if several threads share the programs, address of the number of the next
program that none has taken, else 0; ``STEP``: number of programs that a thread takes at once. ``LOW``, ``HIGH``: memory
that no other process sees, where atomic operations need no lock if this thread runs alone; 0 if not asked. The code itself
writes ``ACTIVE`` (whether it runs), ``NUMBER`` (of the program that runs) and ``END`` (the program after the last of
those that the thread has taken; Python may lower it while a program waits, and so take the later ones away).

The entry point takes this one table because a ctypes call with ten arguments would dominate a short launch.
"""

CALL = struct.Struct("Q5q2QQq2Q24x")
BYTES = CALL.size + (1 << 16)
"""Size of the table with the arguments."""

GUARD, WATCH, INTERVAL = range(BYTES // 8, BYTES // 8 + 3)
"""Words behind the arguments: the functions to call before Python is asked, and to ask it. 0 in a
table whose launches do not ask: those of a signal handler in the middle of another kernel. The nanoseconds
between two questions."""

(
    RECOVERY,
    FAULT_SIGNAL,
    FAULT_CODE,
    FAULT_ADDRESS,
    FAULT_ERROR,
    FAULT_PLACE,
    FAULT_STACK,
) = range(BYTES // 8 + 3, BYTES // 8 + 10)
"""Words behind those: address of the state to which a launch returns after a fault, or 0; signal and code of the fault,
its address and what the CPU said of it; the instruction; and what lay on the stack, the return address first where
that is kept in a register."""

STACK_WORDS = 128

STOPPED = BYTES // 8 + 10 + STACK_WORDS
"""Word behind the stack: whether a call of the machine has failed, and the kernel must stop."""

SITE = STOPPED + 1
"""Word behind that: address of the text that says where in the program the last call of the machine is, ``12:file.py``;
0 if that is not known, or was asked for."""

TABLE_BYTES = 8 * (SITE + 1)

ASK_NS = 20_000_000
"""Value of ``INTERVAL``, unless programs take turns."""

PRINT, NOTE, NOTE_BYTES, KERNEL, LAUNCHES, CODE, POINTERS, MACHINE = range(8)
"""Words of a kernel's constants: the function that prints; address and length of the text written if the kernel
crashes; number of the kernel; address of the two words below; its entry point; address of the count of its pointer
arguments, and behind it their numbers; address of the machine words (``emu.tile.machine_words``)."""

FACTS_WORDS = 8

RUNNING, ALONE = range(2)
"""Words that all threads of a process share, see ``run.private_memory``: how many run a kernel; the address of the table
of the one that updates without locks, or 0."""

LOOP, ASKED, BUDGET, CALLED, SEEN, COUNT, PAIRS = range(7)
"""Words of a loop's poll record: number of the loop; when Python was asked last, or 0; rounds between two reads
of the clock; whether Python was asked at all; when the clock was read last; number of the pairs that follow,
each an address (or 0) and the bits read there."""

PROGRAMS, ENDED = 0, -1
"""Values of ``LOOP`` besides the numbers of loops: the loop over the programs of a grid; a loop that has ended
after Python was asked."""
