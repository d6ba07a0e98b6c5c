"""A collective that was called before, in one piece of compiled code: from the header to the last copy.

Everything that follows from kind, operation, root, dtype and shape is prepared once, in words of ``CALL``
(:mod:`emu.comm.world.prepared`). A call then passes the two arrays, and all that is left is to add their addresses to
rows, to write the header, and to run the rounds. The protocol is that of :mod:`emu.comm.world.exchange`, word for
word, so members that come here meet members that take the general path; where a member does something for which
nothing is prepared, everyone leaves for the general path behind the opening barrier.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emu.comm.engine.records import MEMBER, PULL, STAGE, words
from emu.comm.engine.steps import Record, stage_turn
from emu.comm.sync.signal_numbers import DONE
from emu.comm.sync.signals import barrier_arrive
from emu.comm.world.agreement import OPENING
from emu.comm.world.collective_header import COMPARED
from emu.comm.world.rounds import PLAN, TO_CONSUME, run_rounds
from emu.kernels.atomics import load_i32
from emu.kernels.core.address import array_data, as_pointer
from emu.kernels.core.jit import carray, jit
from emu.kernels.core.quick_entry import quick_entry_apart_when_called

CALL = words(
    *(PLAN.names or ()),
    "stage_from",  # id() of rows of STAGE whose sources count from the input
    "rows_from",  # the same of `rows`: what has no other slot counts from the input, targets from the output
    "header",  # id() of the header's COMPARED words
    "headers",  # id() of the addresses of all members' headers
    "header_bytes",  # from a header to that of the other parity
    "heap",  # address of this member's symmetric heap
    "heap_room",
    "in_place",  # 1: the others use arrays in the heap where they are, so those are not for this path
    "in_bytes",  # 0: the input is not read
    "out_bytes",
    "distance",  # from the output to the input where both may be in the same memory
)
"""Words of a prepared call: those of a plan, and where they come from."""

BEGIN, RESUME, ROUNDS = range(3)
"""Steps of :func:`run_call`."""

UNPREPARED, MIXED = DONE + 2, DONE + 3
"""Results: nothing was done, take the general path from its start; or from behind the opening barrier."""


@jit()
def _fits(call: Record, source: int, target: int) -> bool:
    """Return whether arrays may be used as they are: they lie apart or just so, and not in the heap if large."""
    overlap = source < target + call.out_bytes and target < source + call.in_bytes
    if overlap and source - target != call.distance:
        return False
    if call.in_place == 0:
        return True
    return not (
        0 <= source - call.heap < call.heap_room or 0 <= target - call.heap < call.heap_room
    )


@jit()
def _place(call: Record, source: int, target: int) -> None:
    """Write the rows of the plan for an input and an output at these addresses."""
    fresh = carray(as_pointer(array_data(call.stage_from)), (call.stages,), STAGE)
    stage = carray(as_pointer(array_data(call.stage)), (call.stages,), STAGE)
    for index in range(call.stages):
        stage[index].source = fresh[index].source + source
    if call.reduces != 0:
        call.output = target
        mine = carray(as_pointer(array_data(call.rows_from)), (call.n_pes,), MEMBER)[call.my]
        carray(as_pointer(array_data(call.rows)), (call.n_pes,), MEMBER)[call.my].source = (
            mine.source + source
        )
        return
    pulls = carray(as_pointer(array_data(call.rows_from)), (call.n_rows,), PULL)
    rows = carray(as_pointer(array_data(call.rows)), (call.n_rows,), PULL)
    for index in range(call.n_rows):
        pull = pulls[index]
        rows[index].source = pull.source + (source if pull.other_slot == 0 else 0)
        rows[index].target = pull.target + target


@jit()
def _write_header(call: Record) -> None:
    """Write the words that are not there yet: a header that stays is in everyone's caches."""
    own = carray(as_pointer(array_data(call.headers)), (call.n_pes,), np.int64)[call.my]
    there = carray(as_pointer(own + call.parity * call.header_bytes), (COMPARED,), np.int64)
    header = carray(as_pointer(array_data(call.header)), (COMPARED,), np.int64)
    for index in range(COMPARED):
        if there[index] != header[index]:
            there[index] = header[index]


@jit()
def _all_same(call: Record) -> bool:
    """Return whether every member's header is this member's: they agree, and nobody's array is used in place."""
    members = carray(as_pointer(array_data(call.headers)), (call.n_pes,), np.int64)
    header = carray(as_pointer(array_data(call.header)), (COMPARED,), np.int64)
    for pe in range(call.n_pes):
        start = members[pe] + call.parity * call.header_bytes
        there = carray(as_pointer(start), (COMPARED,), np.int64)
        for index in range(COMPARED):
            if there[index] != header[index]:
                return False
    return True


@jit()
def _begin(me: int, barrier: int, call: Record, source: int, target: int) -> int:
    """Stage and arrive at the opening barrier; as :func:`run_call`."""
    if not _fits(call, source, target):
        return UNPREPARED
    _place(call, source, target)
    call.parity = load_i32(barrier + 4) & 1
    call.round, call.opening, call.phase = 0, 1, TO_CONSUME
    _write_header(call)
    stage = carray(as_pointer(array_data(call.stage)), (call.stages,), STAGE)
    stage_turn(call, stage, 0, call.parity, 0)
    arrived: int = barrier_arrive(me, barrier, call.n_pes, call.tag + OPENING)
    return arrived


@jit()
def run_call(
    me: int, barrier: int, call_object: int, step: int, source_object: int, target_object: int
) -> int:
    """Do a prepared call, or a part of it; or the rounds of a call that is not prepared.

    One kernel does both, because each would take as long to compile.

    Args:
        me: This PE's block.
        barrier: The group's barrier.
        call_object: ``id()`` of an array of the words of ``CALL``, or for ``ROUNDS`` of ``PLAN``.
        step: ``BEGIN`` a call; ``RESUME`` it behind a barrier; ``ROUNDS``: :func:`emu.comm.world.rounds.run_rounds`.
        source_object: To begin: ``id()`` of the input, a dense ndarray.
        target_object: To begin: ``id()`` of the output, a dense ndarray.

    Returns:
        ``DONE``, ``UNPREPARED`` or ``MIXED``; or what :func:`emu.comm.sync.signals.barrier_arrive` returned: pass
        the barrier, then resume.
    """
    if step != ROUNDS:
        call = carray(as_pointer(array_data(call_object)), (1,), CALL)[0]
        if step == BEGIN:
            source, target = array_data(source_object), array_data(target_object)
            arrived = _begin(me, barrier, call, source, target)
            if arrived != DONE:
                return arrived
        if call.opening != 0:
            call.opening = 0
            if not _all_same(call):
                return MIXED
    result: int = run_rounds(me, barrier, call_object)
    return result


call_entry: Callable[..., int] = quick_entry_apart_when_called(run_call, 6)
"""Entry point of :func:`run_call`."""
