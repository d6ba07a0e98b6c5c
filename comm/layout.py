"""The layout of the shared segment: one source for Python and for ``@njit`` code.

    | header | PE blocks | PE texts | PE calls | last writers | locks | groups | allocations | links | heap 0 …

One segment serves a whole world. The part before the heaps is the *control region*: a few hundred
KiB, of which only the touched pages exist. Heap ``p`` belongs to PE ``p``; every symmetric object
has the same offset in each heap, so that "address on PE p" is ``heaps + p * stride + offset``.

The segment is mapped at a different address in every process. Kernels therefore take ``me``, the
address of the calling PE's block, and find all else in words of that block which the PE filled
with its own addresses when it attached.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

PAGE = 4096
LINE = 64
HUGE = 2 << 20

# --- header: int64 words
H_MAGIC, H_ABORT, H_HIGH_WATER, H_TABLE_LOCK, H_RECOVERED, H_RECOVERED_FROM = 0, 8, 16, 24, 32, 33
H_LINK_BANDWIDTH, H_LINK_LATENCY = 40, 41  # float64: bytes a second, 0 for no link; seconds
H_TABLE_GOOD, H_TABLE_TOP, H_FREE_ENTRY, H_GAPS, H_RESERVED = (
    48,
    49,
    50,
    51,
    52,
)  # comm/memory/table.py
MAGIC = 0x454D5531  # "EMU1"

# --- PE block: int64 words. Line 0 belongs to whoever rings, line 1 to the PE, lines 2 and 3 are constant,
# line 4 has what the PE did last, line 5 its answers to the launcher's queries, line 6 is constant again.
BLOCK_BYTES = 512
# Word 0 is the doorbell: an int32 event counter that sleepers wait on, and behind it their int32 number.
B_STATE, B_WAITING, B_WAITS, B_POLLS, B_TEXT_LENGTH, B_PID = 8, 9, 10, 11, 12, 13
B_COMPILING, B_COMPILING_COUNT = 14, 15  # kernels: now; of the machine, ever
B_PE, B_N_PES, B_SEGMENT, B_HEAPS, B_STRIDE = 16, 17, 18, 19, 20
B_SPINS, B_YIELDS, B_SLICE_S, B_SLICE_NS = 21, 22, 23, 24
B_BLOCKS, B_LOCKS, B_WRITERS = 25, 26, 27
B_LINKS, B_LINK_BANDWIDTH, B_LINK_LATENCY = 28, 29, 30  # 0: no link; float64 a second; nanoseconds
B_WORKS = 32  # calls that changed memory
B_CALLS, B_CALL_PE, B_CALL_OFFSET, B_CALL_KIND, B_CALL_SEEN = 33, 34, 35, 36, 37
"""Number of calls in a row that changed nothing; of the last one: the word, operation * 16 + bytes, the value
that was read."""
B_READING = 38  # 1 while the PE reads standard input
B_ANSWERS, B_SAME, B_PLACE_LENGTH = 40, 41, 42
B_RECORDER = 48  # address of what records the PE's kernels; constant

# --- PE states
NOT_STARTED, RUNNING, FINISHED, DEAD, LEAVING = 0, 1, 2, 3, 4
"""LEAVING: the function has returned, but threads are left that Python waits for."""

TEXT_BYTES = 4096
"""Room for what a sleeping PE waits for (JSON) and, behind it, its position in the program."""
CALL_BYTES = 1024
"""Room for the call of a PE, for the report when members of a group disagree."""
PLACE_BYTES = 1024
RETURNED = "returned at "
"""How the place of a PE begins that has returned from its function."""
CRASH_BYTES = 16 << 20
"""More than the longest report of a crash; of the file's size alone, like all that nobody writes."""
ABORT_TEXT_BYTES = 64 << 10

# --- last-writer table: two int64 words per entry, direct-mapped: the key, a word's place plus 1; and of its last
# writer (PE << 4 | operation), of the one before that was another or did it otherwise, and the low half of the value.
WRITER_BITS = 13
WRITERS = 1 << WRITER_BITS
WRITER_HASH = (
    0x9E3779B97F4A7C15  # 2**64 over the golden ratio: spreads keys that differ in high bits only
)
WRITER_OPERATION_BITS, WRITER_PART_BITS, WRITER_MASK = 4, 16, (1 << 16) - 1
WRITER_PUT, WRITER_SET, WRITER_ADD, WRITER_SWAP, WRITER_CAS = 1, 2, 3, 4, 5
WRITER_NAMES = {1: "put", 2: "SET", 3: "ADD", 4: "swap", 5: "compare_swap"}

# --- locks: one line each; word 0 is int32 lock word, word 1 int32 "atomics were used here"
LOCKS = 2048
REGION_BITS = 16  # bytes of heap under one lock: 64 KiB
LOCK_OWNER_MASK = (1 << 30) - 1
LOCK_WAITERS = 1 << 30

# --- locks of programs (comm/world/locking.py): marks of a member's place in the queue
PLACE_HOLDS, PLACE_WAITS = 1 << 29, 1 << 30

GROUPS = 256
NAME_BYTES = 512  # 128 characters of up to 4 bytes
ALLOCATIONS = 4096
BUCKETS = 4096  # of the allocations by key; a power of 2
KEY_BYTES = 192
PLACE_NAME_BYTES = 96
MAX_RANK = 8
SERVERS_NAME = "emu.server"
"""Name of the allocation of a communicator's servers. Over several hosts what they read of each other is copied to the same
place there."""

ALLOCATION = np.dtype(
    [
        ("key0", "i8"),
        ("key1", "i8"),
        ("offset", "i8"),
        ("nbytes", "i8"),
        ("used", "i4"),
        ("group", "i4"),
        ("refs", "i4"),
        ("dtype", "i4"),
        ("rank", "i4"),
        ("creator", "i4"),
        ("next", "i4"),  # of the chain it is in, plus 1
        ("zones", "i4"),  # whether its red zones were written
        ("shape", "i8", (MAX_RANK,)),
        ("key", f"S{KEY_BYTES}"),
        ("name", "S64"),
        ("place", f"S{PLACE_NAME_BYTES}"),  # file and line of the call, or its end
    ]
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Byte offsets of each part of a segment for ``n_pes`` PEs with heaps of ``heap_bytes``.

    With ``zones`` there are red zones around arrays, for which the heaps have more room. Listeners of the PEs'
    operations share ``listener_bytes`` at the end of the file, outside of what every process maps, and behind them
    lie the ``schedule_bytes`` of PEs that take turns, the ``trace_bytes`` of PEs whose events are recorded, and the
    ``port_bytes`` through which PEs reach other hosts.

    They are computed once: views of memory are made at every call of a program.
    """

    n_pes: int
    heap_bytes: int
    zones: bool = False
    listener_bytes: int = 0
    schedule_bytes: int = 0
    trace_bytes: int = 0
    port_bytes: int = 0

    @cached_property
    def abort_text(self) -> int:
        """Text in which the launcher says why the world was stopped."""
        return PAGE

    @cached_property
    def blocks(self) -> int:
        """First PE block."""
        return self.abort_text + ABORT_TEXT_BYTES

    @cached_property
    def texts(self) -> int:
        """First PE text."""
        return round_up(self.blocks + self.n_pes * BLOCK_BYTES, PAGE)

    @cached_property
    def calls(self) -> int:
        """First PE's call."""
        return self.texts + self.n_pes * TEXT_BYTES

    @cached_property
    def writers(self) -> int:
        """Last-writer table."""
        return round_up(self.calls + self.n_pes * CALL_BYTES, PAGE)

    @cached_property
    def locks(self) -> int:
        """Lock table."""
        return self.writers + WRITERS * 16

    @cached_property
    def groups(self) -> int:
        """First group entry."""
        return self.locks + LOCKS * LINE

    @cached_property
    def group_bytes(self) -> int:
        """Bytes of a group entry."""
        return round_up(self.group_dtype.itemsize, LINE)

    @cached_property
    def group_dtype(self) -> np.dtype[np.generic]:
        """Fields of a group entry; the barrier has a cache line of its own in front."""
        return np.dtype(
            [
                ("arrived", "i4"),
                ("generation", "i4"),
                ("sleepers", "i4"),
                ("pad", "V4"),
                ("tag", "i8"),
                ("differs", "i4", (2,)),
                ("rest", "V32"),
                ("used", "i8"),
                ("n_pes", "i8"),
                ("name", f"S{NAME_BYTES}"),
                ("members", "i4", (self.n_pes,)),
            ]
        )

    @cached_property
    def allocations(self) -> int:
        """Allocation table."""
        return round_up(self.groups + GROUPS * self.group_bytes, PAGE)

    @cached_property
    def buckets(self) -> int:
        """Heads of the chains of allocations by key: int32, an entry's index plus 1."""
        return round_up(self.allocations + ALLOCATIONS * ALLOCATION.itemsize, PAGE)

    @cached_property
    def gaps(self) -> int:
        """Free pieces of the heaps: int64, the start of each, then the end of each."""
        return self.buckets + BUCKETS * 4

    @cached_property
    def links(self) -> int:
        """Time until which the link of each pair is busy: int64 nanoseconds, row source, column target."""
        return round_up(self.gaps + 2 * (ALLOCATIONS + 1) * 8, PAGE)

    @cached_property
    def control_bytes(self) -> int:
        """Size of everything before the heaps."""
        return self.links + self.n_pes * self.n_pes * 8

    @cached_property
    def heaps(self) -> int:
        """First heap."""
        return round_up(self.control_bytes, HUGE)

    @cached_property
    def heap_room(self) -> int:
        """Bytes of a heap with all that red zones can take."""
        if not self.zones:
            return self.heap_bytes
        # An array of a page or more takes less than a page more, a smaller one at most three times its lines.
        return self.heap_bytes + min(2 * self.heap_bytes, ALLOCATIONS * 2 * PAGE) + 2 * PAGE

    @cached_property
    def stride(self) -> int:
        """Distance between heaps."""
        return round_up(self.heap_room, HUGE)

    @cached_property
    def total(self) -> int:
        """Size of what every process maps."""
        return self.heaps + self.n_pes * self.stride

    def crash(self, pe: int) -> int:
        """Return the offset in the file, behind the mapped part, of PE ``pe``'s crash report."""
        return self.total + pe * CRASH_BYTES

    @property
    def listeners(self) -> int:
        """Offset in the file of the listeners' area."""
        return self.crash(self.n_pes)

    @property
    def schedule(self) -> int:
        """Offset in the file of what PEs that take turns share."""
        return self.listeners + round_up(self.listener_bytes, PAGE)

    @property
    def trace(self) -> int:
        """Offset in the file of the PEs' events."""
        return self.schedule + round_up(self.schedule_bytes, PAGE)

    @property
    def ports(self) -> int:
        """Offset in the file of the ports of PEs whose World spans hosts."""
        return self.trace + round_up(self.trace_bytes, PAGE)

    @property
    def file_bytes(self) -> int:
        """Size of the segment's file."""
        return self.ports + round_up(self.port_bytes, PAGE)


def zone_behind(nbytes: int) -> int:
    """Return the bytes of the red zone behind an array; that before it has 64."""
    return LINE if nbytes < PAGE else 16 * LINE


def round_up(value: int, unit: int) -> int:
    """Return the smallest multiple of ``unit`` that is not below ``value``."""
    return (value + unit - 1) // unit * unit
