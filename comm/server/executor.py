"""The executor of a communication server: a task turn by turn, in compiled code without the GIL.

The words through which members follow each other's turns are those of :mod:`emu.comm.server.area`.

*Pull.* A member that has released a turn publishes where its input lies, and everyone fetches what it
needs: input in a symmetric heap is read in place, other input from a staging buffer of two slots. A
slot is filled again when all have pulled the turn that was in it. A turn is *done* when all members
have pulled it: then its input may be overwritten.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from emu.comm.arrays import Words
from emu.comm.engine.records import KEPT, REDUCTION, words
from emu.comm.engine.steps import (
    STREAM_BYTES,
    Record,
    Records,
    collect_slice,
    pull_piece,
    reduce_slice,
    slice_of,
    stage_turn,
)
from emu.comm.server.tasks import EVERY_TURN, ONCE
from emu.comm.server.waits import await_word, publish, wake_waiters
from emu.comm.server.words import (
    ANSWERED,
    LOG,
    LOG_TURNS,
    LOG_WORDS,
    PULLED,
    READY,
    REDUCED,
    RELEASED,
    RELEASED_TURNS,
)
from emu.comm.sync.clock import clock_ns
from emu.comm.sync.link import reserve, reserve_from, sleep_until
from emu.kernels.atomics import fence, load_i64, store_i64
from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, jit

Tables: TypeAlias = tuple[Records, Records, Records]


TASK = words(
    "number",  # of the task in the communicator
    "next_turn",  # the one to execute next; the only field that the executor changes
    "turns",
    "first_turn",  # number of its first turn in the communicator
    "commit_word",  # word of the area that counts the turns released
    "commits_before",  # turns of the same message that stand in tasks before this one
    "wait_policy",
    "answer_policy",
    "kind",  # COPY, REDUCE_SCATTER or ALL_REDUCE
    *REDUCTION,
)
"""What :func:`execute` executes; one row."""

COPY, REDUCE_SCATTER, ALL_REDUCE = 0, 1, 2


# --- a turn -----------------------------------------------------------------------------------


@jit()
def _stage(me: int, areas: Words, task: Record, stage: Records, turn: int, number: int) -> bool:
    """Once everyone has left the slots of this turn, copy private input to the staging slot."""
    if stage.size == 0 and task.delivery != KEPT:
        return True
    # Another task may have divided the memory otherwise: before the first turn all must have left it.
    left = max(number - 1, task.first_turn)
    for pe in range(areas.size):
        if not await_word(me, areas, task.my, pe, PULLED, left):
            return False
    stage_turn(task, stage, turn, number & 1, 0)
    return True


@jit()
def _reserve(
    me: int, areas: Words, worlds: Words, my: int, pe: int, number: int, nbytes: int
) -> int:
    """Reserve the link from a member for its part of a turn; return when it will have come.

    For the model it sets out when both sides had released the turn, however late a server comes to it: on
    hardware nothing but the link stands between two turns.
    """
    released = 8 * (RELEASED + number % RELEASED_TURNS)
    earliest = max(load_i64(areas[pe] + released), load_i64(areas[my] + released))
    due: int = reserve_from(me, worlds[pe], worlds[my], nbytes, earliest)
    return due


@jit()
def _copy(
    me: int,
    areas: Words,
    worlds: Words,
    task: Record,
    pull: Records,
    addresses: Words,
    turn: int,
    number: int,
) -> bool:
    """Fetch from every member what is for this one, from those first that are ready."""
    my, n_pes = task.my, areas.size
    pending = addresses[:n_pes]
    pending[:] = 1
    deadline = 0
    left = n_pes
    while left > 0:
        late = -1
        before = left
        for step in range(n_pes):  # no two members begin with the same one
            pe = (my + step) % n_pes
            if pending[pe] == 0:
                continue
            if pe != my and load_i64(areas[pe] + 8 * READY) <= number:
                late = pe
                continue
            row = pull[pe]
            if pe != my and row.piece > 0:
                due = _reserve(me, areas, worlds, my, pe, number, row.piece)
                deadline = max(deadline, due)
            pull_piece(row, turn, number & 1, 1 if row.piece >= STREAM_BYTES else 0)
            pending[pe] = 0
            left -= 1
        if left == before and not await_word(me, areas, my, late, READY, number + 1):
            return False
    sleep_until(me, deadline)
    return True


@jit()
def _reduce(
    me: int,
    areas: Words,
    worlds: Words,
    task: Record,
    members: Records,
    addresses: Words,
    turn: int,
    number: int,
) -> bool:
    """Combine this member's block (or slice) of everybody's input, in the order of ranks."""
    my, n_pes = task.my, areas.size
    nbytes = slice_of(task, my, turn)[1] * task.itemsize
    deadline = 0
    for step in range(1, n_pes):
        pe = (my + step) % n_pes
        if not await_word(me, areas, my, pe, READY, number + 1):
            return False
        due = _reserve(me, areas, worlds, my, pe, number, nbytes)
        deadline = max(deadline, due)
    reduce_slice(task, members, addresses, turn, number & 1, 0)
    sleep_until(me, deadline)
    return True


@jit()
def _collect(
    me: int, areas: Words, worlds: Words, task: Record, members: Records, turn: int, number: int
) -> bool:
    """Fetch the slices that the others have reduced."""
    my, n_pes = task.my, areas.size
    deadline = 0
    for step in range(1, n_pes):
        pe = (my + step) % n_pes
        if not await_word(me, areas, my, pe, REDUCED, number + 1):
            return False
        nbytes = slice_of(task, pe, turn)[1] * task.itemsize
        deadline = max(deadline, reserve(me, int(worlds[pe]), int(worlds[my]), nbytes))
        stream = 1 if nbytes >= STREAM_BYTES else 0
        collect_slice(task, members, pe, turn, number & 1, stream)
    sleep_until(me, deadline)
    return True


@jit()
def _execute_turn(
    me: int, areas: Words, worlds: Words, task: Record, tables: Tables, addresses: Words, turn: int
) -> bool:
    stage, pull, members = tables
    my, number = task.my, task.first_turn + turn
    if not _stage(me, areas, task, stage, turn, number):
        return False
    publish(me, areas, my, READY, number + 1)
    if task.kind == COPY:
        return _copy(me, areas, worlds, task, pull, addresses, turn, number)
    if not _reduce(me, areas, worlds, task, members, addresses, turn, number):
        return False
    if task.kind == ALL_REDUCE:
        publish(me, areas, my, REDUCED, number + 1)
        return _collect(me, areas, worlds, task, members, turn, number)
    return True


@jit()
def _await_release(me: int, areas: Words, task: Record, turn: int) -> bool:
    """Wait until the compute side has released a turn, as the task's policy has it."""
    needed = 0
    if task.wait_policy == EVERY_TURN:
        needed = task.commits_before + turn + 1
    elif task.wait_policy == ONCE:
        needed = 1
    released: bool = await_word(me, areas, task.my, task.my, task.commit_word, needed)
    return released


@jit()
def _log(area: int, task: Record, turn: int, start: int) -> None:
    log = carray(as_pointer(area + 8 * LOG), (LOG_TURNS, LOG_WORDS), np.int64)
    row = log[(task.first_turn + turn) % LOG_TURNS]
    row[0], row[1], row[2], row[3] = task.number, turn, start, clock_ns()


@jit()
def _end_turn(me: int, areas: Words, task: Record, turn: int) -> bool:
    """Publish that this member needs nothing more for a turn, and answer the compute side."""
    my, number = task.my, task.first_turn + turn
    answered = areas[my] + 8 * ANSWERED
    if task.answer_policy == EVERY_TURN:
        store_i64(answered, number + 1)
    task.next_turn = turn + 1
    publish(me, areas, my, PULLED, number + 1)
    if task.answer_policy == ONCE and turn == task.turns - 1:
        for pe in range(areas.size):
            if not await_word(me, areas, my, pe, PULLED, number + 1):
                return False
        store_i64(answered, number + 1)
        fence()
    return True


@jit()
def execute(
    me: int,
    areas: Words,
    worlds: Words,
    tasks: Records,
    stage: Records,
    pull: Records,
    members: Records,
    addresses: Words,
) -> bool:
    """Execute the turns of one task, each when the compute side has released it.

    Args:
        me: Address of this PE's block.
        areas: Address of every member's area, ``int64[n]``.
        worlds: World number of every member, ``int64[n]``.
        tasks: The task, ``TASK[1]``.
        stage: Private input, ``STAGE[m]``.
        pull: What a copy fetches from each member, ``PULL[n]``.
        members: Inputs and results of a reduction, ``MEMBER[n]``.
        addresses: Room for ``2 * n + 1`` addresses.

    Returns:
        Whether all turns were executed; False: the server must end.
    """
    task = tasks[0]
    while task.next_turn < task.turns:
        turn = task.next_turn
        if not _await_release(me, areas, task, turn):
            return False
        start = clock_ns()
        if not _execute_turn(me, areas, worlds, task, (stage, pull, members), addresses, turn):
            return False
        _log(int(areas[task.my]), task, turn, start)
        if not _end_turn(me, areas, task, turn):
            return False
        wake_waiters(me, areas, worlds)
    return True


# --- over hosts -------------------------------------------------------------------------------

RELEASE, STAGE, FETCH, COLLECT, END = range(5)
"""Steps of a turn, between which what is ready goes to other hosts (:mod:`emu.comm.server.spanning`)."""


@jit()
def execute_step(
    step: int,
    me: int,
    areas: Words,
    worlds: Words,
    tasks: Records,
    stage: Records,
    pull: Records,
    members: Records,
    addresses: Words,
) -> bool:
    """Do one step of the next turn of a task; for the arguments see :func:`execute`.

    Returns:
        Whether it was done; False: the server must end.
    """
    task = tasks[0]
    my, turn = task.my, task.next_turn
    number = task.first_turn + turn
    if step == RELEASE:
        return _await_release(me, areas, task, turn)
    if step == STAGE:
        return _stage(me, areas, task, stage, turn, number)
    if step == FETCH:
        publish(me, areas, my, READY, number + 1)
        if task.kind == COPY:
            return _copy(me, areas, worlds, task, pull, addresses, turn, number)
        return _reduce(me, areas, worlds, task, members, addresses, turn, number)
    if step == COLLECT:
        publish(me, areas, my, REDUCED, number + 1)
        return _collect(me, areas, worlds, task, members, turn, number)
    if not _end_turn(me, areas, task, turn):
        return False
    wake_waiters(me, areas, worlds)
    return True
