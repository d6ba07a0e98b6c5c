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

from emu.comm.arrays import Words
from emu.comm.engine.records import KEPT, NONE, PUSHED
from emu.comm.engine.steps import STREAM_BYTES
from emu.comm.sync.signal_numbers import DONE
from emu.comm.world.agreement import CLOSING, mismatch
from emu.comm.world.allocation import Allocation
from emu.comm.world.collective_header import (
    IN,
    OUT,
    UNKNOWN,
    CollectiveHeader,
    headers_agree,
    read_headers,
)
from emu.comm.world.prepared import PreparedCalls
from emu.comm.world.prepared_rounds import ROUNDS, call_entry
from emu.comm.world.rounds import TO_CONSUME, field
from emu.comm.world.staging import (
    FLAT,
    NO_ROWS,
    ROWS,
    SLICES,
    Reduction,
    Staging,
)
from emu.kernels.core.address import array_data

# Places of the words of a plan that are set for each call.
_TAG, _PARITY, _ROUNDS, _OPENING = map(field, ("tag", "parity", "rounds", "opening"))
_SYNC, _STREAM, _REDUCES = map(field, ("sync", "stream", "reduces"))
_STAGE, _STAGES, _ROWS, _N_ROWS = map(field, ("stage", "stages", "rows", "n_rows"))
_ITEMSIZE, _OUTPUT, _DELIVERY = map(field, ("itemsize", "output", "delivery"))
_COUNT, _PHASE = field("count"), field("phase")
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


class Exchange(Staging):
    """The exchanges of a group through its staging memory."""

    def __init__(self, group: Allocation) -> None:
        super().__init__(group)
        self.prepared = PreparedCalls(self)
        self.rows = NO_ROWS
        """What the call that is under way stages."""

    # --- one call --------------------------------------------------------------------------

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
        plan = self.plan(header)
        stage = NO_ROWS
        if transfer.stage and transfer.source < 0:
            stage = np.array([(*row, piece, 0) for row in transfer.stage], np.int64)
            plan[_STAGE], plan[_STAGES] = id(stage), len(stage)
        self.rows = stage
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
        group, sliced = self.group, mode == SLICES
        place_in = self.place(source) if mode != FLAT else UNKNOWN
        place_out = self.place(target) if sliced else UNKNOWN
        data, row_bytes = array_data(id(source)), reduction.row_bytes
        plan, stage, members = self.plan_reduction(reduction)
        plan[_OUTPUT] = array_data(id(target))
        if place_in < 0:
            stage[:, 0] += data
            plan[_STAGE], plan[_STAGES] = id(stage), len(stage)
        self.rows = stage
        table = self._open(header, plan, place_in, place_out)
        inputs, outputs = table[:, IN], table[:, OUT]
        pushes = sliced and bool((outputs >= 0).all())
        direct = bool((inputs >= 0).any())
        if mode == ROWS and bool((inputs >= 0).all()):  # no slot limits a round: one is enough
            plan[_COUNT] = max(total, 1)
        members[group.my_pe, :2] = data + group.my_pe * row_bytes, 0
        if direct:
            there = inputs >= 0
            members[there, 0] = (self.heaps + inputs + group.my_pe * row_bytes)[there]
            members[there, 1] = 0
        if pushes:
            members[:, 2], members[:, 3] = self.heaps + outputs, 0
        plan[_DELIVERY] = PUSHED if pushes else KEPT if sliced else NONE
        plan[_ROUNDS] = rounds = -(-total // int(plan[_COUNT]))
        if rounds:
            plan[_SYNC] = (sliced and not pushes) or bool((inputs < 0).any())
            plan[_STREAM] = target.nbytes >= STREAM_BYTES
            plan[_ROWS], plan[_N_ROWS] = id(members), len(members)
            self._drive(header, plan)
        if pushes or direct:
            self._close(header)

    # --- its parts -------------------------------------------------------------------------

    def _open(self, header: CollectiveHeader, plan: Words, source: int, target: int) -> Words:
        """Write the header, stage the first pieces, meet, and return the headers of all members."""
        half = int(plan[_PARITY])
        if self.resumes:
            self.resumes, plan[_PHASE] = 0, TO_CONSUME
        else:
            header.write(self._header[half], source, target)
            self._drive(header, plan)
        plan[_OPENING] = 0
        same = read_headers(self.headers, half * self.header_bytes, self._table)
        if not same and not headers_agree(self._table):
            raise mismatch(self.group, str(header))
        return self._table

    def _drive(self, header: CollectiveHeader, plan: Words) -> None:
        """Call the kernel until it has done all rounds, or the opening if that is what the plan says."""
        group = self.group
        while True:
            arrived = call_entry(group.me, group.barrier_address, id(plan), ROUNDS, 0, 0)
            if arrived == DONE:
                return
            self.pass_barrier(header, arrived)
            if plan[_OPENING]:
                return

    def _close(self, header: CollectiveHeader) -> None:
        """Wait for all members."""
        self.pass_barrier(header, self.group._arrive(header.tag + CLOSING))
