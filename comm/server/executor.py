"""The executor of a communication server: a task turn by turn, in compiled code without the GIL.

The words through which members follow each other's turns are those of :mod:`emu.comm.server.area`.

*Pull.* A member that has released a turn publishes where its input lies, and everyone fetches what it
needs: input in a symmetric heap is read in place, other input from a staging buffer of two slots. A
slot is filled again when all have pulled the turn that was in it. A turn is *done* when all members
have pulled it: then its input may be overwritten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.layout import LINE
from emu.comm.server.area import (
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
from emu.comm.server.tasks import EVERY_TURN, ONCE
from emu.comm.server.waits import await_word, publish, wake_waiters
from emu.comm.sync.clock import clock_ns
from emu.comm.sync.link import reserve, reserve_from, sleep_until
from emu.kernels.atomics import fence, load_i64, store_i64
from emu.kernels.core.address import as_pointer, move_bytes
from emu.kernels.core.jit import carray, jit
from emu.kernels.reduce import reduce_run
from emu.kernels.stream import stream_bytes


def _words(*names: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in names])


TASK = _words(
    "my",  # this member
    "n_pes",
    "number",  # of the task in the communicator
    "next_turn",  # the one to execute next; the only field that the executor changes
    "turns",
    "first_turn",  # number of its first turn in the communicator
    "commit_word",  # word of the area that counts the turns released
    "commits_before",  # turns of the same message that stand in tasks before this one
    "wait_policy",
    "answer_policy",
    "kind",  # COPY, REDUCE_SCATTER or ALL_REDUCE
    "itemsize",
    "count",  # elements per turn
    "dtype_code",
    "op",
    "output",  # address
    "output_step",  # bytes per turn
    "staging",  # address of this member's two slots for input ...
    "slot_bytes",
    "results",  # ... and of its two slots for slices of an all-reduce
    "result_bytes",
    "publishes_result",  # whether the others fetch results from those slots
    "scratch",  # address of memory for reductions
)
"""What :func:`execute` executes; one row."""

STAGE = _words("source", "step", "nbytes", "offset")
"""Private input to copy to the staging slot: address, bytes per turn, bytes, offset in the slot."""

PULL = _words(
    "source",  # address of the member's input; it walks on by `step` a turn if it is read in place,
    "step",
    "other_slot",  # or alternates between two staging slots, this many bytes apart
    "target",
    "target_step",
    "nbytes",
    "result",  # the same for its slice of an all-reduce
    "result_step",
    "other_result",
)
"""What to fetch from a member; one row per member."""

COPY, REDUCE_SCATTER, ALL_REDUCE = 0, 1, 2

STREAM_BYTES = 8 << 20
"""Blocks of this size on are written past the caches."""


# --- a turn -----------------------------------------------------------------------------------


@jit()
def _move(target: int, source: int, count: int) -> None:
    if target == source or count <= 0:
        return
    if count >= STREAM_BYTES:
        stream_bytes(target, source, count)
    else:
        move_bytes(target, source, count)


@jit()
def _source(row: Any, turn: int, number: int) -> Any:
    """Return where the input of a turn lies: it walks on, or alternates between two slots."""
    return row.source + turn * row.step + (number & 1) * row.other_slot


@jit()
def _stage(me: int, areas: Any, task: Any, stage: Any, turn: int, number: int) -> bool:
    """Once everyone has left the slots of this turn, copy private input to the staging slot."""
    if stage.size == 0 and task.publishes_result == 0:
        return True
    # Another task may have divided the memory otherwise: before the first turn all must have left it.
    left = max(number - 1, task.first_turn)
    for pe in range(areas.size):
        if not await_word(me, areas, task.my, pe, PULLED, left):
            return False
    slot = task.staging + (number & 1) * task.slot_bytes
    for index in range(stage.size):
        row = stage[index]
        move_bytes(slot + row.offset, row.source + turn * row.step, row.nbytes)
    return True


@jit()
def _reserve(me: int, areas: Any, worlds: Any, my: int, pe: int, number: int, nbytes: int) -> Any:
    """Reserve the link from a member for its part of a turn; return when it will have come.

    For the model it sets out when both sides had released the turn, however late a server comes to it: on
    hardware nothing but the link stands between two turns.
    """
    released = 8 * (RELEASED + number % RELEASED_TURNS)
    earliest = max(load_i64(areas[pe] + released), load_i64(areas[my] + released))
    return reserve_from(me, worlds[pe], worlds[my], nbytes, earliest)


@jit()
def _copy(
    me: int, areas: Any, worlds: Any, task: Any, pull: Any, addresses: Any, turn: int, number: int
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
            if pe != my and row.nbytes > 0:
                due = _reserve(me, areas, worlds, my, pe, number, row.nbytes)
                deadline = max(deadline, due)
            _move(row.target + turn * row.target_step, _source(row, turn, number), row.nbytes)
            pending[pe] = 0
            left -= 1
        if left == before and not await_word(me, areas, my, late, READY, number + 1):
            return False
    sleep_until(me, deadline)
    return True


@jit()
def _slice(task: Any, pe: int) -> Any:
    """Return (first element, elements) of member ``pe``'s slice of an all-reduce."""
    line = max(1, LINE // task.itemsize)
    share = ((task.count + task.n_pes - 1) // task.n_pes + line - 1) // line * line
    first = min(pe * share, task.count)
    return first, min(share, task.count - first)


@jit()
def _reduce(
    me: int, areas: Any, worlds: Any, task: Any, pull: Any, addresses: Any, turn: int, number: int
) -> bool:
    """Combine this member's block (or slice) of everybody's input, in the order of ranks."""
    my, n_pes, size = task.my, areas.size, task.itemsize
    first, count = 0, task.count
    if task.kind == ALL_REDUCE:
        first, count = _slice(task, my)
    deadline = 0
    for step in range(1, n_pes):
        pe = (my + step) % n_pes
        if not await_word(me, areas, my, pe, READY, number + 1):
            return False
        due = _reserve(me, areas, worlds, my, pe, number, count * size)
        deadline = max(deadline, due)
    for pe in range(n_pes):
        addresses[pe] = _source(pull[pe], turn, number) + first * size
    addresses[n_pes] = task.output + turn * task.output_step + first * size
    used = n_pes + 1
    if task.publishes_result != 0:
        addresses[used] = task.results + (number & 1) * task.result_bytes
        used += 1
    if count > 0:
        sources, targets = addresses[:n_pes], addresses[n_pes:used]
        reduce_run(task.dtype_code, task.op, sources, targets, size, count, task.scratch)
    sleep_until(me, deadline)
    return True


@jit()
def _collect(
    me: int, areas: Any, worlds: Any, task: Any, pull: Any, turn: int, number: int
) -> bool:
    """Fetch the slices that the others have reduced."""
    my, n_pes, size = task.my, areas.size, task.itemsize
    deadline = 0
    for step in range(1, n_pes):
        pe = (my + step) % n_pes
        if not await_word(me, areas, my, pe, REDUCED, number + 1):
            return False
        first, count = _slice(task, pe)
        deadline = max(deadline, reserve(me, worlds[pe], worlds[my], count * size))
        row = pull[pe]
        source = row.result + turn * row.result_step + (number & 1) * row.other_result
        if row.other_result == 0:
            source += first * size  # in the other's output itself
        _move(task.output + turn * task.output_step + first * size, source, count * size)
    sleep_until(me, deadline)
    return True


@jit()
def _execute_turn(
    me: int, areas: Any, worlds: Any, task: Any, stage: Any, pull: Any, addresses: Any, turn: int
) -> bool:
    my, number = task.my, task.first_turn + turn
    if not _stage(me, areas, task, stage, turn, number):
        return False
    publish(me, areas, my, READY, number + 1)
    if task.kind == COPY:
        return _copy(me, areas, worlds, task, pull, addresses, turn, number)
    if not _reduce(me, areas, worlds, task, pull, addresses, turn, number):
        return False
    if task.kind == ALL_REDUCE:
        publish(me, areas, my, REDUCED, number + 1)
        return _collect(me, areas, worlds, task, pull, turn, number)
    return True


@jit()
def _await_release(me: int, areas: Any, task: Any, turn: int) -> Any:
    """Wait until the compute side has released a turn, as the task's policy has it."""
    needed = 0
    if task.wait_policy == EVERY_TURN:
        needed = task.commits_before + turn + 1
    elif task.wait_policy == ONCE:
        needed = 1
    return await_word(me, areas, task.my, task.my, task.commit_word, needed)


@jit()
def _log(area: int, task: Any, turn: int, start: int) -> None:
    log = carray(as_pointer(area + 8 * LOG), (LOG_TURNS, LOG_WORDS), np.int64)
    row = log[(task.first_turn + turn) % LOG_TURNS]
    row[0], row[1], row[2], row[3] = task.number, turn, start, clock_ns()


@jit()
def _end_turn(me: int, areas: Any, task: Any, turn: int) -> bool:
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
    me: int, areas: Any, worlds: Any, tasks: Any, stage: Any, pull: Any, addresses: Any
) -> bool:
    """Execute the turns of one task, each when the compute side has released it.

    Args:
        me: Address of this PE's block.
        areas: Address of every member's area, ``int64[n]``.
        worlds: World number of every member, ``int64[n]``.
        tasks: The task, ``TASK[1]``.
        stage: Private input, ``STAGE[m]``.
        pull: What to fetch from each member, ``PULL[n]``.
        addresses: Room for ``n + 2`` addresses.

    Returns:
        Whether all turns were executed; False: the server must end.
    """
    task = tasks[0]
    while task.next_turn < task.turns:
        turn = task.next_turn
        if not _await_release(me, areas, task, turn):
            return False
        start = clock_ns()
        if not _execute_turn(me, areas, worlds, task, stage, pull, addresses, turn):
            return False
        _log(areas[task.my], task, turn, start)
        if not _end_turn(me, areas, task, turn):
            return False
        wake_waiters(me, areas, worlds)
    return True
