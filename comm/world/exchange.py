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
from typing import NamedTuple

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.engine.records import KEPT, NONE, PUSHED
from emu.comm.engine.steps import STREAM_BYTES
from emu.comm.layout import LINE
from emu.comm.sync import entry_points
from emu.comm.sync.signals import DONE
from emu.comm.world.agreement import CLOSING, mismatch, pass_barrier
from emu.comm.world.allocation import Allocation
from emu.comm.world.collective_header import (
    HEADER_WORDS,
    IN,
    OUT,
    UNKNOWN,
    CollectiveHeader,
    headers_agree,
    read_headers,
)
from emu.comm.world.rounds import PLAN, field, run_rounds
from emu.kernels.core.address import aligned_data, array_data
from emu.kernels.core.jit import entry_when_called
from emu.kernels.reduce import CODES, SCRATCH_BYTES

CHUNK_BYTES = 2 << 20
"""Largest staging buffer of a PE, of two. The fewer the rounds, the less a busy machine disturbs."""

CACHE_BYTES = 16 << 20
"""The staging buffers of all PEs together shall not take more of the last-level cache."""

FLAT_BYTES = 8 << 10
"""Up to this size every member reduces all by itself."""

DIRECT_BYTES = 32 << 10
"""From this size on symmetric inputs and outputs are used where they are."""

FLAT, ROWS, SLICES = 0, 1, 2
"""Modes of a reduction: each member reduces all, its row, or its slice of each chunk."""

_run_rounds: Callable[[int, int, int], int] = entry_when_called(run_rounds, 3)

_NO_ROWS: Words = np.zeros((0, 5), np.int64)

# Places of the words of a plan that are set for each call.
_TAG, _PARITY, _ROUNDS, _OPENING = map(field, ("tag", "parity", "rounds", "opening"))
_SYNC, _STREAM, _REDUCES = map(field, ("sync", "stream", "reduces"))
_STAGE, _STAGES, _ROWS, _N_ROWS = map(field, ("stage", "stages", "rows", "n_rows"))
_ITEMSIZE, _DELIVERY = map(field, ("itemsize", "delivery"))  # and what lies between them
_COUNT = field("count")
_OWN = 4  # of a row of STAGE


class Block(NamedTuple):
    """A block that this member copies when all headers are known: all but the last field of a ``PULL``."""

    source: int
    """Address; of a staged block in the first of the two staging buffers."""
    target: int
    nbytes: int
    other_slot: int = 0
    """Bytes from there to the other staging buffer; 0 of a block that is read in place."""


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
        self._empty_plan = self._make_plan()
        # Members of whom nobody is read in place, by mode: the part for this member lies in its slot.
        staged: Words = np.zeros((n_pes, 4), np.int64)
        staged[:, 0], staged[:, 1] = self.staging, self.chunk
        staged[:, 2], staged[:, 3] = self._results, self.slot
        self._staged_members = [staged, staged.copy(), staged]
        self._staged_members[ROWS][:, 0] += group.my_pe * self.slot
        start = group.barrier_address - group.segment.address
        self._generation = group.segment.bytes[start + 4 : start + 8].view(np.int32)

    def _make_plan(self) -> Words:
        """Return the words of a plan that are the same for all calls."""
        my = self._group.my_pe
        fields = {
            "opening": 1,
            "stage": id(_NO_ROWS),
            "rows": id(_NO_ROWS),
            "addresses": id(self._addresses),
            "my": my,
            "n_pes": self._group.n_pes,
            "staging": int(self.staging[my]),
            "slot_bytes": self.chunk,
            "results": int(self._results[my]),
            "result_bytes": self.slot,
            "scratch": aligned_data(id(self._memory)),
        }
        return np.array([fields.get(name, 0) for name in PLAN.names or ()], np.int64)

    # --- one call --------------------------------------------------------------------------

    def place(self, array: Array) -> int:
        """Return the offset of a dense array in this PE's symmetric heap; ``UNKNOWN`` elsewhere."""
        offset = int(array_data(id(array)) - self.heaps[self._group.my_pe])
        inside = 0 <= offset < self._group.segment.layout.heap_room
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
            return Block(int(self.heaps[pe]) + direct + offsets[0], target, nbytes)
        return Block(int(self.staging[pe]) + offsets[1], target, nbytes, self.chunk)

    def execute(self, transfer: Transfer) -> None:
        """Exchange the blocks of a collective, from the first header to the last copy.

        Raises:
            CollectiveMismatchError: The members disagree. Nothing was written.
        """
        header, piece = transfer.header, transfer.slot
        plan = self._plan(header)
        stage = _NO_ROWS
        if transfer.stage and transfer.source < 0:
            stage = np.array([(*row, piece, 0) for row in transfer.stage], np.int64)
            plan[_STAGE], plan[_STAGES] = id(stage), len(stage)
        table = self._open(header, plan, transfer.source, transfer.target)
        fetch = transfer.fetch(table)
        inputs = table[:, IN].tolist()
        staged = not fetch.writes and min([inputs[pe] for pe in transfer.senders], default=0) < 0
        if fetch.own:
            stage[0, _OWN] = fetch.own
        if not staged:
            piece = self.chunk
        rounds = -(-fetch.longest // piece)
        if rounds:
            plan[_ROUNDS], plan[_SYNC] = rounds, staged
            plan[_STREAM] = sum([block.nbytes for block in fetch.blocks]) >= STREAM_BYTES
            if fetch.blocks:
                rows: Words = np.array([(*block, piece) for block in fetch.blocks], np.int64)
                plan[_ROWS], plan[_N_ROWS] = id(rows), len(rows)
            self._drive(header, plan)
        if fetch.writes or max(inputs) >= 0:  # memory of the callers was in use by others
            self._close(header)

    def reduce(self, reduction: Reduction) -> None:
        """Reduce, from the first header to the last copy.

        Raises:
            CollectiveMismatchError: The members disagree. Nothing was written.
        """
        header, mode = reduction.header, reduction.mode
        source, target, total = reduction.source, reduction.target, reduction.total
        group, dtype = self._group, reduction.header.dtype
        assert dtype is not None
        size, sliced = dtype.itemsize, mode == SLICES
        place_in = self.place(source) if mode != FLAT else UNKNOWN
        place_out = self.place(target) if sliced else UNKNOWN
        data, row_bytes = array_data(id(source)), reduction.row_bytes
        count = (self.slot if mode == ROWS else self.chunk) // size
        if sliced:  # so that a member's slice fits a result slot
            count = self.slot // size * group.n_pes
        plan = self._plan(header)
        plan[_REDUCES] = 1
        plan[_ITEMSIZE:_DELIVERY] = (
            (size, CODES[dtype], header.op, count, total, sliced, array_data(id(target)))
        )  # fmt: skip
        if place_in < 0:
            stage = self._stage(
                mode, data, row_bytes if mode == ROWS else total * size, count * size
            )
            plan[_STAGE], plan[_STAGES] = id(stage), len(stage)
        table = self._open(header, plan, place_in, place_out)
        inputs, outputs = table[:, IN], table[:, OUT]
        pushes = sliced and bool((outputs >= 0).all())
        direct = bool((inputs >= 0).any())
        if mode == ROWS and bool((inputs >= 0).all()):  # no slot limits a round: one is enough
            plan[_COUNT] = count = max(total, 1)
        members = self._staged_members[mode].copy()
        members[group.my_pe, :2] = data + group.my_pe * row_bytes, 0
        if direct:
            there = inputs >= 0
            members[there, 0] = (self.heaps + inputs + group.my_pe * row_bytes)[there]
            members[there, 1] = 0
        if pushes:
            members[:, 2], members[:, 3] = self.heaps + outputs, 0
        plan[_DELIVERY] = PUSHED if pushes else KEPT if sliced else NONE
        plan[_ROUNDS] = rounds = -(-total // count)
        if rounds:
            plan[_SYNC] = (sliced and not pushes) or bool((inputs < 0).any())
            plan[_STREAM] = target.nbytes >= STREAM_BYTES
            plan[_ROWS], plan[_N_ROWS] = id(members), len(members)
            self._drive(header, plan)
        if pushes or direct:
            self._close(header)

    # --- its parts -------------------------------------------------------------------------

    def _stage(self, mode: int, data: int, nbytes: int, piece: int) -> Words:
        """Return the rows of ``STAGE`` of a reduction: the whole input, or the rows of the others."""
        if mode != ROWS:
            return np.array([(data, nbytes, 0, piece, 0)], np.int64)
        my, slot = self._group.my_pe, self.slot
        rows = [
            (data + pe * nbytes, nbytes, pe * slot, piece, 0)
            for pe in range(self._group.n_pes)
            if pe != my
        ]
        return np.array(rows, np.int64) if rows else _NO_ROWS

    def _plan(self, header: CollectiveHeader) -> Words:
        plan: Words = self._empty_plan.copy()
        plan[_TAG] = header.tag
        plan[_PARITY] = self._generation[0] & 1  # which of two headers and buffers is in use now
        return plan

    def _open(self, header: CollectiveHeader, plan: Words, source: int, target: int) -> Words:
        """Write the header, stage the first pieces, meet, and return the headers of all members."""
        half = int(plan[_PARITY])
        header.write(self._header[half], source, target)
        self._drive(header, plan)
        plan[_OPENING] = 0
        same = read_headers(self._headers, half * self._header_bytes, self._table)
        if not same and not headers_agree(self._table):
            raise mismatch(self._group, str(header))
        return self._table

    def _drive(self, header: CollectiveHeader, plan: Words) -> None:
        """Call the kernel until it has done all rounds, or the opening if that is what the plan says."""
        group = self._group
        while True:
            arrived = _run_rounds(group.me, group.barrier_address, id(plan))
            if arrived == DONE:
                return
            self._pass_barrier(header, arrived)
            if plan[_OPENING]:
                return

    def _close(self, header: CollectiveHeader) -> None:
        """Wait for all members."""
        group = self._group
        tag = header.tag + CLOSING
        arrived = entry_points.barrier_arrive(group.me, group.barrier_address, group.n_pes, tag)
        self._pass_barrier(header, arrived)

    def _pass_barrier(self, header: CollectiveHeader, arrived: int) -> None:
        """Wait for the end of a barrier, as ``Group.barrier`` does."""
        group = self._group
        if not pass_barrier(group, int(arrived), f"{group.name} ({header.kind})"):
            raise mismatch(group, str(header))
