"""The fork server, the process that PEs are forked from: multiprocessing's, started and watched here."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import Any

from emu.comm.errors import ForkServerError
from emu.comm.memory import helpers
from emu.comm.process import serving
from emu.comm.process.pe import Start, main

LOST = 255
"""Exit status that multiprocessing reports for a process whose fork server is gone."""

END_S = 0.3
"""A server closes its pipes a moment before it can be waited for."""


class ForkServer:
    """A running fork server: it starts PEs, and knows how it ended if it did."""

    def __init__(self, preload: Sequence[str]) -> None:
        self._context: Any = multiprocessing.get_context("forkserver")
        with helpers.importing_alike():
            resource_tracker.ensure_running()  # first: it unblocks SIGINT
        with _no_interrupt():  # a Ctrl-C while it loads is the launcher's; PEs ignore it anyway
            serving.ensure_running(preload)
        self.pid = serving.server_pid()

    def pipe(self) -> tuple[Any, Any]:
        """Return the two ends of a pipe for one PE's result."""
        pipe: tuple[Any, Any] = self._context.Pipe(duplex=False)
        return pipe

    def channel(self) -> tuple[Any, Any]:
        """Return the two ends of a connection for orders and replies."""
        pipe: tuple[Any, Any] = self._context.Pipe(duplex=True)
        return pipe

    def start(self, pe: int, make: Callable[[], Start]) -> Any:
        """Start one PE; its ``Start`` must be made while the process is being started.

        Raises:
            ForkServerError: The server died, or could not load what PEs need.
        """
        process: Any = self._context.Process(
            target=_main_of, args=(Lazy(make),), name=f"emu-pe-{pe}"
        )
        try:
            with _no_typed_main():
                process.start()
        except (EOFError, OSError) as error:
            how = self.how_it_ended()
            if how is None:
                raise
            raise ForkServerError(
                f"PE {pe} could not be started: {how}; if it was not killed, it has said why itself"
            ) from error
        return process

    def close(self) -> None:
        """Give back what belongs to the launch: nothing, as the server is for all launches."""

    def how_it_ended(self, exitcode: int | None = LOST) -> str | None:
        """Return how the server ended, if that is why a PE seems to have ended with ``exitcode``."""
        if exitcode != LOST or self.pid is None or not hasattr(os, "waitid"):
            return None
        end = time.monotonic() + END_S
        while True:
            try:  # without taking the status: multiprocessing asks for it before the next start
                found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return f"the fork server (process {self.pid}) ended"
            if found is not None:
                break
            if time.monotonic() >= end:
                return None
            time.sleep(0.01)
        if found.si_code == os.CLD_EXITED:
            return f"the fork server (process {self.pid}) ended with exit status {found.si_status}"
        return f"the fork server (process {self.pid}) was killed by {signal_name(found.si_status)}"


def signal_name(number: int) -> str:
    """Return ``SIGKILL`` for 9, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Block SIGINT in this thread, and so in the processes that are started meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _no_typed_main() -> Iterator[None]:
    """Hide that the main module came from standard input: new processes would look for that file."""
    main = vars(sys.modules["__main__"])
    file = main.get("__file__")
    if file is None or os.path.exists(file):
        yield
        return
    del main["__file__"]
    try:
        yield
    finally:
        main["__file__"] = file


class Lazy:
    """A start message made when it is pickled: descriptors can only be duplicated during the start."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make

    def __reduce__(self) -> tuple[object, ...]:
        return _identity, (self._make(),)


def _identity(message: object) -> object:
    return message


def _main_of(start: Start) -> None:
    main(start)
