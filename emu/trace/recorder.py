"""``EventRecorder``: records the events of one PE, in its ring.

A record has the number of a *site*, which says the rest: kind, thread, name, line and details. Sites are found by the line of the
program that runs, whatever of emu or torch stands between it and the recorder, and are written down when they are new.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

import numpy as np

from emu.comm.arrays import Bytes, Words
from emu.comm.world.recording import Details
from emu.kernels.core.own_files import OWN_FOLDERS
from emu.trace import lines, ring
from emu.trace.area import FLOW_WORDS, FLOWS, SITES_BYTES, W_SITES, WORDS_BYTES, Area
from emu.trace.events import EVENT, MEETING_BIT, MEETING_SHIFT, Kind, Site, Thread
from emu.trace.lines import GENERATIONS, OTHER, PROGRAM

_KIND_SHIFT, _THREAD_SHIFT = 32, 40
_OWN = (*OWN_FOLDERS, "<frozen", "<launcher of ", "<run of ", "<string>")
_STANDARD = frozenset(
    str(Path(threading.__file__).with_name(name))
    for name in ("contextlib.py", "functools.py", "runpy.py", "threading.py")
)
_PROGRAMS = f"{os.sep}pypto{os.sep}programs.py"
"""Kernels of emu that stand for a program's."""
_FULL = "(more sites than a trace has room for)"
_LONGEST_NAME = 512

_HELD = lines.T_HELD
_LIBRARY, _EMU = 3, 4
"""Whose a code is that is not the program's: a library's, or emu's and Python's own."""

# Names that are looked up on every call; the entries of compiled code are put in their place.
write, write_span, begin_flow = ring.write, ring.write_span, ring.begin_flow
hold, end = lines.hold, lines.end
know_code, know_site = lines.know_code, lines.know_site


class EventRecorder:
    """A :class:`emu.comm.world.recording.Recorder`.

    Args:
        memory: The area of the PEs' events.
        area: Its parts.
        pe: World number of the PE.

    Attributes:
        ring: Address of the PE's words, for the functions of :mod:`emu.trace.ring`.
        flows: Address of the table of flows, for the same.
        words: What compiled code knows of it (:mod:`emu.trace.lines`).
        told: Their address.
        classes: Of groups that it records, by those that they are made of.
    """

    def __init__(self, memory: Bytes, area: Area, pe: int) -> None:
        start = area.words(pe)
        self._words: Words = memory[start : start + WORDS_BYTES].view(np.int64)
        self._text = memory[area.sites(pe) : area.sites(pe) + SITES_BYTES]
        self.ring = int(self._words.ctypes.data)
        self.flows = int(memory.ctypes.data) + area.flows
        self._lock = threading.Lock()
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._at: dict[tuple[Any, ...], int] = {}
        self._whose: dict[int, int] = {}
        self._codes: list[CodeType] = []
        self._done: list[tuple[int, str, Details, object]] = []
        self._number_of: dict[tuple[int, str, object], int] = {}
        self.classes: dict[type, type] = {}
        self._main = threading.main_thread().ident or 0
        self._count = 0
        self._compiling: dict[int, list[int]] = {}
        self._tables = (
            np.zeros(lines.CODES * lines.CODE_WORDS, np.int64),
            np.zeros(lines.SITES * lines.SITE_WORDS, np.int64),
        )
        self.words: Words = np.zeros(lines.RECORDER_WORDS, np.int64)
        self.words[lines.T_RING], self.words[lines.T_FLOWS] = self.ring, self.flows
        self.words[lines.T_MAIN] = np.uint64(self._main).astype(np.int64)
        for place, table in zip((lines.T_CODES, lines.T_SITES), self._tables, strict=True):
            self.words[place] = table.ctypes.data
        self.told = int(self.words.ctypes.data)
        self._view = self.words.data  # an item of it costs a third of an array's
        self._add(Site(_FULL))  # number 0
        _load()

    # --- sites -----------------------------------------------------------------------------

    def here(
        self,
        kind: int,
        name: str,
        details: Details = None,
        *,
        key: object = None,
        thread: int | None = None,
    ) -> int:
        """Return the number of a site, at the line of the program that runs now."""
        who = get_ident()
        frame = sys._getframe(2)  # nearly always the program has called what records
        if who == self._main and self._view[_HELD]:
            frame = self._held_frame(frame)
        elif self._whose.get(id(frame.f_code)) != PROGRAM:
            frame = self.program_frame(frame)
        at = (id(frame.f_code), frame.f_lasti, name, key, thread or who)
        number = self._at.get(at)
        if number is None:
            where = (frame.f_code.co_filename, frame.f_lineno or 0)
            number = self.site(kind, name, where, details, key=key, thread=thread)
            self._at[at] = number
        return number

    def hold_line(self) -> bool:
        """Let sites of the main thread be at the line of the program that runs now; return what :meth:`release_line` takes."""
        frame = sys._getframe(1)
        held = hold(self.told, id(frame))
        if held >= 0:
            return held != 0
        self._view[_HELD] = id(self.program_frame(frame))
        return True

    def release_line(self, holds: bool) -> None:
        """Undo :meth:`hold_line`."""
        if holds:
            self._view[_HELD] = 0

    def _held_frame(self, frame: FrameType) -> FrameType:
        """Return the frame at whose line the main thread's operations are."""
        held = self._view[_HELD]
        at: FrameType | None = frame
        while at is not None:
            if id(at) == held:
                return at
            at = at.f_back
        return frame

    def program_frame(self, frame: FrameType) -> FrameType:
        """Return the innermost frame of the program, from a frame outwards; without one, of a library's; else the frame."""
        known, library = self._whose, None
        at: FrameType | None = frame
        while at is not None:
            code = at.f_code
            whose = known.get(id(code))
            if whose is None:
                whose = known[id(code)] = _whose(code.co_filename)
                self._codes.append(code)  # its id would else be another's
                know_code(self.told, id(code), PROGRAM if whose == PROGRAM else OTHER)
            if whose == PROGRAM:
                return at
            if whose == _LIBRARY and library is None:
                library = at
            at = at.f_back
        return library or frame

    def number(self, kind: int, name: str, details: Details = None, key: object = None) -> int:
        """Return the number of an operation, for the functions of :mod:`emu.trace.lines`.

        Args:
            kind: As for :meth:`here`.
            name: The same.
            details: The same.
            key: The same.
        """
        number = self._number_of.get((kind, name, key))
        if number is None:
            with self._lock:
                self._done.append((kind, name, details, key))
                number = self._number_of[kind, name, key] = len(self._done) - 1
        return number

    def missed(
        self,
        frame: FrameType,
        number: int,
        begun: int,
        size: int = 0,
        flow: int = 0,
        peer: int = -1,
    ) -> None:
        """Record an operation that has ended and whose site compiled code does not know; it will the next time.

        Args:
            frame: The frame that has called it.
            number: As :meth:`number` returned it.
            begun: When it began; 0: when its flow did.
            size: As for :meth:`write`.
            flow: The same.
            peer: The same.
        """
        now = time.monotonic_ns()
        kind, name, details, key = self._done[number]
        who, thread = get_ident(), self.thread()
        is_main = who == self._main
        at = frame
        if is_main and self._view[_HELD]:
            at = self._held_frame(frame)
        elif self._whose.get(id(frame.f_code)) != PROGRAM:
            at = self.program_frame(frame)
        where = (at.f_code.co_filename, at.f_lineno or 0)
        site = self.site(kind, name, where, details, key=key, thread=thread)
        if is_main and (self._view[_HELD] or self._whose.get(id(at.f_code)) == PROGRAM):
            know_site(self.told, id(at), number, site)
        if not begun:
            begun = now - (now - (flow >> 1) & ring.SERIAL_MASK)
        write_span(self.ring, begun, now, size, flow, site, peer)

    def end(self, kind: int, name: str, begun: int) -> None:
        """Record an event that ends now, at the line of the program that runs."""
        number = self._number_of.get((kind, name, None))
        if number is None:
            number = self.number(kind, name)
        frame = sys._getframe(1)
        if end(self.told, id(frame), number, begun, 0, 0, -1):
            self.missed(frame, number, begun)

    def missed_wait(
        self, frame: FrameType, number: int, begun: int, place: int, since: int
    ) -> None:
        """Record a wait for the word at a place as :meth:`missed` does."""
        flow, _ = ring.take(self.flows, place, since)
        self.missed(frame, number, begun, 0, flow, (flow >> ring.FLOW_PE_SHIFT) - 1)

    def missed_get(
        self, frame: FrameType, number: int, begun: int, size: int, place: int, peer: int
    ) -> None:
        """Record a get from a place as :meth:`missed` does."""
        flow = ring.take_from_put(self.ring, self.flows, place)
        self.missed(frame, number, begun, size, flow, peer)

    def missed_meeting(
        self, frame: FrameType, number: int, begun: int, size: int, group: int, passed: int
    ) -> None:
        """Record what members did together as :meth:`missed` does."""
        flow = MEETING_BIT | group << MEETING_SHIFT | passed & GENERATIONS
        self.missed(frame, number, begun, size, flow)

    def thread(self) -> int:
        """Return the lane of what the calling thread does."""
        if get_ident() == self._main:
            return Thread.PROGRAM
        torch = sys.modules.get("torch")
        if torch is not None and torch._C._current_graph_task_id() >= 0:
            return Thread.BACKWARD
        return Thread.TASKS

    def site(
        self,
        kind: int,
        name: str,
        place: tuple[str, int] = ("", 0),
        details: Details = None,
        *,
        key: object = None,
        thread: int | None = None,
    ) -> int:
        """Return the number of a site at a file and a line."""
        if thread is None:
            thread = self.thread()
        of_site = (kind, name, place, key, thread)
        number = self._numbers.get(of_site)
        if number is None:
            with self._lock:
                found = details() if callable(details) else details
                index = self._add(
                    Site(name[:_LONGEST_NAME], *place, dict(found) if found else None)
                )
            number = index | int(kind) << _KIND_SHIFT | int(thread) << _THREAD_SHIFT
            self._numbers[of_site] = number
        return number

    def _add(self, site: Site) -> int:
        """Write a site down; return its index. The launcher reads what lies before the count of bytes."""
        line = json.dumps(site, default=str).encode() + b"\n"
        used = int(self._words[W_SITES])
        if used + len(line) > SITES_BYTES:
            return 0
        self._text[used : used + len(line)] = np.frombuffer(line, np.uint8)
        self._words[W_SITES] = used + len(line)
        self._count += 1
        return self._count - 1

    # --- compilation -----------------------------------------------------------------------

    def note_compilation(self, begins: bool, kernel: str) -> None:
        """Note that this process begins or stops compiling a kernel, as :func:`emu.kernels.core.cache_files.listen` tells it."""
        begun = self._compiling.setdefault(get_ident(), [])
        if begins:
            begun.append(time.monotonic_ns())
        elif begun:
            self.write(self.here(Kind.COMPILE, f"compile {kernel}"), begun.pop())

    # --- events ----------------------------------------------------------------------------

    def write(self, site: int, begun: int, size: int = 0, flow: int = 0, peer: int = -1) -> None:
        """Record an event that ends now."""
        write(self.ring, begun, size, flow, site, peer)

    def write_span(
        self, site: int, begun: int, ended: int, size: int = 0, flow: int = 0, peer: int = -1
    ) -> None:
        """Record an event that has ended."""
        write_span(self.ring, begun, ended, size, flow, site, peer)

    def next_flow(self) -> int:
        """Return a number that no other event has."""
        return begin_flow(self.ring, 0)


def _load() -> None:
    """Call each compiled function once: while one is compiled its compilation could not be recorded."""
    words = np.zeros(WORDS_BYTES // 8 + EVENT.itemsize // 8, np.int64)  # a ring of one record
    table = np.zeros(FLOWS * FLOW_WORDS, np.int64)
    at, flows = int(words.ctypes.data), int(table.ctypes.data)
    write(at, 0, 0, 0, 0, 0)
    write_span(at, 0, 0, 0, 0, 0, 0)
    begin_flow(at, 0)
    ring.leave(at, flows, 0, 0)
    ring.take(flows, 0, 0)
    ring.take_from_put(at, flows, 0)
    own = np.zeros(lines.RECORDER_WORDS, np.int64)  # of no thread
    told, frame = int(own.ctypes.data), id(sys._getframe())
    own[lines.T_RING], own[lines.T_FLOWS] = at, flows
    lines.begin(told, 0, 0)
    lines.end(told, frame, 0, 0, 0, 0, 0)
    lines.end_of_wait(told, frame, 0, 0, 0, 0)
    lines.end_of_get(told, frame, 0, 0, 0, 0, 0)
    lines.end_of_meeting(told, frame, 0, 0, 0, 0, 0)
    hold(told, frame)
    tables = np.zeros(lines.CODES * lines.CODE_WORDS + lines.SITES * lines.SITE_WORDS, np.int64)
    own[lines.T_CODES] = own[lines.T_SITES] = tables.ctypes.data
    know_code(told, frame, OTHER)
    know_site(told, frame, 0, 0)


def _whose(file: str) -> int:
    """Return whose a source is: the program's, a library's, or emu's and Python's own."""
    if file.endswith(_PROGRAMS):
        return PROGRAM
    if file.startswith(_OWN) or file in _STANDARD:
        return _EMU
    return _LIBRARY if "site-packages" in file else PROGRAM
