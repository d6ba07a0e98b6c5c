"""``Tables``: one order for all changes of the tables of allocations and groups, which every host keeps a copy of.

Host 0 decides, one request after the other. Memory must be valid on every member when any member has its array, and
what another host sends may come before what host 0 sends. So a new allocation takes two steps: all hosts make its
memory ready, and say so; only then does it enter the tables, and the PE that asked gets its answer. What host 0 sends
comes in order: an answer behind the entry that it is about, and the memory of one that was freed is forgotten before
it is given out again.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from emu.comm.errors import CommError
from emu.comm.hosts.host_heap import HostHeap
from emu.comm.hosts.places import Places

Request = dict[str, Any]
Tell = Callable[[int, Request], None]
Answer = Callable[[int, int, bytes], None]

HOME = 0
"""The host that decides."""


class Tables:
    """The tables as the agent of one host changes them.

    Args:
        heap: The host's tables.
        places: Where PEs are.
        tell: Sends a message of this module to another host.
        answer: Answers a PE of any host: (PE, number of its request, bytes).
    """

    def __init__(self, heap: HostHeap, places: Places, tell: Tell, answer: Answer) -> None:
        self._heap = heap
        self._places = places
        self._tell = tell
        self._answer = answer
        self._queue: deque[tuple[int, int, Request]] = deque()
        self._pending: Request | None = None
        self._awaited: set[int] = set()

    # --- at home ---------------------------------------------------------------------------

    def ask(self, pe: int, number: int, request: Request) -> None:
        """Take a request of a PE; at home only."""
        self._queue.append((pe, number, request))
        self._go_on()

    def _go_on(self) -> None:
        while self._queue and self._pending is None:
            pe, number, request = self._queue.popleft()
            try:
                found = getattr(self, f"_do_{request['call']}")(pe, number, request)
            except CommError as error:
                self._refuse(pe, number, error)
            else:
                if found is not None:
                    self._say(pe, number, found)

    def _say(self, pe: int, number: int, value: Any) -> None:
        self._answer(pe, number, json.dumps({"value": value}).encode())

    def _refuse(self, pe: int, number: int, error: CommError) -> None:
        said = {"error": type(error).__name__, "text": str(error)}
        self._answer(pe, number, json.dumps(said).encode())

    def _others(self) -> list[int]:
        return [host for host in range(self._places.n_hosts) if host != self._places.here]

    def _do_alloc(self, pe: int, number: int, request: Request) -> int | None:
        index, fields = self._heap.find_or_plan(pe, request)
        if index is not None:
            return index
        self._heap.make_ready(fields)
        members = self._heap.segment.members(fields["group"])
        hosts = [h for h in self._places.hosts_of(members) if h != self._places.here]
        self._pending = {"pe": pe, "number": number, "fields": fields, "errors": []}
        self._awaited = set(hosts)
        for host in hosts:
            self._tell(host, {"call": "ready", "fields": fields})
        self._enter_if_ready()
        return None

    def _enter_if_ready(self) -> None:
        pending = self._pending
        if pending is None or self._awaited:
            return
        self._pending = None
        pe, number, wrong = pending["pe"], pending["number"], pending["errors"]
        if wrong:
            said = {"error": "SymmetricMemoryError", "text": wrong[0]}
            self._answer(pe, number, json.dumps(said).encode())
            return
        index = self._heap.enter(pending["fields"])
        for host in self._others():
            self._tell(host, {"call": "enter", "fields": pending["fields"], "index": index})
        self._say(pe, number, index)

    def _do_free(self, pe: int, number: int, request: Request) -> None:
        if self._heap.count_free(request["index"]):
            for host in self._others():
                self._tell(host, {"call": "forget", "index": request["index"]})

    def _do_group(self, pe: int, number: int, request: Request) -> list[Any]:
        given = request["members"]
        index, members = self._heap.group(request["name"], None if given is None else tuple(given))
        for host in self._others():
            self._tell(host, {"call": "group", "name": request["name"], "members": members})
        return [index, members]

    def _do_settle(self, pe: int, number: int, request: Request) -> bool:
        return True

    # --- everywhere ------------------------------------------------------------------------

    def hear(self, host: int, message: Request) -> None:
        """Take what another host's tables say."""
        call = message["call"]
        if call == "ready":
            said = {"call": "is_ready", "error": ""}
            try:
                self._heap.make_ready(message["fields"])
            except CommError as error:
                said["error"] = f"{error} (on {self._places.describe(self._places.here)})"
            self._tell(host, said)
        elif call == "is_ready":
            self._awaited.discard(host)
            if message["error"] and self._pending is not None:
                self._pending["errors"].append(message["error"])
            self._enter_if_ready()
            self._go_on()
        elif call == "enter":
            index = self._heap.enter(message["fields"])
            if index != message["index"]:
                raise CommError(
                    f"the tables of all hosts must be alike, but entry {message['index']} of host {host} is {index} here"
                )
        elif call == "forget":
            self._heap.forget(message["index"])
        elif call == "group":
            self._heap.group(message["name"], tuple(message["members"]))
