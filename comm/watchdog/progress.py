"""Does anything move in a world? What the launcher asks again and again.

*Moves* are waits that came to their end and calls that changed memory. A PE that does neither computes,
sleeps, waits, or looks in a loop whether it may go on. A world is stopped if for the whole time-out

* nothing has moved, and at least one PE waits, and
* every other PE has used no processor time, or was seen again and again in one and the same loop that
  does nothing but look (:mod:`emu.comm.watchdog.polling`), while symmetric memory stayed as it was.

So a PE that computes, for however long and however often it looks whether it shall stop, keeps the world
going. PEs are asked for their loops only after half of the time-out, which costs them a millisecond now
and then. A loop that only looks, but counts as well or looks at the clock, may end by itself: it is told
of once in a while, and goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
import zlib

from emu.comm.layout import DEAD, FINISHED, LEAVING, NOT_STARTED, RUNNING
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.compiling import compiles, reads_input
from emu.comm.watchdog.monitor import PEState, describe_all, look

LOOK_SIGNAL: int | None = (
    getattr(signal, "SIGRTMAX", 0) - 5 if hasattr(signal, "SIGRTMAX") else None
)
"""Asks a PE whether it waits; a real-time signal, which programs hardly use. None: there is none."""

_ENOUGH = 4
"""So often in a row a PE must have been seen in the same state."""
_QUESTIONS = 32
"""Questions in a time-out, at most."""
_PATIENCE = 1.5
"""Time-outs after which a loop that may end by itself is told of; then always four times as long."""
_MANY_LOOKS, _LOOK_S = 100, 100e-6
"""A PE that looks so often, and takes no more processor time for it, does little else."""
_LEAVING_S = 5.0
"""A thread that is left over is told of after this time."""
_DIGEST_BYTES = 256 << 20
_BLOCK = 1 << 20

_logger = logging.getLogger("emu.comm")


class Progress:
    """Watches for a world in which nothing moves any more."""

    def __init__(self, segment: Segment, pids: list[int], timeout: float) -> None:
        self._segment = segment
        self._pids = pids
        self._timeout = timeout
        now = time.monotonic()
        self._moves: list[object] = []
        self._ticks = [0] * len(pids)
        self._ticks_then = list(self._ticks)
        self._moved = self._busy = now
        self._busy_since = [now] * len(pids)  # when each PE was last seen to use processor time
        self._asked_at = 0.0
        self._answers: dict[
            int, int
        ] = {}  # of the PEs that are asked: how many they had given before
        self._asked: dict[int, int] = {}  # and how many when they were asked last
        self._digest: int | None = None
        self._warn_after = _PATIENCE * timeout
        self._looks = [0] * len(pids)  # calls that changed nothing: when something moved last
        self._last_looks = [0] * len(pids)
        self._looked_since = [-timeout] * len(pids)
        self._leaving_at: float | None = None

    def stalled(self) -> bool:
        """Say whether some PE waits and nothing has moved for the time-out; call it often."""
        now = time.monotonic()
        seen = [look(self._segment, pe) for pe in range(len(self._pids))]
        moves: list[object] = [(s.state, s.works) for s in seen]
        if moves != self._moves:
            self._moves, self._moved = moves, now
            self._forget(seen)
        computing = [s for s in seen if s.state not in (FINISHED, DEAD) and not s.waiting]
        for s in computing:
            ticks = cpu_ticks(self._pids[s.pe])
            if ticks != self._ticks[s.pe]:
                self._ticks[s.pe], self._busy_since[s.pe], self._busy = ticks, now, now
        self._tell_of_threads(seen, now)
        if any(self._is_apart(s) for s in seen):
            self._moved = self._busy = now
        waits = self._anyone_waits(seen, now)
        if not waits:
            self._busy = now  # a program may sleep for as long as it likes
        if now - self._moved < self._timeout / 2:
            return False
        self._ask(computing, now)
        if now - max(self._moved, self._busy) >= self._timeout:
            return True
        if not waits or now - self._moved < self._timeout:
            return False
        if self._all_wait(computing, now):
            return True
        self._warn(computing, now)
        return False

    def _anyone_waits(self, seen: list[PEState], now: float) -> bool:
        for s in seen:
            looks = s.looks + s.polls
            if looks != self._last_looks[s.pe]:
                self._last_looks[s.pe], self._looked_since[s.pe] = looks, now
        return now - max(self._looked_since) < self._timeout / 2 or any(
            s.waiting or s.state == LEAVING or (s.pe in self._answers and s.same >= _ENOUGH)
            for s in seen
        )

    def _is_apart(self, seen: PEState) -> bool:
        """Say whether a PE waits for what is no PE: a compiler (maybe within a wait), or the user."""
        if seen.state in (FINISHED, DEAD):
            return False
        return compiles(self._segment, seen.pe) or reads_input(self._segment, seen.pe)

    def _forget(self, seen: list[PEState]) -> None:
        self._answers, self._digest = {}, None
        self._warn_after = _PATIENCE * self._timeout
        self._looks = [s.looks + s.polls for s in seen]
        self._ticks_then = list(self._ticks)

    # --- loops that only look ----------------------------------------------------------------

    def _ask(self, computing: list[PEState], now: float) -> None:
        """Ask the PEs that compute or look. One that only sleeps is let alone: an answer is work."""
        if LOOK_SIGNAL is None or now - self._asked_at < self._timeout / _QUESTIONS:
            return
        self._asked_at = now
        for s in computing:
            active = max(self._busy_since[s.pe], self._looked_since[s.pe])
            recent = now - active < self._timeout / 4
            waits_for_answer = self._asked.get(s.pe) == s.answers
            if s.state != RUNNING or not recent or waits_for_answer:
                continue
            if _takes(self._pids[s.pe], LOOK_SIGNAL):
                self._answers.setdefault(s.pe, s.answers)
                self._asked[s.pe] = s.answers
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pids[s.pe], LOOK_SIGNAL)
        if self._digest is None:
            self._digest = digest(self._segment)

    def _all_wait(self, computing: list[PEState], now: float) -> bool:
        for s in computing:
            asked = s.pe in self._answers
            if asked and s.same >= _ENOUGH and s.answers - self._answers[s.pe] > _ENOUGH:
                continue
            if asked or now - self._busy_since[s.pe] < self._timeout or s.state == NOT_STARTED:
                return False
        there = digest(self._segment)
        if there != self._digest:
            self._digest, self._moved = there, now
            self._answers = {}
            return False
        return True

    # --- what is told ------------------------------------------------------------------------

    def _warn(self, computing: list[PEState], now: float) -> None:
        """Tell of PEs that look again and again, in a way that may end by itself."""
        quiet = now - self._moved
        if quiet < self._warn_after:
            return
        self._warn_after = 4 * quiet
        if any(s.state == RUNNING and self._does_little_else(s) for s in computing):
            _logger.warning(
                "nothing has changed for %.3g s, but at least one PE that is not waiting may go on by "
                "itself\n%s",
                quiet,
                describe_all(self._segment),
            )

    def _does_little_else(self, seen: PEState) -> bool:
        looks = seen.looks + seen.polls - self._looks[seen.pe]
        used = (self._ticks[seen.pe] - self._ticks_then[seen.pe]) / os.sysconf("SC_CLK_TCK")
        return looks >= _MANY_LOOKS and used <= looks * _LOOK_S

    def _tell_of_threads(self, seen: list[PEState], now: float) -> None:
        leaving = [s.pe for s in seen if s.state == LEAVING]
        rest = all(s.state in (FINISHED, DEAD, LEAVING) for s in seen)
        if not leaving or not rest:
            self._leaving_at = None
        elif self._leaving_at is None:
            self._leaving_at = now
        elif now - self._leaving_at >= _LEAVING_S:
            self._leaving_at = float("inf")
            for pe in leaving:
                _logger.warning(
                    "PE %d has returned, but waits for its %s", pe, self._segment.read_place(pe)
                )


def _takes(pid: int, number: int) -> bool:
    """Say whether a process handles a signal: it would be the end of one that does not."""
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except OSError:
        pass
    return False


def digest(segment: Segment) -> int:
    """Return a checksum of the heaps, of parts of them if they are large; holes cost nothing."""
    blocks = list(_blocks(segment))
    step = max(1, len(blocks) * _BLOCK // _DIGEST_BYTES)
    found = len(blocks)
    for start in blocks[::step]:
        found = zlib.crc32(os.pread(segment.fd, _BLOCK, start), found)
    return found


def _blocks(segment: Segment) -> list[int]:
    """Return where the touched parts of the heaps begin, in steps of a block."""
    end, position = segment.layout.total, segment.layout.heaps
    found: list[int] = []
    while position < end:
        try:
            start = os.lseek(segment.fd, position, os.SEEK_DATA)
            position = os.lseek(segment.fd, start, os.SEEK_HOLE)
        except OSError:  # no data behind this place
            break
        found += range(start, position, _BLOCK)
    return found


def cpu_ticks(pid: int) -> int:
    """Return the processor time a process has used, in clock ticks; 0 if that is not known.

    Where ``/proc`` does not exist (macOS) the time of day stands in: a PE that runs then
    always counts as progress.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    except FileNotFoundError:
        return 0 if os.path.isdir("/proc/self") else time.monotonic_ns()
    except (OSError, IndexError):
        return 0
