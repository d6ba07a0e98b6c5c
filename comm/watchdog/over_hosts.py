"""Deadlocks among PEs of several hosts: what each host sees of its own PEs, and what all have seen as one look.

Each host answers the first one's question (:func:`see`): which of its PEs wait, and for what; which have ended; and how many
records it has sent and handled because of each PE of the World. The first host joins the answers (:class:`JoinedLook`), and
finds the PEs that nobody can release, as on one host.

That is proved once the answers to a second question, put after all answers to the first had come, show the same of them and
of those who could release them. A PE is *settled* between the two questions if it was in the same wait both times, or had
ended both times, and nothing was under way because of it: the numbers of its records that hosts had sent, and of those that
hosts had handled, were the same both times; as their sums are equal, none was on its way in between. Neither was one in
its port: its agent had taken all that it had posted, and kept no arrival at a barrier for later. Whoever is not settled counts as one that goes on
and may do anything, so that messages which others send all the time matter only to those whom they could release. Who cannot go on even
so waits for settled PEs only, of which none was left to send anything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from emu.comm.deadlock.graph import Need, stuck_pes
from emu.comm.deadlock.report import Cause, Deadlock, Kind
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.causes import awaited_words, clues_of
from emu.comm.watchdog.detection import time_between
from emu.comm.watchdog.explaining import Told, explain, likely_writers
from emu.comm.watchdog.idle import only_waits
from emu.comm.watchdog.monitor import returned_from
from emu.comm.watchdog.waits import Look, Run, Wait, holds

Answer: TypeAlias = dict[str, Any]
"""What a host answers, as it travels in JSON."""
Lock: TypeAlias = tuple[int, int, int]
"""A place in a lock's queue: its group, its offset, and the bytes of the word."""


class HostLook(Look):
    """One look at the PEs of one host."""

    def lock_owner(self, wait: Wait) -> int | None:
        """Return nobody: the holder may be on another host."""
        return None

    def own_need(self, wait: Wait) -> Need | None:
        """Return what a PE waits for; of a lock, that any member may release it."""
        if wait.is_lock:
            place = wait.runs[0]
            if place.holds(place.values(self.segment, wait.pe)[0]):
                return None
            return Need(self.writers(wait), is_all=False)
        return super().own_need(wait)


def see(
    segment: Segment,
    pids: Sequence[int],
    ended: Collection[int],
    local: Collection[int],
    locks: Sequence[Lock],
) -> Answer:
    """Return what a host sees of its PEs.

    Args:
        segment: Its shared memory.
        pids: Process of each PE of the World; 0 of those elsewhere.
        ended: PEs of this host whose processes have ended.
        local: All PEs of this host.
        locks: Locks of which it is asked which of its PEs holds them.
    """
    look = HostLook(segment, ended)
    waits, groups = [], set()
    for pe, wait in look.waits.items():
        if pe not in local:
            continue
        servers = look.server_needs(pe)
        own = None if wait.is_barrier else look.own_need(wait)
        if servers is None or (own is None and not wait.is_barrier):
            continue
        if not only_waits(pids[pe], len(look.servers(pe))):
            continue
        if wait.is_barrier:
            groups.add(wait.group)
        waits.append(
            {
                "pe": pe,
                "description": wait.description,
                "evidence": repr(look.evidence(pe)),
                "own": None if own is None else [own.pes, own.is_all],
                "servers": [[need.pes, need.is_all] for need in servers],
                "gap": time_between(look, [pe]),
            }
        )
    return {
        "ended": sorted(look.ended),
        "waits": waits,
        "barriers": [_barrier(segment, group) for group in groups],
        "holders": [
            [*lock, pe]
            for lock in locks
            for pe in local
            if pe in segment.members(lock[0]) and holds(segment, _place(lock), pe)
        ],
    }


def _barrier(segment: Segment, group: int) -> list[int]:
    """Return how a host has counted at the barrier of a group."""
    entry = segment.group_entry(group)
    return [group, int(entry["generation"]), int(entry["arrived"])]


def _place(lock: Lock) -> Run:
    return Run(*lock, cmp="LT", value=0, count=1)


def tell(segment: Segment, ended: Collection[int], local: Collection[int]) -> Answer:
    """Return what a host adds to the report of a deadlock that was proved, but for the states of its PEs."""
    look = HostLook(segment, ended)
    waits = [wait for pe, wait in look.waits.items() if pe in local]
    awaited = awaited_words(waits)
    causes = [
        cause for wait in waits if not wait.is_lock for cause in clues_of(segment, wait, awaited)
    ]
    return {
        "places": [[pe, returned_from(segment, pe)] for pe in look.ended],
        "likely": [
            [wait.pe, likely_writers(look, wait)]
            for wait in waits
            if wait.runs and not wait.is_lock
        ],
        "causes": [{**asdict(cause), "kind": cause.kind.name} for cause in causes],
    }


class JoinedLook(Look):
    """What all hosts have seen, as one look.

    Args:
        segment: Shared memory of this host.
        hosts: The PEs of each host.
        answers: What each has seen.
        locks: The locks that they were asked for.
    """

    def __init__(
        self,
        segment: Segment,
        hosts: Sequence[range],
        answers: Sequence[Answer],
        locks: Collection[Lock],
    ) -> None:
        super().__init__(segment)
        self.ended = frozenset(pe for answer in answers for pe in answer["ended"])
        self._seen = {each["pe"]: each for answer in answers for each in answer["waits"]}
        self.waits = {pe: Wait(pe, each["description"]) for pe, each in self._seen.items()}
        self._hosts = hosts
        self._entries = [
            {group: (generation, arrived) for group, generation, arrived in answer["barriers"]}
            for answer in answers
        ]
        self._answers = answers
        self._asked = frozenset(locks)
        self._holders = {
            (group, offset, size): pe
            for answer in answers
            for group, offset, size, pe in answer["holders"]
        }

    @property
    def locks(self) -> tuple[Lock, ...]:
        """The locks that PEs wait for."""
        return tuple(sorted({_lock(wait) for wait in self.waits.values() if wait.is_lock}))

    def own_need(self, wait: Wait) -> Need | None:
        """Return what a PE waits for."""
        if wait.is_barrier:
            return self.barrier_need(wait)
        if wait.is_lock and _lock(wait) in self._asked:
            owner = self.lock_owner(wait)  # nobody: it is just being handed over
            return None if owner is None else Need((owner,), is_all=True)
        return _need(self._seen[wait.pe]["own"])

    def server_needs(self, pe: int) -> tuple[Need, ...] | None:
        """Return what the servers of a PE wait for."""
        return tuple(_need(each) for each in self._seen[pe]["servers"])

    def lock_owner(self, wait: Wait) -> int | None:
        """Return the PE that holds the lock which a PE waits for; None: nobody, or it was not asked for."""
        return self._holders.get(_lock(wait))

    def evidence(self, pe: int) -> tuple[object, ...]:
        """Return what must be the same at two looks."""
        wait = self.waits[pe]
        return self._seen[pe]["evidence"], self.lock_owner(wait) if wait.is_lock else None

    def _missing_at(self, group: int, generation: int) -> Need | None:
        """Return the members that a barrier lacks; None if some host has counted otherwise: somebody is on the way.

        A host counts its own members one by one, and those of another all together, when the last of them has come.
        """
        there = {
            pe
            for pe, wait in self.waits.items()
            if (wait.description.get("index"), wait.description.get("generation"))
            == (group, generation)
        }
        members = self.segment.members(group)
        of_host = [[pe for pe in members if pe in pes] for pes in self._hosts]
        come = [[pe for pe in pes if pe in there] for pes in of_host]
        for host, entries in enumerate(self._entries):
            if not come[host]:
                continue
            others = sum(
                len(pes)
                for other, pes in enumerate(of_host)
                if other != host and len(come[other]) == len(pes)
            )
            if entries.get(group) != (generation, len(come[host]) + others):
                return None
        missing = tuple(pe for pe in members if pe not in there)
        return Need(missing, is_all=True) if missing else None

    def settled(self) -> dict[int, object]:
        """Return the PEs that wait or have ended, and have nothing under way, with what must be the same at two looks."""
        answers = self._answers
        posted = {pe: count for answer in answers for pe, count in answer["posted"]}
        pending = {pe for answer in answers for pe in answer["pending"]}
        found: dict[int, object] = {}
        for pe in (*self.waits, *self.ended):
            sent, handled = ([a[name][pe] for a in answers] for name in ("sent", "handled"))
            if pe not in pending and sum(sent) == sum(handled):
                wait = self.evidence(pe) if pe in self.waits else None
                found[pe] = wait, posted.get(pe), sent, handled
        return found

    def stuck(self, settled: Collection[int]) -> frozenset[int]:
        """Return the PEs that nobody can release, if all that are not settled may do anything."""
        needs = {pe: found for pe, found in self.needs().items() if pe in settled}
        everyone = set(range(self.segment.layout.n_pes)) - self.ended.intersection(settled)
        return stuck_pes(needs, everyone - needs.keys())

    def gap(self, stuck: Collection[int]) -> float:
        """Return the seconds that must lie between two looks at these PEs."""
        return max(float(self._seen[pe]["gap"]) for pe in stuck)

    def report(
        self, stuck: Collection[int], timeout: float, told: Sequence[Answer], states: str, here: int
    ) -> Deadlock:
        """Return the report of a deadlock that was proved.

        Args:
            stuck: The PEs that nobody can release.
            timeout: The launch's time-out, in seconds.
            told: What each host has told for it.
            states: What each PE does.
            here: Number of this host.
        """
        places = {pe: place for answer in told for pe, place in answer["places"]}
        likely = {pe: tuple(pes) for answer in told for pe, pes in answer["likely"]}
        causes = tuple(
            _cause(cause)
            for h, answer in enumerate(told)
            if h != here
            for cause in answer["causes"]
        )
        elsewhere = frozenset(pe for h, pes in enumerate(self._hosts) if h != here for pe in pes)
        return explain(
            self,
            stuck,
            timeout,
            is_proved=True,
            told=Told(elsewhere, places, likely, causes, states),
        )


def _lock(wait: Wait) -> Lock:
    place = wait.runs[0]
    return place.group, place.offset, place.size


def _need(found: Any) -> Need:
    pes, is_all = found
    return Need(tuple(pes), is_all=is_all)


def _cause(found: dict[str, Any]) -> Cause:
    return Cause(Kind[found["kind"]], tuple(found["pes"]), found["text"], found["advice"])
