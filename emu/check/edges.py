"""Which edge is missing between two operations of graphs, told when all PEs have ended.

Operations on two PEs are ordered by a signal: a ``pred`` leads from the signal to the one operation, and one from the other operation
to the wait. Of all signals that were heard, that one is told of to which the least is missing.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from emu.check.area import (
    SITE_BYTES,
    SITES,
    T_FIRST,
    T_LAST,
    T_LINE,
    T_SERIAL,
    T_SITE,
    TASK_WORDS,
    TASKS,
    Area,
)
from emu.check.races.sites import Place, read_site
from emu.check.reports import Race
from emu.comm.arrays import Bytes, Words

SENDERS = ("shmem_signal", "shmem_barrier_all")
RECEIVERS = ("shmem_wait_until", "shmem_barrier_all")

End = tuple[int, int, int]
"""An access: its PE, its line of work, and its time there."""


class _Op(NamedTuple):
    pe: int
    serial: int
    place: Place
    line: int
    first: int
    last: int
    clock: Words

    def comes_after(self, other: _Op) -> bool:
        """Return whether it is another, or knows it."""
        same = (self.pe, self.serial) == (other.pe, other.serial)
        return same or int(self.clock[other.line]) >= other.first


class _Gap(NamedTuple):
    """How a signal could have ordered two operations, and what is missing; the least is the best."""

    missing: int
    against_program: bool
    distance: int
    first: _Op
    sender: _Op
    receiver: _Op
    second: _Op


class Graphs:
    """The last tasks of all PEs.

    Args:
        area: Layout of the listeners' area.
        memory: That area.
    """

    def __init__(self, area: Area, memory: Bytes) -> None:
        self._area = area
        self._memory = memory
        self._ops: dict[int, list[_Op]] = {}

    def explain(self, race: Race, ends: tuple[End, End]) -> Race:
        """Return a race whose reason is the missing edge, if that can be told."""
        one, two = (self._find(*end) for end in ends)
        if one is None or two is None:
            return race
        if one.pe == two.pe:
            reason, advice = self._tell_of_one_pe(*sorted((one, two), key=lambda op: op.serial))
            return dataclasses.replace(race, reason=reason, advice=advice)
        gaps = [*self._gaps(one, two), *self._gaps(two, one)]
        if not gaps:
            return race
        reason, advice = _tell_gap(min(gaps, key=lambda gap: gap[:3]))
        return dataclasses.replace(race, reason=reason, advice=advice)

    def _of(self, pe: int) -> list[_Op]:
        ops = self._ops.get(pe)
        if ops is None:
            area, memory = self._area, self._memory
            first = area.tasks + pe * area.tasks_bytes
            log = memory[first : first + area.tasks_bytes].view(np.int64).reshape(TASKS, -1)
            start = area.sites + pe * SITES * SITE_BYTES
            sites = memory[start : start + SITES * SITE_BYTES]
            ops = self._ops[pe] = [
                _Op(
                    pe,
                    int(row[T_SERIAL]),
                    read_site(sites, int(row[T_SITE])),
                    int(row[T_LINE]),
                    int(row[T_FIRST]),
                    int(row[T_LAST]),
                    row[TASK_WORDS:],
                )
                for row in log[np.flatnonzero(log[:, T_SERIAL])]
            ]
        return ops

    def _find(self, pe: int, line: int, time: int) -> _Op | None:
        for op in self._of(pe):
            if op.line == line and op.first <= time <= op.last:
                return op
        return None

    def _tell_of_one_pe(self, earlier: _Op, later: _Op) -> tuple[str, str]:
        """Tell of two operations of a PE; what lacks may be the way to a wait that comes after the earlier one."""
        waits = [
            op
            for op in self._of(later.pe)
            if op.place.operation in RECEIVERS
            and earlier.serial < op.serial < later.serial
            and op.comes_after(earlier)
        ]
        return _tell(later, max(waits, key=lambda op: op.serial) if waits else earlier)

    def _gaps(self, first: _Op, second: _Op) -> list[_Gap]:
        """Return the signals of the first PE that the second has heard of, and what is missing of an order by them."""
        senders = [op for op in self._of(first.pe) if op.place.operation in SENDERS]
        receivers = [op for op in self._of(second.pe) if op.place.operation in RECEIVERS]
        gaps = []
        for receiver in receivers:
            for sender in senders:
                if int(receiver.clock[sender.line]) < sender.first:
                    continue
                missing = 2 - sender.comes_after(first) - second.comes_after(receiver)
                if missing:
                    before, behind = sender.serial - first.serial, second.serial - receiver.serial
                    against = before < 0 or behind < 0
                    distance = abs(before) + abs(behind)
                    gaps.append(_Gap(missing, against, distance, first, sender, receiver, second))
        return gaps


def _name(op: _Op, beside: _Op) -> str:
    """Return what a report calls an operation."""
    place = op.place
    where = f"line {place.line}"
    if place.file != beside.place.file:
        where = f"{place.file}:{place.line}"
    return f"{place.operation} ({where})"


def _tell(later: _Op, earlier: _Op) -> tuple[str, str]:
    """Return why there is no order, and what would give it: an operation needs a pred that leads to another."""
    name, other = _name(later, earlier), _name(earlier, later)
    return (
        f"{name} of PE {later.pe} has no pred that leads to {other}",
        f"the result of {other}, or of an op behind it, in pred of {name}",
    )


def _tell_gap(gap: _Gap) -> tuple[str, str]:
    has_sender = gap.sender.comes_after(gap.first)
    has_receiver = gap.second.comes_after(gap.receiver)
    if has_sender:
        return _tell(gap.second, gap.receiver)
    reason, advice = _tell(gap.sender, gap.first)
    if has_receiver:
        return reason, advice
    more, also = _tell(gap.second, gap.receiver)
    return f"{reason}, and {more}", f"{advice}; and {also}"
