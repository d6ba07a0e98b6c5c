"""All figures of a trace.

Internal: names may change in any release.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from emu.trace.events import Kind
from emu.trace.reading import Trace
from emu.trace.statistics.activity import Activity, activities_of
from emu.trace.statistics.causes import causes_of
from emu.trace.statistics.columns import Columns, Ints, columns_of
from emu.trace.statistics.critical_path import PROGRAM, CriticalPath, critical_path
from emu.trace.statistics.nesting import Nesting, nest
from emu.trace.statistics.totals import Cell, Moved, Row, cells_of, moved, place_of, rows_of

BETWEEN, BEFORE = "program, between events", "program, before its first event"
"""What the time of the critical path is called that no event tells of."""


@dataclass(frozen=True)
class PathRow:
    """Time of the critical path that belongs to one PE, place and kind (None: the program itself, between events)."""

    pe: int
    kind: Kind | None
    name: str
    place: str
    time: int
    steps: int


@dataclass(frozen=True)
class Statistics:
    """The figures of a trace; what each means says :mod:`emu.trace.statistics`.

    Attributes:
        trace: The trace.
        columns: Its events as columns.
        nesting: Which is innermost.
        causes: What each event waited for.
        cells: Sums by PE, place and kind.
        activities: What each PE did for how long.
        moved: Who moved how much to whom.
        path: The critical path.
    """

    trace: Trace
    columns: Columns
    nesting: Nesting
    causes: Ints
    cells: list[Cell]
    activities: list[Activity]
    moved: Moved
    path: CriticalPath

    @property
    def elapsed(self) -> int:
        """Time from the first start to the last end, ns."""
        return self.columns.elapsed

    @property
    def imbalance(self) -> float | None:
        """The largest busy time of a PE over the mean; None where no PE is ever busy."""
        busy = [each.busy for each in self.activities]
        return max(busy) * len(busy) / sum(busy) if sum(busy) else None

    @cached_property
    def folder(self) -> str:
        """The folder that all sources lie in, with the slash at its end; empty where there is none."""
        files = {site.file for table in self.trace.sites for site in table if "/" in site.file}
        if not files or any(not file.startswith("/") for file in files):
            return ""
        return os.path.commonpath([os.path.dirname(file) for file in files]).rstrip("/") + "/"

    @property
    def command(self) -> str:
        """The command line that was recorded; empty where the trace has none."""
        words = [str(word) for word in self.trace.meta.get("command") or []]
        if words and words[0].endswith(("/emu", "/emu/__main__.py")):
            words[0] = "emu"
        return " ".join(words)

    def by_kind(self) -> list[Row]:
        """Return the sums of each kind."""
        return rows_of(self.cells, lambda cell: (cell.kind.name, ""))

    def by_kernel(self) -> list[Row]:
        """Return the sums of each kernel that was launched."""
        return rows_of(
            self.cells,
            lambda cell: (
                (cell.site.name, place_of(cell.site)) if cell.kind == Kind.LAUNCH else None
            ),
        )

    def by_line(self) -> list[Row]:
        """Return the sums of each line of the program; events without a line are one row."""
        return rows_of(self.cells, lambda cell: (place_of(cell.site) or "(line unknown)", ""))

    @cached_property
    def path_rows(self) -> list[PathRow]:
        """The time of the critical path by PE, place and kind, the longest first."""
        path = self.path
        names, keys = _path_keys(self.trace, self.columns, path)
        found, inverse, steps = np.unique(keys, return_inverse=True, return_counts=True)
        times = np.zeros(len(found), np.int64)
        np.add.at(times, inverse, path.end - path.start)
        rows = [
            PathRow(*names(int(key)), int(time), int(n))
            for key, time, n in zip(found, times, steps, strict=True)
        ]
        return sorted(rows, key=lambda row: (-row.time, row.pe, row.name, row.place))

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """Return all figures as JSON values: times in ns, and of tables the first ``top`` rows; None: all."""
        trace = self.trace
        return {
            "n_pes": trace.n_pes,
            "status": trace.status,
            "lost_events": list(trace.lost),
            "events": len(self.columns.start),
            "elapsed": self.elapsed,
            "imbalance": self.imbalance,
            "pes": [asdict(each) for each in self.activities],
            "by_kind": [asdict(row) for row in self.by_kind()[:top]],
            "by_kernel": [asdict(row) for row in self.by_kernel()[:top]],
            "by_line": [asdict(row) for row in self.by_line()[:top]],
            "bytes": self.moved.bytes.tolist(),
            "calls": self.moved.calls.tolist(),
            "bytes_without_peer": self.moved.elsewhere,
            "critical_path": [
                {**asdict(row), "kind": None if row.kind is None else row.kind.name}
                for row in self.path_rows[:top]
            ],
        }


def _path_keys(
    trace: Trace, columns: Columns, path: CriticalPath
) -> tuple[Callable[[int], tuple[int, Kind | None, str, str]], Ints]:
    """Return what turns the key of a step into its PE, kind, name and place; and the key of each step."""
    n_kinds = max(Kind) + 1
    sites, n_pes = [site for table in trace.sites for site in table], trace.n_pes
    inside = path.event != PROGRAM
    event = path.event[inside]
    keys = -1 - path.pe
    if len(keys) and not inside[0]:  # a PE may begin to do what is recorded long after another one
        keys[0] -= n_pes
    keys[inside] = columns.site[event] * n_kinds + columns.kind[event]
    owner = np.searchsorted(columns.first_site, np.arange(len(sites)), side="right") - 1

    def names(key: int) -> tuple[int, Kind | None, str, str]:
        if key < 0:
            name = BETWEEN if -1 - key < n_pes else BEFORE
            return (-1 - key) % n_pes, None, name, ""
        site = sites[key // n_kinds]
        return int(owner[key // n_kinds]), Kind(key % n_kinds), site.name, place_of(site)

    return names, keys


def statistics_of(trace: Trace) -> Statistics:
    """Compute all figures of a trace.

    Raises:
        TraceFileError: An event lies beyond any clock.
    """
    columns = columns_of(trace)
    nesting = nest(columns)
    causes = causes_of(columns)
    return Statistics(
        trace=trace,
        columns=columns,
        nesting=nesting,
        causes=causes,
        cells=cells_of(trace, columns, nesting.self_time),
        activities=activities_of(columns, nesting, causes),
        moved=moved(columns),
        path=critical_path(columns, nesting, causes),
    )
