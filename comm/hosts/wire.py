"""``Wire``: records to and from the agents of other hosts, as MPI messages.

Records to one host are collected and sent together, small payloads among them, when the agent has looked at
everything that there was to do. A large payload is a message of its own, which is sent from where it lies and received
where it belongs. Messages of one kind between two hosts do not overtake each other, so that the n-th large payload is
that of the n-th record that announces one.

One thread calls MPI, which may be any (``MPI_THREAD_SERIALIZED``). No call waits inside MPI for another host: what a
host that died would have sent must not be waited for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from emu.comm.arrays import Bytes, Words
from emu.comm.hosts.words import (
    BULK,
    INLINE,
    INLINE_BYTES,
    MODE,
    NBYTES,
    NOTHING,
    RECORD_BYTES,
)

_BATCH, _PAYLOAD = 1, 2
"""MPI's tags."""
_BATCH_BYTES = 64 << 10
"""Largest batch."""
_PAYLOADS_AHEAD = 8
"""Large payloads that may be on their way before the batch that announces them. MPI over TCP keeps a few dozen messages that
nobody asks for yet; then it reads no more from their sender, and the batch behind them would never come."""
_KEPT = 16
"""Batches whose memory is used again."""
_SPIN_S = 3e-4
"""For so long a message that is on its way is looked for without a nap, as MPI itself does."""

Communicator: TypeAlias = Any  # mpi4py has types, but is not installed everywhere


class Record(NamedTuple):
    """A record that came."""

    host: int
    """Who sent it."""
    words: Words
    inline: Bytes | None
    """Its payload, if that came with it; valid until the next batch."""


_NO_RECORDS: list[Record] = []


class LostError(Exception):
    """What would come from a host does not come."""


class Wire:
    """The connections of an agent.

    Args:
        mpi: The module ``mpi4py.MPI``.
        communicator: One whose ranks are the hosts, and in which nobody else sends.
        is_lost: Says whether a host is lost; it is called while a message is waited for.
        nap: Lets others have the core for a moment.

    Attributes:
        heard: Number of messages from each host.
        sent: Number of records for each host, collected ones among them.
    """

    def __init__(
        self,
        mpi: Any,
        communicator: Communicator,
        is_lost: Callable[[int], bool],
        nap: Callable[[], object],
    ) -> None:
        self._mpi = mpi
        self._byte = mpi.BYTE
        self._communicator = communicator
        self._is_lost = is_lost
        self._nap = nap
        self._status = mpi.Status()
        self._batches: dict[int, tuple[Bytes, int]] = {}  # memory, and how much of it is used
        self._free: list[Bytes] = []
        self._sending: deque[tuple[Any, Bytes]] = deque()  # requests, and the memory that they use
        self._busy_until = 0.0
        self._received: Bytes = np.empty(_BATCH_BYTES, np.uint8)
        self._ahead = [0] * int(communicator.Get_size())
        self.heard = [0] * int(communicator.Get_size())
        self.sent = [0] * int(communicator.Get_size())

    # --- sending ---------------------------------------------------------------------------

    def send(self, host: int, words: Words, payload: Bytes | None = None) -> None:
        """Send a record, soon; its words are copied, and a payload of at most ``INLINE_BYTES``, too.

        A larger payload must stay as it is until the other host has answered.
        """
        nbytes = 0 if payload is None else payload.size
        mode = NOTHING if not nbytes else INLINE if nbytes <= INLINE_BYTES else BULK
        room = RECORD_BYTES + (nbytes + -nbytes % 8 if mode == INLINE else 0)
        memory, used = self._batch(host, room)
        record = memory[used : used + RECORD_BYTES].view(np.int64)
        record[:] = words
        if payload is not None:  # else it may be the size of what is asked for
            record[NBYTES] = nbytes
        record[MODE] = mode
        if payload is not None and mode == INLINE:
            start = used + RECORD_BYTES
            memory[start : start + nbytes] = payload
        self._batches[host] = memory, used + room
        self.sent[host] += 1
        if payload is not None and mode == BULK:
            self._start(payload, host, _PAYLOAD)
            self._ahead[host] += 1
            if self._ahead[host] >= _PAYLOADS_AHEAD:
                self.flush(host)
            self._busy_until = time.monotonic() + _SPIN_S

    def _batch(self, host: int, room: int) -> tuple[Bytes, int]:
        """Return memory in which so many bytes more for a host have room, and how much of it is used."""
        found = self._batches.get(host)
        if found is not None and found[1] + room <= _BATCH_BYTES:
            return found
        self.flush(host)
        return self._free.pop() if self._free else np.empty(_BATCH_BYTES, np.uint8), 0

    def flush(self, host: int | None = None) -> None:
        """Send what was collected for a host, or for all."""
        if not self._batches:
            return
        for there in list(self._batches) if host is None else [host]:
            found = self._batches.pop(there, None)
            if found is not None:
                self._start(found[0], there, _BATCH, found[1])
                self._ahead[there] = 0

    def _start(self, memory: Bytes, host: int, tag: int, nbytes: int = -1) -> None:
        message = [memory, memory.size if nbytes < 0 else nbytes, self._byte]
        self._sending.append((self._communicator.Isend(message, host, tag), memory))

    def forget_sent(self) -> None:
        """Give up the memory of messages that have gone, in the order in which they were sent."""
        while self._sending and self._sending[0][0].Test():
            _, memory = self._sending.popleft()
            if memory.size == _BATCH_BYTES and memory.base is None and len(self._free) < _KEPT:
                self._free.append(memory)

    @property
    def is_sending(self) -> bool:
        """Whether messages have not gone yet."""
        return bool(self._sending or self._batches)

    @property
    def is_busy(self) -> bool:
        """Whether a large payload has begun to go so short a time ago that a sleep would only delay it."""
        return bool(self._sending) and time.monotonic() < self._busy_until

    # --- receiving -------------------------------------------------------------------------

    def receive(self) -> list[Record]:
        """Return the records of one batch that has come; of none, if none has.

        Before the next is asked for, the payload of each with ``BULK`` must be received, in their order.
        """
        status = self._status
        message = self._communicator.Improbe(self._mpi.ANY_SOURCE, _BATCH, status)
        if message is None:
            return _NO_RECORDS
        count, host = status.Get_count(self._byte), status.Get_source()
        batch = self._received
        self.finish(message.Irecv([batch, count, self._byte]), host)
        at = 0
        records = []
        while at < count:
            words = batch[at : at + RECORD_BYTES].view(np.int64)
            at += RECORD_BYTES
            inline = None
            if words[MODE] == INLINE:
                nbytes = int(words[NBYTES])
                inline = batch[at : at + nbytes]
                at += nbytes + -nbytes % 8
            records.append(Record(host, words, inline))
        return records

    def start_payload(self, host: int, memory: Bytes) -> Any:
        """Begin to receive the next large payload of a host into memory of its size; return what :meth:`finish` takes."""
        return self._communicator.Irecv([memory, memory.size, self._byte], host, _PAYLOAD)

    def finish(self, request: Any, host: int) -> None:
        """Wait until a message has come whole.

        Raises:
            LostError: The host is lost.
        """
        rounds, spins_until = 0, 0.0
        while not request.Test():
            rounds += 1
            if rounds % 64:
                continue
            self.forget_sent()
            if self._is_lost(host):
                raise LostError(f"host {host}")
            now = time.monotonic()
            spins_until = spins_until or now + _SPIN_S
            if now > spins_until:
                self._nap()
        self.heard[host] += 1
