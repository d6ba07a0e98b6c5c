"""``EventDrain``: the launcher's side of a recording, which takes events from the PEs' rings to a file.

The file is a ``.emutrace``, whose chunks are whole whenever the launcher dies; other formats are made of it in the end. What a PE
has left in its ring when it died is taken as well. Nothing here trusts what a PE has written: a kernel may have written there
by a wild pointer.
"""

from __future__ import annotations

import json
import logging
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.comm.memory.segment import Segment
from emu.trace.area import (
    SITES_BYTES,
    W_HEAD,
    W_LOST,
    W_MASK,
    W_PE,
    W_SITES,
    W_TAIL,
    WORDS_BYTES,
    Area,
)
from emu.trace.converting import NATIVE, convert_all
from emu.trace.events import EVENT, LATEST, Kind, Site, Thread
from emu.trace.format import TraceWriter

_logger = logging.getLogger("emu.trace")
_DUE_S, _DUE_PART = 0.25, 8
"""When a ring is emptied: after so many seconds, or when so great a part of it (1 in ...) is full. Each time costs 0.1 ms, which PEs may need."""
_DAMAGED = Site("(a site that was overwritten)")


class _Ring:
    """The memory of one PE's events, and how much of it was taken."""

    def __init__(self, memory: npt.NDArray[np.uint8], area: Area, pe: int) -> None:
        start, ring = area.words(pe), area.ring(pe)
        self.words = memory[start : start + WORDS_BYTES].view(np.int64)
        self.words[W_MASK], self.words[W_PE] = area.records - 1, pe
        self._rows = memory[ring : ring + area.records * EVENT.itemsize].view(EVENT)
        self._last = self._rows.view(np.int64).reshape(area.records, -1)[:, -1]
        self._text = memory[area.sites(pe) : area.sites(pe) + SITES_BYTES]
        self._text_read = 0
        self._due_at = 0.0
        self.sites = 0
        self.dropped = 0

    def is_due(self, now: float) -> bool:
        """Return whether the ring is to be emptied."""
        words = self.words
        return now >= self._due_at or words[W_HEAD] - words[W_TAIL] >= len(self._rows) // _DUE_PART

    def take(self, *, all_of_them: bool) -> npt.NDArray[Any] | None:
        """Take the events that were written to their end.

        Args:
            all_of_them: Go past one that was not: its writer has died.
        """
        self._due_at = time.monotonic() + _DUE_S
        tail, size = int(self.words[W_TAIL]), len(self._rows)
        count = min(int(self.words[W_HEAD]) - tail, size)
        if count <= 0:
            return None
        places = np.arange(tail, tail + count) & size - 1
        written = self._last[places] != 0
        if all_of_them:
            taken = places[written]
            self.dropped += count - len(taken)
        else:
            count = count if written.all() else int(written.argmin())
            taken = places[:count]
        events = self._rows[taken]
        self._last[taken] = 0
        self.words[W_TAIL] = tail + count  # from now on the PE uses these places again
        return events if len(events) else None

    def new_sites(self) -> list[Site]:
        """Return the sites that were written since the last call."""
        end = min(max(int(self.words[W_SITES]), self._text_read), SITES_BYTES)
        data = bytes(self._text[self._text_read : end])
        self._text_read = end
        found = [_site(line) for line in data.split(b"\n")[:-1]]
        self.sites += len(found)
        return found

    def sound(self, events: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the events that can be, and count the others as lost."""
        good = (
            (events["site"] < self.sites)
            & (events["kind"] >= min(Kind))
            & (events["kind"] <= max(Kind))
            & (events["thread"] <= max(Thread))
            & (events["start"] >= 0)
            & (events["start"] < LATEST)
            & (events["duration"] >= 0)
            & (events["duration"] < LATEST)
        )
        self.dropped += len(events) - int(good.sum())
        return events if good.all() else events[good]

    @property
    def lost(self) -> int:
        """Number of events for which there was no room, or that were damaged."""
        return int(self.words[W_LOST]) + self.dropped


def _version() -> str:
    try:
        return version("tile-emu")
    except PackageNotFoundError:
        return ""


def _site(line: bytes) -> Site:
    try:
        match json.loads(line):
            case [str(name), str(file), int(number), None | {} as details]:
                return Site(name, file, number, details)
    except ValueError:
        pass
    return _DAMAGED


class EventDrain:
    """A :class:`emu.comm.world.recording.Drain`.

    Args:
        segment: The world's.
        area: The parts of its area of events.
        files: What is to be written, by suffix.

    Raises:
        TraceFileError: The first file cannot be written.
    """

    every_s = 0.02

    def __init__(self, segment: Segment, area: Area, files: Sequence[Path]) -> None:
        own = [file for file in files if file.suffix == NATIVE]
        self._path = own[0] if own else files[0].with_name(f"{files[0].name}{NATIVE}")
        self._others = [file for file in files if file != self._path]
        self._is_asked_for = bool(own)
        memory = segment.map_trace()
        memory[:8].view(np.int64)[0] = area.records
        self._rings = [_Ring(memory, area, pe) for pe in range(area.n_pes)]
        self._reports: list[tuple[int, int, Site]] = []
        link = segment.link
        meta = {
            "n_pes": area.n_pes,
            "command": list(sys.argv),
            "started": time.time(),
            "clock": time.monotonic_ns(),
            "version": _version(),
            "host": platform.node(),
            "pes_per_host": area.n_pes,
            "link": None if link is None else [link.bandwidth, link.latency],
        }
        self._writer: TraceWriter | None = TraceWriter(self._path, meta)

    def drain(self) -> None:
        """Take what the PEs have written."""
        self._drain(all_of_them=False)

    def _drain(self, *, all_of_them: bool) -> None:
        now = time.monotonic()
        try:
            for pe, ring in enumerate(self._rings):
                if not all_of_them and not ring.is_due(now):
                    continue
                events = ring.take(all_of_them=all_of_them)
                if self._writer is None or events is None:
                    continue
                sites = ring.new_sites()
                if sites:
                    self._writer.sites(pe, sites)
                self._writer.events(pe, ring.sound(events))
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Close a file that cannot be written any further: the run goes on."""
        _logger.warning("the trace %s ends early: %s", self._path, error.strerror)
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def report(self, findings: Sequence[Any]) -> None:
        """Add what checks have found, as instants of the PEs that it is about."""
        now = time.monotonic_ns()
        for finding in findings:
            text = str(getattr(finding, "text", finding))
            accesses = (getattr(finding, "first", None), getattr(finding, "second", None))
            for access in accesses:
                if access is not None and 0 <= access.pe < len(self._rings):
                    site = Site(str(finding.kind), access.file, access.line, {"text": text})
                    self._reports.append((access.pe, now, site))
            if accesses == (None, None):
                site = Site(str(getattr(finding, "kind", "report")), details={"text": text})
                self._reports.append((0, now, site))

    def finish(self, status: str) -> None:
        """Take the rest, write the end, and make the other files."""
        self._drain(all_of_them=True)
        try:
            if self._writer is not None:
                self._write_reports(self._writer, status)
                lost = [ring.lost for ring in self._rings]
                self._writer.end(status, time.monotonic_ns(), lost)
                self._writer = None
                if any(lost):
                    _logger.warning(
                        "%d events had no room and are not in the trace: a larger EMU_TRACE_RING keeps more",
                        sum(lost),
                    )
        except OSError as error:
            self._give_up(error)
        if convert_all(self._path, self._others) and not self._is_asked_for:
            self._path.unlink(missing_ok=True)

    def _write_reports(self, writer: TraceWriter, status: str) -> None:
        """Write what was reported, behind all sites of the PEs: their numbers must not change."""
        now = time.monotonic_ns()
        if status != "ok":
            self._reports.append((0, now, Site("end", details={"text": status})))
        for pe, when, site in self._reports:
            ring = self._rings[pe]
            writer.sites(pe, [*ring.new_sites(), site])
            event = np.zeros(1, EVENT)
            event["start"], event["kind"], event["peer"] = when, Kind.INSTANT, -1
            event["site"] = ring.sites
            ring.sites += 1
            writer.events(pe, event)
