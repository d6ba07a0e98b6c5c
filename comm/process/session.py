"""``Session``: PEs that stay, and carry out one order of the launcher after the other.

A launch starts PEs, which call one function and end. The PEs of a session call a function that takes
orders in a loop. While they carry one out, everything is as in a launch: their output, the time-out when nothing
moves, how the failure of one ends the others, and how Ctrl-C ends all. Between two orders they sleep.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import selectors
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection
from typing import Any, Self

from emu.comm.errors import CommError
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import INTERRUPTED
from emu.comm.process import serving
from emu.comm.process.fork_server import ForkServer
from emu.comm.process.input import Input
from emu.comm.process.launch import Launch, prepare
from emu.comm.process.launch_options import LaunchOptions
from emu.comm.process.loaded_server import loaded_server
from emu.comm.process.payload import RemoteCall, pack

_END_S = 5.0
"""Seconds that PEs have to end after their last order."""


class _Staying(Launch):
    """The processes of a session."""

    can_be_scheduled = False

    def __init__(self, segment: Segment, timeout: float, prefix: bool, given: Input) -> None:
        super().__init__(segment, timeout, prefix, given)
        self.channels: list[connection.Connection] = []
        self.replies: dict[int, Any] = {}
        self.load: RemoteCall | None = None

    def _started_server(self, preload: Sequence[str]) -> ForkServer:
        common = super()._started_server(preload)
        return common if self.load is None else loaded_server(common, self.load)

    def _open_channel(self, server: ForkServer, pe: int) -> Any:
        mine, theirs = server.channel()
        self.channels.append(mine)
        self._selector.register(mine, selectors.EVENT_READ, ("reply", pe))
        return theirs

    def _receive_reply(self, pe: int, *, is_there: bool = False) -> None:
        channel = self.channels[pe]
        if channel.closed:
            return
        with contextlib.suppress(EOFError, OSError):
            while is_there or channel.poll():
                self.replies[pe] = pickle.loads(channel.recv_bytes())
                if is_there:  # if there are more, the selector tells again
                    return
            return
        self._close_channel(pe)

    def _close_channel(self, pe: int) -> None:
        channel = self.channels[pe]
        if not channel.closed:
            self._selector.unregister(channel)
            channel.close()

    def _end(self, pe: int) -> None:
        super()._end(pe)
        if not self._reason and pe not in self.replies:
            error = CommError(f"PE {pe} ended before it had carried out its order")
            self._fail(pe, error)

    def stop(self, reason: int, text: str) -> None:
        """Tell every PE to stop; those that wait for an order find that there are no more."""
        super().stop(reason, text)
        for pe in range(len(self.channels)):
            self._close_channel(pe)

    def order(self, order: object) -> list[Any]:
        """Have all PEs carry out an order; return their replies. A failure leaves ``has_failed``."""
        self.replies = {}
        data = pickle.dumps(order, protocol=5)
        for channel in self.channels:
            with contextlib.suppress(OSError):  # how its PE has ended is found below
                channel.send_bytes(data)
        self.watch_until(lambda: len(self.replies) == self._n_pes and not self._reason)
        self._output.drain()
        return [] if self.has_failed else [self.replies[pe] for pe in range(self._n_pes)]

    @property
    def has_failed(self) -> bool:
        """Whether a PE has failed, and all were stopped."""
        return bool(self._reason)

    def end(self) -> None:
        """Have the PEs end by themselves, and stop those that don't."""
        self.replies = dict.fromkeys(range(self._n_pes))
        for pe in range(len(self.channels)):
            self._close_channel(pe)
        limit = time.monotonic() + _END_S
        self.watch_until(lambda: time.monotonic() >= limit)
        if len(self._ended) < self._n_pes:
            self.stop(INTERRUPTED, "the session was closed")
            self.finish_stopping()
        self._output.drain()

    def close(self) -> None:
        """Close every descriptor."""
        for channel in self.channels:
            channel.close()
        super().close()


class Session:
    """PEs that carry out orders until the session is closed.

    The processes end with :meth:`close`, at the end of a ``with`` block, when the session is collected as
    garbage, when this process ends or is killed, and when an order fails.

    Args:
        fn: Function that each PE calls: ``fn(orders, *args)`` iterates over the
            :class:`~emu.comm.process.orders.Orders` and replies to each.
        n_pes: Number of PEs.
        args: Positional arguments, the same for every PE.
        kwargs: Keyword arguments. Default: none.
        options: Settings of the launch. Default: those of ``LaunchOptions()``.
        load: Function and arguments that are called once, in the process that the PEs are forked from, so that
            each has what it loads. It can be imported; where it fails, PEs are started all the same.
            Default: None.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was started.
    """

    def __init__(
        self,
        fn: Callable[..., object],
        n_pes: int,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: LaunchOptions | None = None,
        load: tuple[Callable[..., object], tuple[Any, ...]] | None = None,
    ) -> None:
        packed = None if load is None else pack(*load, {})
        world, call, chosen = prepare(_Staying, fn, n_pes, args, kwargs, options, {})
        world.load = packed
        self._checks = chosen.checks
        self.n_pes = n_pes
        self.segment = world._segment
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._world = world
        self._launching = serving.launching()
        self._launching.__enter__()
        self._is_open = True
        # Python waits for child processes at its end: they must have been told to end before.
        self._finalizer = weakref.finalize(self, _abandon, world, self._launching, self._owner)
        self._finalizer.atexit = False
        _open.add(self)
        with self._closing_after_errors():
            world.start(call, chosen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether it takes orders."""
        return self._is_open

    def order(self, order: object) -> list[Any]:
        """Have all PEs carry out an order.

        Args:
            order: Anything that can be pickled; the same for every PE.

        Returns:
            Their replies, in PE order.

        Raises:
            CommError: The session is closed, or another process's.
            ExceptionGroup: As of ``emu.launch``; the session is closed then.
            CheckError: The order was carried out, and checks have found something.
            KeyboardInterrupt: Ctrl-C; all PEs were stopped.
        """
        if os.getpid() != self._owner:
            raise CommError("the session must be of this process, but it was started before a fork")
        with self._lock:
            if not self._is_open:
                raise CommError("the session must be open, but it is closed")
            with self._closing_after_errors():
                replies = self._world.order(order)
            self._world.read_findings(self._checks)
            if self._world.has_failed:
                self._release()
                self._world.results()  # raises
            findings = self._world.findings
            if findings is not None:
                findings.results = replies
                raise findings
            return replies

    @contextlib.contextmanager
    def _closing_after_errors(self) -> Any:
        try:
            yield
        except BaseException:
            self._world.stop(INTERRUPTED, "the launcher was interrupted")
            self._world.finish_stopping()
            self._release()
            raise

    def close(self) -> None:
        """End the PEs; a second call does nothing, nor does one in a copy of the process made by a fork."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            if not self._is_open:
                return
            try:
                self._world.end()
            except BaseException:
                self._world.stop(INTERRUPTED, "the launcher was interrupted")
                self._world.finish_stopping()
                raise
            finally:
                self._release()

    def abandon(self) -> None:
        """End the PEs without waiting for them: what finalisers call."""
        if self._is_open:
            self._is_open = False
            self._finalizer()

    def _release(self) -> None:
        if self._is_open:
            self._is_open = False
            self._finalizer.detach()
            self._world.close()
            self._launching.__exit__(None, None, None)


def _abandon(world: _Staying, launching: Any, owner: int) -> None:
    """Have the PEs of a session end that was not closed, without waiting for them."""
    if os.getpid() == owner:  # a copy of this process made by a fork has no PEs
        world.close()
        launching.__exit__(None, None, None)


_open: weakref.WeakSet[Session] = weakref.WeakSet()
_owner = os.getpid()


def close_all() -> None:
    """Close the sessions of this process."""
    if os.getpid() == _owner:
        for session in list(_open):
            session.close()


# After multiprocessing was imported, whose own function of this kind waits for processes: the last comes first.
atexit.register(close_all)
