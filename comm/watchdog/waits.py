"""The waits of a world at one moment, and what each of them needs from other PEs.

A *look* copies what the PEs have published. It counts a PE as waiting only where it is known what ends the wait: a
barrier's generation, words and their values, turns of a communication server. A PE that waits otherwise, or is
just about to be woken, is taken for one that goes on by itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.deadlock.graph import Need
from emu.comm.layout import (
    B_COMPILING,
    B_READING,
    B_STATE,
    B_TEXT_LENGTH,
    B_WAITING,
    B_WAITS,
    B_WORKS,
    BLOCK_BYTES,
    PLACE_HOLDS,
    PLACE_WAITS,
    RUNNING,
)
from emu.comm.memory.segment import Segment
from emu.comm.server.words import (
    ALL_RECORDS,
    ANSWERED,
    AWAITED_VALUE,
    AWAITED_WORD,
    COMMITS,
    DECODED,
    FAILED,
    NAME,
    OWN_WORD,
    PULLED,
    WANTED,
    WORDS_PER_MEMBER,
)
from emu.comm.world.details import Description

_DTYPES = {4: "<i4", 8: "<i8", -4: "<u4", -8: "<u8"}
_COMPARE = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "LT": np.less,
    "LE": np.less_equal,
}


@dataclass(frozen=True)
class Run:
    """Words that lie one behind the other and are wanted alike."""

    group: int
    offset: int
    size: int
    """Bytes; negative: unsigned."""
    cmp: str
    value: int
    count: int

    def values(self, segment: Segment, pe: int) -> Array:
        """Return what is there."""
        start = segment.layout.heaps + pe * segment.layout.stride + self.offset
        raw = segment.bytes[start : start + self.count * abs(self.size)]
        return raw.copy().view(_DTYPES[self.size])

    def holds(self, value: Any) -> Any:
        """Return whether a value, or each of some, is as wanted."""
        return _COMPARE[self.cmp](value, self.value)

    def words(self) -> Iterator[Run]:
        """Yield each word as a run of its own."""
        for index in range(self.count):
            offset = self.offset + index * abs(self.size)
            yield Run(self.group, offset, self.size, self.cmp, self.value, 1)


@dataclass(frozen=True)
class Wait:
    """What one PE waits for, as it has published it."""

    pe: int
    description: Description

    @property
    def call(self) -> str:
        """Name of the call that waits."""
        return str(self.description.get("call", ""))

    @property
    def at(self) -> str:
        """File and line of the call; empty: not known."""
        return str(self.description.get("at", ""))

    @property
    def is_barrier(self) -> bool:
        """Whether it is a barrier, or one inside of a collective."""
        return "generation" in self.description

    @property
    def is_lock(self) -> bool:
        """Whether it is ``set_lock``, which waits at the PE's place in the lock's queue."""
        return self.call.startswith("set_lock(") and "needed" in self.description

    @property
    def group(self) -> int:
        """Index of the group whose barrier or server it waits for."""
        description: dict[str, int] = self.description
        return description.get("index", description.get("server", 0))

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The words that it waits for."""
        rows = self.description.get("runs")
        if rows is None:  # a loop of tests, or too many words
            rows = [
                [s.get("group", 0), s["offset"], s["size"], s["cmp"], s["value"], 1]
                for s in self.description.get("slots", ())
            ]
        return tuple(Run(*row) for row in rows)


class Look:
    """One look at all PEs of a world.

    Args:
        segment: Shared memory of the world.
        ended: PEs whose processes have ended.

    Attributes:
        segment: The same.
        ended: The same.
        waits: What the PEs wait for that wait, and have said for what.
    """

    def __init__(self, segment: Segment, ended: Collection[int] = ()) -> None:
        self.segment = segment
        self.ended = frozenset(ended)
        self.blocks = blocks_of(segment)
        self.waits: dict[int, Wait] = {}
        self._barriers: dict[tuple[int, int], Need | None] = {}
        for pe in np.flatnonzero(_waiting(self.blocks)).tolist():
            if pe not in self.ended:
                self.add(pe)

    def add(self, pe: int) -> None:
        """Count a PE as waiting, if it has said for what."""
        description = _read(self.segment, pe)
        if description:
            self.waits[pe] = Wait(pe, description)

    # --- what a wait needs -----------------------------------------------------------------

    def needs(self) -> dict[int, tuple[Need, ...]]:
        """Return the needs of each PE that waits for what is known."""
        found = {pe: self._needs_of(wait) for pe, wait in self.waits.items()}
        return {pe: needs for pe, needs in found.items() if needs}

    def _needs_of(self, wait: Wait) -> tuple[Need, ...]:
        """Return the needs of a PE; none if it goes on by itself, as far as is known."""
        own = self.own_need(wait)
        servers = None if own is None else self.server_needs(wait.pe)
        return () if own is None or servers is None else (own, *servers)

    def own_need(self, wait: Wait) -> Need | None:
        """Return what a PE itself waits for; None if it goes on by itself, as far as is known."""
        description = wait.description
        if "generation" in description:
            return self.barrier_need(wait)
        if "runs" in description:
            return self._words_need(wait)
        if "server" in description:
            return self._turns_need(wait)
        return None

    def server_needs(self, pe: int) -> tuple[Need, ...] | None:
        """Return what the servers of a PE wait for; None if one of them goes on by itself."""
        servers = [self._server_need(pe, group) for group in self.servers(pe)]
        needs = tuple(need for need in servers if need is not None)
        return needs if len(needs) == len(servers) else None

    def barrier_need(self, wait: Wait) -> Need | None:
        """Return the members that a barrier lacks; None if it has been passed, or somebody is on the way."""
        key = wait.group, int(wait.description["generation"])
        if key not in self._barriers:
            self._barriers[key] = self._missing_at(*key)
        return self._barriers[key]

    def _missing_at(self, group: int, generation: int) -> Need | None:
        entry = self.segment.group_entry(group)
        if int(entry["generation"]) != generation:
            return None
        there = {
            pe
            for pe, wait in self.waits.items()
            if wait.description.get("index") == group
            and wait.description.get("generation") == generation
        }
        members = self.segment.members(group)
        missing = tuple(pe for pe in members if pe not in there)
        if not missing or int(entry["arrived"]) != len(members) - len(missing):
            return None
        return Need(missing, is_all=True)

    def _words_need(self, wait: Wait) -> Need | None:
        holding = sum(
            int(np.count_nonzero(run.holds(run.values(self.segment, wait.pe)))) for run in wait.runs
        )
        if holding >= wait.description["needed"]:
            return None
        if wait.is_lock:
            owner = self.lock_owner(wait)  # nobody: it is just being handed over
            return None if owner is None else Need((owner,), is_all=True)
        return Need(self.writers(wait), is_all=False)

    def lock_owner(self, wait: Wait) -> int | None:
        """Return the PE that holds the lock which a PE waits for; None: nobody."""
        place = wait.runs[0]
        for pe in self.segment.members(place.group):
            if holds(self.segment, place, pe):
                return pe
        return None

    def writers(self, wait: Wait) -> tuple[int, ...]:
        """Return the PEs that could write a word that a wait is for."""
        groups = {run.group for run in wait.runs}
        found = {pe for group in groups for pe in self.segment.members(group)}
        return tuple(sorted(found - {wait.pe}))

    # --- communication servers -------------------------------------------------------------

    def _turns_need(self, wait: Wait) -> Need | None:
        members = self.segment.members(wait.group)
        if wait.pe not in members or wait.group not in self._areas:
            return None
        areas = [self.area(wait.group, pe) for pe in members]
        own = areas[members.index(wait.pe)]
        done = min(int(own[ANSWERED]), *(int(area[PULLED]) for area in areas))
        if own[FAILED] or not own[WANTED] or done >= own[WANTED]:
            return None
        return Need(tuple(pe for pe in members if pe != wait.pe), is_all=False)

    @cached_property
    def _areas(self) -> dict[int, int]:
        """Offset of the areas in the heaps, for each group that has servers."""
        table = self.segment.allocations
        found = np.flatnonzero((table["name"] == NAME.encode()) & (table["used"] == 1))
        return {int(table[i]["group"]): int(table[i]["offset"]) for i in found}

    def area(self, group: int, pe: int) -> Words:
        """Return the first words of a PE's area in a group that has servers."""
        layout = self.segment.layout
        start = layout.heaps + pe * layout.stride + self._areas[group]
        return self.segment.bytes[start : start + 8 * COMMITS].view(np.int64)

    def servers(self, pe: int) -> list[int]:
        """Return the groups in which a PE has a server that sleeps."""
        return [
            group
            for group in self._areas
            if pe in self.segment.members(group) and self.area(group, pe)[:1].view(np.int32)[1]
        ]

    def _server_need(self, pe: int, group: int) -> Need | None:
        members, area = self.segment.members(group), self.area(group, pe)
        awaited, value = int(area[AWAITED_WORD]), int(area[AWAITED_VALUE])
        if awaited == OWN_WORD:  # its own compute side, which waits itself
            return Need((pe,), is_all=False)
        if awaited == ALL_RECORDS:
            late = [m for m in members if int(self.area(group, m)[DECODED]) < value]
            return Need(tuple(m for m in members if m != pe), is_all=False) if late else None
        member, word = divmod(awaited, WORDS_PER_MEMBER)
        if not 0 <= member < len(members) or self.area(group, members[member])[word] >= value:
            return None
        return Need((members[member],), is_all=False)

    # --- comparison ------------------------------------------------------------------------

    def evidence(self, pe: int) -> tuple[object, ...]:
        """Return what must be the same at two looks, so that a PE was in one and the same wait in between."""
        block, wait = self.blocks[pe], self.waits[pe]
        counters = tuple(int(block[i]) for i in (B_STATE, B_WAITING, B_WAITS, B_WORKS))
        servers = [
            (
                group,
                int(self.area(group, pe)[AWAITED_WORD]),
                int(self.area(group, pe)[AWAITED_VALUE]),
            )
            for group in self.servers(pe)
        ]
        at = [
            (name, wait.description.get(name)) for name in ("call", "index", "generation", "runs")
        ]
        return counters, repr(at), tuple(servers)


def holds(segment: Segment, place: Run, pe: int) -> bool:
    """Return whether a PE holds the lock in whose queue it has this place."""
    marks = int(place.values(segment, pe)[0])
    return bool(marks & PLACE_HOLDS and not marks & PLACE_WAITS)


def blocks_of(segment: Segment) -> Words:
    """Return a copy of the words of all PEs' blocks, one row each."""
    layout = segment.layout
    raw = segment.bytes[layout.blocks : layout.blocks + layout.n_pes * BLOCK_BYTES]
    words: Words = raw.copy().view(np.int64).reshape(layout.n_pes, BLOCK_BYTES // 8)
    return words


def _waiting(blocks: Words) -> Array:
    """Return which PEs wait in one thread and have said for what."""
    one = (blocks[:, B_STATE] == RUNNING) & (blocks[:, B_WAITING] == 1)
    elsewhere = (blocks[:, B_COMPILING] > 0) | (blocks[:, B_READING] > 0)
    waits: Array = one & ~elsewhere & (blocks[:, B_TEXT_LENGTH] > 0)
    return waits


def _read(segment: Segment, pe: int) -> Description:
    try:
        found = json.loads(segment.read_text(pe) or "{}")
    except ValueError:  # read while it was being written
        return {}
    return found if isinstance(found, dict) else {}
