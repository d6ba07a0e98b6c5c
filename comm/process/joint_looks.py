"""``JointLooks``: how the launchers of a World over hosts find a deadlock together, long before the time-out.

The launcher of a host whose PEs wait says so to the first host's, at most once a second. That one then asks all for what their
PEs wait for (``look``), and gets an answer from each (``seen``); if nobody can release some PEs, it asks again a moment later.
Two looks alike are a proof (:mod:`emu.comm.watchdog.over_hosts`), and a third question fetches what the report needs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from emu.comm.deadlock.report import Deadlock
from emu.comm.hosts.agent import Agent
from emu.comm.hosts.peers import HOME, merge
from emu.comm.hosts.places import Places
from emu.comm.layout import B_WAITING, B_WAITS
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.over_hosts import (
    Answer,
    JoinedLook,
    Lock,
    see,
    tell,
)
from emu.comm.watchdog.waits import blocks_of

_SAY_S = 1.0
"""Seconds between two words of a host that its PEs wait, and between two questions that found nothing."""
_ANSWER_S = 10.0
"""Seconds after which a question is put again of which an answer has not come: a host may have no time."""


class JointLooks:
    """The part of one host's launcher.

    Args:
        segment: Shared memory of the host.
        places: Where PEs are.
        agent: The host's agent.
        timeout: The launch's time-out, in seconds.
        describe: Returns what PEs here do, as text.
    """

    def __init__(
        self,
        segment: Segment,
        places: Places,
        agent: Agent,
        timeout: float,
        describe: Callable[[], str],
    ) -> None:
        self._segment = segment
        self._places = places
        self._agent = agent
        self._timeout = timeout
        self._describe = describe
        self._hosts = [places.pes_of(host) for host in range(places.n_hosts)]
        self._waits: Any = None
        self._said_at = -_SAY_S
        # Of the first host:
        self._wanted = False
        self._number = 0
        self._asked_at = self._answered_at = -_ANSWER_S
        self._ask_again_after = 0.0
        self._locks: tuple[Lock, ...] = ()
        self._answers: dict[int, Answer] = {}
        self._settled: dict[int, object] = {}
        self._proof: tuple[JoinedLook, frozenset[int]] | None = None

    # --- every host ------------------------------------------------------------------------

    def look(self) -> None:
        """Say that PEs here wait, if one has done so since the last call; on the first host ask all if it is time."""
        blocks = blocks_of(self._segment)[self._places.local.start : self._places.local.stop]
        waits = np.where(blocks[:, B_WAITING] > 0, blocks[:, B_WAITS], -1)
        before, self._waits = self._waits, waits
        now = time.monotonic()
        if before is not None and np.any((waits == before) & (waits >= 0)):
            if self._places.here == HOME:
                self._wanted = True
            elif now - self._said_at >= _SAY_S:
                self._said_at = now
                self._agent.order("waits", to=HOME)
        if self._places.here == HOME:
            self._ask_if_due(now)

    def answer(self, message: Mapping[str, Any], pids: list[int], ended: Collection[int]) -> None:
        """Answer the first host's question.

        Args:
            message: The question, with what is under way between hosts.
            pids: Process of each PE of the World; 0 of those elsewhere.
            ended: PEs of this host whose processes have ended.
        """
        local = self._places.local
        if message["is_last"]:
            found = tell(self._segment, ended, local) | {"states": self._describe()}
        else:
            locks = [(int(g), int(o), int(s)) for g, o, s in message["locks"]]
            found = see(self._segment, pids, ended, local, locks) | message["counts"]
        found = json.loads(json.dumps(found))  # the same types, whether it travels or not
        self._agent.order("seen", to=HOME, number=message["number"], seen=found)

    # --- the first host --------------------------------------------------------------------

    def note_waits(self) -> None:
        """Note that PEs of another host wait."""
        self._wanted = True

    def _ask_if_due(self, now: float) -> None:
        is_open = self._asked_at > self._answered_at
        is_due = now - self._answered_at >= self._ask_again_after
        is_wanted = self._wanted or bool(self._settled)
        if now - self._asked_at >= _ANSWER_S if is_open else is_due and is_wanted:
            self._ask(now)

    def _ask(self, now: float) -> None:
        self._wanted = False
        self._number += 1
        self._answers = {}
        self._asked_at = now
        is_last = self._proof is not None
        self._agent.order("look", number=self._number, locks=self._locks, is_last=is_last)

    def take(self, host: int, message: Mapping[str, Any]) -> Deadlock | None:
        """Take the answer of a host; return the report of a deadlock, if that was the last which it lacked."""
        if message["number"] != self._number:
            return None
        self._answers[host] = message["seen"]
        if len(self._answers) < self._places.n_hosts:
            return None
        self._answered_at = time.monotonic()
        answers = [self._answers[host] for host in range(self._places.n_hosts)]
        if self._proof is not None:
            look, stuck = self._proof
            states = merge([answer["states"] for answer in answers])
            return look.report(stuck, self._timeout, answers, states, HOME)
        self._compare(answers)
        return None

    def _compare(self, answers: list[Answer]) -> None:
        """Compare a look with the one before; ask for the report if that is a proof."""
        look = JoinedLook(self._segment, self._hosts, answers, self._locks)
        before, self._settled, self._locks = self._settled, look.settled(), look.locks
        alike = {pe for pe, seen in self._settled.items() if before.get(pe) == seen}
        proved = look.stuck(alike)
        if proved and look.gap(proved) <= self._ask_again_after:
            self._proof = look, proved
            self._ask(time.monotonic())
            return
        suspected = look.stuck(self._settled)
        if suspected:
            self._ask_again_after = look.gap(suspected)
        else:
            self._settled, self._ask_again_after = {}, _SAY_S
