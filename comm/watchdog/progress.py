"""Progress of a world: whether anything still moves, checked by the launcher again and again.

*Moves* are waits that ended and calls that changed memory. A PE that does neither computes,
sleeps, waits, or polls in a loop until it may go on. A world is stopped if for the whole time-out

* nothing has moved, and at least one PE waits, and
* every other PE has used no processor time, or was seen again and again in one and the same loop that
  does nothing but read (:mod:`emu.comm.watchdog.polling`), while symmetric memory stayed as it was.

So a PE that computes, for however long and however often it polls for a stop, keeps the world
going. PEs are queried for their loops only after half of the time-out, which costs them a millisecond now
and then. A loop that only reads, but also counts or reads the clock, may end by itself: it is reported
once in a while, and goes on.
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
from emu.comm.watchdog.compiling import is_compiling, is_reading_input
from emu.comm.watchdog.monitor import PEState, describe_all, read_state
from emu.kernels.core import system

QUERY_SIGNAL: int | None = (
    getattr(signal, "SIGRTMAX", 0) - 5 if hasattr(signal, "SIGRTMAX") else None
)
"""Queries a PE whether it waits; a real-time signal, which programs hardly use. None: there is none."""

_ENOUGH = 4
"""Number of times in a row that a PE must have been seen in the same state."""
_QUERIES = 32
"""Queries per time-out, at most."""
_PATIENCE = 1.5
"""Time-outs after which a loop that may end by itself is reported; then always four times as long."""
_MANY_READS, _READ_S = 100, 100e-6
"""A PE that reads that often, and takes no more processor time per read, does little else."""
_LEAVING_S = 5.0
"""A thread that is left over is reported after this time."""
_LEAVING_TICKS = 1
"""Clock ticks a second (a hundredth of it) that a PE may use that only waits for its threads."""
_DIGEST_BYTES = 256 << 20
_BLOCK = 1 << 20

_logger = logging.getLogger("emu.comm")


class Progress:
    """The progress of one world."""

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
        # Of the PEs that are queried: the number of answers before the first query, and before the last one.
        self._answers: dict[int, int] = {}
        self._asked: dict[int, int] = {}
        self._digest: int | None = None
        self._warn_after = _PATIENCE * timeout
        self._reads = [0] * len(pids)  # calls that changed nothing: when something moved last
        self._last_reads = [0] * len(pids)
        self._read_since = [-timeout] * len(pids)
        self._leaving_at: float | None = None

    def stalled(self) -> bool:
        """Return whether some PE waits and nothing has moved for the time-out; call it often."""
        now = time.monotonic()
        seen = [read_state(self._segment, pe) for pe in range(len(self._pids))]
        moves: list[object] = [(s.state, s.works) for s in seen]
        if moves != self._moves:
            self._moves, self._moved = moves, now
            self._forget(seen)
        computing = [s for s in seen if s.state not in (FINISHED, DEAD) and not s.waiting]
        for s in computing:
            ticks = cpu_ticks(self._pids[s.pe])
            # A PE that waits for its threads wakes up to say where they are: that is no computation.
            idle = _LEAVING_TICKS * (1 + now - self._busy_since[s.pe]) if s.state == LEAVING else 0
            if ticks - self._ticks[s.pe] > idle:
                self._ticks[s.pe], self._busy_since[s.pe], self._busy = ticks, now, now
        self._report_threads(seen, now)
        if any(self._waits_outside(s) for s in seen):
            self._moved = self._busy = now
        waits = self._anyone_waits(seen, now)
        if not waits:
            self._busy = now  # a program may sleep for as long as it likes
        if now - self._moved < self._timeout / 2:
            return False
        self._query(computing, now)
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
            reads = s.reads + s.polls
            if reads != self._last_reads[s.pe]:
                self._last_reads[s.pe], self._read_since[s.pe] = reads, now
        return now - max(self._read_since) < self._timeout / 2 or any(
            s.waiting or s.state == LEAVING or (s.pe in self._answers and s.same >= _ENOUGH)
            for s in seen
        )

    def _waits_outside(self, seen: PEState) -> bool:
        """Return whether a PE waits for something other than a PE: a compiler (maybe within a wait), or the user."""
        if seen.state in (FINISHED, DEAD):
            return False
        return is_compiling(self._segment, seen.pe) or is_reading_input(self._segment, seen.pe)

    def _forget(self, seen: list[PEState]) -> None:
        self._answers, self._digest = {}, None
        self._warn_after = _PATIENCE * self._timeout
        self._reads = [s.reads + s.polls for s in seen]
        self._ticks_then = list(self._ticks)

    # --- loops that only read ----------------------------------------------------------------

    def _query(self, computing: list[PEState], now: float) -> None:
        """Query the PEs that compute or poll. One that only sleeps is left alone: an answer is work."""
        if QUERY_SIGNAL is None or now - self._asked_at < self._timeout / _QUERIES:
            return
        self._asked_at = now
        for s in computing:
            active = max(self._busy_since[s.pe], self._read_since[s.pe])
            recent = now - active < self._timeout / 4
            waits_for_answer = self._asked.get(s.pe) == s.answers
            if s.state != RUNNING or not recent or waits_for_answer:
                continue
            if _handles(self._pids[s.pe], QUERY_SIGNAL):
                self._answers.setdefault(s.pe, s.answers)
                self._asked[s.pe] = s.answers
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pids[s.pe], QUERY_SIGNAL)
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

    # --- reports -----------------------------------------------------------------------------

    def _warn(self, computing: list[PEState], now: float) -> None:
        """Log the PEs that poll in a loop which may end by itself."""
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
        reads = seen.reads + seen.polls - self._reads[seen.pe]
        used = (self._ticks[seen.pe] - self._ticks_then[seen.pe]) / os.sysconf("SC_CLK_TCK")
        return reads >= _MANY_READS and used <= reads * _READ_S

    def _report_threads(self, seen: list[PEState], now: float) -> None:
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


def _handles(pid: int, number: int) -> bool:
    """Return whether a process handles a signal; it would end one that does not."""
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
    """Return the offsets of the touched blocks of the heaps."""
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
    """Return the processor time that a process has used, in clock ticks; 0 if unknown.

    Where ``/proc`` does not exist (macOS) the time of day stands in: a PE that runs then
    always counts as progress.
    """
    if not system.LINUX:
        return time.monotonic_ns()
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, IndexError):
        return 0
