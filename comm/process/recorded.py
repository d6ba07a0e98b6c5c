"""The launcher's part in recording what PEs do: it takes their events to files while they run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from emu.comm.memory.segment import Segment
from emu.comm.world import recording
from emu.comm.world.listening import Findings

_LONGEST = 240
"""Characters of what a trace says about the end of its run."""


class Recorded:
    """The files of a launch; without any it does nothing.

    Attributes:
        at: When to call :meth:`serve` next, by ``time.monotonic``.
    """

    def __init__(self) -> None:
        self.at = math.inf
        self._drain: recording.Drain | None = None
        self._status = "ok"

    def begin(self, segment: Segment, files: Sequence[str]) -> None:
        """Make the files.

        Raises:
            TraceError: One cannot be made.
        """
        if not files:
            return
        try:
            self._drain = recording.load_room().open_drain(segment, files)
        except BaseException:
            segment.close()
            raise
        self.at = time.monotonic()

    def serve(self) -> float:
        """Take what the PEs have recorded so far, if it is time to; return the time, by ``time.monotonic``."""
        now = time.monotonic()
        if self._drain is not None and now >= self.at:
            self._drain.drain()
            now = time.monotonic()
            self.at = now + self._drain.every_s
        return now

    def note_stop(self, text: str) -> None:
        """Note what ended the run before its time."""
        first = (text.splitlines() or ["stopped"])[0]
        self._status = first.partition("; ")[0][:_LONGEST]

    def report(self, findings: Findings | None) -> None:
        """Add what checks have found; None: nothing."""
        if self._drain is not None and findings is not None:
            self._drain.report(findings.reports)

    def finish(self) -> None:
        """Complete the files."""
        if self._drain is not None:
            drain, self._drain, self.at = self._drain, None, math.inf
            drain.finish(self._status)
