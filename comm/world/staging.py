"""The staging memory of a group, and the plans of collectives that pass through it.

How it is used stands in :mod:`emu.comm.world.exchange`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.layout import LINE
from emu.comm.world.agreement import mismatch, pass_barrier
from emu.comm.world.allocation import Allocation
from emu.comm.world.collective_header import HEADER_WORDS, UNKNOWN, CollectiveHeader
from emu.comm.world.rounds import PLAN, field
from emu.kernels.core.address import aligned_data, array_data
from emu.kernels.reduce import CODES, SCRATCH_BYTES

CHUNK_BYTES = 2 << 20
"""Largest staging buffer of a PE, of two. The fewer the rounds, the less a busy machine disturbs."""

CACHE_BYTES = 16 << 20
"""The staging buffers of all PEs together shall not take more of the last-level cache."""

FLAT_BYTES = 8 << 10
"""Up to this size every member reduces all by itself."""

STAGED_BYTES = 96 << 10
"""From this size on symmetric inputs and outputs are used where they are; to stage less takes less time than to agree."""

DIRECT_BYTES = 32 << 10
"""The same where the staging buffers hold no more: to stage it would take several rounds."""

FLAT, ROWS, SLICES = 0, 1, 2
"""Modes of a reduction: each member reduces all, its row, or its slice of each chunk."""

NO_ROWS: Words = np.zeros((0, 5), np.int64)

_TAG, _PARITY, _REDUCES = map(field, ("tag", "parity", "reduces"))
_ITEMSIZE, _OUTPUT = map(field, ("itemsize", "output"))  # and what lies between them


@dataclass(kw_only=True, slots=True)
class Reduction:
    """A reducing collective on one member."""

    header: CollectiveHeader
    mode: int
    """``FLAT``, ``ROWS`` or ``SLICES``."""
    source: Array
    target: Array
    total: int
    """Number of elements of the result, over all members for ``SLICES``."""
    row_bytes: int = 0
    """Bytes between two members' rows of the source, for ``ROWS``."""


class Staging:
    """The staging memory of a group."""

    chunk_bytes, all_bytes = CHUNK_BYTES, CACHE_BYTES // 2
    """Largest staging buffer of a PE, and of all together."""

    def __init__(self, group: Allocation) -> None:
        self.group = group
        n_pes, layout = group.n_pes, group.segment.layout
        room = min(self.chunk_bytes, self.all_bytes // n_pes, layout.heap_bytes // 64)
        self.slot = max(LINE, room // n_pes // LINE * LINE)
        self.chunk = self.slot * n_pes
        self._direct = max(DIRECT_BYTES, min(STAGED_BYTES, self.chunk))
        prefix = "emu.collectives."
        headers, staging, results = (
            group.alloc(shape, dtype, name=prefix + name, key=prefix + name)
            for name, shape, dtype in (
                ("headers", (2, HEADER_WORDS + n_pes), np.int64),
                ("staging", (2, self.chunk), np.uint8),
                ("results", (2, self.slot), np.uint8),
            )
        )
        start = group.segment.address + layout.heaps
        self.heaps: Words = np.array([start + p * layout.stride for p in group.members], np.int64)
        self.headers = self.heaps + headers.offset
        self.staging = self.heaps + staging.offset
        self._results = self.heaps + results.offset
        self._header = headers.local
        self.header_bytes = headers.nbytes // 2
        self._table: Words = np.zeros((n_pes, HEADER_WORDS + n_pes), np.int64)
        self._addresses: Words = np.zeros(2 * n_pes + 1, np.int64)
        self._memory: Array = np.empty(SCRATCH_BYTES + LINE, np.uint8)
        self._empty_plan = self._make_plan()
        # Members of whom nobody is read in place, by mode: the part for this member lies in its slot.
        staged: Words = np.zeros((n_pes, 4), np.int64)
        staged[:, 0], staged[:, 1] = self.staging, self.chunk
        staged[:, 2], staged[:, 3] = self._results, self.slot
        self._staged_members = [staged, staged.copy(), staged]
        self._staged_members[ROWS][:, 0] += group.my_pe * self.slot
        start = group.barrier_address - group.segment.address
        self._generation = group.segment.bytes[start + 4 : start + 8].view(np.int32)
        self.resumes = 0
        """1 while a call goes on behind its opening barrier, which it passed as a prepared one."""

    def _make_plan(self) -> Words:
        """Return the words of a plan that are the same for all calls."""
        my = self.group.my_pe
        fields = {
            "opening": 1,
            "stage": id(NO_ROWS),
            "rows": id(NO_ROWS),
            "addresses": id(self._addresses),
            "my": my,
            "n_pes": self.group.n_pes,
            "staging": int(self.staging[my]),
            "slot_bytes": self.chunk,
            "results": int(self._results[my]),
            "result_bytes": self.slot,
            "scratch": aligned_data(id(self._memory)),
        }
        return np.array([fields.get(name, 0) for name in PLAN.names or ()], np.int64)

    # --- parts of a call -------------------------------------------------------------------

    def place(self, array: Array) -> int:
        """Return the offset of a dense array that is used where it lies; ``UNKNOWN`` of others."""
        return self.offset(array) if array.nbytes >= self._direct else UNKNOWN

    def offset(self, array: Array) -> int:
        """Return the offset of a dense array in this PE's symmetric heap; ``UNKNOWN`` elsewhere."""
        offset = int(array_data(id(array)) - self.heaps[self.group.my_pe])
        return offset if 0 <= offset < self.group.segment.layout.heap_room else UNKNOWN

    def is_direct(self, *nbytes: int) -> bool:
        """Return whether arrays of so many bytes would be used in place if they were in the heap."""
        return max(nbytes) >= self._direct

    def plan_reduction(self, reduction: Reduction) -> tuple[Words, Words, Words]:
        """Return the plan of a reduction, what it stages, and its members, as if its arrays lay at address 0."""
        mode, total, dtype = reduction.mode, reduction.total, reduction.header.dtype
        assert dtype is not None
        size, sliced = dtype.itemsize, mode == SLICES
        count = (self.slot if mode == ROWS else self.chunk) // size
        if sliced:  # so that a member's slice fits a result slot
            count = self.slot // size * self.group.n_pes
        plan = self.plan(reduction.header)
        plan[_REDUCES] = 1
        plan[_ITEMSIZE:_OUTPUT] = size, CODES[dtype], reduction.header.op, count, total, sliced
        nbytes = reduction.row_bytes if mode == ROWS else total * size
        return plan, self._stage(mode, nbytes, count * size), self._staged_members[mode].copy()

    def _stage(self, mode: int, nbytes: int, piece: int) -> Words:
        """Return the rows of ``STAGE`` of a reduction: the whole input, or the rows of the others."""
        rows = [(0, nbytes, 0, piece, 0)]
        if mode == ROWS:
            others = [pe for pe in range(self.group.n_pes) if pe != self.group.my_pe]
            rows = [(pe * nbytes, nbytes, pe * self.slot, piece, 0) for pe in others]
        return np.array(rows, np.int64).reshape(len(rows), 5)

    def plan(self, header: CollectiveHeader) -> Words:
        """Return a plan for a call, in which nothing stands but what is known from its header."""
        plan: Words = self._empty_plan.copy()
        plan[_TAG] = header.tag
        # Which of two headers and buffers is in use now. A call that is resumed began at the generation before.
        plan[_PARITY] = (int(self._generation[0]) - self.resumes) & 1
        return plan

    def pass_barrier(self, header: CollectiveHeader, arrived: int) -> None:
        """Wait for the end of a barrier, as ``Group.barrier`` does."""
        group = self.group
        if not pass_barrier(group, int(arrived), f"{group.name} ({header.kind})"):
            raise mismatch(group, str(header))
