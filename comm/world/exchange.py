"""The exchange of blocks between the members of a group, on which all collectives are built.

*One call, one header.* Each member writes what it calls (operation, dtype, shape, root, …) into its
header, stages the first piece of its data, and arrives at the group's barrier. Behind the barrier every
member reads all headers: those that disagree raise on all members, before any result was written.
Small collectives need no other barrier (:mod:`emu.comm.world.collective_header`).

*Staging.* Data passes through two buffers per PE in the symmetric heap, made at the first use and kept.
A piece lies in the L2 cache while it is copied in and out, so that each byte comes from memory once
and goes to memory once. While the members read one buffer, they fill the other: when a member has
passed the barrier of round k + 1, all have read what was staged for round k, and that buffer is free.
So there is one barrier per round. Headers alternate in the same way. Which buffer is used follows from the
barrier's generation, which is the same on all members whatever they called before, and however it ended.

*Direct.* A member whose input is dense and lies in its own symmetric heap stages nothing: the
others read it where it is. So do those that write, if every member's output is symmetric. Such a call
ends with one more barrier, since memory of the caller was in use by others.

*Reductions.* Large ones are cut: in each round, member j reduces the j-th part of the chunk from all
members' staging, keeps it, and leaves it in a third buffer for the others, who fetch it in the next
round, while they reduce the next chunk. Each part is reduced by one member in rank order, so that all get
the same bits. Small ones are reduced whole by each member: more work, one barrier less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from emu.comm.layout import LINE
from emu.comm.sync.signals import DONE, barrier_arrive
from emu.comm.world.agreement import CLOSING, mismatch, pass_barrier
from emu.comm.world.allocation import Allocation
from emu.comm.world.collective_header import (
    HEADER_WORDS,
    IN,
    OUT,
    UNKNOWN,
    CollectiveHeader,
    Words,
    headers_agree,
    read_headers,
)
from emu.comm.world.rounds import (
    FLAT,
    P_DIRECT_OUT,
    P_HALF,
    P_MODE,
    P_OPENING,
    P_OUT,
    P_PARITY,
    P_RESULT,
    P_ROUNDS,
    P_SCRATCH,
    P_SLOT,
    P_STAGES,
    P_STAGING,
    P_STREAM,
    P_SYNC,
    P_TAG,
    PLAN_WORDS,
    SLICES,
    copy_rounds,
    reduce_rounds,
)
from emu.kernels.core.address import array_data
from emu.kernels.reduce import CODES, SCRATCH_BYTES

Array = np.ndarray[Any, Any]

CHUNK_BYTES = 2 << 20
"""Largest staging buffer of a PE, of two. The fewer the rounds, the less a busy machine disturbs."""

CACHE_BYTES = 16 << 20
"""The staging buffers of all PEs together shall not take more of the last-level cache."""

FLAT_BYTES = 8 << 10
"""Up to this size every member reduces all by itself."""

DIRECT_BYTES = 32 << 10
"""From this size on symmetric inputs and outputs are used where they are."""

STREAM_BYTES = 8 << 20
"""Results of this size on are written past the caches."""

_NO_ROWS: Words = np.zeros((0, 4), np.int64)


class Block(NamedTuple):
    """A block that this member copies when all headers are known."""

    source: int
    """Address; of a staged block in the first of the two staging buffers."""
    target: int
    nbytes: int
    staged: bool


class Fetch(NamedTuple):
    """The blocks that a member copies in an exchange."""

    blocks: Sequence[Block]
    longest: int
    """Bytes of the longest block that any member copies; the same on every member."""
    writes: bool = False
    """Whether every member writes its own input to all the others, so that nobody stages."""
    own: int = 0
    """Where this member's first staged block goes here as well, while it is in the cache; 0: nowhere."""


@dataclass(kw_only=True, slots=True)
class Transfer:
    """One collective on one member: what it stages, and what it fetches once it knows all headers."""

    header: CollectiveHeader
    slot: int
    """Bytes of a block that are staged per round."""
    stage: Sequence[tuple[int, int, int]]
    """Blocks to stage: (address, bytes, offset in the staging buffer)."""
    senders: Sequence[int]
    """Members whose input is read."""
    fetch: Callable[[Words], Fetch]
    """Called with the headers of all members, as rows, after they were found to agree."""
    source: int = UNKNOWN
    """Offset of the input in the heap if the others may read it there."""
    target: int = UNKNOWN
    """Offset of the output in the heap if the others may write to it."""


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


class Exchange:
    """The staging memory of a group, and the exchanges through it."""

    def __init__(self, group: Allocation) -> None:
        self._group = group
        n_pes, layout = group.n_pes, group.segment.layout
        room = min(CHUNK_BYTES, CACHE_BYTES // 2 // n_pes, layout.heap_bytes // 64)
        self.slot = max(LINE, room // n_pes // LINE * LINE)
        self.chunk = self.slot * n_pes
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
        self._headers = self.heaps + headers.offset
        self.staging = self.heaps + staging.offset
        self._results = self.heaps + results.offset
        self._header = headers.local
        self._header_bytes = headers.nbytes // 2
        self._table: Words = np.zeros((n_pes, HEADER_WORDS + n_pes), np.int64)
        self._addresses: Words = np.zeros(2 * n_pes + 1, np.int64)
        self._memory: Array = np.empty(SCRATCH_BYTES + LINE, np.uint8)
        self._empty_plan: Words = np.zeros(PLAN_WORDS, np.int64)
        self._empty_plan[P_OPENING] = 1
        self._empty_plan[P_HALF] = self.chunk
        self._empty_plan[P_STAGING] = self.staging[group.my_pe]
        self._scratch = -(-array_data(id(self._memory)) // LINE) * LINE
        start = group.barrier_address - group.segment.address
        self._generation = group.segment.bytes[start + 4 : start + 8].view(np.int32)

    # --- one call --------------------------------------------------------------------------

    def place(self, array: Array) -> int:
        """Return the offset of a dense array in this PE's symmetric heap; ``UNKNOWN`` elsewhere."""
        offset = int(array_data(id(array)) - self.heaps[self._group.my_pe])
        inside = 0 <= offset < self._group.segment.layout.heap_bytes
        return offset if inside and array.nbytes >= DIRECT_BYTES else UNKNOWN

    def block(
        self, headers: Words, pe: int, offsets: tuple[int, int], target: int, nbytes: int
    ) -> Block:
        """Return a block of another member's input.

        Args:
            headers: Headers of all members.
            pe: The member.
            offsets: Byte offset of the block in the input, and in the staging buffer.
            target: Address to copy to.
            nbytes: Its size.
        """
        direct = int(headers[pe, IN])
        if direct >= 0:
            return Block(int(self.heaps[pe]) + direct + offsets[0], target, nbytes, False)
        return Block(int(self.staging[pe]) + offsets[1], target, nbytes, True)

    def execute(self, transfer: Transfer) -> None:
        """Exchange the blocks of a collective, from the first header to the last copy.

        Raises:
            CollectiveMismatchError: The members disagree. Nothing was written.
        """
        header, plan = transfer.header, self._plan(transfer.header, transfer.slot)
        stage = _NO_ROWS
        if transfer.stage and transfer.source < 0:
            stage = np.array([(*row, 0) for row in transfer.stage], np.int64)
        tables = (stage, _NO_ROWS)
        table = self._open(header, plan, copy_rounds, tables, transfer.source, transfer.target)
        fetch = transfer.fetch(table)
        inputs = table[:, IN].tolist()
        staged = not fetch.writes and min([inputs[pe] for pe in transfer.senders], default=0) < 0
        if fetch.own:
            stage[0, 3] = fetch.own
        if not staged:
            plan[P_SLOT] = self.chunk
        plan[P_ROUNDS] = -(-fetch.longest // int(plan[P_SLOT]))
        plan[P_SYNC] = staged
        plan[P_STREAM] = sum([block.nbytes for block in fetch.blocks]) >= STREAM_BYTES
        if plan[P_ROUNDS]:
            rows = np.array(fetch.blocks, np.int64).reshape(-1, 4) if fetch.blocks else _NO_ROWS
            self._drive(header, plan, copy_rounds, (stage, rows))
        if fetch.writes or max(inputs) >= 0:  # memory of the callers was in use by others
            self._close(header)

    def reduce(self, reduction: Reduction) -> None:
        """Reduce, from the first header to the last copy.

        Raises:
            CollectiveMismatchError: The members disagree. Nothing was written.
        """
        header, mode = reduction.header, reduction.mode
        source, target, total = reduction.source, reduction.target, reduction.total
        group, n_pes = self._group, self._group.n_pes
        assert header.dtype is not None
        size = header.dtype.itemsize
        plan = self._plan(header, self.chunk if mode == FLAT else self.slot)
        place_in = self.place(source) if mode != FLAT else UNKNOWN
        place_out = self.place(target) if mode == SLICES else UNKNOWN
        data, my, row_bytes = array_data(id(source)), group.my_pe, reduction.row_bytes
        plan[P_MODE : P_STAGES + 1] = (
            (mode, my, total, row_bytes, size, CODES[header.dtype], header.op, data, place_in < 0)
        )  # fmt: skip
        plan[P_OUT], plan[P_SCRATCH] = array_data(id(target)), self._scratch
        plan[P_RESULT] = self._results[my]
        plan[P_STREAM] = target.nbytes >= STREAM_BYTES
        peers: Words = np.empty((n_pes, 3), np.int64)
        tables = (peers, self._addresses)
        table = self._open(header, plan, reduce_rounds, tables, place_in, place_out)
        inputs, outputs = table[:, IN], table[:, OUT]
        direct_out = bool((outputs >= 0).all())
        peers[:, 1] = inputs >= 0
        peers[:, 0] = np.where(inputs >= 0, self.heaps + inputs, self.staging)
        peers[:, 2] = self.heaps + outputs if direct_out else self._results
        per_round = int(plan[P_SLOT]) // size * (n_pes if mode == SLICES else 1)
        plan[P_ROUNDS] = -(-total // per_round)
        plan[P_SYNC], plan[P_DIRECT_OUT] = (inputs < 0).any(), direct_out
        if plan[P_ROUNDS]:
            self._drive(header, plan, reduce_rounds, tables)
        if direct_out or (inputs >= 0).any():
            self._close(header)

    # --- its parts -------------------------------------------------------------------------

    def _plan(self, header: CollectiveHeader, slot: int) -> Words:
        plan: Words = self._empty_plan.copy()
        plan[P_SLOT], plan[P_TAG] = slot, header.tag
        plan[P_PARITY] = self._generation[0] & 1  # which of two headers and buffers is in use now
        return plan

    def _open(
        self,
        header: CollectiveHeader,
        plan: Words,
        kernel: Any,
        tables: tuple[Words, Words],
        source: int,
        target: int,
    ) -> Words:
        """Write the header, stage the first pieces, meet, and return the headers of all members."""
        half = int(plan[P_PARITY])
        header.write(self._header[half], source, target)
        self._drive(header, plan, kernel, tables)
        plan[P_OPENING] = 0
        same = read_headers(self._headers, half * self._header_bytes, self._table)
        if not same and not headers_agree(self._table):
            raise mismatch(self._group, str(header))
        return self._table

    def _drive(
        self, header: CollectiveHeader, plan: Words, kernel: Any, tables: tuple[Words, Words]
    ) -> None:
        """Call a kernel until it has done all rounds, or the opening if that is what the plan says."""
        group = self._group
        while True:
            arrived = kernel(group.me, group.barrier_address, group.n_pes, plan, *tables)
            if arrived == DONE:
                return
            self._pass_barrier(header, arrived)
            if plan[P_OPENING]:
                return

    def _close(self, header: CollectiveHeader) -> None:
        """Wait for all members."""
        group = self._group
        tag = header.tag + CLOSING
        arrived = barrier_arrive(group.me, group.barrier_address, group.n_pes, tag)
        self._pass_barrier(header, arrived)

    def _pass_barrier(self, header: CollectiveHeader, arrived: Any) -> None:
        """Wait for the end of a barrier, as ``Group.barrier`` does."""
        group = self._group
        if not pass_barrier(group, int(arrived), f"{group.name} ({header.kind})"):
            raise mismatch(group, str(header))
