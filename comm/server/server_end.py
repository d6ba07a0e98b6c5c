"""``ServerEnd``: the compute side's end of a communication server.

It leaves messages for the server, releases turns and waits for them. The server
(:mod:`emu.comm.server.server`) reads its bytes in shared memory, and nothing else of it.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import ServerError, TaskMismatchError
from emu.comm.memory.stop import check_stopped
from emu.comm.server import waits
from emu.comm.server.area import Areas
from emu.comm.server.server import Server, load_kernels
from emu.comm.server.words import (
    COMMITS,
    DECODED,
    FAILED,
    LOG,
    LOG_TURNS,
    LOG_WORDS,
    POSTED,
    PULLED,
    READY,
    RELEASED,
    RELEASED_TURNS,
    SLOTS,
)
from emu.comm.world.details import call_site, publishable
from emu.comm.world.group import Group

_END_S = 3.0
"""How long a PE that hears of another's failure waits for that PE to end because of it."""


class Turn(NamedTuple):
    """One turn on one rank."""

    rank: int
    task: int
    """Number of the task in the communicator."""
    turn: int
    """Number of the turn in its task."""
    start_ns: int
    """When the server began: the turn was released and those before it were executed.
    Nanoseconds of ``time.monotonic_ns``."""
    end_ns: int
    """When this rank had fetched all that it needed."""


class ServerEnd:
    """The compute side's end of this PE's server in one group.

    Attributes:
        group: Its communicator.
        heap: Address of this PE's symmetric heap.
        launch_area: Shared memory of this PE's launch (see :meth:`leave_launch`).
        prepared_turns: Number of turns of all tasks posted so far; the caller of :meth:`post` counts them.
        sessions: Number of communication kernels so far.
        in_use: Whether a communication kernel is running.
        kept: Arrays of its tasks: they live as long as the server may use them.
    """

    _areas_type: type[Areas] = Areas
    _server_type: type[Server] = Server

    def __init__(self, group: Group) -> None:
        load_kernels()
        self.group = group
        self._areas = self._areas_type(group)
        self._server = self._server_type(group, self._areas)
        self._my = group.my_pe
        self.heap = int(self._areas.heaps[self._my])
        self.launch_area = self._areas.launch
        self._posted = self._server.served
        self.prepared_turns = int(self._areas.mine[PULLED])
        self.sessions = 0
        self.in_use = False
        self.kept: list[Any] = []
        self._claims = threading.Lock()
        self._reported = False

    # --- a communication kernel ------------------------------------------------------------

    def claim(self) -> None:
        """Begin a communication kernel.

        Raises:
            ServerError: Another one runs, or the communicator cannot be used any more.
        """
        self.check()
        with self._claims:
            if self.in_use:
                raise ServerError(
                    f"communicator {self.group.name!r} must be finalised before it is used again: "
                    "another Hccl of this PE has it"
                )
            self.in_use = True
            self.sessions += 1

    def retract(self) -> None:
        """Take :meth:`claim` back: nothing was posted."""
        self.sessions -= 1
        self.in_use = False

    def give_up(self) -> None:
        """End a communication kernel; if its turns are not all done, nobody can use the communicator any more."""
        if self._unfinished():
            # Tasks that differ are found by the other members themselves.
            if not isinstance(self._server.error, TaskMismatchError):
                self._areas.report_failure(self._my)
            self._server.join()
        self.kept.clear()
        self.in_use = False

    def _unfinished(self) -> bool:
        return self._count_done() < self.prepared_turns

    def post(self, message: Array, committed: int) -> int:
        """Leave a message; return the number of its slot.

        Args:
            message: Of ``message_dtype``.
            committed: Turns that are released already, from ``prepared_turns`` on.

        Returns:
            The slot, for :meth:`release`.
        """
        self._check_own()
        if self.group.steering is not None:
            self.group.steering.point("post a task", ())
        self._server.start()
        self._await_reading(SLOTS)  # only after many empty kernels
        slot = self._posted % SLOTS
        self._areas.messages[slot] = message
        self._areas.mine[COMMITS + slot] = committed
        self._note_release(self.prepared_turns, committed)
        self._posted += 1
        self._post(POSTED, self._posted)
        if self.group.steering is not None:
            self.group.steering.reach(self.group.index, self.prepared_turns + committed)
        return slot

    def leave_launch(self, area: Array) -> None:
        """Write a launch into shared memory, once the server has read the one before."""
        self._await_reading(1)
        self.launch_area[...] = area

    def _await_reading(self, most: int) -> None:
        """Wait until the server has left fewer than ``most`` messages unread."""
        while self._posted - self._server.served >= most:
            time.sleep(0.0002)
            self._check_own()
            check_stopped(self.group.segment)

    def _note_release(self, first: int, count: int) -> None:
        """Record when turns are released, for the emulated link if there is one."""
        if self.group.link is None:
            return
        start = RELEASED + first % RELEASED_TURNS
        if first % RELEASED_TURNS + count <= RELEASED_TURNS:
            self._areas.mine[start : start + count] = time.monotonic_ns()
        else:
            for number in range(first, first + count):
                self._note_release(number, 1)

    def release(self, slot: int, before: int, committed: int, base: int) -> None:
        """Release turns of a task.

        Args:
            slot: Its slot.
            before: Turns that were released before.
            committed: Turns that are released now.
            base: Number of its first turn.
        """
        self._check_own()
        if self.group.steering is not None:
            self.group.steering.point("release turns", ())
        self._note_release(base + before, committed - before)
        self._post(COMMITS + slot, committed)
        if self.group.steering is not None:
            self.group.steering.reach(self.group.index, base + committed)

    def message(self) -> Array:
        """Return an empty message."""
        return np.zeros((), self._areas.message_dtype)

    def finished(self) -> int:
        """Return the number of turns of this communicator that are done."""
        self.check()
        return self._count_done()

    def _count_done(self) -> int:
        return int(waits.count_done(self._areas.addresses, self._my))

    def _post(self, index: int, value: int) -> None:
        waits.post(self._areas.addresses, self._my, index, value)

    def wait(self, target: int, call: str) -> None:
        """Wait until ``target`` turns are done.

        Args:
            target: Number of turns, of all tasks so far.
            call: What the report says if nothing moves.

        Raises:
            ServerError: The server failed.
            StoppedError: The world was stopped.
        """
        if self.group.steering is not None:
            self.group.steering.wait_for_all(call, self.group, self.group.index, target)
        me, areas, my = self._areas.me, self._areas.addresses, self._my
        outcome = waits.await_done(me, areas, my, target, False)
        if outcome == waits.NOT_DONE:
            try:
                while outcome == waits.NOT_DONE:
                    check_stopped(self.group.segment)
                    text = publishable(
                        {
                            "call": call,
                            "text": self.status(target),
                            "server": self.group.index,
                            "at": call_site(),
                        }
                    )
                    self.group.segment.write_text(self.group.members[my], text)
                    outcome = waits.await_done(me, areas, my, target, True)
            except BaseException:
                waits.leave_wait(me, int(areas[my]), False)
                raise
        if outcome == waits.SERVER_FAILED:
            self.check()

    def check(self) -> None:
        """Raise the error of the server, if it failed; later calls raise what follows from it."""
        failed = int(self._areas.mine[FAILED])
        if not failed:
            return
        if not self._reported:
            self._reported = True
            if self._server.error is not None:
                raise self._server.error
            self._let_it_end()
        reason = f"rank {failed - 1} failed in a task, or left it unfinished"
        if self._server.error is not None:
            reason = f"an earlier task ended with {type(self._server.error).__name__}"
        elif failed - 1 == self._my:
            reason = "this rank left a task unfinished"
        raise ServerError(
            f"communicator {self.group.name!r} cannot be used any more: {reason}; make a new group"
        ) from self._server.error

    def _check_own(self) -> None:
        """Raise what :meth:`check` does if this PE's own server failed; others matter only to waits."""
        if self._server.error is not None:
            self.check()

    def _let_it_end(self) -> None:
        """Wait for the PE that failed to end: then its error is the one to report, and stops this PE."""
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            check_stopped(self.group.segment)
            time.sleep(0.005)

    def status(self, target: int) -> str:
        """Describe which members the turn before ``target`` waits for."""
        words = self._areas.words
        late = [p for p, w in enumerate(words) if int(w[DECODED]) < self._server.next_task]
        if late:
            return f"ranks {late} to prepare task {self._server.next_task - 1}"
        idle = [p for p, w in enumerate(words) if int(w[READY]) < target]
        if idle:
            return f"ranks {idle} to release turn {target - 1}"
        behind = [p for p, w in enumerate(words) if int(w[PULLED]) < target]
        return f"ranks {behind} to fetch turn {target - 1}" if behind else "its answer"

    def log(self, first: int, last: int, rank: int | None = None) -> list[Turn]:
        """Return turns ``first`` to ``last - 1`` of every member, or of one, as far as they are executed.

        Only the last 4096 turns are kept.
        """
        rows = []
        for pe, words in enumerate(self._areas.words):
            if rank not in (None, pe):
                continue
            table = words[LOG:RELEASED].reshape(LOG_TURNS, LOG_WORDS)
            end = min(last, int(words[PULLED]))
            for number in range(max(first, end - LOG_TURNS), end):
                task, turn, start, stop = (int(v) for v in table[number % LOG_TURNS])
                rows.append(Turn(pe, task, turn, start, stop))
        return rows

    def stop(self) -> None:
        """End the thread.

        Raises:
            ServerError: A communication kernel has not been finalised; what it was doing is left as it is.
        """
        left = self.in_use and not self._areas.mine[FAILED]
        if left and self._unfinished():
            self._areas.report_failure(self._my)
        self._server.join()
        if left:
            raise ServerError(
                f"Hccl of communicator {self.group.name!r} must be finalised before its PE ends, but "
                f"was not: use it in a `with` statement, or call Finalize"
            )
