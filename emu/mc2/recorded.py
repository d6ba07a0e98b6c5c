"""Turns of the communication server as events of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from emu.comm.arrays import Array
from emu.comm.server.server_end import Turn
from emu.comm.server.tasks import NAMES, NUMPY_DTYPES
from emu.comm.tiling.enums import HcclCommand
from emu.comm.world import recording
from emu.comm.world.group import Group
from emu.trace.events import MEETING_SHIFT, TURN_BIT, Kind, Thread

_TASK_SHIFT = 8
_BY_MEMBER = (HcclCommand.REDUCE_SCATTER, HcclCommand.ALLTOALL)
"""Commands whose count is that of the elements for one member; of AllReduce and AllGather it is the whole input."""


class Move(NamedTuple):
    """What one turn moves."""

    name: str
    """Name of its task."""
    nbytes: int
    """Bytes of this member's input, as a collective's event has them."""


def moves_of(task: Array, n_pes: int) -> list[Move]:
    """Return what each turn of a task moves.

    Args:
        task: Its message, or its record (:mod:`emu.comm.server.tasks`).
        n_pes: Members of the communicator.
    """
    command = int(task["command"])
    count = int(task["count"])
    if command == HcclCommand.ALLTOALLV:
        count = sum(task["send_counts"].tolist())
    elif command in _BY_MEMBER:
        count *= n_pes
    nbytes = count * NUMPY_DTYPES[int(task["dtype"])].itemsize
    return [Move(NAMES[command], nbytes)] * int(task["repeat"])


def record_turns(group: Group, turns: Sequence[Turn], moves: Sequence[Move]) -> None:
    """Record this PE's turns of a communication kernel that is over.

    Args:
        group: The communicator.
        turns: The turns, or the last of them, in their order.
        moves: What all turns of the kernel have moved.
    """
    recorder = recording.active
    if recorder is None:
        return
    for turn, move in zip(turns, moves[len(moves) - len(turns) :], strict=True):
        details = {"turn": turn.turn, "group": group.name, "members": group.members}
        key = (group.index, turn.turn)
        site = recorder.site(Kind.TURN, move.name, details=details, key=key, thread=Thread.SERVER)
        number = turn.task << _TASK_SHIFT | turn.turn
        flow = TURN_BIT | group.index << MEETING_SHIFT | number & (1 << MEETING_SHIFT) - 1
        recorder.write_span(site, turn.start_ns, turn.end_ns, move.nbytes, flow)
