"""Standard input of PEs: the launcher's own, a copy of it, or none.

One PE gets the descriptor itself: whatever it is, a file, a pipe or a terminal, that PE reads it as any
program would, and what it does not read is left for others. Where all PEs get it, the launcher reads it
and passes each a copy of every byte, as fast as each PE takes them; what some have not taken yet lies
in a temporary file. A PE without input finds its end at once.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from emu.comm.layout import B_READING
from emu.comm.memory.segment import Segment

ALL, NONE = "all", "none"
_CHUNK = 1 << 16
_AHEAD = 1 << 20
"""Number of bytes that are read ahead of the fastest PE."""


class Input:
    """The launcher's end.

    Args:
        choice: Number of the PE that gets the launcher's standard input; or ``"all"``, or ``"none"``.
    """

    def __init__(self, choice: int | str) -> None:
        occupy_descriptor()
        self._choice = choice
        self._copier: _Copier | None = None
        self._source = _standard_input() if choice != NONE else None
        if choice == ALL and self._source is not None:
            self._copier = _Copier(self._source)

    @contextlib.contextmanager
    def of(self, pe: int) -> Iterator[int | None]:
        """Yield the descriptor that PE ``pe`` reads from, while the PE is being started."""
        if self._copier is None:
            yield self._source if self._choice == pe else None
            return
        descriptor = self._copier.add()
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def begin(self) -> None:
        """Begin to copy, after all PEs were started."""
        if self._copier is not None:
            self._copier.start()

    def close(self) -> None:
        """Stop copying, and close the descriptors."""
        if self._copier is not None:
            self._copier.close()
        if self._source is not None:
            os.close(self._source)
            self._source = None


def occupy_descriptor() -> None:
    """Open the null device as descriptor 0 if that is closed: a pipe that got this number would be lost."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


def _standard_input() -> int | None:
    if sys.__stdin__ is None:  # it was closed when Python started; descriptor 0 is anything now
        return None
    try:
        return os.dup(0)
    except OSError:  # it was closed
        return None


class _Copier:
    """A thread that copies one descriptor into several pipes."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._size = 0
        self._more = True
        self._taken: dict[int, int] = {}
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True, name="emu-input")

    def add(self) -> int:
        """Return a new pipe's end to read from."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        self._taken[write] = 0
        return read

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def close(self) -> None:
        """Stop copying."""
        os.close(self._wake_write)
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._wake_read)
        for write in tuple(self._taken):
            self._forget(write)
        self._kept.close()

    def _run(self) -> None:
        while self._taken:
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            if self._more and self._size - max(self._taken.values()) < _AHEAD:
                poll.register(self._source, select.POLLIN)
            for write, taken in self._taken.items():
                if taken < self._size:
                    poll.register(write, select.POLLOUT)
            for descriptor, _ in poll.poll():
                if descriptor == self._wake_read:
                    return
                if descriptor == self._source:
                    self._read()
                else:
                    self._pass_on(descriptor)
            if not self._more:
                for write in [w for w, taken in self._taken.items() if taken == self._size]:
                    self._forget(write)

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(OSError):  # a terminal that has gone, a folder
            data = os.read(self._source, _CHUNK)
        self._more = bool(data)
        self._kept.seek(self._size)
        self._kept.write(data)
        self._kept.flush()
        self._size += len(data)

    def _pass_on(self, write: int) -> None:
        taken = self._taken[write]
        self._kept.seek(taken)
        try:
            self._taken[write] += os.write(write, self._kept.read(_CHUNK))
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the PE has ended, or has closed it
            self._forget(write)

    def _forget(self, write: int) -> None:
        os.close(write)
        del self._taken[write]


# --- in a PE -------------------------------------------------------------------------------


class _Reads(io.FileIO):
    """A descriptor that notes in the PE's block while it is read: such a wait is no deadlock."""

    def __init__(self, descriptor: int, segment: Segment, pe: int) -> None:
        super().__init__(descriptor, "rb", closefd=False)
        self._block = segment.block(pe)

    def readinto(self, buffer: Any) -> int:
        """Read, as the base class does."""
        self._block[B_READING] = 1
        try:
            return super().readinto(buffer)
        finally:
            self._block[B_READING] = 0


def open_input(given: Any, segment: Segment, pe: int) -> None:
    """Make a descriptor the standard input of this PE.

    Args:
        given: A ``DupFd``, or None for no input.
        segment: Of the world.
        pe: The PE.
    """
    descriptor = given.detach() if given is not None else os.open(os.devnull, os.O_RDONLY)
    if descriptor != 0:
        os.dup2(descriptor, 0)
        os.close(descriptor)
    with contextlib.suppress(Exception):
        sys.stdin.close()
    sys.stdin = io.TextIOWrapper(io.BufferedReader(_Reads(0, segment, pe)))
