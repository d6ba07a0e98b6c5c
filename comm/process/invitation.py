"""A World of processes that somebody else starts, such as ``torch.multiprocessing.spawn``.

The process that starts them makes a :class:`Gathering` first, and gives each its invitation. A process becomes a PE
when it accepts. Nobody forwards output and results, and nobody stops the others when one fails: that is left to
who started them. What remains of a launcher is a thread which ends waits that would never end.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Sequence
from multiprocessing import connection, process
from typing import TYPE_CHECKING

from emu.comm.layout import B_STATE, DEAD, FINISHED, Layout
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import DEADLOCK, PE_DIED, publish_stop
from emu.comm.process.launch_options import DEFAULT_HEAP_SIZE, DEFAULT_TIMEOUT
from emu.comm.watchdog.detection import Detector, find_deadlock
from emu.comm.watchdog.monitor import describe_all
from emu.comm.watchdog.progress import Progress
from emu.kernels.core import environment
from emu.kernels.core.environment import usable_cores

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.world import World

_TICK_S = 0.2
_GRACE_S = 1.0
"""Who started the processes has this time to find that one has died, and to say why."""


class Invitation:
    """What lets a process become a PE; it can be sent to one that is being started."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._world: World | None = None

    def accept(self, pe: int) -> World:
        """Make this process PE ``pe``, so that :func:`emu.world` gives its World, and return that."""
        from emu.comm.memory.heap import register
        from emu.comm.watchdog.compiling import report_to
        from emu.comm.world.current import set_world
        from emu.comm.world.making import make_world

        me = register(self._segment, pe, usable_cores())
        report_to(self._segment, pe)
        self._world = make_world(self._segment, me, pe, poison=False)
        set_world(self._world)
        return self._world

    def leave(self, pe: int) -> None:
        """End the PE after its function has returned; one that did not accept is none."""
        if self._world is not None:
            self._world.finish()
        self._segment.block(pe)[B_STATE] = FINISHED


class Gathering:
    """The World that processes will make up.

    Args:
        n_pes: Their number.
        timeout: Seconds without progress after which waiting PEs get a DeadlockError.
    """

    def __init__(self, n_pes: int, timeout: float = DEFAULT_TIMEOUT) -> None:
        layout = Layout(n_pes=n_pes, heap_bytes=DEFAULT_HEAP_SIZE, zones=environment.red_zones())
        self._segment = Segment.create(layout)
        self._timeout = timeout
        self.invitation = Invitation(self._segment)

    def watch(self, processes: Sequence[process.BaseProcess]) -> None:
        """Watch the processes, in the order of their PEs, in a thread until all have ended."""
        arguments = (list(processes),)
        threading.Thread(
            target=self._watch, args=arguments, daemon=True, name="emu-gathering"
        ).start()

    def close(self) -> None:
        """Close the segment, if no process was started."""
        self._segment.close()

    def _watch(self, processes: list[process.BaseProcess]) -> None:
        pids = [each.pid or 0 for each in processes]
        running = {each.sentinel: pe for pe, each in enumerate(processes)}
        progress = Progress(self._segment, pids, self._timeout)
        detector = Detector(self._segment, pids, self._timeout)
        stop_at, lost = math.inf, -1
        while running:
            for sentinel in connection.wait(list(running), _TICK_S):
                pe = running.pop(sentinel)  # type: ignore[arg-type] # the sentinels that were given
                block = self._segment.block(pe)
                if block[B_STATE] != FINISHED and lost < 0:
                    block[B_STATE] = DEAD
                    stop_at, lost = time.monotonic() + _GRACE_S, pe
            if time.monotonic() >= stop_at:
                stop_at = math.inf
                text = f"PE {lost} (process {pids[lost]}) has ended before it had finished."
                self._stop(PE_DIED, f"{text} When that was found:\n{describe_all(self._segment)}")
            elif lost < 0 and running:
                ended = set(range(len(pids))) - set(running.values())
                found = find_deadlock(detector, progress, ended)
                if found is not None:
                    self._stop(DEADLOCK, str(found))
                    lost = 0
        with contextlib.suppress(OSError):
            self._segment.close()

    def _stop(self, reason: int, text: str) -> None:
        publish_stop(self._segment, reason, text)
