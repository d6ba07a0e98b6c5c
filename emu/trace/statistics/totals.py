"""Sums over events: by PE, place in the program and kind; and the bytes that moved between PEs.

Internal: names may change in any release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from emu.kernels.core.jit import jit
from emu.trace.events import Kind, Site
from emu.trace.reading import Trace
from emu.trace.statistics.columns import N_KINDS, Columns, Ints

MOVING = (Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC, Kind.COLLECTIVE, Kind.TURN)
"""Kinds whose ``size`` is bytes that moved."""
_MOVES = np.array([kind in MOVING for kind in range(N_KINDS)])
_PAIRWISE = np.array(
    [kind in (Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC) for kind in range(N_KINDS)]
)


@dataclass(frozen=True)
class Cell:
    """The events of one kind that one place in the program of one PE caused; times in ns."""

    pe: int
    site: Site
    kind: Kind
    count: int
    total: int
    self_time: int
    longest: int
    bytes: int


@dataclass(frozen=True)
class Row:
    """What several cells have in common, and their sums.

    Attributes:
        name: What it is.
        place: ``file:line`` of the source; empty where that is not known or differs.
        count: Number of events.
        total: ns of all events, with what lies within them.
        self_time: ns in which they were the innermost ones.
        longest: ns of the longest one.
        bytes: Bytes that they moved.
        pes: Number of PEs that have such events.
    """

    name: str
    place: str
    count: int
    total: int
    self_time: int
    longest: int
    bytes: int
    pes: int


def cells_of(trace: Trace, columns: Columns, self_time: Ints) -> list[Cell]:
    """Return the sums of each place and kind that a trace has."""
    sites = [(pe, site) for pe, table in enumerate(trace.sites) for site in table]
    used = np.zeros(len(sites) * N_KINDS, np.int64)
    _mark(columns.site, columns.kind, used)
    keys = np.flatnonzero(used)
    used[keys] = np.arange(len(keys))
    sums = np.zeros((len(keys), 5), np.int64)
    _add(
        used,
        (columns.site, columns.kind),
        (columns.start, columns.end, self_time, columns.size),
        _MOVES,
        sums,
    )
    return [
        Cell(*sites[key // N_KINDS], Kind(key % N_KINDS), *map(int, line))
        for key, line in zip(keys.tolist(), sums, strict=True)
    ]


@jit()
def _mark(site: Ints, kind: Ints, used: Ints) -> None:
    for i in range(len(site)):
        used[site[i] * N_KINDS + kind[i]] = 1


@jit()
def _add(
    number: Ints,
    keys: tuple[Ints, Ints],
    values: tuple[Ints, Ints, Ints, Ints],
    moves: Ints,
    sums: Ints,
) -> None:
    site, kind = keys
    start, end, self_time, size = values
    for i in range(len(site)):
        line = sums[number[site[i] * N_KINDS + kind[i]]]
        line[0] += 1
        line[1] += end[i] - start[i]
        line[2] += self_time[i]
        line[3] = max(line[3], end[i] - start[i])
        if moves[kind[i]]:
            line[4] += size[i]


def rows_of(cells: Iterable[Cell], key: Callable[[Cell], tuple[str, str] | None]) -> list[Row]:
    """Sum cells by a key, the largest self time first; a key is (name, place), and None leaves a cell out."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        found = key(cell)
        if found is not None:
            groups.setdefault(found, []).append(cell)
    rows = [
        Row(
            name,
            place,
            count=sum(cell.count for cell in group),
            total=sum(cell.total for cell in group),
            self_time=sum(cell.self_time for cell in group),
            longest=max(cell.longest for cell in group),
            bytes=sum(cell.bytes for cell in group),
            pes=len({cell.pe for cell in group}),
        )
        for (name, place), group in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row.self_time, -row.total, row.name, row.place))


def place_of(site: Site) -> str:
    """Return ``file:line``; empty where it is not known."""
    return f"{site.file}:{site.line}" if site.file else ""


@dataclass(frozen=True)
class Moved:
    """What moved from each PE (row) to each PE (column), and how many calls did that.

    Attributes:
        bytes: Bytes.
        calls: Number of calls.
        elsewhere: Bytes of events that name no other PE: of collectives and communication servers.
    """

    bytes: Ints
    calls: Ints
    elsewhere: int


def moved(columns: Columns) -> Moved:
    """Return who moved how much to whom."""
    n_pes = columns.n_pes
    found = np.zeros((2, n_pes, n_pes), np.int64)
    of_events = (columns.kind, columns.pe, columns.peer, columns.size)
    elsewhere = _move(of_events, _PAIRWISE, _MOVES, found)
    return Moved(found[0], found[1], int(elsewhere))


@jit()
def _move(
    of_events: tuple[Ints, Ints, Ints, Ints], pairwise: Ints, moves: Ints, found: Ints
) -> int:
    kind, pe, peer, size = of_events
    elsewhere = 0
    for i in range(len(kind)):
        if pairwise[kind[i]] and peer[i] >= 0:
            source, target = (peer[i], pe[i]) if kind[i] == GET else (pe[i], peer[i])
            found[0, source, target] += size[i]
            found[1, source, target] += 1
        elif moves[kind[i]]:
            elsewhere += size[i]
    return elsewhere


GET = int(Kind.GET)
