"""The watch over PEs that somebody else has started: it ends waits that would never end.

A launcher watches PEs that it can also stop. Here nobody can: what a watch does is to publish, in the shared memory,
why the world has stopped, which every wait then raises.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection

from emu.comm.layout import B_STATE, DEAD, FINISHED
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import DEADLOCK, PE_DIED, PEER_FAILED, publish_stop
from emu.comm.process.launch_options import DEFAULT_TIMEOUT
from emu.comm.watchdog.detection import Detector, find_deadlock
from emu.comm.watchdog.monitor import describe_all
from emu.comm.watchdog.progress import Progress

TICK_S = 0.2
"""Seconds between two looks."""
_GRACE_S = 1.0
"""Who started the processes has this time to find that one has died, and to say why."""

FAILED = "failed: "
"""How the place of a PE begins that has ended with an exception; what follows says with which."""


def watch(
    segment: Segment,
    pids: list[int],
    newly_ended: Callable[[], Collection[int]],
    timeout: float = DEFAULT_TIMEOUT,
) -> None:
    """Watch PEs until all have ended.

    Args:
        segment: Their shared memory.
        pids: Process of each; 0 as long as there is none.
        newly_ended: Waits for a tick at most, and returns the PEs that have ended since it was called last.
        timeout: Seconds without progress after which waiting PEs get a DeadlockError.
    """
    progress, detector = Progress(segment, pids, timeout), Detector(segment, pids, timeout)
    ended: set[int] = set()
    stop_at, lost = math.inf, -1
    while len(ended) < len(pids):
        for pe in newly_ended():
            ended.add(pe)
            block = segment.block(pe)
            if block[B_STATE] != FINISHED and lost < 0:
                block[B_STATE] = DEAD
                stop_at, lost = time.monotonic() + _GRACE_S, pe
        if time.monotonic() >= stop_at:
            stop_at = math.inf
            publish_stop(segment, *_why(segment, lost, pids[lost]))
        elif lost < 0 and len(ended) < len(pids):
            found = find_deadlock(detector, progress, ended)
            if found is not None:
                publish_stop(segment, DEADLOCK, str(found))
                lost = 0


def _why(segment: Segment, lost: int, pid: int) -> tuple[int, str]:
    """Return the reason to stop a world of which a PE has ended too early, and its text."""
    place = segment.read_place(lost)
    if place.startswith(FAILED):
        reason, text = PEER_FAILED, f"has failed: {place.removeprefix(FAILED)}"
    else:
        reason, text = PE_DIED, "has ended before it had finished."
    return reason, (
        f"PE {lost} (process {pid}) {text}\nWhen that was found:\n{describe_all(segment)}"
    )
