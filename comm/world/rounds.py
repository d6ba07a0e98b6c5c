"""The rounds of a collective in compiled code: stage, meet at the barrier, copy or reduce.

How the rounds fit together is told in :mod:`emu.comm.world.exchange`. Both kernels return to Python where a
barrier has not been passed within a slice, and go on from the state in the plan when they are called again.
"""

from __future__ import annotations

from typing import Any

from emu.comm.layout import LINE
from emu.comm.sync.signals import DONE, barrier_arrive
from emu.comm.world.agreement import OPENING, ROUND
from emu.kernels.atomics import fence
from emu.kernels.core.address import move_bytes
from emu.kernels.core.jit import jit
from emu.kernels.reduce import reduce_run
from emu.kernels.stream import stream_bytes, stream_bytes_twice

# --- plan of a call: int64 words. They are words rather than a record because Python fills one in for each
# call, and to set a field of a record takes seven times as long.
P_ROUND, P_ROUNDS, P_PHASE, P_OPENING, P_SYNC, P_SLOT, P_PARITY, P_HALF, P_STAGING = range(9)
P_MODE, P_MY, P_TOTAL, P_ROW, P_SIZE, P_CODE, P_OP, P_INPUT, P_STAGES = range(9, 18)
P_OUT, P_SCRATCH, P_RESULT, P_DIRECT_OUT, P_STREAM, P_TAG = range(18, 24)
PLAN_WORDS = 24
STAGE, CONSUME = 0, 1
"""Phases of a round."""
FLAT, ROWS, SLICES = 0, 1, 2
"""Modes of a reduction: each member reduces all, its row, or its slice of each chunk."""


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
        fetch: Rows (source, target, bytes, staged): staged sources alternate between the buffers from round
            to round; direct sources advance.

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
def _part(plan: Any, n_pes: int, number: int, part: int) -> Any:
    """Return (byte offset in the input, elements) of the part that member ``part`` reduces in round ``number``."""
    size, total = plan[P_SIZE], plan[P_TOTAL]
    room = plan[P_SLOT] // size
    if plan[P_MODE] != SLICES:
        row = plan[P_ROW] * part if plan[P_MODE] == ROWS else 0
        return row + number * room * size, max(0, min(room, total - number * room))
    begin = number * room * n_pes
    here = max(0, min(room * n_pes, total - begin))
    # The last chunk is cut evenly too, at cache lines.
    line = LINE // size
    share = ((here + n_pes - 1) // n_pes + line - 1) // line * line
    first = min(part * share, here)
    return (begin + first) * size, min(share, here - first)


@jit()
def _stage_parts(plan: Any, n_pes: int, number: int, buffer: int) -> None:
    """Copy what the others reduce to the staging buffer."""
    if plan[P_STAGES] == 0:
        return
    target = plan[P_STAGING] + buffer
    if plan[P_MODE] == FLAT:
        start, count = _part(plan, n_pes, number, 0)
        move_bytes(target, plan[P_INPUT] + start, count * plan[P_SIZE])
        return
    for part in range(n_pes):
        start, count = _part(plan, n_pes, number, part)
        if part != plan[P_MY] and count > 0:
            slot = target + part * plan[P_SLOT]
            move_bytes(slot, plan[P_INPUT] + start, count * plan[P_SIZE])


@jit()
def _reduce_part(
    plan: Any, n_pes: int, number: int, buffer: int, peers: Any, addresses: Any
) -> None:
    my = plan[P_MY]
    start, count = _part(plan, n_pes, number, my)
    if count == 0:
        return
    sources, targets = addresses[:n_pes], addresses[n_pes:]
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
        targets[0] = plan[P_OUT] + number * plan[P_SLOT] // plan[P_SIZE] * plan[P_SIZE]
    elif plan[P_DIRECT_OUT] == 0:
        half = (plan[P_PARITY] + number) & 1
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
def _collect_parts(plan: Any, n_pes: int, number: int, peers: Any) -> None:
    """Fetch what the others reduced in round ``number``."""
    half = (plan[P_PARITY] + number) & 1
    for step in range(1, n_pes):
        part = (plan[P_MY] + step) % n_pes
        start, count = _part(plan, n_pes, number, part)
        source = peers[part, 2] + half * plan[P_SLOT]
        _write(plan, plan[P_OUT] + start, source, count * plan[P_SIZE])
    fence()


@jit()
def reduce_rounds(me: int, barrier: int, n_pes: int, plan: Any, peers: Any, addresses: Any) -> Any:
    """Stage, meet, reduce, round by round; with slices, fetch the results a round later.

    Args:
        me: This PE's block.
        barrier: The group's barrier.
        n_pes: Members of the group.
        plan: State of the call, changed.
        peers: Rows (staging buffer or input, whether it is the input, results or output).
        addresses: Room for ``2 * n_pes + 1`` addresses.

    Returns:
        As :func:`copy_rounds`.
    """
    collects = plan[P_MODE] == SLICES and plan[P_DIRECT_OUT] == 0
    while True:
        number = plan[P_ROUND]
        buffer = ((plan[P_PARITY] + number) & 1) * plan[P_HALF]
        if plan[P_PHASE] == STAGE:
            _stage_parts(plan, n_pes, number, buffer)
            plan[P_PHASE] = CONSUME
            arrived = _arrive(me, barrier, n_pes, plan)
            if arrived != DONE or plan[P_OPENING] != 0:
                return arrived
        if number < plan[P_ROUNDS]:
            _reduce_part(plan, n_pes, number, buffer, peers, addresses)
        if collects and number > 0:
            _collect_parts(plan, n_pes, number - 1, peers)
        plan[P_ROUND] += 1
        if plan[P_ROUND] >= plan[P_ROUNDS] + collects:
            return DONE
        if plan[P_SYNC] != 0 or collects:
            plan[P_PHASE] = STAGE
