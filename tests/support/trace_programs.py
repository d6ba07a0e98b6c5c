"""Traces of random runs, whose times are such as a run could have had."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from emu.trace.events import EVENT, Kind, Site, Thread
from emu.trace.format import TraceWriter
from emu.trace.reading import Trace, read_trace


class TraceMaker:
    """Makes a trace event by event."""

    def __init__(self, n_pes: int) -> None:
        self.sites: list[list[Site]] = [[] for _ in range(n_pes)]
        self.rows: list[list[tuple[int, ...]]] = [[] for _ in range(n_pes)]
        self.clock = [0] * n_pes
        self._numbers: list[dict[str, int]] = [{} for _ in range(n_pes)]

    def site(self, pe: int, name: str, details: dict[str, Any] | None = None) -> int:
        """Return the number of a site; one name is one site."""
        numbers = self._numbers[pe]
        if name not in numbers:
            numbers[name] = len(self.sites[pe])
            self.sites[pe].append(Site(name, "program.py", 1, details))
        return numbers[name]

    def add(
        self,
        pe: int,
        kind: Kind,
        start: int,
        duration: int,
        *,
        name: str = "",
        size: int = 0,
        flow: int = 0,
        peer: int = -1,
        thread: Thread = Thread.PROGRAM,
        details: dict[str, Any] | None = None,
    ) -> None:
        """Add an event."""
        site = self.site(pe, name or kind.name.lower(), details)
        self.rows[pe].append((start, duration, size, flow, site, kind, thread, peer))
        if thread is Thread.PROGRAM:
            self.clock[pe] = max(self.clock[pe], start + duration)

    def then(self, pe: int, kind: Kind, duration: int, *, gap: int = 0, **how: Any) -> None:
        """Add an event after the last one of the PE's program."""
        self.add(pe, kind, self.clock[pe] + gap, duration, **how)

    def events(self, pe: int) -> np.ndarray:
        """Return the events of a PE as its file has them."""
        events = np.array(self.rows[pe], EVENT)
        return events[np.argsort(events["start"] + events["duration"], kind="stable")]

    def write(self, path: Path) -> Path:
        """Write the trace."""
        with TraceWriter(
            path, {"n_pes": len(self.sites), "command": ["emu", "run"], "clock": 0}
        ) as writer:
            for pe, sites in enumerate(self.sites):
                writer.sites(pe, sites)
                writer.events(pe, self.events(pe))
            writer.end("ok", 0, [0] * len(self.sites))
        return path

    def trace(self) -> Trace:
        """Return the trace as it is read."""
        arrays = []
        for pe in range(len(self.sites)):
            events = self.events(pe) if self.rows[pe] else np.empty(0, EVENT)
            arrays.append(events[np.lexsort((-events["duration"], events["start"]))])
        return Trace(
            {"n_pes": len(self.sites)},
            tuple(map(tuple, self.sites)),
            tuple(arrays),
            "ok",
            (0,) * len(self.sites),
        )


def random_trace(seed: int, n_pes: int, length: int) -> Trace:
    """Return the trace of a random run."""
    random, maker = Random(seed), TraceMaker(n_pes)
    for flow in range(1, length + 1):
        pe = random.randrange(n_pes)
        other = (pe + random.randrange(1, n_pes)) % n_pes if n_pes > 1 else pe
        gap, duration, size = random.randrange(4), random.randrange(1, 9), random.randrange(40)
        start = maker.clock[pe] + gap
        choice = random.randrange(10)
        if choice < 2:
            maker.add(pe, Kind.LAUNCH, start, duration)
        elif choice == 2:
            maker.add(
                pe,
                random.choice((Kind.PUT, Kind.GET, Kind.ATOMIC)),
                start,
                duration,
                size=size,
                peer=other,
            )
        elif choice == 3:
            maker.add(pe, Kind.COMPLETE, start, duration)
        elif choice == 4:
            _signal(maker, random, pe, other, flow)
        elif choice == 5:
            _meeting(maker, random, flow)
        elif choice == 6:
            thread = random.choice((Thread.TASKS, Thread.SERVER))
            begun = (
                max(start, *(r[0] + r[1] for r in maker.rows[pe] if r[6] == Thread.SERVER), 0)
                if maker.rows[pe]
                else start
            )
            kind = random.choice(
                (Kind.TURN, Kind.OP)
                if thread is Thread.SERVER
                else (Kind.PUT, Kind.OP, Kind.LAUNCH)
            )
            maker.add(
                pe,
                kind,
                begun,
                duration,
                size=size * (kind is not Kind.OP),
                peer=other,
                thread=thread,
            )
        elif choice == 7:
            maker.add(pe, Kind.RANGE, start, duration + 9)
            maker.add(pe, Kind.OP, start + 2, 3)
            maker.add(pe, Kind.LAUNCH, start + 6, duration)
        elif choice == 8:  # a kernel that communicates
            maker.add(pe, Kind.LAUNCH, start, duration + 9, name="communicating")
            maker.add(pe, Kind.PUT, start + 2, 3, size=size, peer=other)
        else:  # a put and the get that reads what it has brought
            maker.add(pe, Kind.PUT, start, duration, size=size, peer=other, flow=flow)
            begun = max(start, maker.clock[other])
            maker.add(
                other,
                Kind.GET,
                begun,
                max(1, start + duration - begun) + 1,
                size=size,
                peer=pe,
                flow=flow,
            )
    return maker.trace()


def _signal(maker: TraceMaker, random: Random, pe: int, other: int, flow: int) -> None:
    if pe == other:
        return
    start, duration = maker.clock[pe] + random.randrange(4), random.randrange(1, 9)
    maker.add(pe, Kind.SIGNAL, start, duration, size=random.randrange(40), peer=other, flow=flow)
    begun = maker.clock[other] + random.randrange(4)
    maker.add(other, Kind.WAIT, begun, max(start + duration - begun, 0) + 1, flow=flow, peer=pe)


def _meeting(maker: TraceMaker, random: Random, flow: int) -> None:
    kind = random.choice((Kind.BARRIER, Kind.COLLECTIVE, Kind.TURN))
    if kind is Kind.TURN:
        _turn(maker, random, flow)
        return
    starts = [clock + random.randrange(4) for clock in maker.clock]
    for pe, start in enumerate(starts):
        maker.add(pe, kind, start, max(starts) + 1 - start, flow=flow, size=16)


def _turn(maker: TraceMaker, random: Random, flow: int) -> None:
    """Add a turn of all servers, before or after what the programs compute of it."""
    number, size, is_first = random.randrange(3), random.randrange(40), random.random() < 0.5
    details = {"turn": number}
    if not is_first:
        for pe in range(len(maker.rows)):
            maker.then(
                pe, Kind.TURN, random.randrange(1, 9), name=f"product {number}", details=details
            )
    busy = [
        max((r[0] + r[1] for r in rows if r[6] == Thread.SERVER), default=0) for rows in maker.rows
    ]
    starts = [
        max(b, clock) + random.randrange(4) for b, clock in zip(busy, maker.clock, strict=True)
    ]
    for pe, start in enumerate(starts):
        how: dict[str, Any] = {
            "name": f"turn {number}",
            "details": details,
            "thread": Thread.SERVER,
        }
        maker.add(pe, Kind.TURN, start, max(starts) + 1 - start, size=size, flow=flow, **how)
    if is_first:
        for pe in range(len(maker.rows)):
            start = max(maker.clock[pe], max(starts) + 1)
            maker.add(
                pe,
                Kind.TURN,
                start,
                random.randrange(1, 9),
                name=f"product {number}",
                details=details,
            )


__all__ = ["TraceMaker", "random_trace", "read_trace"]
