"""``Wire``: records to and from the agents of other hosts, as MPI messages, and the memory of the compiled rounds.

Records to one host are collected and sent together, small payloads among them, when the agent has looked at
everything that there was to do (:mod:`emu.comm.hosts.sending`, :mod:`emu.comm.hosts.receiving`,
:mod:`emu.comm.hosts.serving`). Here is what these need: the state, and memory that grows where it does not suffice.

One thread calls MPI, which may be any (``MPI_THREAD_SERIALIZED``). No call waits inside MPI for another host: what a
host that died would have sent must not be waited for.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from emu.comm.arrays import Bytes, Words
from emu.comm.hosts import fields, sending, serving
from emu.comm.hosts.meeting import MEETING_WORDS
from emu.comm.hosts.mpi_calls import FUNCTIONS, STATUS_BYTES, find_functions, handle_of
from emu.comm.hosts.places import Places
from emu.comm.hosts.state import (
    ARRIVING,
    BATCH_BYTES,
    EARLY,
    FAILED,
    RECEIVED_BYTES,
    ROOM,
    ROOMS,
    SLACK,
)
from emu.comm.hosts.words import (
    DIRECT_BYTES,
    GROUP,
    INLINE_BYTES,
    RECORD_BYTES,
    SHORT_BYTES,
    SLOT_DATA,
    WORDS,
)
from emu.comm.layout import GROUPS
from emu.comm.memory.segment import Segment
from emu.comm.sync import signals
from emu.kernels.core.jit import entry_when_called, native_address

_SENDING = 1 << 10
"""Messages that may be on their way, at first."""
_SPIN_NS = 50_000
"""For so long after work the agent looks for more before it sleeps."""

Communicator: TypeAlias = Any  # mpi4py has types, but is not installed everywhere

_send_record: Callable[..., int] = entry_when_called(sending.send_record, 5)


class Record(NamedTuple):
    """A record that came."""

    host: int
    """Who sent it."""
    words: Words
    payload: Bytes | None
    """Valid until the next round."""


class Wire:
    """The connections of an agent.

    Args:
        mpi: The module ``mpi4py.MPI``.
        communicator: One whose ranks are the hosts, and in which nobody else sends.
        segment: Shared memory of the host.
        places: Where PEs are.
        ports: The ports of PEs here.
        blocks: Address of the block of each PE of another host.
        me: The one among them by which the agent rings.

    Attributes:
        taken: Number of requests of each port that were taken.
        sent: Records that were sent because of each PE, collected ones among them, but those of agents for themselves.
        handled: Those that came because of each PE, and were done.
        members_here: Members of each group on this host; 0: not known yet.
    """

    def __init__(
        self,
        mpi: Any,
        communicator: Communicator,
        segment: Segment,
        places: Places,
        ports: Bytes,
        blocks: dict[int, int],
        me: int,
    ) -> None:
        self._mpi = mpi
        self._communicator = communicator  # its handle is what compiled code has
        self._kept: list[Any] = []  # memory whose address stands in the state
        self._payloads: deque[tuple[int, Bytes]] = deque()  # on their way: number of the message
        self._state: Words = np.zeros(fields.WORDS, np.int64)
        self._address = int(self._state.ctypes.data)
        n_hosts = places.n_hosts
        self.taken = self._array(fields.TAKEN, len(ports))
        self.sent = self._array(fields.SENT, places.n_pes)
        self.handled = self._array(fields.HANDLED, places.n_pes)
        self._heard = self._array(fields.HEARD, n_hosts)
        self._open = self._array(fields.OPEN, n_hosts)
        self._array(fields.USED, n_hosts)
        self._know_mpi(mpi, communicator)
        self._know_host(segment, places, ports, blocks, me)
        self._array(fields.REPLY_RECORD, WORDS)
        self.members_here = self._array(fields.MEMBERS_HERE, GROUPS)
        self._array(fields.MEETINGS, 2 * MEETING_WORDS * GROUPS)
        self._early = self._array(fields.EARLY, EARLY * SHORT_BYTES // 8)
        self._array(fields.ARRIVALS, 3 * ARRIVING)
        rooms = self._array(fields.ROOM, ROOMS)
        rooms[:] = [self._memory(max(DIRECT_BYTES, SLOT_DATA)) for _ in range(ROOMS)]
        self._prepare_receiving(places)
        self._state[fields.SPIN_NS] = _SPIN_NS
        self._sending: Words = np.zeros(0, np.int64)
        self._free: Words = np.zeros(0, np.int64)
        self._grow()

    def _array(self, place: int, count: int) -> Words:
        """Make an array of words whose address stands in the state."""
        made: Words = np.zeros(count, np.int64)
        self._kept.append(made)
        self._state[place] = made.ctypes.data
        return made

    def _memory(self, nbytes: int) -> int:
        """Make memory; return its address."""
        made: Bytes = np.empty(nbytes, np.uint8)
        self._kept.append(made)
        return int(made.ctypes.data)

    def _know_mpi(self, mpi: Any, communicator: Communicator) -> None:
        state = self._state
        state[fields.ISEND : fields.ISEND + len(FUNCTIONS)] = find_functions(mpi)
        state[fields.COMMUNICATOR] = handle_of(mpi, communicator)
        state[fields.BYTE] = handle_of(mpi, mpi.BYTE)
        state[fields.REQUEST_BYTES] = mpi._sizeof(mpi.Request)
        state[fields.STATUS] = self._memory(STATUS_BYTES)
        self._array(fields.SCRATCH, 2)

    def _prepare_receiving(self, places: Places) -> None:
        """Make memory for a batch of each other host, and for the one that is being handled."""
        state = self._state
        others = [host for host in range(places.n_hosts) if host != places.here]
        state[fields.N_SENDERS] = len(others)
        self._array(fields.SENDERS, len(others))[:] = others
        self._array(fields.REQUESTS, len(others))  # a handle takes up to eight bytes
        batches = self._array(fields.BATCHES, len(others))
        nbytes = RECEIVED_BYTES + RECORD_BYTES  # views are whole records
        batches[:] = [self._memory(nbytes) for _ in others]
        state[fields.RECEIVED] = self._memory(nbytes)

    def _know_host(
        self, segment: Segment, places: Places, ports: Bytes, blocks: dict[int, int], me: int
    ) -> None:
        state, layout = self._state, segment.layout
        state[fields.N_HOSTS] = places.n_hosts
        state[fields.N_LOCAL], state[fields.FIRST_LOCAL] = len(places.local), places.local.start
        state[fields.PORTS], state[fields.N_PORTS] = ports.ctypes.data, len(ports)
        self._kept.append(ports)
        hosts = self._array(fields.HOST_OF, places.n_pes)
        hosts[:] = [places.host_of(pe) for pe in range(places.n_pes)]
        of_pe = self._array(fields.BLOCKS, places.n_pes)
        for pe, block in blocks.items():
            of_pe[pe] = block
        state[fields.ME], state[fields.SEGMENT] = me, segment.address
        state[fields.HEAPS] = segment.address + layout.heaps
        state[fields.STRIDE] = layout.stride
        state[fields.GROUPS] = segment.address + layout.groups
        state[fields.GROUP_BYTES] = layout.group_bytes
        state[fields.ADD_DENSE] = native_address(signals.add_dense, 7)
        header = self._array(fields.HEADER, 4)  # a kernel reads an ndarray's data pointer from it
        assert object.__basicsize__ == 2 * header.itemsize

    def _grow(self) -> None:
        """Make more memory for batches, and room for more messages."""
        state = self._state
        free: Words = np.zeros(self._free.size + 2 * SLACK, np.int64)
        count = int(state[fields.N_FREE])
        free[:count] = self._free[:count]
        free[count : count + 2 * SLACK] = [self._memory(BATCH_BYTES) for _ in range(2 * SLACK)]
        state[fields.N_FREE] = count + 2 * SLACK
        self._free, state[fields.FREE] = free, free.ctypes.data
        head, tail = int(state[fields.SENT_HEAD]), int(state[fields.SENT_TAIL])
        capacity = self._sending.size // 2
        if tail - head + 2 * SLACK > capacity:
            more: Words = np.zeros(max(2 * _SENDING, 2 * self._sending.size), np.int64)
            for number in range(head, tail):
                old, new = 2 * (number % capacity), 2 * (number % (more.size // 2))
                more[new : new + 2] = self._sending[old : old + 2]
            self._sending, state[fields.SENDING] = more, more.ctypes.data
            state[fields.SENDING_MASK] = more.size // 2 - 1

    # --- rounds ----------------------------------------------------------------------------

    def serve(self, limit_ns: int) -> int:
        """Do what compiled code can, for so long at most; return what is next, one of the codes of ``state``.

        Raises:
            mpi4py.MPI.Exception: MPI failed.
        """
        found = serving.serve(self._address, limit_ns)
        while found == ROOM:
            self._grow()
            found = serving.serve(self._address, limit_ns)
        if found == FAILED:
            raise self._mpi.Exception(int(self._state[fields.ERROR]))
        head = self._state[fields.SENT_HEAD]
        while self._payloads and self._payloads[0][0] < head:
            self._payloads.popleft()
        return int(found)

    @property
    def port(self) -> int:
        """Index of the port whose next request is Python's."""
        return int(self._state[fields.INDEX])

    @property
    def record(self) -> Record:
        """The record that is Python's."""
        host, address = int(self._state[fields.HOST]), int(self._state[fields.RECORD])
        words: Words = _view(address, 8 * WORDS).view(np.int64)
        nbytes = int(self._state[fields.CONTENT_BYTES])
        payload = _view(int(self._state[fields.CONTENT]), nbytes) if nbytes else None
        return Record(host, words, payload)

    def look_on(self, looks: int) -> None:
        """Have the next rounds look so many times less for work before there is nothing to do."""
        self._state[fields.LOOKS] = looks

    def forget(self, is_lost: Callable[[int], bool]) -> None:
        """Give up what is coming from a host if it is lost: the launcher was told, and ends the World."""
        state = self._state
        if self.is_receiving and is_lost(int(state[fields.HOST])):
            state[fields.FIRST_ARRIVAL] = state[fields.N_ARRIVALS]
            state[fields.ROOMS_DONE] = state[fields.ROOMS_TAKEN]
            state[fields.IS_HERE] = 0

    def close(self) -> None:
        """Take back what MPI was asked to receive; nothing is received afterwards."""
        state = self._state
        size, asked = int(state[fields.REQUEST_BYTES]), int(state[fields.N_ASKED])
        for address in range(
            int(state[fields.REQUESTS]), int(state[fields.REQUESTS]) + size * asked, size
        ):
            request = self._mpi.Request()
            ctypes.memmove(int(self._mpi._addressof(request)), address, size)
            if request != self._mpi.REQUEST_NULL:
                request.Cancel()
                request.Wait()
        state[fields.N_SENDERS] = state[fields.N_ASKED] = 0

    # --- sending ---------------------------------------------------------------------------

    def send(self, host: int, words: Words, payload: Bytes | None = None) -> None:
        """Send a record, soon; its words are copied, and a payload of at most ``INLINE_BYTES``, too.

        A larger payload must stay as it is until the other host has answered.
        """
        nbytes = -1 if payload is None else payload.size
        source = words if payload is None else payload
        while _send_record(self._address, host, id(words), id(source), nbytes):
            self._grow()
        if payload is not None and nbytes > INLINE_BYTES:
            self._payloads.append((int(self._state[fields.SENT_TAIL]) - 1, payload))

    @property
    def is_sending(self) -> bool:
        """Whether records or messages have not gone yet."""
        state = self._state
        return bool(state[fields.SENT_HEAD] < state[fields.SENT_TAIL] or self._open.any())

    @property
    def is_receiving(self) -> bool:
        """Whether something is coming that has not come whole."""
        state = self._state
        return bool(state[fields.FIRST_ARRIVAL] < state[fields.N_ARRIVALS])

    @property
    def keeps_arrivals(self) -> bool:
        """Whether arrivals wait for their generation."""
        return bool(self._state[fields.N_EARLY])

    @property
    def early_groups(self) -> set[int]:
        """The groups of the arrivals that wait for their generation."""
        count, words = int(self._state[fields.N_EARLY]), SHORT_BYTES // 8
        return {int(self._early[words * index + GROUP]) for index in range(count)}

    @property
    def heard(self) -> list[int]:
        """Number of messages from each host."""
        return [int(count) for count in self._heard]


def _view(address: int, nbytes: int) -> Bytes:
    """Return memory at an address as an array, which does not keep it."""
    memory: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
    return memory
