"""Programs of one launch that wait for each other, also for later ones.

A thread runs its programs one after the other. A program that waits in vain would keep the later ones from beginning,
which may be those that it waits for. So its thread gives away the programs that it has not begun, to a new thread, and
sleeps in its poll. As many threads of a launch run as did before; the others take turns: who reads the same
values again gives its turn to the next. All programs that wait keep their stacks, at most :data:`MOST_THREADS`.

*Signals.* A handler may raise anywhere in the launching thread's Python, between any two lines of what follows. So the end of
a launch relies on nothing that this thread may have left undone: :meth:`Turns.fail` wakes all members, whoever's turn it
is, and :meth:`Turns.finish` takes the launching thread for gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

from emu.tile.cpu import call
from emu.tile.cpu.reports import HANDED_ON
from emu.tile.cpu.run.spins import Spin
from emu.tile.cpu.run.thread import CharArray, new_buffers, thread_state

MOST_THREADS = 256
"""Programs of one launch that can wait at once; the later ones begin when some of these have ended."""

_SHORTEST_NS = 100_000
"""Time after which Python is asked where programs take turns, at first; it doubles while a loop reads other values."""

_LOOKS = 64
"""Rounds for which a program whose turn it is looks at memory before it may give its turn away again."""

_SLICE_S = 0.02
"""Time for which the launching thread sleeps at once; signals are handled in between."""

_NAP_S = 0.002
"""Pause after each round of turns in which nothing changed: then others must write what is waited for."""

Range = tuple[int, int]


@runtime_checkable
class Runnable(Protocol):
    """The part of a kernel that taking turns needs; see :class:`emu.tile.cpu.Kernel`."""

    name: str

    def run_span(self, arguments: int, first: int, last: int, grid: tuple[int, int, int]) -> int:
        """Run programs ``first`` to before ``last`` on this thread, and return the status."""

    def check_stopped(self, status: int, grid: tuple[int, int, int]) -> None:
        """Raise the error for which this thread was told to stop, if it was."""


class Member:
    """A thread that works on a launch whose programs take turns.

    Attributes:
        turns: The launch.
        owner: Whether it is the thread that launches.
        spin: Loop that it is in, if that has been running for long.
        waits: Whether the loop read the same the last time it had its turn.
        go: Lock that is free when it has its turn.
    """

    def __init__(self, turns: Turns, owner: bool) -> None:
        self.turns = turns
        self.owner = owner
        self.spin: Spin | None = None
        self.waits = False
        self.go = threading.Lock()
        self.go.acquire()

    def wake(self) -> None:
        """Give it its turn, if it has none. The lock of the launch is held."""
        if self.go.locked():
            self.go.release()


class _Own(threading.local):
    """What belongs to a thread: its part in a launch, and programs of its launch that nobody has taken yet."""

    member: Member | None = None
    offered: Range | None = None


_own = _Own()


class Turns:
    """The threads of one launch whose programs wait for each other.

    Args:
        kernel: The kernel.
        arguments: Address of its packed arguments.
        grid: Extents of the grid.
        publish: Tells the launcher which loops the process waits in; none: it goes on.
        others: Number of threads that work on the launch besides, and have not waited so far.
        more: Runs programs that no thread has taken; returns the status. None where there can be none.
        left_over: Returns whether there are such programs.

    Attributes:
        failed: Whether all threads must stop.
        error: Exception that ended the launch, if one did.
        status: Status of the program whose assert failed, or 0.
    """

    def __init__(
        self,
        kernel: Runnable,
        arguments: int,
        grid: tuple[int, int, int],
        publish: Callable[..., None],
        others: int = 0,
        more: Callable[[], int] | None = None,
        left_over: Callable[[], bool] = bool,
    ) -> None:
        self._kernel, self._arguments, self._grid = kernel, arguments, grid
        self._publish = publish
        self._others = others
        self._more, self._left_over = more, left_over
        self._lock = threading.Lock()
        self._members: set[Member] = set()
        self._starting: set[Member] = set()  # members whose threads may not have begun
        self._owner: Member | None = None
        self._sleeping: deque[Member] = deque()
        self._ranges: deque[Range] = deque()
        self._fruitless = 0
        self._ended = threading.Event()
        self.failed = False
        self.error: BaseException | None = None
        self.status = 0

    # ---- by a thread of the launch, in a poll

    def join(self, owner: bool) -> None:
        """Let the calling thread take part."""
        member = _own.member = Member(self, owner)
        if owner:
            self._owner = member
        with self._lock:
            offered, _own.offered = _own.offered, None
            if offered is not None:
                self._ranges.append(offered)
            self._members.add(member)
            self._others -= bool(self._others)
        _set_interval(_SHORTEST_NS)

    def note(self, spin: Spin | None, record: CharArray | None = None) -> None:
        """Record the loop of the calling thread; if it reads the same again, give the turn to another.

        Args:
            spin: The loop; None: it has ended.
            record: The poll record, whose number of rounds is set where programs take turns.
        """
        member = _own.member
        assert member is not None
        member.spin = spin
        if spin is None or not spin.same:
            with self._lock:
                member.waits = False
                self._fruitless = 0
            if spin is not None:
                ask_less_often()
            return
        if self._give_turn(member):
            _set_interval(_SHORTEST_NS)
            if record is not None:
                (rounds,) = struct.unpack_from("q", record, 8 * call.BUDGET)
                struct.pack_into("q", record, 8 * call.BUDGET, min(rounds, _LOOKS))
        else:
            _set_interval(call.ASK_NS)  # alone: what it waits for is looked at all the time

    def _give_turn(self, member: Member) -> bool:
        """Let another thread run, and return when it is this one's turn again; False: there is no other."""
        with self._lock:
            if self.failed:
                return True
            rest = _take_rest()
            if rest is not None:
                self._ranges.append(rest)
            member.waits = True
            self._fruitless += 1
            following = self._following()
            if following is not None:
                self._sleeping.append(member)
            waits = self._all_wait()
            idle = waits and self._fruitless % len(self._members) == 0
        if (
            waits and member.owner
        ):  # whoever's turn it is when a round ends: nobody else may publish
            self.publish()
        if idle:
            time.sleep(_NAP_S)
        if following is None:
            return bool(self._members - {member})
        with self._lock:
            following.wake()
        self._sleep(member)
        member.waits = False
        return True

    def _following(self) -> Member | None:
        """Return the thread whose turn is next, a new one if programs have not begun. The lock is held."""
        if (self._ranges or self._has_more()) and len(self._members) < MOST_THREADS:
            member = Member(self, owner=False)
            name = f"emu program of {self._kernel.name}"
            thread = threading.Thread(target=self._run, args=(member,), name=name, daemon=True)
            self._starting.add(member)
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads: those that there are take turns
                self._starting.discard(member)
                return self._sleeping.popleft() if self._sleeping else None
            self._members.add(member)
            self._starting.discard(member)
            self._fruitless = 0
            return member
        return self._sleeping.popleft() if self._sleeping else None

    def _sleep(self, member: Member) -> None:
        if not member.owner:
            member.go.acquire()
            return
        # Handlers of signals that launch kernels in between must not write over this launch's arguments.
        thread_state.buffers = new_buffers()
        try:
            while not member.go.acquire(timeout=_SLICE_S):
                self.publish()
        finally:
            thread_state.buffers = thread_state.own_buffers

    # ---- the threads that were made

    def _run(self, member: Member) -> None:
        member.go.acquire()
        _own.member = member
        _set_interval(_SHORTEST_NS)
        try:
            while (work := self._take()) is not None and not self.failed:
                status = work()
                if status not in (0, HANDED_ON):
                    self._kernel.check_stopped(status, self._grid)
                    self.status = self.status or status
                    self.fail(None)
        except BaseException as error:  # noqa: BLE001 - the launching thread raises it
            self.fail(error)
        finally:
            self.leave()

    def _take(self) -> Callable[[], int] | None:
        with self._lock:
            if self._ranges:
                span = self._ranges.popleft()
                return lambda: self._kernel.run_span(self._arguments, *span, self._grid)
            return self._more if self._has_more() else None

    def _has_more(self) -> bool:
        return self._more is not None and self._left_over()

    # ---- the end

    def fail(self, error: BaseException | None) -> None:
        """Stop all threads."""
        with self._lock:
            if not self.failed:
                self.error = error
            self.failed = True
            self._ranges.clear()
            self._more = None
            self._sleeping.clear()
            for member in self._members | self._starting:
                member.wake()

    def leave(self) -> None:
        """Let the calling thread take no part any more, and another run in its place."""
        member, _own.member = _own.member, None
        thread_state.spin = None
        with self._lock:
            if member is None:
                self._others -= 1
            else:
                self._members.discard(member)
            self._fruitless = 0
            following = self._following()
            if following is not None:
                following.wake()
            elif not self._members:
                self._ended.set()

    def finish(self) -> None:
        """Wait until all other threads have ended. By the launching thread, which works on no program any more."""
        with self._lock:
            if self._owner is not None:  # an exception may have kept it from leaving
                self._members.discard(self._owner)
            if not self._members:
                return
        # As in a poll: the threads still read the arguments behind this thread's table.
        thread_state.buffers = new_buffers()
        try:
            while self._members and not self._ended.wait(_SLICE_S):
                self.publish()
        except BaseException as error:  # noqa: BLE001 - raised by the launch
            self.fail(error)
            while self._members:
                with contextlib.suppress(BaseException):  # of another signal; the first one counts
                    self._ended.wait(_SLICE_S)
        finally:
            thread_state.buffers = thread_state.own_buffers

    # ---- what the launcher is told

    def _all_wait(self) -> bool:
        """Return whether each thread has read the same in its last turn, and nothing has changed since."""
        return (
            not self._others
            and self._fruitless >= len(self._members)
            and all(m.waits for m in self._members)
        )

    def publish(self) -> None:
        """Tell the launcher which loops the process waits in, or that it goes on. By the launching thread."""
        with self._lock:
            spins = [m.spin for m in self._members if m.spin is not None]
            waits = self._all_wait()
            left = sum(last - first for first, last in self._ranges)
        note = ""
        if left:
            note = f"; {left} programs have not begun, as at most {MOST_THREADS} of a launch can wait at once"
        told = sorted(spins, key=_order) if waits else []
        if told and note:
            self._publish(told, note)
        else:
            self._publish(told)


def _order(spin: Spin) -> tuple[int, ...]:
    return spin.program[::-1]


def current() -> Turns | None:
    """Return what the calling thread takes part in."""
    member = _own.member
    return None if member is None else member.turns


def settle(status: int) -> int:
    """Return the status of a launch after the threads that it has made have ended.

    Args:
        status: What the launching thread's own programs gave.

    Raises:
        BaseException: What one of these threads raised.
    """
    turns = current()
    if turns is None or thread_state.buffers is not thread_state.own_buffers:
        return status
    try:
        if status != HANDED_ON:
            turns.fail(None)
        turns.leave()
        turns.finish()
    except BaseException as error:
        turns.fail(error)
        turns.finish()
        raise
    if thread_state.error is not None:  # its own: a signal, or the end of the world
        return status
    if turns.error is not None:
        raise turns.error
    if turns.status:
        return turns.status
    return 0 if status == HANDED_ON else status


@contextlib.contextmanager
def offering(first: int, last: int) -> Iterator[Callable[[], bool]]:
    """Let the programs ``first`` to before ``last`` be run if what runs inside waits.

    Yields:
        A function that returns whether they still have to be run.
    """
    before = _own.offered  # of a launch that a signal's handler has interrupted
    offered = _own.offered = (first, last)
    try:
        yield lambda: _own.offered is offered
    finally:
        _own.offered = before


def has_rest() -> bool:
    """Return whether there are programs that the calling thread would run after this one."""
    if _own.offered is not None:
        return True
    number, end = struct.unpack_from("2q", thread_state.own_buffers[0], 8 * call.NUMBER)
    return bool(number + 1 < end)


def _take_rest() -> Range | None:
    """Take the programs away that the calling thread has not begun."""
    table = thread_state.own_buffers[0]
    number, end = struct.unpack_from("2q", table, 8 * call.NUMBER)
    if number + 1 >= end:
        return None
    struct.pack_into("q", table, 8 * call.END, number + 1)
    return number + 1, end


def _interval() -> int:
    (found,) = struct.unpack_from("q", thread_state.own_buffers[0], 8 * call.INTERVAL)
    return int(found)


def _set_interval(nanoseconds: int) -> None:
    struct.pack_into("q", thread_state.own_buffers[0], 8 * call.INTERVAL, nanoseconds)


def ask_less_often() -> None:
    """Double the time until the calling thread asks Python again, where it is short from a launch before."""
    now = _interval()
    if now < call.ASK_NS:
        _set_interval(min(2 * now, call.ASK_NS))


def record_at(address: int) -> CharArray:
    """Return the fixed words of a poll record as bytes that can be written."""
    return (ctypes.c_char * (8 * call.PAIRS)).from_address(address)
