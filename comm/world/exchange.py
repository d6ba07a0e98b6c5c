"""How the members of a group exchange blocks: the machine room of the collectives.

*One call, one header.* Each member writes what it calls (operation, dtype, shape, root, …) into its
header, stages the first piece of its data, and arrives at the group's barrier. Behind the barrier every
member reads all headers: those that disagree raise on all members, before any result was written.
Small collectives need no other barrier. Members that come to that barrier by other calls are found by the
barrier itself (:mod:`emu.comm.world.agreement`).

*Staging.* Data passes through two buffers a PE in the symmetric heap, made at the first use and kept.
A piece lies in the L2 cache while it is copied in and out, so that each byte comes from memory once
and goes to memory once. While the members read one buffer, they fill the other: when a member has
passed the barrier of round k + 1, all have read what was staged for round k, and that buffer is free.
So there is one barrier a round. Headers alternate in the same way. Which buffer's turn it is follows from the
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

from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.comm.layout import LINE
from emu.comm.sync.signals import DONE, barrier_arrive
from emu.comm.world.agreement import (
    CLOSING,
    FIRST_COLLECTIVE,
    OPENING,
    ROUND,
    STAGES,
    mismatch,
    pass_barrier,
)
from emu.comm.world.allocation import Allocation
from emu.kernels.atomics import fence
from emu.kernels.core.address import array_data, as_pointer, move_bytes
from emu.kernels.core.dtypes import DTYPES
from emu.kernels.core.jit import carray, jit
from emu.kernels.reduce import CODES, OPS, SCRATCH_BYTES, reduce_run
from emu.kernels.stream import stream_bytes, stream_bytes_twice

Array = np.ndarray[Any, Any]
Words = np.ndarray[Any, np.dtype[np.int64]]

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

MAX_RANK = 32

# --- header: int64 words. The first COMPARED must be the same on every member.
KIND, DTYPE, OP, ROOT, PAIRS, RANK, SHAPE = range(7)
COMPARED = SHAPE + MAX_RANK
IN, OUT = COMPARED, COMPARED + 1  # offset in the own heap, or -1
HEADER_WORDS = 48  # behind them: the send counts of all_to_all_v
UNKNOWN = -1

KINDS = (
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "permute",
    "gather",
    "scatter",
)

# --- plan of a call: int64 words
P_ROUND, P_ROUNDS, P_PHASE, P_OPENING, P_SYNC, P_SLOT, P_PARITY, P_HALF, P_STAGING = range(9)
P_MODE, P_MY, P_TOTAL, P_ROW, P_SIZE, P_CODE, P_OP, P_INPUT, P_STAGES = range(9, 18)
P_OUT, P_SCRATCH, P_RESULT, P_DIRECT_OUT, P_STREAM, P_TAG = range(18, 24)
PLAN_WORDS = 24
STAGE, CONSUME = 0, 1
FLAT, ROWS, SLICES = 0, 1, 2


@jit()
def _write(plan: Any, target: int, source: int, count: int) -> None:
    """Copy to the result, past the caches if it is larger than they are."""
    if plan[P_STREAM] != 0:
        stream_bytes(target, source, count)
    else:
        move_bytes(target, source, count)


@jit()
def _arrive(me: int, barrier: int, n_pes: int, plan: Any) -> Any:
    stage = OPENING if plan[P_OPENING] != 0 else ROUND
    return barrier_arrive(me, barrier, n_pes, plan[P_TAG] + stage)


@jit()
def _stage_block(plan: Any, stage: Any, row: int, done: int, target: int) -> None:
    """Stage a piece, and copy it to this PE's own result while it is in the cache."""
    source, own = stage[row, 0] + done, stage[row, 3]
    count = min(plan[P_SLOT], stage[row, 1] - done)
    if own != 0 and plan[P_STREAM] != 0 and count > 0:
        stream_bytes_twice(own + done, target, source, count)
    elif count > 0:
        move_bytes(target, source, count)
        if own != 0:
            move_bytes(own + done, source, count)


@jit()
def copy_rounds(me: int, barrier: int, n_pes: int, plan: Any, stage: Any, fetch: Any) -> Any:
    """Stage, meet, fetch, round by round.

    Args:
        me: This PE's block.
        barrier: The group's barrier.
        n_pes: Members of the group.
        plan: State of the call, changed.
        stage: Rows (source, bytes, offset in the staging buffer, own target or 0). What has an
            own target is copied there too; in round 0 after the opening.
        fetch: Rows (source, target, bytes, staged): staged sources lie in staging buffers, whose
            turn the round is; others are read on and on.

    Returns:
        ``DONE``; or what :func:`emu.comm.sync.signals.barrier_arrive` returned, after which the barrier
        must be passed before calling again.
    """
    slot = plan[P_SLOT]
    while True:
        done = plan[P_ROUND] * slot
        buffer = ((plan[P_PARITY] + plan[P_ROUND]) & 1) * plan[P_HALF]
        if plan[P_PHASE] == STAGE:
            for row in range(stage.shape[0]):
                target = plan[P_STAGING] + buffer + stage[row, 2]
                _stage_block(plan, stage, row, done, target)
            plan[P_PHASE] = CONSUME
            arrived = _arrive(me, barrier, n_pes, plan)
            if arrived != DONE or plan[P_OPENING] != 0:
                return arrived
        if plan[P_ROUND] == 0 and stage.shape[0] and stage[0, 3] != 0:
            _write(plan, stage[0, 3], stage[0, 0], min(slot, stage[0, 1]))
        for row in range(fetch.shape[0]):
            count = min(slot, fetch[row, 2] - done)
            if count > 0:
                source = fetch[row, 0] + (buffer if fetch[row, 3] != 0 else done)
                _write(plan, fetch[row, 1] + done, source, count)
        fence()
        plan[P_ROUND] += 1
        if plan[P_ROUND] >= plan[P_ROUNDS]:
            return DONE
        if plan[P_SYNC] != 0:
            plan[P_PHASE] = STAGE


@jit()
def _part(plan: Any, n_pes: int, turn: int, part: int) -> Any:
    """Return (byte offset in the input, elements) of what member ``part`` reduces in a round."""
    size, total = plan[P_SIZE], plan[P_TOTAL]
    room = plan[P_SLOT] // size
    if plan[P_MODE] != SLICES:
        row = plan[P_ROW] * part if plan[P_MODE] == ROWS else 0
        return row + turn * room * size, max(0, min(room, total - turn * room))
    begin = turn * room * n_pes
    here = max(0, min(room * n_pes, total - begin))
    # The last chunk is cut evenly too, at cache lines.
    line = LINE // size
    share = ((here + n_pes - 1) // n_pes + line - 1) // line * line
    first = min(part * share, here)
    return (begin + first) * size, min(share, here - first)


@jit()
def _stage_parts(plan: Any, n_pes: int, turn: int, buffer: int) -> None:
    """Copy what the others reduce to the staging buffer."""
    if plan[P_STAGES] == 0:
        return
    target = plan[P_STAGING] + buffer
    if plan[P_MODE] == FLAT:
        start, count = _part(plan, n_pes, turn, 0)
        move_bytes(target, plan[P_INPUT] + start, count * plan[P_SIZE])
        return
    for part in range(n_pes):
        start, count = _part(plan, n_pes, turn, part)
        if part != plan[P_MY] and count > 0:
            slot = target + part * plan[P_SLOT]
            move_bytes(slot, plan[P_INPUT] + start, count * plan[P_SIZE])


@jit()
def _reduce_part(plan: Any, n_pes: int, turn: int, buffer: int, peers: Any, list_: Any) -> None:
    my = plan[P_MY]
    start, count = _part(plan, n_pes, turn, my)
    if count == 0:
        return
    sources, targets = list_[:n_pes], list_[n_pes:]
    slot = my * plan[P_SLOT] if plan[P_MODE] != FLAT else 0
    for pe in range(n_pes):
        if pe == my:
            sources[pe] = plan[P_INPUT] + start
        elif peers[pe, 1] != 0:
            sources[pe] = peers[pe, 0] + start
        else:
            sources[pe] = peers[pe, 0] + buffer + slot
    used = 1
    if plan[P_MODE] != SLICES:
        targets[0] = plan[P_OUT] + turn * plan[P_SLOT] // plan[P_SIZE] * plan[P_SIZE]
    elif plan[P_DIRECT_OUT] == 0:
        half = (plan[P_PARITY] + turn) & 1
        targets[0] = plan[P_RESULT] + half * plan[P_SLOT]
        targets[1] = plan[P_OUT] + start
        used = 2
    else:
        used = n_pes
        for pe in range(n_pes):
            targets[pe] = peers[pe, 2] + start
    code, op, size, scratch = plan[P_CODE], plan[P_OP], plan[P_SIZE], plan[P_SCRATCH]
    reduce_run(code, op, sources, targets[:used], size, count, scratch)


@jit()
def _collect_parts(plan: Any, n_pes: int, turn: int, peers: Any) -> None:
    """Fetch what the others reduced in round ``turn``."""
    half = (plan[P_PARITY] + turn) & 1
    for step in range(1, n_pes):
        part = (plan[P_MY] + step) % n_pes
        start, count = _part(plan, n_pes, turn, part)
        source = peers[part, 2] + half * plan[P_SLOT]
        _write(plan, plan[P_OUT] + start, source, count * plan[P_SIZE])
    fence()


@jit()
def reduce_rounds(me: int, barrier: int, n_pes: int, plan: Any, peers: Any, list_: Any) -> Any:
    """Stage, meet, reduce, round by round; with slices, fetch the results a round later.

    Args:
        me: This PE's block.
        barrier: The group's barrier.
        n_pes: Members of the group.
        plan: State of the call, changed.
        peers: Rows (staging buffer or input, whether it is the input, results or output).
        list_: Room for ``2 * n_pes + 1`` addresses.

    Returns:
        As :func:`copy_rounds`.
    """
    collects = plan[P_MODE] == SLICES and plan[P_DIRECT_OUT] == 0
    while True:
        turn = plan[P_ROUND]
        buffer = ((plan[P_PARITY] + turn) & 1) * plan[P_HALF]
        if plan[P_PHASE] == STAGE:
            _stage_parts(plan, n_pes, turn, buffer)
            plan[P_PHASE] = CONSUME
            arrived = _arrive(me, barrier, n_pes, plan)
            if arrived != DONE or plan[P_OPENING] != 0:
                return arrived
        if turn < plan[P_ROUNDS]:
            _reduce_part(plan, n_pes, turn, buffer, peers, list_)
        if collects and turn > 0:
            _collect_parts(plan, n_pes, turn - 1, peers)
        plan[P_ROUND] += 1
        if plan[P_ROUND] >= plan[P_ROUNDS] + collects:
            return DONE
        if plan[P_SYNC] != 0 or collects:
            plan[P_PHASE] = STAGE


@jit()
def read_headers(headers: Any, offset: int, table: Any) -> None:
    """Copy every member's header into a row of ``table``."""
    words = table.shape[1]
    for pe in range(headers.size):
        header = carray(as_pointer(headers[pe] + offset), (words,), np.int64)
        for index in range(words):
            table[pe, index] = header[index]


@dataclass(kw_only=True)
class Call:
    """What this member calls; the header holds it."""

    kind: str
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    op: int = 0
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()
    counts: tuple[int, ...] = ()


_NO_ROWS: Words = np.zeros((0, 4), np.int64)


class Exchange:
    """A group's scratch memory and the state of its exchanges."""

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
        self._list: Words = np.zeros(2 * n_pes + 1, np.int64)
        self._memory: Array = np.empty(SCRATCH_BYTES + LINE, np.uint8)
        self._scratch = -(-array_data(id(self._memory)) // LINE) * LINE
        start = group.barrier_address - group.segment.address
        self._generation = group.segment.bytes[start + 4 : start + 8].view(np.int32)

    # --- one call --------------------------------------------------------------------------

    def place(self, array: Array) -> int:
        """Return the offset of a dense array in this PE's symmetric heap; -1 elsewhere."""
        offset = int(array_data(id(array)) - self.heaps[self._group.my_pe])
        inside = 0 <= offset < self._group.segment.layout.heap_bytes
        return offset if inside and array.nbytes >= DIRECT_BYTES else UNKNOWN

    def copy(
        self, call: Call, slot: int, stage: list[tuple[int, int, int]], source: int, target: int
    ) -> tuple[Words, Words]:
        """Open an exchange of blocks; return every member's header, and the plan for :meth:`run`.

        Args:
            call: What is called.
            slot: Bytes of a block that are staged in a round.
            stage: Blocks to stage: (address, bytes, offset in the staging buffer).
            source: Offset of the input in the heap if the others shall read it there, or -1.
            target: Offset of the output if the others may write to it, or -1.
        """
        plan = self._plan(call, slot)
        self._stage = _NO_ROWS
        if stage and source < 0:
            self._stage = np.array([(*row, 0) for row in stage], np.int64)
        return self._open(call, plan, copy_rounds, (self._stage, _NO_ROWS), source, target), plan

    def keep_own(self, target: int) -> None:
        """Have the first block that is staged also copied to ``target``; call it before :meth:`run`."""
        self._stage[0, 3] = target

    def run(
        self,
        call: Call,
        plan: Words,
        fetch: list[tuple[int, int, int, int]],
        longest: int,
        *,
        sync: bool,
    ) -> None:
        """Exchange blocks.

        Args:
            call: What is called.
            plan: What :meth:`copy` returned.
            fetch: Blocks to copy: (source, target, bytes, whether it is staged).
            longest: Bytes of the longest block that any member fetches.
            sync: Whether any member stages.
        """
        if not sync:
            plan[P_SLOT] = self.chunk
        plan[P_ROUNDS] = -(-longest // int(plan[P_SLOT]))
        plan[P_SYNC] = sync
        plan[P_STREAM] = sum(row[2] for row in fetch) >= STREAM_BYTES
        if plan[P_ROUNDS] == 0:
            return
        rows = np.array(fetch, np.int64).reshape(-1, 4) if fetch else _NO_ROWS
        self._drive(call, plan, copy_rounds, (self._stage, rows))

    def reduce(
        self, call: Call, mode: int, source: Array, target: Array, total: int, row_bytes: int
    ) -> None:
        """Reduce, from the first header to the last copy."""
        group, n_pes = self._group, self._group.n_pes
        assert call.dtype is not None
        size = call.dtype.itemsize
        plan = self._plan(call, self.chunk if mode == FLAT else self.slot)
        place_in = self.place(source) if mode != FLAT else UNKNOWN
        place_out = self.place(target) if mode == SLICES else UNKNOWN
        data = array_data(id(source))
        my, op = group.my_pe, call.op
        plan[P_MODE : P_STAGES + 1] = (
            (mode, my, total, row_bytes, size, CODES[call.dtype], op, data, place_in < 0)
        )  # fmt: skip
        plan[P_OUT], plan[P_SCRATCH] = array_data(id(target)), self._scratch
        plan[P_RESULT] = self._results[my]
        plan[P_STREAM] = target.nbytes >= STREAM_BYTES
        peers: Words = np.empty((n_pes, 3), np.int64)
        table = self._open(call, plan, reduce_rounds, (peers, self._list), place_in, place_out)
        inputs, outputs = table[:, IN], table[:, OUT]
        direct_out = bool((outputs >= 0).all())
        peers[:, 1] = inputs >= 0
        peers[:, 0] = np.where(inputs >= 0, self.heaps + inputs, self.staging)
        peers[:, 2] = self.heaps + outputs if direct_out else self._results
        a_round = int(plan[P_SLOT]) // size * (n_pes if mode == SLICES else 1)
        plan[P_ROUNDS] = -(-total // a_round)
        plan[P_SYNC], plan[P_DIRECT_OUT] = (inputs < 0).any(), direct_out
        if plan[P_ROUNDS]:
            self._drive(call, plan, reduce_rounds, (peers, self._list))
        if direct_out or (inputs >= 0).any():
            self.meet(call)

    def meet(self, call: Call) -> None:
        """Wait for all members."""
        group = self._group
        tag = _tag(call) + CLOSING
        self._pass(call, barrier_arrive(group.me, group.barrier_address, group.n_pes, tag))

    # --- how it goes -----------------------------------------------------------------------

    def _parity(self) -> int:
        """Return which of two headers and buffers is this generation's."""
        return int(self._generation[0]) & 1

    def _plan(self, call: Call, slot: int) -> Words:
        plan: Words = np.zeros(PLAN_WORDS, np.int64)
        plan[P_OPENING], plan[P_SLOT], plan[P_PARITY] = 1, slot, self._parity()
        plan[P_TAG] = _tag(call)
        plan[P_HALF], plan[P_STAGING] = self.chunk, self.staging[self._group.my_pe]
        return plan

    def _open(
        self,
        call: Call,
        plan: Words,
        kernel: Any,
        tables: tuple[Any, ...],
        source: int,
        target: int,
    ) -> Words:
        """Write the header, stage the first pieces, meet, and look whether all mean the same."""
        half = self._parity()
        rank = len(call.shape) if call.dtype is not None else UNKNOWN
        code = CODES[call.dtype] if call.dtype is not None else UNKNOWN
        header = self._header[half]
        header[:COMPARED] = 0
        header[: SHAPE + len(call.shape)] = (
            KINDS.index(call.kind),
            code,
            call.op,
            call.root,
            hash(call.pairs),
            rank,
            *call.shape,
        )
        header[IN], header[OUT] = source, target
        if call.counts:
            header[HEADER_WORDS:] = call.counts
        self._drive(call, plan, kernel, tables)
        plan[P_OPENING] = 0
        read_headers(self._headers, half * self._header_bytes, self._table)
        self._check(call)
        return self._table

    def _drive(self, call: Call, plan: Words, kernel: Any, tables: tuple[Any, ...]) -> None:
        group = self._group
        while True:
            arrived = kernel(group.me, group.barrier_address, group.n_pes, plan, *tables)
            if arrived == DONE:
                return
            self._pass(call, arrived)
            if plan[P_OPENING]:
                return

    def _pass(self, call: Call, arrived: Any) -> None:
        """Wait for the end of a barrier, as ``Group.barrier`` does."""
        group = self._group
        if not pass_barrier(group, int(arrived), f"{group.name} ({call.kind})"):
            raise mismatch(group, _describe(call))

    def _check(self, call: Call) -> None:
        """Raise on every member if the headers differ."""
        compared = self._table[:, :COMPARED]
        if (compared == compared[0]).all():
            return
        # Members that leave dtype and shape to the root are compared with it in the rest.
        known = np.flatnonzero(compared[:, RANK] != UNKNOWN)
        first = compared[known[0] if known.size else 0]
        there = compared.copy()
        unknown = there[:, RANK] == UNKNOWN
        there[unknown, DTYPE] = first[DTYPE]
        there[unknown, RANK:] = first[RANK:]
        if (there != first).any():
            raise mismatch(self._group, _describe(call))


def _tag(call: Call) -> int:
    return FIRST_COLLECTIVE + STAGES * KINDS.index(call.kind)


def _describe(call: Call) -> str:
    arguments = [] if call.dtype is None else [f"{call.dtype} {call.shape}"]
    if call.kind in ("all_reduce", "reduce_scatter"):
        arguments.append(f"op={list(OPS)[call.op]!r}")
    if call.kind in ("broadcast", "gather", "scatter"):
        arguments.append(f"root={call.root}")
    if call.kind == "permute":
        arguments.append(f"pairs={list(call.pairs)}"[:200])
    return f"{call.kind}({', '.join(arguments)})"


def header_dtype(header: Words) -> np.dtype[Any]:
    """Return the dtype in a header."""
    return DTYPES[int(header[DTYPE])]


def header_shape(header: Words) -> tuple[int, ...]:
    """Return the shape in a header."""
    return tuple(int(extent) for extent in header[SHAPE : SHAPE + int(header[RANK])])


__all__ = [
    "FLAT",
    "FLAT_BYTES",
    "HEADER_WORDS",
    "IN",
    "OUT",
    "ROWS",
    "SLICES",
    "UNKNOWN",
    "Call",
    "Exchange",
    "header_dtype",
    "header_shape",
]
