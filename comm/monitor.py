"""What the launcher sees of a running world: who waits for what, and whether anything moves.

*No progress* means that nothing changed anywhere for the whole time-out: no wait came to its end, and
no PE that is not waiting used processor time. A slow program therefore never trips it, however
long its PEs compute; a loop of failing ``test`` calls counts as the wait that it is.
"""

from __future__ import annotations

import json
import os
import struct
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.comm.compiling import compiles, reads_input
from emu.comm.layout import (
    B_POLLS,
    B_STATE,
    B_WAITING,
    B_WAITS,
    DEAD,
    FINISHED,
    H_RECOVERED,
    H_RECOVERED_FROM,
    NOT_STARTED,
    RUNNING,
    WRITER_BITS,
    WRITER_HASH,
    WRITER_NAMES,
)
from emu.comm.segment import Segment

_FIRST_WORD_S = 0.15
_POLLS_PER_S = 100
"""More failing tests a second than this, and nothing else, is a loop that waits."""


@dataclass(frozen=True)
class PEState:
    """One PE at one moment."""

    pe: int
    state: int
    waiting: bool
    polls: int
    waits: int
    description: dict[str, Any]


def look(segment: Segment, pe: int) -> PEState:
    """Read PE ``pe``'s status from its block."""
    block = segment.block(pe)
    waiting, polls = int(block[B_WAITING]) > 0, int(block[B_POLLS])
    description: dict[str, Any] = {}
    if waiting or polls:
        try:
            description = json.loads(segment.read_text(pe) or "{}")
        except ValueError:  # read while it was being written
            description = {}
    return PEState(pe, int(block[B_STATE]), waiting, polls, int(block[B_WAITS]), description)


def describe(segment: Segment, pe: int) -> str:
    """Say in one line what PE ``pe`` does, and for a wait: for what, what is there, who wrote last."""
    seen = look(segment, pe)
    if seen.state == FINISHED:
        return f"PE {pe} has finished"
    if seen.state == DEAD:
        return f"PE {pe} is dead"
    if seen.state == NOT_STARTED:
        return f"PE {pe} is starting"
    if compiles(segment, pe) and not (seen.waiting and seen.description):
        return f"PE {pe} is compiling a kernel"
    if reads_input(segment, pe):
        return f"PE {pe} reads standard input"
    if not seen.waiting and not seen.polls:
        return f"PE {pe} is running (not waiting)"
    call = seen.description.get("call")
    if call is None:
        return f"PE {pe} waits (just begun)"
    if call == "barrier":
        return _describe_barrier(segment, pe, seen.description)
    if "text" in seen.description:
        return f"PE {pe} waits in {call} for {seen.description['text']}"
    slots = [_describe_slot(segment, pe, slot) for slot in seen.description.get("slots", [])]
    if seen.description.get("more"):
        slots.append(f"… and {seen.description['more']} more words")
    return f"PE {pe} waits in {call} for " + "; ".join(slots)


def _describe_barrier(segment: Segment, pe: int, description: dict[str, Any]) -> str:
    layout = segment.layout
    start = layout.groups + description["index"] * layout.group_bytes
    entry = segment.bytes[start : start + layout.group_dtype.itemsize].view(layout.group_dtype)[0]
    members = [int(m) for m in entry["members"][: entry["n_pes"]]] or list(range(layout.n_pes))
    missing = []
    for member in members:
        other = look(segment, member)
        here = other.waiting and other.description.get("index") == description["index"]
        if not here:
            missing.append(member)
    return (
        f"PE {pe} waits in barrier of group {description['group']!r}: {int(entry['arrived'])} of "
        f"{len(members)} have arrived, missing PEs {missing}"
    )


def _describe_slot(segment: Segment, pe: int, slot: dict[str, Any]) -> str:
    layout = segment.layout
    size = abs(slot["size"])
    start = layout.heaps + pe * layout.stride + slot["offset"]
    form = {4: "<i", 8: "<q", -4: "<I", -8: "<Q"}[slot["size"]]
    there = struct.unpack(form, bytes(segment.bytes[start : start + size]))[0]
    writer = last_writer(segment, pe, slot["offset"])
    return (
        f"{slot['name']}[{slot['index']}] {slot['cmp']} {slot['value']} (there: {there}, "
        f"last writer: {writer})"
    )


def _details(segment: Segment, pe: int) -> list[str]:
    """Return what PE ``pe`` itself has to say of its wait (see :mod:`emu.comm.details`)."""
    return [f"    {line}" for line in look(segment, pe).description.get("details", [])]


def last_writer(segment: Segment, pe: int, offset: int) -> str:
    """Say who last wrote a word by a signal, an atomic or a small put, as far as is known."""
    key = pe * segment.layout.stride + offset
    # The same hash as emu.comm.signals.note_writer, in wrapping 64-bit arithmetic.
    entry = (key * WRITER_HASH & (2**64 - 1)) >> (64 - WRITER_BITS)
    start = segment.layout.writers + entry * 16
    there, info = (int(v) for v in segment.bytes[start : start + 16].view(np.int64))
    if there != key + 1:
        return "nobody"
    return f"PE {info >> 8} ({WRITER_NAMES.get(info & 0xFF, '?')})"


def describe_all(segment: Segment, leave_out: frozenset[int] = frozenset()) -> str:
    """Describe every PE, a line each.

    A PE says what it waits for after its first slice: those that have just begun get that long.
    """
    end = time.monotonic() + _FIRST_WORD_S
    while time.monotonic() < end and any(
        seen.waiting and not seen.description
        for seen in (look(segment, pe) for pe in range(segment.layout.n_pes))
    ):
        time.sleep(0.005)
    lines: list[str] = []
    for pe in range(segment.layout.n_pes):
        if pe not in leave_out:
            lines += [f"  {describe(segment, pe)}", *_details(segment, pe)]
    recovered = int(segment.header[H_RECOVERED])
    if recovered:
        owner = int(segment.header[H_RECOVERED_FROM]) - 1
        lines.append(
            f"  {recovered} lock(s) were recovered from dead PEs, the last from PE {owner}; what "
            "they protected may be half written"
        )
    return "\n".join(lines)


class Progress:
    """Watches for a world in which nothing moves any more."""

    def __init__(self, segment: Segment, pids: list[int], timeout: float) -> None:
        self._segment = segment
        self._pids = pids
        self._timeout = timeout
        self._last: tuple[object, ...] = ()
        self._polls = [0] * len(pids)
        self._since = self._at = time.monotonic()

    def stalled(self) -> bool:
        """Say whether some PE waits and nothing has changed for the time-out; call it often."""
        now = time.monotonic()
        elapsed = max(now - self._at, 1e-3)
        self._at = now
        marks: list[object] = []
        anyone_waits = False
        for pe, pid in enumerate(self._pids):
            seen = look(self._segment, pe)
            if seen.state in (FINISHED, DEAD):
                marks.append((seen.state,))
                continue
            rate = (seen.polls - self._polls[pe]) / elapsed
            self._polls[pe] = seen.polls
            if compiles(self._segment, pe) or reads_input(self._segment, pe):
                marks.append(now)  # what it waits for is not another PE
            elif seen.state == RUNNING and (seen.waiting or rate >= _POLLS_PER_S):
                anyone_waits = True
                marks.append((seen.state, seen.waits))
            else:
                marks.append((seen.state, seen.waits, cpu_ticks(pid)))
        current = tuple(marks)
        if current != self._last or not anyone_waits:
            self._last, self._since = current, now
        return now - self._since >= self._timeout


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
