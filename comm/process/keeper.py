"""The process that keeps and watches a World whose PEs have found each other by themselves.

It is no PE's child and holds none of their pipes: whoever dies, it is there to tell the others, and it ends when they
have. It has the shared memory open, so that a PE may come when the first ones are gone already.
"""

from __future__ import annotations

import json
import os
import time

from emu.comm.layout import B_PID, B_STATE, DEAD, FINISHED, Layout
from emu.comm.memory.segment import Segment
from emu.comm.process.watching import FAILED, TICK_S, watch
from emu.kernels.core import system


def main(descriptor: int, text: str) -> None:
    """Keep the World whose shared memory is open as ``descriptor`` until its PEs have ended.

    Args:
        descriptor: Of the shared memory.
        text: JSON of its layout and the time-out.
    """
    given = json.loads(text)
    segment = Segment(descriptor, Layout(**given["layout"]))
    watch_members(segment, given["timeout"])


def watch_members(segment: Segment, timeout: float) -> None:
    """Watch the PEs of a World until all have ended, as their blocks in the shared memory tell.

    Those that have not come by the time-out, counted from when the last of the others had ended, count as ended.
    """
    members = _Members(segment, timeout)
    watch(segment, members.pids, members.newly_ended, timeout)


class _Members:
    """The processes that have become PEs."""

    def __init__(self, segment: Segment, timeout: float) -> None:
        self._segment = segment
        self._timeout = timeout
        self.pids = [0] * segment.layout.n_pes
        self._since = [0] * segment.layout.n_pes
        self._left = dict.fromkeys(range(segment.layout.n_pes))
        self._quiet_since = time.monotonic()

    def newly_ended(self) -> list[int]:
        time.sleep(TICK_S)
        ended = [pe for pe in self._left if self._has_ended(pe)]
        now = time.monotonic()
        if any(self.pids[pe] for pe in self._left if pe not in ended):
            self._quiet_since = now
        elif now - self._quiet_since >= self._timeout:
            for pe in self._left:
                if pe not in ended:
                    self._segment.write_place(pe, f"{FAILED}its process has not come")
            ended = [*self._left]
        for pe in ended:
            del self._left[pe]
        return ended

    def _has_ended(self, pe: int) -> bool:
        block = self._segment.block(pe)
        pid = int(block[B_PID])
        if pid and not self.pids[pe]:
            self.pids[pe], self._since[pe] = pid, started_at(pid)
        if block[B_STATE] in (FINISHED, DEAD):
            return True
        return bool(pid) and (not self._since[pe] or started_at(pid) != self._since[pe])


def started_at(pid: int) -> int:
    """Return when a process was started, in clock ticks since the system was; 0 if it has ended.

    Where ``/proc`` does not exist, 1 stands for every process that there is.
    """
    if not system.LINUX:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return 0
        except PermissionError:
            pass
        return 1
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return 0
    return 0 if fields[0] in b"ZX" else int(fields[19]) + 1  # a process of the first tick runs, too
