"""Detection of deadlocks without a time-out: two looks at the same waits, with nothing that could end them.

The first look finds PEs that nobody can release (:mod:`emu.comm.deadlock.graph`). That is proved once a second look
finds each of them still in the same wait, for which nothing has come: as the first look was over before the second
began, there was a moment between the two at which all of them waited, and from then on nobody was left who
could have ended one of the waits. Whoever computes, sleeps, polls, has other threads, children or signal
handlers, or waits for what is not known here, counts as one who might.
"""

from __future__ import annotations

import time
from collections.abc import Collection

import numpy as np

from emu.comm.deadlock.graph import stuck_pes
from emu.comm.deadlock.report import Deadlock
from emu.comm.layout import B_STATE, B_TEXT_LENGTH, B_WAITING, B_WAITS, B_WORKS
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.explaining import explain, explain_stall
from emu.comm.watchdog.idle import only_waits
from emu.comm.watchdog.progress import Progress
from emu.comm.watchdog.waits import Look, blocks_of
from emu.comm.world import details

CONFIRM_S = 0.1
"""Seconds between the two looks."""
_SERVERS_S = 1.0
"""The same where communication servers wait, whose records nobody else can compare: all have looked again by then."""
_DETAILS_S = details.AGAIN_S + 0.15
"""The same where PEs publish more than words: each has described again what came after its first description."""
_AGAIN_S = 1.0
"""Seconds after which a world is looked at although no counter has changed: threads may have ended."""
_COUNTERS = [B_STATE, B_WAITING, B_WAITS, B_WORKS, B_TEXT_LENGTH]

Evidence = tuple[tuple[int, tuple[object, ...]], ...]


class Detector:
    """The search for deadlocks in one world.

    Args:
        segment: Shared memory of the world.
        pids: Process of each PE.
        timeout: The launch's time-out, for the report.

    Attributes:
        segment: The same.
        timeout: The same.
    """

    def __init__(self, segment: Segment, pids: list[int], timeout: float) -> None:
        self.segment = segment
        self._pids = pids
        self.timeout = timeout
        self._counters: object = None
        self._looked_at = -_AGAIN_S
        self._evidence: Evidence = ()
        self._since = 0.0

    @property
    def suspects(self) -> bool:
        """Whether the last look found a deadlock that the next one may prove."""
        return bool(self._evidence)

    def look(self, ended: Collection[int]) -> Deadlock | None:
        """Look at all PEs; call it often.

        Args:
            ended: PEs whose processes have ended.

        Returns:
            The report, once a deadlock is proved.
        """
        now = time.monotonic()
        if not self.suspects and not self._has_changed(ended, now):
            return None
        look = Look(self.segment, ended)
        stuck = self._stuck(look)
        evidence = tuple((pe, look.evidence(pe)) for pe in sorted(stuck))
        if not evidence or evidence != self._evidence:
            self._evidence, self._since = evidence, time.monotonic()
            return None
        if now - self._since < time_between(look, stuck):
            return None
        return explain(look, stuck, self.timeout, is_proved=True)

    def _has_changed(self, ended: Collection[int], now: float) -> bool:
        """Return whether PEs wait, and counters have changed since the last look, or it is long ago."""
        blocks = blocks_of(self.segment)
        if not np.any(blocks[:, B_WAITING]):
            return False
        counters = (blocks[:, _COUNTERS].tobytes(), len(ended))
        if counters == self._counters and now - self._looked_at < _AGAIN_S:
            return False
        self._counters, self._looked_at = counters, now
        return True

    def _stuck(self, look: Look) -> frozenset[int]:
        """Return the PEs that nobody can release."""
        needs = look.needs()
        everyone = set(range(len(self._pids))) - look.ended
        while needs:
            stuck = stuck_pes(needs, everyone - needs.keys())
            awake = [pe for pe in stuck if not only_waits(self._pids[pe], len(look.servers(pe)))]
            if not awake:
                return stuck
            for pe in awake:
                del needs[pe]
        return frozenset()


def time_between(look: Look, stuck: Collection[int]) -> float:
    """Return the seconds that must lie between two looks at these PEs."""
    if any(look.servers(pe) for pe in stuck):
        return _SERVERS_S
    if any("details" in look.waits[pe].description for pe in stuck):
        return _DETAILS_S
    return CONFIRM_S


def find_deadlock(
    detector: Detector, progress: Progress, ended: Collection[int]
) -> Deadlock | None:
    """Return the report of a deadlock that is proved, or of a world in which nothing has moved for the time-out.

    Args:
        detector: The search for what can be proved.
        progress: The watch over what moves; it is told of each call.
        ended: PEs whose processes have ended.
    """
    found = detector.look(ended)
    if progress.stalled() and found is None:
        found = explain_stall(Look(detector.segment, ended), detector.timeout)
    return found
