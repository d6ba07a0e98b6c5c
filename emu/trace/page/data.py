"""The data of a page: tables as JSON, columns of numbers as text.

A column is a list of whole numbers, zigzag and seven bits a byte, of which the higher ones follow, in base64: half a million numbers
are a megabyte, and twenty lines of the page read them.

Internal: names may change in any release.
"""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

import numpy as np

from emu.trace.events import Site, Thread
from emu.trace.page.boxes import KIND_NAMES, Arrows, Boxes, arrows_of, boxes_of
from emu.trace.statistics.columns import BIT_OF_KIND, Ints
from emu.trace.statistics.summary import PathRow, Statistics
from emu.trace.statistics.totals import Row, place_of

MOST_BOXES = 200_000
MOST_ARROWS = 20_000
MOST_STEPS = 20_000
"""Steps of the critical path that are drawn, the longest ones."""
MOST_ROWS = 200
"""Rows of a table."""
_DETAILS = 400
"""Characters of a site's details."""


def data_of(statistics: Statistics, title: str, most_boxes: int = MOST_BOXES) -> dict[str, Any]:
    """Return what a page shows."""
    trace, columns = statistics.trace, statistics.columns
    boxes = boxes_of(statistics, most_boxes)
    arrows = arrows_of(statistics, MOST_ARROWS)
    steps = _longest_steps(statistics)
    sites = _Sites(statistics)
    lanes = _Lanes(statistics, boxes)
    return {
        "title": title,
        "command": statistics.command[:4000],
        "folder": statistics.folder,
        "n_pes": trace.n_pes,
        "status": trace.status,
        "lost": list(trace.lost),
        "elapsed": statistics.elapsed,
        "imbalance": statistics.imbalance,
        "events": len(columns.start),
        "shorter": boxes.shorter,
        "kinds": KIND_NAMES,
        "activities": BIT_OF_KIND.tolist(),
        "threads": [thread.name.lower() for thread in Thread],
        "lanes": boxes.lanes,
        "boxes": _box_columns(statistics, boxes, sites),
        "arrows": _arrow_columns(arrows, lanes),
        "arrows_left_out": arrows.left_out,
        "path": _path_columns(statistics, steps, sites, lanes),
        "path_left_out": len(statistics.path.start) - len(steps),
        "path_rows": [
            {**_short(row, statistics.folder), "kind": "" if row.kind is None else row.kind.name}
            for row in statistics.path_rows[:MOST_ROWS]
        ],
        "pes": [asdict(each) for each in statistics.activities],
        "by_kind": _table(statistics.by_kind(), statistics.folder),
        "by_kernel": _table(statistics.by_kernel(), statistics.folder),
        "by_line": _table(statistics.by_line(), statistics.folder),
        "moved": _moved(statistics),
        "bytes_without_peer": statistics.moved.elsewhere,
        "sites": sites.table,  # last: the columns have numbered them
    }


class _Sites:
    """Numbers for the sites that the page mentions; those of several PEs that say the same are one."""

    def __init__(self, statistics: Statistics) -> None:
        self.table: list[list[str]] = []
        self._numbers: dict[tuple[str, str, str], int] = {}
        tables = statistics.trace.sites
        self._all = [site for table in tables for site in table]
        self._site = statistics.columns.site
        self._folder = statistics.folder
        self._known = np.full(len(self._all), -1, np.int64)

    def of_events(self, events: Ints) -> Ints:
        """Return the number of the site of each event."""
        sites = self._site[events]
        for each in np.unique(sites).tolist():
            if self._known[each] < 0:
                self._known[each] = self._number(self._all[each])
        return self._known[sites]

    def _number(self, site: Site) -> int:
        details = "; ".join(f"{key}: {value}" for key, value in (site.details or {}).items())
        place = place_of(site).removeprefix(self._folder)
        key = (site.name, place, details[:_DETAILS])
        if key not in self._numbers:
            self._numbers[key] = len(self.table)
            self.table.append(list(key))
        return self._numbers[key]


class _Lanes:
    """In which lane events lie."""

    def __init__(self, statistics: Statistics, boxes: Boxes) -> None:
        self._statistics = statistics
        self._numbers = {lane: number for number, lane in enumerate(boxes.lanes)}

    def of_events(self, events: Ints) -> Ints:
        """Return the number of each event's lane; -1: it is not drawn."""
        columns, nesting = self._statistics.columns, self._statistics.nesting
        lanes = zip(
            columns.pe[events].tolist(),
            columns.thread[events].tolist(),
            nesting.depth[events].tolist(),
            strict=True,
        )
        return np.array([self._numbers.get(lane, -1) for lane in lanes], np.int64)


def _box_columns(statistics: Statistics, boxes: Boxes, sites: _Sites) -> dict[str, str]:
    columns, events = statistics.columns, boxes.event
    return {
        "first": column(np.diff(boxes.first, prepend=0)),
        "start": column(np.diff(boxes.start, prepend=0)),
        "length": column(boxes.end - boxes.start),
        "kind": column(columns.kind[events]),
        "site": column(sites.of_events(events)),
        "size": column(columns.size[events]),
        "peer": column(columns.peer[events]),
        "count": column(boxes.count),
        "own": column(statistics.nesting.self_time[events]),
    }


def _arrow_columns(arrows: Arrows, lanes: _Lanes) -> dict[str, str]:
    return {
        "start": column(np.diff(arrows.start, prepend=0)),
        "length": column(arrows.end - arrows.start),
        "from": column(lanes.of_events(arrows.source)),
        "to": column(lanes.of_events(arrows.target)),
    }


def _longest_steps(statistics: Statistics) -> Ints:
    """Return the numbers of the steps of the critical path that are drawn."""
    path = statistics.path
    if len(path.start) <= MOST_STEPS:
        return np.arange(len(path.start))
    longest = np.argpartition(path.start - path.end, MOST_STEPS)[:MOST_STEPS]
    return np.sort(longest)


def _path_columns(
    statistics: Statistics, steps: Ints, sites: _Sites, lanes: _Lanes
) -> dict[str, str]:
    path, columns = statistics.path, statistics.columns
    event = path.event[steps]
    inside = event >= 0
    site, lane = np.full(len(steps), -1, np.int64), np.full(len(steps), -1, np.int64)
    site[inside], lane[inside] = sites.of_events(event[inside]), lanes.of_events(event[inside])
    kind = np.where(inside, columns.kind[np.maximum(event, 0)], 0) if len(event) else event
    return {
        "start": column(np.diff(path.start[steps] - columns.origin, prepend=0)),
        "length": column(path.end[steps] - path.start[steps]),
        "pe": column(path.pe[steps]),
        "site": column(site),
        "lane": column(lane),
        "kind": column(kind),
    }


def _short(row: Row | PathRow, folder: str) -> dict[str, Any]:
    """Return a row with places as they lie in the folder of all sources."""
    found = asdict(row)
    return found | {key: found[key].removeprefix(folder) for key in ("name", "place")}


def _table(rows: list[Row], folder: str) -> dict[str, Any]:
    return {"rows": [_short(row, folder) for row in rows[:MOST_ROWS]], "all": len(rows)}


def _moved(statistics: Statistics) -> list[list[int]]:
    """Return source, target, bytes and calls of each pair that has any."""
    found = statistics.moved
    source, target = np.nonzero(found.calls)
    pairs = (source, target, found.bytes[source, target], found.calls[source, target])
    found_pairs: list[list[int]] = np.stack(pairs, axis=1).tolist()
    return found_pairs


_GROUPS = 10
"""Of seven bits, that a number of 64 has at most."""


def column(values: Ints) -> str:
    """Return whole numbers as text, which the page's ``column`` reads."""
    signed = np.asarray(values, np.int64)
    numbers = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    shifts = np.arange(0, 7 * _GROUPS, 7, dtype=np.uint64)
    found = []
    for part in np.array_split(numbers, max(1, len(numbers) // 65536)):
        groups = part[:, None] >> shifts
        there = groups != 0
        there[:, 0] = True
        more = np.zeros_like(there)
        more[:, :-1] = there[:, 1:]
        bits = (groups & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
        found.append(bits[there].tobytes())
    return base64.b64encode(b"".join(found)).decode()
