"""The steps of a turn in compiled code: stage, fetch, reduce a slice, collect the others' slices.

The steps don't wait: whoever calls them knows that what they read is there, and that what they overwrite has
been read. The arguments are the same everywhere: ``plan`` is a record with the fields of
:data:`emu.comm.engine.records.REDUCTION`, ``turn`` counts from 0 in the collective, and ``slot`` is 0 or 1, the
slot of the staging memory that is in use in this turn. ``stream`` asks for stores past the caches.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from emu.comm.arrays import Words
from emu.comm.engine.records import KEPT, PUSHED
from emu.comm.layout import LINE
from emu.kernels.core.address import move_bytes
from emu.kernels.core.jit import jit
from emu.kernels.reduce import reduce_run
from emu.kernels.stream import stream_bytes, stream_bytes_twice

Record: TypeAlias = Any  # a row of a record array in compiled code; its fields are attributes there
Records: TypeAlias = Any  # a record array in compiled code, whose rows are such records

STREAM_BYTES = 8 << 20
"""Results of this size on are written past the caches."""


@jit()
def copy_bytes(target: int, source: int, count: int, stream: int) -> None:
    """Copy to memory that others may read behind a fence; nothing if both are the same."""
    if target == source or count <= 0:
        return
    if stream != 0:
        stream_bytes(target, source, count)
    else:
        move_bytes(target, source, count)


# --- copies -----------------------------------------------------------------------------------


@jit()
def _stage_piece(row: Record, slot_address: int, first: int, end: int, stream: int) -> None:
    """Stage bytes ``[first, end)`` of a block, and copy them to the own output while they are in the cache."""
    count = end - first
    if count <= 0:
        return
    source, target, own = row.source + first, slot_address + row.offset, row.own
    if own == 0:
        move_bytes(target, source, count)
    elif stream != 0:
        stream_bytes_twice(own + first, target, source, count)
    else:
        move_bytes(target, source, count)
        move_bytes(own + first, source, count)


@jit()
def stage_turn(plan: Record, stage: Records, turn: int, slot: int, stream: int) -> None:
    """Copy the turn's pieces of private input to the staging slot.

    Of a reduction in slices all but this member's own slice is staged: that nobody else reads.
    """
    slot_address = plan.staging + slot * plan.slot_bytes
    for index in range(stage.size):
        row = stage[index]
        begin = turn * row.piece
        end = min(begin + row.piece, row.nbytes)
        if plan.sliced == 0:
            _stage_piece(row, slot_address, begin, end, stream)
        else:
            first, count = slice_of(plan, plan.my, turn)
            before = begin + first * plan.itemsize
            behind = before + count * plan.itemsize
            move_bytes(slot_address, row.source + begin, before - begin)
            if behind < end:
                move_bytes(slot_address + behind - begin, row.source + behind, end - behind)


@jit()
def piece_source(row: Record, begin: int, slot: int) -> int:
    """Return the address of what a row of ``PULL`` or ``MEMBER`` reads ``begin`` bytes after its start."""
    distance: int = begin if row.other_slot == 0 else slot * row.other_slot
    address: int = row.source + distance
    return address


@jit()
def pull_piece(row: Record, turn: int, slot: int, stream: int) -> None:
    """Fetch the turn's piece of a block."""
    begin = turn * row.piece
    count = min(row.piece, row.nbytes - begin)
    copy_bytes(row.target + begin, piece_source(row, begin, slot), count, stream)


# --- reductions -------------------------------------------------------------------------------


@jit()
def slice_of(plan: Record, member: int, turn: int) -> tuple[int, int]:
    """Return (first element in the turn, number of elements) that a member reduces; cut at cache lines."""
    here = max(0, min(plan.count, plan.total - turn * plan.count))
    if plan.sliced == 0:
        return 0, here
    line = LINE // plan.itemsize
    share = ((here + plan.n_pes - 1) // plan.n_pes + line - 1) // line * line
    first = min(member * share, here)
    return first, min(share, here - first)


@jit()
def reduce_slice(
    plan: Record, members: Records, addresses: Words, turn: int, slot: int, stream: int
) -> None:
    """Combine this member's slice of the turn from everyone's input, in the order of the members.

    Args:
        plan: The reduction.
        members: ``MEMBER[n]``.
        addresses: Room for ``2 * n + 1`` addresses.
        turn: Number of the turn.
        slot: Slot in use.
        stream: Whether to store to the members' outputs past the caches, unless they are their inputs.
    """
    n_pes, size = plan.n_pes, plan.itemsize
    first, count = slice_of(plan, plan.my, turn)
    if count == 0:
        return
    begin, offset = turn * plan.count * size, first * size
    for pe in range(n_pes):
        addresses[pe] = piece_source(members[pe], begin, slot) + offset
    used = n_pes
    # The result slot is first: the others wait for it.
    if plan.delivery == KEPT:
        addresses[used] = plan.results + slot * plan.result_bytes
        used += 1
    past = 0
    if plan.delivery == PUSHED:
        past = stream
        for pe in range(n_pes):
            addresses[used + pe] = members[pe].result + begin + offset
            if addresses[used + pe] == addresses[pe]:
                past = 0  # what was just read is in the caches
        used += n_pes
    else:
        addresses[used] = plan.output + begin + offset
        used += 1
    sources, targets = addresses[:n_pes], addresses[n_pes:used]
    reduce_run(plan.dtype_code, plan.op, sources, targets, size, count, plan.scratch, past)


@jit()
def collect_slice(
    plan: Record, members: Records, member: int, turn: int, slot: int, stream: int
) -> None:
    """Fetch the slice that another member has reduced, from its result slot or from its output."""
    first, count = slice_of(plan, member, turn)
    size, row = plan.itemsize, members[member]
    start = (turn * plan.count + first) * size
    source = row.result + (start if row.other_result == 0 else slot * row.other_result)
    copy_bytes(plan.output + start, source, count * size, stream)
