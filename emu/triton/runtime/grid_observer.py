"""Observer of one launch: the shadow of what its programs touch, and their clocks.

Programs of a grid are ordered by acquires and releases alone. Each program has a time, which goes on when it releases,
and a clock: the time of every program up to which that one's accesses come before its own. A release leaves a
snapshot of the clock in the cell of what it writes; an acquire of a value that was written so joins it. Snapshots are
never changed, so that many cells may share one.

A fence makes a release of the relaxed writes behind it, and an acquire of the relaxed reads before it: the former leave
the clock as it was at the fence, and what the latter have read is joined there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.kernels.core import access_shadow as shadow
from emu.tile.ops import SCOPES
from emu.tile.passes.observe_accesses import ATOMIC, BARRIER, END, FENCE, LOAD, STORE, Observed

_ACQUIRES = frozenset({"acquire", "acq_rel"})
_RELEASES = frozenset({"release", "acq_rel"})
_MOST_SNAPSHOT_BYTES = 1 << 28


@dataclass(frozen=True)
class Pair:
    """Two accesses without order.

    Attributes:
        what: ``shadow.RACE``, ``shadow.BENIGN`` or ``shadow.LANES``.
        site: Number of the site of the second.
        program: Its program.
        lane: Its lane.
        address: Address of the element that it accesses.
        other_site: Number of the site of the first.
        other_program: Its program.
    """

    what: int
    site: int
    program: int
    lane: int
    address: int
    other_site: int
    other_program: int


def strength(site: Observed) -> str:
    """Return the order of a site among programs; ``""``: it is weak, as one whose scope is a single program's."""
    if site.scope == SCOPES[0]:
        return ""
    return "relaxed" if site.order == "volatile" else site.order


class GridObserver:
    """Observer of one launch.

    Args:
        sites: The sites of the kernel.
        grid: Extents of the grid.
        watched: For each site, whether its memory may be accessed by other programs, too.
        granule: Bytes of a cell: no more than the smallest element, and a power of two.

    Attributes:
        error: What the observer has raised, if anything.
    """

    def __init__(
        self,
        sites: Sequence[Observed],
        grid: tuple[int, int, int],
        watched: Sequence[bool],
        granule: int,
    ) -> None:
        self._x, self._y, z = grid
        self._granule = granule
        self._programs = self._x * self._y * z
        self._kinds = [
            s.kind if w or s.access.size == 0 else -1 for s, w in zip(sites, watched, strict=True)
        ]
        orders = [strength(s) for s in sites]
        self._acquires = [o in _ACQUIRES for o in orders]
        self._releases = [o in _RELEASES for o in orders]
        self._is_update = [s.kind == ATOMIC for s in sites]
        fences = any(s.kind == FENCE for s in sites)
        # Of programs with fences, what such a site reads is acquired at the next one; what it writes, released at the last.
        self._reads_for_fence = [
            fences and o not in ("", *_ACQUIRES) and s.kind in (LOAD, ATOMIC)
            for s, o in zip(sites, orders, strict=True)
        ]
        self._writes_for_fence = [
            fences and o not in ("", *_RELEASES) and s.kind in (STORE, ATOMIC)
            for s, o in zip(sites, orders, strict=True)
        ]
        self._has_order = any(
            (a or r or (fences and o)) and k >= 0
            for a, r, o, k in zip(self._acquires, self._releases, orders, self._kinds, strict=True)
        )
        rows = [_row(s, o) for s, o in zip(sites, orders, strict=True)]
        self._sites = np.array(rows, np.int32).reshape(-1, shadow.SITE)
        self._keys, self._pages = np.zeros(64, np.int64), np.zeros(64, np.int32)
        self._cells = self._new_cells(16)
        self._nodes = np.zeros((1024, shadow.NODE), np.int32)
        self._state = np.zeros(shadow.STATE, np.int64)
        self._seen = np.zeros((len(sites), len(sites), 3), np.uint8)
        self._records = np.zeros((shadow.MOST, 7), np.int64)
        self._met = np.zeros(self._programs, np.int64)
        self._nothing = np.zeros(self._programs, np.int32)
        self._clocks: dict[int, np.ndarray[Any, Any]] = {}
        self._at_fence: dict[int, np.ndarray[Any, Any]] = {}
        self._before_fence: dict[int, np.ndarray[Any, Any]] = {}
        self._times: dict[int, int] = {}
        self._snapshots: dict[int, np.ndarray[Any, Any]] = {}
        self._last_snapshot = 0
        self._found = np.zeros(max((s[shadow.S_COUNT] for s in rows), default=1), np.int32)
        self._no_names = np.zeros(0, np.int32)
        self._out = self._state, self._seen, self._records
        self.error: BaseException | None = None

    def __call__(self, site: int, record: int) -> None:
        """Note what a site has done; only what signals raise is raised."""
        try:
            if self.error is None:
                self._note(site, record)
        except BaseException as error:
            self.error = error  # the launch raises it at its end
            if not isinstance(error, Exception):
                raise

    def pairs(self) -> list[Pair]:
        """Return the pairs that were found, each pair of sites once for each thing that it is about."""
        count = int(self._state[shadow.FOUND])
        return [Pair(*map(int, row)) for row in self._records[:count]]

    # ---- one access

    def _note(self, site: int, record: int) -> None:
        kind = self._kinds[site]
        if kind < 0:
            return
        x, y, z = shadow.program_of(record)
        program = x + self._x * (y + self._y * z)
        if kind in (BARRIER, FENCE):
            self._met[program] = self._state[shadow.TURN]
            if kind == FENCE:
                self._fence(program)
            return
        if kind == END:
            for known in (self._clocks, self._times, self._at_fence, self._before_fence):
                known.pop(program, None)
            return
        if self._acquires[site]:
            self._join(self._clocks, site, record, program)
        elif self._reads_for_fence[site]:
            self._join(self._before_fence, site, record, program)
        clock = self._clocks.get(program, self._nothing)
        who = program, self._times.get(program, 1), int(self._met[program])
        while True:
            status = shadow.note(
                record, site, who, self._tables(clock), self._out, self._granule, self._has_order
            )
            if status == shadow.FINE:
                break
            self._make_room(status)
        if self._releases[site]:
            self._leave(site, record, self._pass_time(program))
        elif self._writes_for_fence[site] and program in self._at_fence:
            self._leave(site, record, self._at_fence[program])

    def _tables(self, clock: np.ndarray[Any, Any]) -> tuple[Any, ...]:
        return self._sites, self._keys, self._pages, self._cells, self._nodes, clock

    # ---- order

    def _released_to(self, site: int, record: int) -> list[int]:
        """Return the snapshots that were released to what a site accesses."""
        tables = self._tables(self._nothing)
        count = shadow.collect(record, site, tables, self._state, self._granule, self._found)
        found: list[int] = self._found[:count].tolist()
        return found

    def _join(
        self, clocks: dict[int, np.ndarray[Any, Any]], site: int, record: int, program: int
    ) -> None:
        """Join the clocks that were released to what a site accesses into one of the program's."""
        found = self._released_to(site, record)
        clock = clocks.get(program)
        for snapshot in found:
            if clock is None:
                clock = clocks[program] = self._snapshots[snapshot].copy()
            np.maximum(clock, self._snapshots[snapshot], out=clock)

    def _fence(self, program: int) -> None:
        """Acquire what relaxed reads have read so far, and release what comes before to relaxed writes from now on."""
        read = self._before_fence.pop(program, None)
        if read is not None:
            self._clocks[program] = np.maximum(read, self._clocks.get(program, self._nothing))
        self._at_fence[program] = self._pass_time(program)

    def _pass_time(self, program: int) -> np.ndarray[Any, Any]:
        """Return the program's clock with its own time; what it does from now on is later than that."""
        now = self._times.get(program, 1)
        own = self._clocks.get(program, self._nothing).copy()
        own[program] = now
        self._times[program] = now + 1
        return own

    def _leave(self, site: int, record: int, own: np.ndarray[Any, Any]) -> None:
        """Leave a snapshot of a clock in what a site has written."""
        olds, news = self._no_names, self._no_names
        if self._is_update[site] and not (self._acquires[site] and self._releases[site]):
            # What was released before goes on: whoever acquires this acquires that, too.
            found = self._released_to(site, record)
            joined = [self._keep(np.maximum(self._snapshots[n], own)) for n in found]
            olds, news = np.array(found, np.int32), np.array(joined, np.int32)
        tables, renamed = self._tables(self._nothing), (olds, news, self._keep(own))
        shadow.publish(record, site, tables, self._state, self._granule, renamed)

    def _keep(self, clock: np.ndarray[Any, Any]) -> int:
        """Keep a clock as a snapshot, and return its number."""
        if (len(self._snapshots) + 1) * clock.nbytes > _MOST_SNAPSHOT_BYTES:
            pages = self._cells[: int(self._state[shadow.PAGES]), :, shadow.SNAPSHOT]
            alive = set(np.unique(pages).tolist())
            recent = self._last_snapshot - len(self._found) - 1  # of this access, not yet in cells
            self._snapshots = {n: s for n, s in self._snapshots.items() if n in alive or n > recent}
        self._last_snapshot += 1
        self._snapshots[self._last_snapshot] = clock
        return self._last_snapshot

    # ---- room

    def _new_cells(self, pages: int) -> np.ndarray[Any, Any]:
        return np.zeros((pages, shadow.PAGE // self._granule, shadow.CELL), np.int32)

    def _make_room(self, status: int) -> None:
        if status == shadow.NEEDS_NODES:
            self._nodes = _longer(self._nodes, 2 * len(self._nodes))
        elif status == shadow.NEEDS_PAGES:
            self._cells = _longer(self._cells, 2 * len(self._cells))
            if len(self._keys) < 4 * len(self._cells):
                keys = np.zeros(4 * len(self._cells), np.int64)
                pages = np.zeros(4 * len(self._cells), np.int32)
                shadow.rehash(keys, pages, self._keys, self._pages)
                self._keys, self._pages = keys, pages
        else:
            parts, self._granule = self._granule, 1
            self._cells = np.repeat(self._cells, parts, axis=1)
            room = parts * int(self._state[shadow.NODES]) + 1024
            self._nodes = _longer(self._nodes, room)
            shadow.split_lists(self._cells, self._nodes, self._state, parts)


def _longer(array: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    longer = np.zeros((max(count, len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _row(site: Observed, order: str) -> list[int]:
    """Return the words of a site."""
    access = site.access
    kinds = {
        LOAD: (shadow.ATOMIC_READ, shadow.READ),
        STORE: (shadow.ATOMIC_WRITE, shadow.WRITE),
        ATOMIC: (shadow.ATOMIC_WRITE, shadow.WRITE),
    }.get(site.kind, (0, 0))
    kind = kinds[0] if order else kinds[1]
    failed = shadow.ATOMIC_READ if order else shadow.READ
    count = int(np.prod(access.shape, dtype=np.int64))
    has_values = site.kind == STORE
    flags = [int(access.is_masked), int(has_values), int(site.may_fail)]
    return [kind, failed, access.size, count, *flags]
