"""How a communication server executes a task: turn by turn, in compiled code without the GIL.

*Words.* Each member of a communicator has an area of 64-bit words in its symmetric heap. Turns are
numbered through all tasks of a communicator, and every member executes the same turns, so that a
word which only grows says all: ``READY`` turns whose input the others may read, ``REDUCED`` turns of
which this member's slice of an all-reduce is there, ``PULLED`` turns for which this member needs
nothing more from anybody, ``ANSWERED`` turns of which the compute side may hear.

*Pull.* A member that has released a turn publishes where its input lies, and everyone fetches what it
needs: input in a symmetric heap is read in place, other input from a staging buffer of two slots. A
slot is filled again when all have pulled the turn that was in it. A turn is *done* when all members
have pulled it: then its input may be overwritten.

*Waking.* A server that has to wait says for which word of which member, and sleeps on a bell of
its own, apart from its PE's doorbell: compute and server don't wake each other. Whoever stores a
word looks at what the others wait for, and wakes only those whose wait is over. On a machine
with more PEs than cores useless wakes would cost more than the copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.layout import B_SLICE_S, B_YIELDS, LINE
from emu.comm.sync.clock import clock_ns
from emu.comm.sync.futex import futex_wait, futex_wake, pause
from emu.comm.sync.link import reserve, reserve_from, sleep_until
from emu.comm.sync.locks import word
from emu.comm.sync.signals import ALL_SLEEPERS, begin_sleep, end_sleep, relax, ring, stopped
from emu.kernels.atomics import add_i32, fence, load_i32, load_i64, store_i64
from emu.kernels.core.address import as_pointer, move_bytes
from emu.kernels.core.jit import carray, jit
from emu.kernels.reduce import reduce_run
from emu.kernels.stream import stream_bytes

# --- words of an area. Each line of eight has one writer.
BELL = 0  # int32 eventcount of the server, and behind it int32: it sleeps
A_CODE, A_TARGET = 1, 2  # what the sleeping server waits for
A_SPINS = 3
POSTED, CLOSING, WANTED = 8, 9, 10  # by the compute side; WANTED: the turn it sleeps for, or 0
DECODED = 16
FAILED = 17  # 1 + the member that failed or left first, written by it; 0: none
READY, REDUCED, PULLED, ANSWERED = 24, 25, 26, 27
COMMITS = 32
SLOTS = 64
"""Tasks that stand in an area at a time."""
LOG = COMMITS + SLOTS
LOG_WORDS, LOG_TURNS = 4, 4096  # (task, turn, start, end) of the last turns
RELEASED = LOG + LOG_WORDS * LOG_TURNS
RELEASED_TURNS = 1 << 14  # more than all turns of a kernel: when each was released
RECORDS = RELEASED + RELEASED_TURNS

ALL_RECORDS, OWN = -1, -2  # A_CODE: the members' records; a word of the own compute side
_WORDS_A_MEMBER = 32  # A_CODE = member * 32 + word

# --- plan of a task
(
    MY, N_PES, TASK, TURN, TURNS, BASE, COMMIT, COMMIT_BASE, WAIT_POLICY, ANSWER_POLICY,
    KIND, SIZE, COUNT, CODE, OP, RECV, RECV_STEP, STAGING, SLOT_BYTES, RESULTS, RESULT_BYTES,
    PUBLISH_RESULT, SCRATCH,
) = range(23)  # fmt: skip
PLAN_WORDS = 23
COPY, REDUCE_SCATTER, ALL_REDUCE = 0, 1, 2

# --- columns of the tables
S_SOURCE, S_STEP, S_BYTES, S_OFFSET = range(4)
P_SOURCE, P_STEP, P_SLOT, P_TARGET, P_TARGET_STEP, P_BYTES, P_RESULT, P_RESULT_STEP, P_RESULT_SLOT = (
    range(9)
)  # fmt: skip

EVERY_TURN, ONCE = 1, 2
STREAM_BYTES = 8 << 20


@jit()
def publish(me: int, areas: Any, my: int, index: int, value: int) -> None:
    """Store a word of this member's area, and wake the servers that waited for it."""
    store_i64(areas[my] + 8 * index, value)
    fence()
    code = my * _WORDS_A_MEMBER + index
    for pe in range(areas.size):
        area = areas[pe]
        if pe != my and load_i32(area + 4) != 0:
            wanted = load_i64(area + 8 * A_CODE)
            if wanted == code and value >= load_i64(area + 8 * A_TARGET):
                ring_server(area)


@jit()
def ring_server(area: int) -> None:
    """Wake the server of an area if it sleeps; call it after a store and a full barrier."""
    if load_i32(area + 4) != 0:
        add_i32(area, np.int32(1))
        futex_wake(area, ALL_SLEEPERS)


@jit()
def await_word(me: int, areas: Any, my: int, pe: int, index: int, target: int) -> Any:
    """Wait in the server until a member's word has reached ``target``; False: leave off."""
    address, area = areas[pe] + 8 * index, areas[my]
    for _ in range(load_i64(area + 8 * A_SPINS) + 1):
        if load_i64(address) >= target:
            return True
        pause()
    store_i64(area + 8 * A_CODE, OWN if pe == my else pe * _WORDS_A_MEMBER + index)
    store_i64(area + 8 * A_TARGET, target)
    add_i32(area + 4, np.int32(1))
    while True:
        bell = load_i32(area)
        found = load_i64(address) >= target
        if found or stopped(me) or load_i64(area + 8 * CLOSING) != 0:
            break
        futex_wait(area, bell, me + 8 * B_SLICE_S)
    add_i32(area + 4, np.int32(-1))
    return found


@jit()
def _differ(areas: Any, one: int, other: int, number: int, width: int, agreed: int) -> bool:
    """Say whether two members' records of a task differ in the words that must be the same."""
    start = 8 * (RECORDS + (number % SLOTS) * width)
    for index in range(agreed):
        if load_i64(areas[one] + start + 8 * index) != load_i64(areas[other] + start + 8 * index):
            return True
    return False


@jit()
def publish_record(me: int, areas: Any, my: int, decoded: int, width: int, agreed: int) -> None:
    """Publish that the record of task ``decoded - 1`` stands.

    Of the servers that wait for the records of this task, the last member to come wakes all, and one
    whose record differs wakes those from whose it does.
    """
    store_i64(areas[my] + 8 * DECODED, decoded)
    fence()
    complete = True
    for pe in range(areas.size):
        if load_i64(areas[pe] + 8 * DECODED) < decoded:
            complete = False
    for pe in range(areas.size):
        area = areas[pe]
        if pe == my or load_i32(area + 4) == 0 or load_i64(area + 8 * A_CODE) != ALL_RECORDS:
            continue
        if load_i64(area + 8 * A_TARGET) == decoded and (
            complete or _differ(areas, my, pe, decoded - 1, width, agreed)
        ):
            ring_server(area)


@jit()
def await_records(me: int, areas: Any, my: int, decoded: int, width: int, agreed: int) -> int:
    """Wait for every member's record of task ``decoded - 1``.

    Returns:
        1 when all stand and agree, 2 as soon as one of them differs, 0: leave off.
    """
    area = areas[my]
    outcome, spins = 0, load_i64(area + 8 * A_SPINS)
    for sleeping in range(2):
        if sleeping:
            store_i64(area + 8 * A_CODE, ALL_RECORDS)
            store_i64(area + 8 * A_TARGET, decoded)
            add_i32(area + 4, np.int32(1))
        while True:
            bell = load_i32(area)
            here = 0
            for pe in range(areas.size):
                if load_i64(areas[pe] + 8 * DECODED) >= decoded:
                    here += 1
                    if pe != my and _differ(areas, my, pe, decoded - 1, width, agreed):
                        outcome = 2
            if outcome == 0 and here == areas.size:
                outcome = 1
            over = outcome != 0 or stopped(me) or load_i64(area + 8 * CLOSING) != 0
            if over or (not sleeping and spins == 0):
                break
            if sleeping:
                futex_wait(area, bell, me + 8 * B_SLICE_S)
            else:
                spins -= 1
                pause()
        if sleeping:
            add_i32(area + 4, np.int32(-1))
        if outcome != 0:
            break
    return outcome


@jit()
def finished(areas: Any, my: int) -> Any:
    """Return how many turns are done: pulled by every member, and answered here."""
    least = load_i64(areas[my] + 8 * ANSWERED)
    for pe in range(areas.size):
        least = min(least, load_i64(areas[pe] + 8 * PULLED))
    return least


@jit()
def wake_waiters(me: int, areas: Any, worlds: Any) -> None:
    """Wake the compute sides for which the turn that they sleep for is now pulled by all."""
    least = load_i64(areas[0] + 8 * PULLED)
    for pe in range(1, areas.size):
        least = min(least, load_i64(areas[pe] + 8 * PULLED))
    for pe in range(areas.size):
        wanted = load_i64(areas[pe] + 8 * WANTED)
        if wanted != 0 and wanted <= least:
            ring(me, worlds[pe])


@jit()
def await_turn(me: int, areas: Any, my: int, target: int, resumed: bool) -> int:
    """Wait in the compute side until ``target`` turns are done.

    Returns:
        1 when they are, 2 when the server has failed, 0 after a slice or a stop; then call again
        with ``resumed``, or :func:`leave_wait`.
    """
    area = areas[my]
    if not resumed:
        for turn in range(load_i64(area + 8 * A_SPINS) + word(me, B_YIELDS) + 1):
            if finished(areas, my) >= target:
                return 1
            if load_i64(area + 8 * FAILED) != 0:
                return 2
            relax(me, turn)
        begin_sleep(me)
        store_i64(area + 8 * WANTED, target)
        fence()
    outcome = 0
    while True:
        bell = load_i32(me)
        if finished(areas, my) >= target:
            outcome = 1
        elif load_i64(area + 8 * FAILED) != 0:
            outcome = 2
        if outcome != 0 or stopped(me):
            break
        futex_wait(me, bell, me + 8 * B_SLICE_S)
        if load_i32(me) == bell:
            break
    if outcome != 0:
        leave_wait(me, area, outcome == 1)
    return outcome


@jit()
def leave_wait(me: int, area: int, progress: bool) -> None:
    """End a wait of the compute side."""
    store_i64(area + 8 * WANTED, 0)
    end_sleep(me, 1 if progress else 0)


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
    return row[P_SOURCE] + turn * row[P_STEP] + (number & 1) * row[P_SLOT]


@jit()
def _stage(me: int, areas: Any, plan: Any, stage: Any, turn: int, number: int) -> bool:
    """Once everyone has left the slots of this turn, copy private input to the staging slot."""
    if stage.shape[0] == 0 and plan[PUBLISH_RESULT] == 0:
        return True
    # Another task may have divided the memory otherwise: before the first turn all must have left it.
    left = max(number - 1, plan[BASE])
    for pe in range(areas.size):
        if not await_word(me, areas, plan[MY], pe, PULLED, left):
            return False
    slot = plan[STAGING] + (number & 1) * plan[SLOT_BYTES]
    for row in range(stage.shape[0]):
        source = stage[row, S_SOURCE] + turn * stage[row, S_STEP]
        move_bytes(slot + stage[row, S_OFFSET], source, stage[row, S_BYTES])
    return True


@jit()
def _reserve(me: int, areas: Any, worlds: Any, my: int, pe: int, number: int, nbytes: int) -> Any:
    """Reserve the link from a member for its part of a turn; return when it will have come.

    For the model it sets out when both sides had released the turn, however late a server comes to it: on
    hardware nothing but the link stands between two turns.
    """
    word = 8 * (RELEASED + number % RELEASED_TURNS)
    earliest = max(load_i64(areas[pe] + word), load_i64(areas[my] + word))
    return reserve_from(me, worlds[pe], worlds[my], nbytes, earliest)


@jit()
def _copy(
    me: int, areas: Any, worlds: Any, plan: Any, pull: Any, list_: Any, turn: int, number: int
) -> bool:
    """Fetch from every member what is for this one, from those first that are ready."""
    my, n_pes = plan[MY], areas.size
    pending = list_[:n_pes]
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
            if pe != my and row[P_BYTES] > 0:
                due = _reserve(me, areas, worlds, my, pe, number, row[P_BYTES])
                deadline = max(deadline, due)
            target = row[P_TARGET] + turn * row[P_TARGET_STEP]
            _move(target, _source(row, turn, number), row[P_BYTES])
            pending[pe] = 0
            left -= 1
        if left == before and not await_word(me, areas, my, late, READY, number + 1):
            return False
    sleep_until(me, deadline)
    return True


@jit()
def _slice(plan: Any, pe: int) -> Any:
    """Return (first element, elements) of member ``pe``'s slice of an all-reduce."""
    line = max(1, LINE // plan[SIZE])
    share = ((plan[COUNT] + plan[N_PES] - 1) // plan[N_PES] + line - 1) // line * line
    first = min(pe * share, plan[COUNT])
    return first, min(share, plan[COUNT] - first)


@jit()
def _reduce(
    me: int, areas: Any, worlds: Any, plan: Any, pull: Any, list_: Any, turn: int, number: int
) -> bool:
    """Combine this member's block (or slice) of everybody's input, in the order of ranks."""
    my, n_pes, size = plan[MY], areas.size, plan[SIZE]
    first, count = 0, plan[COUNT]
    if plan[KIND] == ALL_REDUCE:
        first, count = _slice(plan, my)
    deadline = 0
    for step in range(1, n_pes):
        pe = (my + step) % n_pes
        if not await_word(me, areas, my, pe, READY, number + 1):
            return False
        due = _reserve(me, areas, worlds, my, pe, number, count * size)
        deadline = max(deadline, due)
    for pe in range(n_pes):
        list_[pe] = _source(pull[pe], turn, number) + first * size
    list_[n_pes] = plan[RECV] + turn * plan[RECV_STEP] + first * size
    used = n_pes + 1
    if plan[PUBLISH_RESULT] != 0:
        list_[used] = plan[RESULTS] + (number & 1) * plan[RESULT_BYTES]
        used += 1
    if count > 0:
        sources, targets = list_[:n_pes], list_[n_pes:used]
        reduce_run(plan[CODE], plan[OP], sources, targets, size, count, plan[SCRATCH])
    sleep_until(me, deadline)
    return True


@jit()
def _collect(
    me: int, areas: Any, worlds: Any, plan: Any, pull: Any, turn: int, number: int
) -> bool:
    """Fetch the slices that the others have reduced."""
    my, n_pes, size = plan[MY], areas.size, plan[SIZE]
    deadline = 0
    for step in range(1, n_pes):
        pe = (my + step) % n_pes
        if not await_word(me, areas, my, pe, REDUCED, number + 1):
            return False
        first, count = _slice(plan, pe)
        deadline = max(deadline, reserve(me, worlds[pe], worlds[my], count * size))
        row = pull[pe]
        source = row[P_RESULT] + turn * row[P_RESULT_STEP] + (number & 1) * row[P_RESULT_SLOT]
        if row[P_RESULT_SLOT] == 0:
            source += first * size  # in the other's output itself
        _move(plan[RECV] + turn * plan[RECV_STEP] + first * size, source, count * size)
    sleep_until(me, deadline)
    return True


@jit()
def _turn(
    me: int, areas: Any, worlds: Any, plan: Any, stage: Any, pull: Any, list_: Any, turn: int
) -> bool:
    my, number = plan[MY], plan[BASE] + turn
    if not _stage(me, areas, plan, stage, turn, number):
        return False
    publish(me, areas, my, READY, number + 1)
    if plan[KIND] == COPY:
        return _copy(me, areas, worlds, plan, pull, list_, turn, number)
    if not _reduce(me, areas, worlds, plan, pull, list_, turn, number):
        return False
    if plan[KIND] == ALL_REDUCE:
        publish(me, areas, my, REDUCED, number + 1)
        return _collect(me, areas, worlds, plan, pull, turn, number)
    return True


@jit()
def run_turns(
    me: int, areas: Any, worlds: Any, plan: Any, stage: Any, pull: Any, list_: Any
) -> bool:
    """Execute the turns of one task, each when the compute side has released it.

    Args:
        me: Address of this PE's block.
        areas: Address of every member's area, ``int64[n]``.
        worlds: World number of every member, ``int64[n]``.
        plan: ``int64[PLAN_WORDS]``; ``TURN`` is changed.
        stage: Rows of private input to copy to the staging slot: address, step a turn, bytes, offset.
        pull: A row for each member: its input (address, step a turn, bytes to the other slot if it
            stages), where its part goes here (address, step, bytes), and for an all-reduce its
            results (address, step, bytes to the other slot).
        list_: Room for ``n + 2`` addresses.

    Returns:
        Whether all turns were executed; False: the world was stopped or the server shall end.
    """
    my = plan[MY]
    area = areas[my]
    while plan[TURN] < plan[TURNS]:
        turn = plan[TURN]
        number = plan[BASE] + turn
        needed = 0
        if plan[WAIT_POLICY] == EVERY_TURN:
            needed = plan[COMMIT_BASE] + turn + 1
        elif plan[WAIT_POLICY] == ONCE:
            needed = 1
        if not await_word(me, areas, my, my, plan[COMMIT], needed):
            return False
        start = clock_ns()
        if not _turn(me, areas, worlds, plan, stage, pull, list_, turn):
            return False
        log = carray(as_pointer(area + 8 * LOG), (LOG_TURNS, LOG_WORDS), np.int64)
        entry = log[number % LOG_TURNS]
        entry[0], entry[1], entry[2], entry[3] = plan[TASK], turn, start, clock_ns()
        if plan[ANSWER_POLICY] == EVERY_TURN:
            store_i64(area + 8 * ANSWERED, number + 1)
        plan[TURN] = turn + 1
        publish(me, areas, my, PULLED, number + 1)
        if plan[ANSWER_POLICY] == ONCE and turn == plan[TURNS] - 1:
            for pe in range(areas.size):
                if not await_word(me, areas, my, pe, PULLED, number + 1):
                    return False
            store_i64(area + 8 * ANSWERED, number + 1)
            fence()
        wake_waiters(me, areas, worlds)
    return True
