"""``Sleeper``: how an agent sleeps until a PE has a request for it, or until bytes of other hosts have come.

MPI says of nothing that it may be waited for without taking a core. But where it sends by TCP, what comes makes
a socket of this process readable, and that can be waited for, beside a pipe into which PEs write. Sockets are only looked at.

A call of MPI may read bytes and tell of them in the next call only; then no socket is readable, and nothing would end a
sleep. So who wants to sleep looks at :meth:`Sleeper.received` before and behind some calls: if it is the same, they read
nothing.

Other networks have none: then a sleep after work lasts ``_FIRST_NAP_S``, each further one twice as long, up to ``SHORT_MS``, and
a message is found so much later.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time

from emu.comm.arrays import Words
from emu.comm.hosts import steps
from emu.comm.hosts.words import ASLEEP, BELL_DESCRIPTOR, BELL_PROCESS

SHORT_MS, LONG_MS = 1, 10
"""Longest sleep without and with sockets that wake; within it an agent looks at everything that nobody wakes it for."""

_FIRST_NAP_S = 5e-5
"""First sleep after work where no socket ends one; the system makes it some 50 microseconds longer."""
_SELECT_LIMIT = 1024
"""Descriptors from this one on ``select``, which alone sleeps for less than a millisecond, cannot wait for."""

_LIST_S = 0.25
"""Seconds between two looks for sockets that MPI has opened."""

_IN_VAIN = 50
"""Sleeps one after the other that a socket ended though nothing had come, after which sockets are not looked at."""


class Sleeper:
    """The sleep of one agent.

    Args:
        address: Of the first port of this host, in whose words PEs see whether the agent sleeps.
        words: The words of that port.

    Attributes:
        sockets: The connections of MPI that are known, by descriptor.
    """

    def __init__(self, address: int, words: Words) -> None:
        self._address = address + 8 * ASLEEP
        self._bell, self._write = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._write, False)
        words[BELL_PROCESS], words[BELL_DESCRIPTOR] = os.getpid(), self._write
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self._poll_to_send, self._poll_both = select.poll(), select.poll()
        self._poll_both.register(self._bell, select.POLLIN)
        self.sockets: dict[int, socket.socket] = {}
        self._listed = 0.0
        self._in_vain = 0
        self._nap_s = _FIRST_NAP_S

    def announce(self) -> None:
        """Have PEs ring from now on; behind it the caller looks once more whether one has posted something."""
        steps.store_word(self._address, 1)

    def sleep(self, *, briefly: bool = False) -> None:
        """Sleep until something has come, after :meth:`announce`, but not for long.

        Args:
            briefly: Sleep for ``SHORT_MS`` at most, and until something can be sent again.
        """
        if self._in_vain >= _IN_VAIN:  # some socket is always readable: sleep without them
            time.sleep(1e-3 * SHORT_MS)
            self._in_vain -= 1
            found = [(self._bell, 0)]
        elif not self.sockets and self._bell < _SELECT_LIMIT:
            rings, _, _ = select.select([self._bell], [], [], self._nap_s)
            self._nap_s = min(2 * self._nap_s, 1e-3 * SHORT_MS)
            found = [(bell, 0) for bell in rings]
        elif briefly or not self.sockets:
            found = self._nap()
        else:
            found = self._poll.poll(LONG_MS)
        steps.store_word(self._address, 0)
        rang = any(descriptor == self._bell for descriptor, _ in found)
        self._in_vain = self._in_vain + 1 if found and not rang else 0
        if rang:
            with contextlib.suppress(BlockingIOError):
                os.read(self._bell, 4096)

    def rise(self) -> None:
        """Take :meth:`announce` back."""
        steps.store_word(self._address, 0)

    def ring(self) -> None:
        """End a sleep; any thread may call it."""
        with contextlib.suppress(OSError):
            os.write(self._write, b"!")

    def worked(self) -> None:
        """Note that there was work: what ended a sleep was no false alarm."""
        self._in_vain = 0
        self._nap_s = _FIRST_NAP_S

    def _nap(self) -> list[tuple[int, int]]:
        full = len(self._poll_to_send.poll(0)) < len(self.sockets)
        return (self._poll_both if full else self._poll).poll(SHORT_MS)

    def received(self) -> int:
        """Return the number of bytes that have come through all sockets so far, read or not."""
        total = 0
        for found in self.sockets.values():
            with contextlib.suppress(OSError):
                info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                total += int.from_bytes(info[_RECEIVED : _RECEIVED + 8], sys.byteorder)
        return total

    def look_for_sockets(self, now: float) -> bool:
        """Take new sockets of the network in, and forget those that were closed, if it is time; return whether it was."""
        if now - self._listed < _LIST_S:
            return False
        self._listed = now
        there = {int(name) for name in os.listdir(_DESCRIPTORS)} if _HAS_PROC else set()
        for descriptor in self.sockets.keys() - there:
            self._forget(descriptor)
        for descriptor in there - self.sockets.keys():
            found = _of_network(descriptor)
            if found is not None:
                self._poll.register(descriptor, select.POLLIN)
                self._poll_to_send.register(descriptor, select.POLLOUT)
                self._poll_both.register(descriptor, select.POLLIN | select.POLLOUT)
                self.sockets[descriptor] = found
        return True

    def _forget(self, descriptor: int) -> None:
        self.sockets.pop(descriptor).detach()  # it is MPI's, which closes it
        for poll in (self._poll, self._poll_to_send, self._poll_both):
            poll.unregister(descriptor)

    def close(self) -> None:
        """Close the pipe."""
        for descriptor in list(self.sockets):
            self._forget(descriptor)
        os.close(self._bell)
        os.close(self._write)


_DESCRIPTORS = "/proc/self/fd"
_HAS_PROC = os.path.isdir(_DESCRIPTORS) and hasattr(socket, "TCP_INFO")
_INFO_BYTES, _RECEIVED = 136, 128
"""Where Linux's ``struct tcp_info`` has the number of bytes that were received."""


def _of_network(descriptor: int) -> socket.socket | None:
    """Return a descriptor as a socket if it is a connected one of TCP; it must be detached in the end."""
    try:
        if not os.readlink(f"{_DESCRIPTORS}/{descriptor}").startswith("socket:"):
            return None
        found = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if (
            found.family in (socket.AF_INET, socket.AF_INET6)
            and found.type == socket.SOCK_STREAM
            and found.getpeername()
        ):
            return found
    except OSError:
        pass
    found.detach()
    return None
