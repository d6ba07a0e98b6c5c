"""No PE outlives a launcher that was killed, not even one inside native code."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import threading
from typing import Protocol

from emu.kernels.core import system


class _Parent(Protocol):
    """The part of ``multiprocessing.parent_process()`` that is needed."""

    @property
    def sentinel(self) -> int:
        """Descriptor of a pipe whose other end the launcher has."""

    def is_alive(self) -> bool:
        """Return whether it runs."""

    def join(self) -> None:
        """Wait until it ends."""


def die_with_the_launcher() -> None:
    """Let this process end when its launcher does."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if system.LINUX and hasattr(fcntl, "F_SETSIG"):
        _ask_the_kernel(parent)
    else:
        threading.Thread(
            target=_watch, args=(parent,), daemon=True, name="emu-launcher-watch"
        ).start()


def _ask_the_kernel(parent: _Parent) -> None:
    """Have the kernel kill this process when the launcher's end of the pipe closes."""
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(parent.sentinel, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    if not parent.is_alive():
        os._exit(1)


def _watch(parent: _Parent) -> None:
    # Kernels run without the GIL, but a few short ones, so that this thread gets its turn.
    parent.join()
    os._exit(1)
