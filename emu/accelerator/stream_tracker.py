"""Accesses of the storages of emulated devices, by stream: what ``--check streams`` knows, and what it finds."""

from __future__ import annotations

import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import torch

from emu.accelerator.annotations import Storage, Tensor
from emu.accelerator.byte_regions import Region, dense, overlap, strided
from emu.accelerator.state import state
from emu.accelerator.stream_errors import (
    HOST,
    Facts,
    Line,
    Place,
    StreamOrderError,
    StreamRace,
    StreamUse,
    advice,
    advice_on_freed,
)
from emu.accelerator.stream_order import Access, Clock, Clocks, History
from emu.kernels.core.own_files import OWN_FOLDERS

KEPT = "_emu_accesses"
"""Attribute of a storage: its :class:`Memory`."""

_SMALL = 1 << 20
"""CUDA's allocator takes memory for at most so many bytes from a pool of its own."""
_MOST_FREED = 1024


class Memory:
    """What is known of a storage; it lives as long.

    Attributes:
        history: Accesses.
        line: The stream that it was allocated on, whose next allocation may get it; None: not known.
        nbytes: Its size.
        is_host: Whether it is the host's, and used by copies that the host does not wait for.
        recorded: Streams that it was recorded on.
    """

    __slots__ = ("history", "is_host", "line", "nbytes", "recorded", "tracker")

    def __init__(
        self, tracker: Tracker, nbytes: int, line: Line | None, *, is_host: bool = False
    ) -> None:
        self.tracker = tracker
        self.history = History()
        self.line = line
        self.nbytes = nbytes
        self.is_host = is_host
        self.recorded: set[Line] = set()
        if is_host:
            tracker.host_memories += 1

    def __del__(self) -> None:
        if self.is_host:
            self.tracker.host_memories -= 1
        elif self.line is not None and not sys.is_finalizing():
            kind, uses = self.line.kind, list(self.history.uses.values())
            uses = [
                u
                for u in uses
                if isinstance(u.line, Line)
                and u.line.kind == kind
                and u.line != self.line
                and u.line not in self.recorded
            ]
            if uses:
                self.tracker.freed.append(Freed(self.line, self.nbytes, uses, user_place()))


class Freed(NamedTuple):
    """A storage that died while other streams than its own may have used it."""

    line: Line
    nbytes: int
    uses: list[Access]
    place: Place


class Work(NamedTuple):
    """An operator or a kernel as it is submitted: what it is called, where, on which line, and when there."""

    what: str
    place: Place
    line: Line
    time: int
    clock: Clock


class Tracker:
    """Clocks of the streams, and the accesses of all storages.

    Attributes:
        clocks: Of streams, collectives and the host.
        freed: Storages that died, whose memory the next allocation of their stream may get.
        host_memories: How many storages of the host asynchronous copies have used.
        lock: Held while any of this changes.
        is_over: Whether the check was stopped: other threads keep their mode.
    """

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.freed: deque[Freed] = deque(maxlen=_MOST_FREED)
        self.host_memories = 0
        self.lock = threading.RLock()
        self.is_over = False
        self._found: list[StreamRace] = []
        self._reported: set[tuple[Place, Place]] = set()

    # ---- lines

    def submit(self, what: str, line: Line) -> Work:
        """Begin a piece of work: it happens after all that the host knows."""
        self.clocks.join(line, self.clocks.of(HOST))
        return Work(what, user_place(), line, self.clocks.tick(line), self.clocks.of(line))

    def wait(self, line: Line, other: Line) -> None:
        """Let a line wait for all that another has done."""
        with self.lock:
            self.clocks.join(line, self.clocks.of(other))

    def wait_for_clock(self, line: Line, clock: Clock | None) -> None:
        """Let a line wait for an event; None: one that was not recorded."""
        if clock is not None:
            with self.lock:
                self.clocks.join(line, clock)

    def synchronize(self, kind: str | None, index: int) -> None:
        """Let the host wait for all streams of a device; None: of that index of any type."""
        with self.lock:
            for line in self.clocks.lines():
                if isinstance(line, Line) and line != HOST:
                    is_there = line.device == index and kind in (None, line.kind)
                    if is_there or line.kind == "collectives":
                        self.clocks.join(HOST, self.clocks.of(line))

    def wait_for_all(self, line: Line) -> None:
        """Let a line wait for all others."""
        with self.lock:
            for other in self.clocks.lines():
                self.clocks.join(line, self.clocks.of(other))

    # ---- accesses

    def memory_of(self, storage: Storage, line: Line | None = None) -> Memory:
        """Return what is known of a storage; ``line``: the stream that has just allocated it."""
        found: Memory | None = getattr(storage, KEPT, None)
        if found is None or found.tracker is not self or found.is_host:
            found = Memory(self, storage.nbytes(), line)
            setattr(storage, KEPT, found)
        return found

    def host_memory_of(self, storage: Storage) -> Memory:
        """Return what is known of a storage of the host that an asynchronous copy uses."""
        found: Memory | None = getattr(storage, KEPT, None)
        if found is None or found.tracker is not self or not found.is_host:
            found = Memory(self, storage.nbytes(), None, is_host=True)
            setattr(storage, KEPT, found)
        return found

    def access(
        self,
        work: Work,
        memory: Memory,
        tensor: Tensor,
        is_write: bool,
        region: Region | None = None,
        *,
        is_atomic: bool = False,
    ) -> None:
        """Note an access, and what it conflicts with; :meth:`report` raises that.

        Args:
            work: Who accesses.
            memory: What is known of the tensor's storage.
            tensor: What is accessed.
            is_write: Whether it is written.
            region: Which bytes of the storage. Default: the tensor's.
            is_atomic: Whether that is by atomic operations.
        """
        if region is None:
            region = region_of(tensor)
            if region is None:
                return
        facts = Facts(work.what, work.place, str(tensor.dtype), tuple(tensor.shape))
        access = Access(work.line, work.time, is_write, region, facts, is_atomic)
        for other in memory.history.conflicts(access, work.clock):
            shared = overlap(region, other.region)
            assert shared is not None
            self._find(_race(other, access, shared, memory.nbytes))
        if work.line != HOST:
            memory.history.add(access, work.clock)

    def allocate(self, work: Work, storage: Storage) -> Memory:
        """Note that work got new memory: perhaps that of a storage that died."""
        memory = self.memory_of(storage, work.line)
        if not self.freed:
            return memory
        left = []
        while self.freed:
            freed = self.freed.popleft()
            uses = [u for u in freed.uses if u.time > self.clocks.of(freed.line).get(u.line, 0)]
            if freed.line != work.line or (freed.nbytes > _SMALL) != (memory.nbytes > _SMALL):
                if uses:
                    left.append(freed)
                continue
            for use in uses:
                self._find(_reuse(freed, use, work))
        self.freed.extend(left)
        return memory

    # ---- reports

    def _find(self, race: StreamRace) -> None:
        places = (
            Place(race.first.file, race.first.lineno),
            Place(race.second.file, race.second.lineno),
        )
        if places not in self._reported:
            self._reported.add(places)
            self._found.append(race)

    def report(self) -> None:
        """Raise what was found since the last report.

        Raises:
            StreamOrderError: Something was.
        """
        if self._found:
            found, self._found = tuple(self._found), []
            raise StreamOrderError(found)

    def forget_reports(self) -> None:
        """Report again what was reported: another test begins."""
        self._found.clear()
        self._reported.clear()


def _use(access: Access) -> StreamUse:
    facts: Facts = access.facts
    verb = "writes" if access.is_write else "reads"
    line: Any = access.line
    return StreamUse(facts.what, verb, line, facts.place.file, facts.place.line)


def _race(first: Access, second: Access, shared: tuple[int, int], nbytes: int) -> StreamRace:
    one, two = _use(first), _use(second)
    facts: Facts = second.facts
    how = advice(one.line, two.line, first.facts.place, facts.place)
    return StreamRace(one, two, facts.dtype, facts.shape, *shared, nbytes, "", how)


def _reuse(freed: Freed, use: Access, work: Work) -> StreamRace:
    one = _use(use)
    two = StreamUse(work.what, "allocates", work.line, work.place.file, work.place.line)
    how = advice_on_freed(one.line, freed.line)
    facts: Facts = use.facts
    return StreamRace(
        *(one, two, facts.dtype, facts.shape, use.region.low, use.region.high),
        *(freed.nbytes, str(freed.place), how),
    )


# ---- where


def region_of(tensor: Tensor) -> Region | None:
    """Return the bytes of a tensor in its storage; None of one that has none."""
    if not tensor.numel():
        return None
    itemsize = tensor.element_size()
    start = int(tensor.storage_offset()) * itemsize
    if tensor.is_contiguous():
        return dense(start, start + int(tensor.numel()) * itemsize)
    return strided(start, itemsize, tensor.shape, [int(s) * itemsize for s in tensor.stride()])


def storage_of(value: object) -> Storage | None:
    """Return the storage of a tensor; None of one that has none, and of anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return None if value.is_meta else value.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def line_of(stream: Any) -> Line:
    """Return the line of a stream."""
    return Line(stream.kind, int(stream.device_index), int(stream.stream_id))


def current_line(kind: str, index: int) -> Line:
    """Return the line of this thread's current stream of a device."""
    for stream in reversed(state.streams[kind]):
        if stream.device_index == index:
            return Line(kind, index, int(stream.stream_id))
    return Line(kind, index)


_LIBRARY = (
    *OWN_FOLDERS,
    f"{Path(torch.__file__).parent}/",
    "<",
    f"{Path(threading.__file__).parent}/contextlib.py",
    threading.__file__,
)
_is_library: dict[str, bool] = {}


def user_place() -> Place:
    """Return the line of the program that is nearest to what runs: outside of torch and emu."""
    frame = sys._getframe(1)
    known = _is_library
    while True:
        name = frame.f_code.co_filename
        inside = known.get(name)
        if inside is None:
            # What Inductor writes is anywhere on disk, but calls itself a part of torch.
            module = str(frame.f_globals.get("__name__"))
            inside = known[name] = name.startswith(_LIBRARY) or module.startswith("torch.")
        if not inside:
            return Place(name, frame.f_lineno)
        if frame.f_back is None:
            return Place("", 0)
        frame = frame.f_back
