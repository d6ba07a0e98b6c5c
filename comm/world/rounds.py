"""The rounds of a collective of a World, in compiled code: stage, meet at the barrier, fetch or reduce.

A round is a turn of :mod:`emu.comm.engine`; how the rounds fit together is told in
:mod:`emu.comm.world.exchange`. Members wait for each other at the group's barrier. With one cache line it says
both that everyone's input is staged, and that everyone has left the slots of the round before. The counters by
which servers follow each other let each member run ahead, but everyone looks at all the others: on two cores the
waiting alone takes 22 instead of 10 µs per round with 8 PEs, and 76 instead of 30 with 16. And a barrier tells
all members at the same point that one of them called something else.

The kernel returns to Python where a barrier has not been passed within a slice, and goes on from the state in the
plan when it is called again.
"""

from __future__ import annotations

import numpy as np

from emu.comm.engine.records import KEPT, MEMBER, PULL, REDUCTION, STAGE, words
from emu.comm.engine.steps import (
    Record,
    collect_slice,
    copy_bytes,
    pull_piece,
    reduce_slice,
    stage_turn,
)
from emu.comm.sync.signal_numbers import DONE
from emu.comm.sync.signals import barrier_arrive
from emu.comm.world.agreement import OPENING, ROUND
from emu.kernels.atomics import fence
from emu.kernels.core.address import array_data, as_pointer
from emu.kernels.core.jit import carray, jit

PLAN = words(
    "tag",  # the first tag of the call
    "parity",  # slot that is in use in round 0
    "round",  # the one to execute next
    "rounds",
    "phase",  # TO_STAGE, or TO_CONSUME what was staged
    "opening",  # 1: return behind the first barrier, where the headers of all members can be read
    "sync",  # 1: each round needs a barrier; 0: nobody stages
    "stream",  # 1: the result is larger than the caches
    "reduces",  # 1: `rows` are of MEMBER; 0: of PULL
    "stage",  # id() of an array of STAGE, as words
    "stages",  # its rows
    "rows",
    "n_rows",
    "addresses",  # id() of room for 2 * n_pes + 1 addresses
    *REDUCTION,
)
"""The state of a call. Python keeps it as an array of words, because to set a field of a record takes seven times
as long, and passes only its ``id()``: an array costs 100 to 150 ns as an argument."""

TO_STAGE, TO_CONSUME = 0, 1


def field(name: str) -> int:
    """Return the place of a field of ``PLAN`` among the words of a plan."""
    return (PLAN.names or ()).index(name)


@jit()
def _consume(plan: Record, stage: Record) -> None:
    """Fetch or reduce what stands behind the barrier, and collect what was reduced a round earlier."""
    turn, slot = plan.round, (plan.parity + plan.round) & 1
    rows = array_data(plan.rows)
    if plan.reduces == 0:
        if (
            turn == 0 and stage.size != 0 and stage[0].own != 0
        ):  # it was staged before this was known
            row = stage[0]
            copy_bytes(row.own, row.source, min(row.piece, row.nbytes), plan.stream)
        pull = carray(as_pointer(rows), (plan.n_rows,), PULL)
        for index in range(plan.n_rows):
            pull_piece(pull[index], turn, slot, plan.stream)
        fence()
        return
    members = carray(as_pointer(rows), (plan.n_pes,), MEMBER)
    if turn < plan.rounds:
        addresses = carray(as_pointer(array_data(plan.addresses)), (2 * plan.n_pes + 1,), np.int64)
        reduce_slice(plan, members, addresses, turn, slot, plan.stream)
    if plan.delivery == KEPT and turn > 0:
        for step in range(1, plan.n_pes):
            member = (plan.my + step) % plan.n_pes
            collect_slice(plan, members, member, turn - 1, 1 - slot, plan.stream)
        fence()


@jit(inline="always")
def _advance(plan: Record, stage: Record) -> int:
    """Do what stands before the next meeting; return ``DONE``, or 0: the members must meet first."""
    while True:
        if plan.phase == TO_STAGE:
            stage_turn(plan, stage, plan.round, (plan.parity + plan.round) & 1, plan.stream)
            plan.phase = TO_CONSUME
            return 0
        _consume(plan, stage)
        plan.round += 1
        if plan.round >= plan.rounds + (1 if plan.delivery == KEPT else 0):
            return DONE
        if plan.sync != 0:
            plan.phase = TO_STAGE


@jit()
def run_phase(plan_object: int) -> int:
    """Do what stands before the next meeting, for members that meet by other means than :func:`run_rounds`.

    Returns:
        ``DONE``; or 0: all must meet before it is called again.
    """
    plan = carray(as_pointer(array_data(plan_object)), (1,), PLAN)[0]
    stage = carray(as_pointer(array_data(plan.stage)), (plan.stages,), STAGE)
    return _advance(plan, stage)


@jit()
def run_rounds(me: int, barrier: int, plan_object: int) -> int:
    """Stage, meet, consume, round by round; slices that the others reduced are fetched a round later.

    Args:
        me: This PE's block.
        barrier: The group's barrier.
        plan_object: ``id()`` of the plan, words of ``PLAN``; its state is changed.

    Returns:
        ``DONE``; or what :func:`emu.comm.sync.signals.barrier_arrive` returned, after which the barrier
        must be passed before calling again.
    """
    plan = carray(as_pointer(array_data(plan_object)), (1,), PLAN)[0]
    stage = carray(as_pointer(array_data(plan.stage)), (plan.stages,), STAGE)
    while _advance(plan, stage) != DONE:
        tag = plan.tag + (OPENING if plan.opening != 0 else ROUND)
        arrived: int = barrier_arrive(me, barrier, plan.n_pes, tag)
        if arrived != DONE or plan.opening != 0:
            return arrived
    return DONE
