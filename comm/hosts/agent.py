"""The agent of a host: a thread of its launcher, through which the PEs of this host and of others reach each other.

What a World over hosts is. Each host has a segment of its own, with the layout of the whole World: a heap, a block and
so on for every PE, of which only what is touched takes memory. So an offset means the same on each host, and nothing that
computes with offsets knows of hosts.

* A heap of a PE of this host is real. Who stores to it from another host asks that host's agent, which sends the
  request to this one, which executes it with the kernels that PEs call (:mod:`emu.comm.hosts.owner`). So words that
  are waited for, locks and doorbells are all on the PE's own host, and each wait is what it is on one host.
* A heap of a PE of another host is a *mirror* here. Nothing is in it but what collectives stage: before a PE counts itself as arrived at a
  barrier, its agent copies what it has staged to the same place on the other hosts of the group, and has it counted
  there, too. So the barrier of a group that spans hosts lies on each of these hosts, all members arrive at each of
  them, each compares the tags of all of them, and behind it everything that a member may read lies in its own
  segment. The rounds of a collective are the same compiled code as on one host (:mod:`emu.comm.world.rounds`); members are
  combined in the same order, and the bits are the same.
* Tables are copies of host 0's, changed in one order (:mod:`emu.comm.hosts.tables`).

What is sent from one host to another arrives in order. That gives fence for nothing, and lets a signal follow its data
without an answer in between. What a PE waits for is the answer to its last request.

Why a thread of the launcher. MPI starts the launcher, and it must be the process that MPI knows. PEs are forked from
a server that knows nothing of MPI. The thread shares the interpreter with a loop that mostly sleeps.

How a host is lost. Agents send each other a sign of life every second (:class:`Peers`). Of who says nothing the system is
asked (:class:`Evidence`): a process that has ended, and a host that acknowledges nothing, are lost at once; one that is there
may only have no time, and has a minute. Where the system knows nothing, silence for ``LOST_S`` is loss. The World ends with
a report that names the host. A launcher's own death ends its PEs with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import Any, TypeAlias

import numpy as np

from emu.comm.arrays import Bytes, Words
from emu.comm.hosts import steps
from emu.comm.hosts.evidence import Evidence
from emu.comm.hosts.host_heap import HostHeap
from emu.comm.hosts.owner import Owner
from emu.comm.hosts.peers import ENDED, Event, Peers
from emu.comm.hosts.places import Places
from emu.comm.hosts.sleep import Sleeper
from emu.comm.hosts.state import IDLE, RECORD, REQUEST
from emu.comm.hosts.tables import HOME, Request, Tables
from emu.comm.hosts.wire import Communicator, Record, Wire
from emu.comm.hosts.words import (
    ASKER,
    CONTROL,
    COUNT,
    DONE,
    GROUP,
    KIND,
    LANE_BIT,
    LANES,
    MEET,
    MIRROR,
    NBYTES,
    NEWS,
    NUMBER,
    OFFSET,
    PORT_BYTES,
    PORT_DATA,
    PORT_RECORDS,
    POSTED,
    PUSH,
    RECORD_BYTES,
    REPLY,
    RESULT,
    ROWS,
    SLOT_DATA,
    SLOTS,
    TABLE,
    empty_words,
)
from emu.comm.layout import PAGE
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.sync.priority import ask_for_short_slices

NewsRoom: TypeAlias = Callable[[Segment, dict[int, int]], Callable[[Words, Bytes | None], None]]

FOR_LAUNCHERS = ("waits", "look", "seen")
"""What launchers tell each other to find deadlocks (:mod:`emu.comm.process.joint_looks`)."""
_ROUNDS_NS, _BRIEF_NS = 5_000_000, 20_000
"""Longest time of the compiled rounds between two looks at what is Python's; while arrivals wait for their generation."""
_LOOKS_ON = 2
"""Looks less than at first before there is nothing to do again, where a sleep was wanted and bytes may have come."""
_ENDED_S, _STUCK_S = 0.5, 1.5
"""Seconds for which the system must say that a host has ended, as its last word may be on its way; seconds without a turn
after which the agent is stuck."""
_PEERS_S = 0.02
"""Seconds between two looks at how the other hosts are."""


class Agent:
    """The agent of one host.

    Args:
        segment: Shared memory of the host.
        places: Where PEs are.
        mpi: The module ``mpi4py.MPI``.
        communicator: One whose ranks are the hosts.
        poison: Whether new symmetric memory is poisoned.
        beat_s: Seconds between two signs of life.
        news: Makes what takes the news of communication servers, from the segment and the block of each PE of another
            host. Default: there are none.

    Attributes:
        events: What the launcher has to take; it is woken by a byte in ``wake``.
        wake: Descriptor that the launcher waits for.
    """

    def __init__(
        self,
        segment: Segment,
        places: Places,
        mpi: Any,
        communicator: Communicator,
        *,
        poison: bool,
        beat_s: float,
        news: NewsRoom | None = None,
    ) -> None:
        self._segment = segment
        self._places = places
        self._blocks = {pe: register(segment, pe, 0) for pe in places.distant}
        doorbell = places.distant[0]
        self._me = self._blocks[doorbell]
        area = segment.map_ports()
        ports = LANES * len(places.local)
        self._ports = area[: ports * PORT_BYTES].reshape(-1, PORT_BYTES)
        self._address = int(area.ctypes.data)
        self._posted: Words = self._ports[:, :PAGE].view(np.int64)[:, POSTED]
        self._sleeper = Sleeper(self._address, self._ports[0][:PAGE].view(np.int64))
        self._evidence = Evidence(self._sleeper.sockets)
        self._peers = Peers(places, beat_s, self._tell, self._evidence.is_there)
        self._wire = Wire(mpi, communicator, segment, places, self._ports, self._blocks, self._me)
        self._owner = Owner(segment, self._blocks)
        self._hear_news = None if news is None else news(segment, self._blocks)
        heap = HostHeap(segment, self._me, doorbell, places, poison=poison)
        self._tables = Tables(heap, places, self._tell, self._answer)
        self._orders: deque[Request] = deque()
        self._mark = -1
        self._peers_at = 0.0
        self._turned_at = time.monotonic()
        self._ended_since: dict[int, float] = {}
        self._is_ending = False
        self.events: deque[Event] = deque()
        self.wake, self._bell = os.pipe()
        os.set_blocking(self._bell, False)
        self._thread = Thread(target=self._run, daemon=True, name="emu-agent")

    # --- the launcher's side ---------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def order(self, call: str, **fields: Any) -> None:
        """Have all other hosts told something, or the one that ``to`` names.

        Args:
            call: ``stop``, ``done``, ``quiet``; ``waits``, ``look``, ``seen``, which are for the launchers there, and for the
                one here, too, if they are for all or for this host.
            **fields: What else.
        """
        self._orders.append({"call": call, **fields})
        self._sleeper.ring()

    @property
    def all_are_done(self) -> bool:
        """Whether the PEs of all other hosts that are not lost have ended."""
        return self._peers.all_are_done

    @property
    def lost(self) -> frozenset[int]:
        """The hosts that are lost."""
        return frozenset(self._peers.lost)

    @property
    def is_stuck(self) -> bool:
        """Whether a call of MPI has not returned for a while, as some do not that send to who is gone."""
        return time.monotonic() - self._turned_at > _STUCK_S

    def find_ended(self) -> Event | None:
        """Return that a host has ended, if the system says so again and again; the launcher asks beside the thread."""
        for host in range(self._places.n_hosts):
            if host == self._places.here or host in self._peers.lost or self._peers.is_done(host):
                continue
            if self._evidence.is_there(host) is not False:
                self._ended_since.pop(host, None)
                continue
            since = self._ended_since.setdefault(host, time.monotonic())
            if time.monotonic() - since > _ENDED_S:
                self._peers.lost.add(host)
                return Event("lost", host, text=ENDED)
        return None

    def end(self, limit_s: float) -> bool:
        """End when everything has been sent; return whether that was in time."""
        self._is_ending = True
        self._thread.join(0 if self.is_stuck else limit_s)
        os.close(self.wake)
        os.close(self._bell)
        if not self._thread.is_alive():
            self._sleeper.close()
        return not self._thread.is_alive()

    # --- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        ask_for_short_slices()
        try:
            while not (self._is_ending and not self._wire.is_sending and not self._orders):
                self._turn()
            if not self._peers.lost:
                self._wire.close()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the PEs must not wait for ever
            text = "".join(traceback.format_exception(error))
            self._tell_launcher(Event("broken", self._places.here, text=text))

    def _turn(self) -> None:
        self._turned_at = time.monotonic()
        while self._orders:
            self._carry_out(self._orders.popleft())
        found = self._wire.serve(_BRIEF_NS if self._owner.is_waiting else _ROUNDS_NS)
        if found == REQUEST:
            self._take(self._wire.port)
        elif found == RECORD:
            self._handle(self._wire.record)
        if self._owner.is_waiting:
            self._owner.look_again()
        now = time.monotonic()
        if now >= self._peers_at:
            self._peers_at = now + _PEERS_S
            if self._sleeper.look_for_sockets(now):
                self._say_hello()
            for event in self._peers.look(self._wire.heard):
                self._tell_launcher(event)
            self._wire.forget(self._peers.is_lost)
        if found == IDLE:
            self._rest()
        else:
            self._mark = -1
            self._sleeper.worked()

    def _rest(self) -> None:
        """Sleep, unless bytes may have come since the agent last wanted to."""
        received = self._sleeper.received()
        if received == self._mark:
            self._mark = -1
            self._wire.look_on(0)
            self._sleep()
        else:
            self._mark = received
            self._wire.look_on(_LOOKS_ON)

    def _sleep(self) -> None:
        """Sleep until there is something to do."""
        self._sleeper.announce()
        if (self._posted == self._wire.taken).all() and not self._orders:
            wire = self._wire
            is_brief = wire.is_sending or wire.is_receiving or self._is_waiting
            self._sleeper.sleep(briefly=is_brief)
        else:
            self._sleeper.rise()

    @property
    def _is_waiting(self) -> bool:
        """Whether arrivals wait for their generation."""
        return self._owner.is_waiting or self._wire.keeps_arrivals

    def _tell_launcher(self, event: Event) -> None:
        self.events.append(event)
        with contextlib.suppress(OSError):  # it is full of bytes, or closed: the launcher is gone
            os.write(self._bell, b"!")

    def _carry_out(self, order: Request) -> None:
        self._peers.note(order)
        to = order.get("to")
        for host in range(self._places.n_hosts) if to is None else [to]:
            if host == self._places.here:
                self._pass_on(host, order)
            elif host not in self._peers.lost:
                self._tell(host, order)

    def _pass_on(self, host: int, message: Request) -> None:
        """Tell the launcher what is for it, with what is under way between hosts at this moment.

        Nothing that a PE has posted is in the thread's hands now: it was sent and counted, or is still in its port.
        """
        if message["call"] not in FOR_LAUNCHERS:
            return
        said = dict(message)
        if message["call"] == "look":
            said["counts"] = self._count()
        self._tell_launcher(Event(said["call"], host, message=said))

    def _count(self) -> Request:
        """Return how many records were sent and handled because of each PE, and what is under way here."""
        local = self._places.local
        posted = self._posted.copy().reshape(-1, len(local))  # PEs go on posting
        taken = self._wire.taken.reshape(-1, len(local))
        late = {local[place] for place in np.flatnonzero((posted != taken).any(axis=0)).tolist()}
        return {
            "sent": self._wire.sent.tolist(),
            "handled": self._wire.handled.tolist(),
            "posted": list(zip(local, posted.sum(axis=0).tolist(), strict=True)),
            "pending": sorted(late | self._owner.pending(self._wire.early_groups)),
        }

    # --- requests of PEs here --------------------------------------------------------------

    def _slot(self, index: int, number: int) -> tuple[Words, Bytes]:
        """Return the record and the data of a slot."""
        place, port = number % SLOTS, self._ports[index]
        record, data = PORT_RECORDS + place * RECORD_BYTES, PORT_DATA + place * SLOT_DATA
        words: Words = port[record : record + RECORD_BYTES].view(np.int64)
        return words, port[data : data + SLOT_DATA]

    def _port_of(self, pe: int, number: int) -> tuple[int, int]:
        """Return the index of the port that a request of a PE here came through, and its number there."""
        lane, number = number >> LANE_BIT, number & (1 << LANE_BIT) - 1
        return lane * len(self._places.local) + pe - self._places.local.start, number

    def _take(self, index: int) -> None:
        """Take the next request of a port, of those that compiled code leaves to Python."""
        lane, place = divmod(index, len(self._places.local))
        number, pe = int(self._wire.taken[index]), self._places.local[place]
        words, data = self._slot(index, number)
        if words[KIND] == MEET:  # which compiled code does when it knows this
            group = int(words[GROUP])
            members = self._segment.members(group)
            self._wire.members_here[group] = sum(pe in self._places.local for pe in members)
            return
        self._wire.taken[index] += 1
        number |= lane << LANE_BIT
        words[ASKER], words[NUMBER] = pe, number
        kind = int(words[KIND])
        if kind == PUSH:
            self._push(words, data)
            self._finish(pe, number, 0)
        else:
            assert kind == TABLE
            self._ask(pe, number, data[: int(words[NBYTES])])

    def _mirror(self, words: Words, hosts: list[int], flat: Words) -> None:
        """Copy the rows of a request, which are in ``flat``, to the same place on some hosts."""
        for offset, nbytes, only in flat[: 3 * int(words[ROWS])].reshape(-1, 3).tolist():
            memory = self._segment.bytes[offset : offset + nbytes]
            mirror = empty_words()
            mirror[KIND], mirror[OFFSET], mirror[ASKER] = MIRROR, offset, words[ASKER]
            for host in hosts if only < 0 else [only]:
                self._wire.send(host, mirror, memory)

    def _push(self, words: Words, data: Bytes) -> None:
        """Copy what a communication server has made ready to other hosts, and tell them so behind it."""
        count, nbytes = int(words[COUNT]), int(words[NBYTES])
        flat = data.view(np.int64)
        hosts = flat[:count].tolist()
        self._mirror(words, hosts, flat[count:])
        start = 8 * (count + 3 * int(words[ROWS]))
        payload = data[start : start + nbytes].copy() if nbytes else None  # the slot is free soon
        news = words.copy()
        news[KIND] = NEWS
        for host in hosts:
            self._wire.send(host, news, payload)

    def _ask(self, pe: int, number: int, data: Bytes) -> None:
        """Have the tables read or changed, at home."""
        request = json.loads(bytes(data))
        if self._places.here == HOME:
            self._tables.ask(pe, number, request)
        else:
            words = empty_words()
            words[KIND], words[ASKER], words[NUMBER] = TABLE, pe, number
            self._wire.send(HOME, words, data)
        if request["call"] == "free":  # which nobody waits for
            self._finish(pe, number, 0)

    def _finish(self, pe: int, number: int, result: int) -> None:
        """Answer a request of a PE here."""
        index, number = self._port_of(pe, number)
        self._slot(index, number)[0][RESULT] = result
        address = self._address + index * PORT_BYTES + 8 * (DONE + 8 * (number % SLOTS))
        steps.publish_word(self._me, address, number + 1, pe)

    def _answer(self, pe: int, number: int, data: bytes) -> None:
        """Answer a PE of any host that has asked for a table."""
        payload = np.frombuffer(data, np.uint8)
        if pe in self._places.local:
            self._slot(*self._port_of(pe, number))[1][: payload.size] = payload
            self._finish(pe, number, payload.size)
            return
        words = empty_words()
        words[KIND], words[ASKER], words[NUMBER] = REPLY, pe, number
        words[RESULT] = payload.size
        self._wire.send(self._places.host_of(pe), words, payload)

    # --- records of other hosts ------------------------------------------------------------

    def _handle(self, record: Record) -> None:
        """Do what a record asks for that compiled code leaves to Python."""
        host, words, payload = record
        kind = int(words[KIND])
        if kind == CONTROL:
            assert payload is not None
            self._hear(host, json.loads(bytes(payload)))
            return
        if kind == TABLE:
            assert payload is not None
            message = json.loads(bytes(payload))
            self._tables.ask(int(words[ASKER]), int(words[NUMBER]), message)
        elif kind == NEWS:
            assert self._hear_news is not None
            self._hear_news(words, payload)
        else:
            self._serve(record)
        self._wire.handled[int(words[ASKER])] += 1

    def _serve(self, record: Record) -> None:
        """Do what a PE of another host asks for in the heaps here, and answer."""
        host, words, payload = record
        result, fetched = self._owner.apply(words, payload)
        if words[KIND] == MEET:
            return
        reply = empty_words()
        reply[KIND], reply[ASKER], reply[NUMBER] = REPLY, words[ASKER], words[NUMBER]
        reply[RESULT] = result
        self._wire.send(host, reply, fetched)

    # --- agents among each other -----------------------------------------------------------

    def _tell(self, host: int, message: Request) -> None:
        words = empty_words()
        words[KIND] = CONTROL
        self._wire.send(host, words, np.frombuffer(json.dumps(message).encode(), np.uint8))

    def _say_hello(self) -> None:
        """Tell the other hosts how this one is found."""
        news = self._evidence.news()
        for host in range(self._places.n_hosts) if news is not None else ():
            if host != self._places.here:
                self._tell(host, news or {})

    def _hear(self, host: int, message: Request) -> None:
        if message["call"] == "stop":
            self._tell_launcher(Event("stop", host, message["reason"], message["text"]))
        elif message["call"] == "hello":
            self._evidence.hear(host, message)
        elif message["call"] in ("beat", "done", "quiet"):
            self._peers.hear(host, message)
        elif message["call"] in FOR_LAUNCHERS:
            self._pass_on(host, message)
        else:
            self._tables.hear(host, message)
