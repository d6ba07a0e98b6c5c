"""A World of processes that somebody else starts, such as ``torch.multiprocessing.spawn``.

The process that starts them makes a :class:`Gathering` first, and gives each its invitation. A process becomes a PE
when it accepts. Nobody forwards output and results, and nobody stops the others when one fails: that is left to
who started them. What remains of a launcher is a thread which ends waits that would never end.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from multiprocessing import connection, process
from typing import TYPE_CHECKING

from emu.comm.layout import B_STATE, FINISHED, Layout
from emu.comm.memory.segment import Segment
from emu.comm.process.launch_options import DEFAULT_HEAP_SIZE
from emu.comm.process.unlaunched import Unlaunched
from emu.comm.process.watching import TICK_S, watch
from emu.kernels.core import environment
from emu.kernels.core.environment import usable_cores

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.world import World


class Invitation:
    """What lets a process become a PE; it can be sent to one that is being started."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._world: World | None = None
        self._stop_reporting: Callable[[], None] | None = None

    def accept(self, pe: int) -> World:
        """Make this process PE ``pe``, so that :func:`emu.world` gives its World, and return that."""
        from emu.comm.memory.heap import register
        from emu.comm.watchdog.compiling import report_to
        from emu.comm.world.current import set_world
        from emu.comm.world.making import make_world

        me = register(self._segment, pe, usable_cores())
        self._stop_reporting = report_to(self._segment, pe)
        self._world = make_world(self._segment, me, pe, poison=environment.poison())
        set_world(self._world)
        return self._world

    def leave(self, pe: int) -> None:
        """End the PE after its function has returned; one that did not accept is none."""
        if self._stop_reporting is not None:
            self._stop_reporting()
            self._stop_reporting = None
        if self._world is not None:
            self._world.finish()
        self._segment.block(pe)[B_STATE] = FINISHED


class Gathering:
    """The World that processes will make up.

    Args:
        n_pes: Their number.
        timeout: Seconds without progress after which waiting PEs get a DeadlockError. Default: what the environment
            says, or that of a launch.

    Raises:
        ArgumentError: A variable of the environment breaks a rule.
    """

    def __init__(self, n_pes: int, timeout: float | None = None) -> None:
        options = Unlaunched.from_environment()
        layout = Layout(n_pes=n_pes, heap_bytes=DEFAULT_HEAP_SIZE, zones=environment.red_zones())
        self._segment = Segment.create(layout, link=options.link)
        self._timeout = options.timeout if timeout is None else timeout
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
        running = {each.sentinel: pe for pe, each in enumerate(processes)}

        def newly_ended() -> list[int]:
            # The sentinels are those that were given.
            return [running.pop(sentinel) for sentinel in connection.wait(list(running), TICK_S)]  # type: ignore[arg-type]

        watch(self._segment, [each.pid or 0 for each in processes], newly_ended, self._timeout)
        with contextlib.suppress(OSError):
            self._segment.close()
