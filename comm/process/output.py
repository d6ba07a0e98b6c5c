"""The output of PEs, passed on to the launcher's own streams."""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
from typing import Any, TextIO

_CHUNK = 1 << 16


class Output:
    """The PEs' pipes, from which whole lines are written, each with the PE's number in front."""

    def __init__(self, selector: selectors.BaseSelector, prefix: bool) -> None:
        self._selector = selector
        self._prefix = prefix
        self._open: dict[int, tuple[int, TextIO, Any]] = {}
        self._rest: dict[int, str] = {}

    def add(self, pe: int, fd: int, stream: TextIO) -> None:
        """Serve a pipe of PE ``pe``."""
        os.set_blocking(fd, False)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open[fd] = (pe, stream, decoder)
        self._rest[fd] = ""
        self._selector.register(fd, selectors.EVENT_READ, ("output", pe))

    def read(self, key: selectors.SelectorKey) -> None:
        """Pass on the output that has arrived; forget a pipe at its end."""
        if key.fd in self._open and self._pass_on(key.fd) is False:
            self._close(key.fd)

    def _pass_on(self, fd: int) -> bool | None:
        """Return True if there was output, None if there is none yet, False at the pipe's end."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return None
        pe, stream, decoder = self._open[fd]
        text = self._rest[fd] + decoder.decode(data, not data)
        if not self._prefix:
            lines, rest = text, ""
        else:
            head, newline, rest = text.rpartition("\n")
            if not data and rest:  # the last line had no end
                head, newline, rest = text, "\n", ""
            lines = "".join(f"[{pe}] {line}\n" for line in head.split("\n")) if newline else ""
        self._rest[fd] = rest
        if lines:
            with contextlib.suppress(BrokenPipeError):
                stream.write(lines)
                stream.flush()
        return bool(data)

    def drain(self) -> None:
        """Pass on the output that ended PEs have left in their pipes.

        A grandchild may hold a pipe open, so this does not wait for the pipe's end.
        """
        for fd in list(self._open):
            while self._pass_on(fd):
                pass

    def _close(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)
        del self._open[fd]

    def close(self) -> None:
        """Close every pipe, after writing out lines that never ended."""
        for fd in list(self._open):
            pe, stream, _ = self._open[fd]
            if self._rest[fd]:
                with contextlib.suppress(BrokenPipeError, ValueError):
                    stream.write(f"[{pe}] {self._rest[fd]}\n" if self._prefix else self._rest[fd])
            self._close(fd)
