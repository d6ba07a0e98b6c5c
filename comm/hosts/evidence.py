"""``Evidence``: what the system knows of another host that says nothing: whether it has ended, or has no time.

A host whose cores are all taken says nothing for seconds, and is not lost. But its kernel works: it acknowledges what comes
by TCP, and when a process ends, it closes its connections. So agents tell each other which sockets are theirs, and
each looks at the state of those that lead to the other. A process of the same machine is looked for itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

_OPEN, _SILENT, _CLOSED = range(3)
_ESTABLISHED = 1
_UNACKNOWLEDGED, _LAST_ACKNOWLEDGED = 24, 56
"""Places in Linux's ``struct tcp_info`` of the segments on their way, and of the ms since the last acknowledgement."""
_INFO_BYTES = 136
SILENT_S = 2.0
"""Seconds without an acknowledgement of what was sent after which a host cannot be reached."""


class Evidence:
    """What the system knows of other hosts.

    Args:
        sockets: The connections of this process, which change.
    """

    def __init__(self, sockets: Mapping[int, socket.socket]) -> None:
        self._sockets = sockets
        self._hosts: dict[str, int] = {}  # by the address of a socket of theirs
        self._processes: dict[int, int] = {}
        self._said: dict[str, Any] = {}

    def news(self) -> dict[str, Any] | None:
        """Return what other hosts must know to find this one; None if they do."""
        said = {
            "call": "hello",
            "machine": _machine(),
            "process": os.getpid(),
            "sockets": sorted({_text(s.getsockname) for s in self._sockets.values()}),
        }
        if said == self._said:
            return None
        self._said = said
        return said

    def hear(self, host: int, message: Mapping[str, Any]) -> None:
        """Take what another host says."""
        if message["machine"] == _machine():
            self._processes[host] = message["process"]
        for address in message["sockets"]:
            self._hosts[address] = host

    def is_there(self, host: int) -> bool | None:
        """Return whether a host can be reached, and its process has not ended; None: nothing is known."""
        process = self._processes.get(host)
        if process is not None and not _lives(process):
            return False
        states = {
            _state(found)
            for found in list(self._sockets.values())
            if self._hosts.get(_text(found.getpeername)) == host
        }
        if states:  # MPI may close one connection and go on with another
            return _OPEN in states and _SILENT not in states
        return True if process is not None else None


def _text(address: Any) -> str:
    """Return an address of a socket; none of one that was closed."""
    with contextlib.suppress(OSError):
        return str(address()[:2])
    return ""


def _state(found: socket.socket) -> int:
    """Return whether a connection is open, and what was sent is acknowledged."""
    try:
        info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return _CLOSED
    (waiting,) = struct.unpack_from("=I", info, _UNACKNOWLEDGED)
    (silent,) = struct.unpack_from("=I", info, _LAST_ACKNOWLEDGED)
    if info[0] != _ESTABLISHED:
        return _CLOSED
    return _SILENT if waiting and silent > 1000 * SILENT_S else _OPEN


def _lives(process: int) -> bool:
    """Return whether a process of this machine has not ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return not os.path.isdir("/proc/self")


def _machine() -> str:
    """Return what tells machines, and containers that do not see each other's processes, from each other."""
    with (
        contextlib.suppress(OSError),
        open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file,
    ):
        return file.read().strip() + os.readlink("/proc/self/ns/pid")
    return f"unknown {os.getpid()}"
