"""What happens before what on lines of work that run side by side, and the accesses that nothing orders; needs no torch.

A *line* is anything that does one thing after the other: a stream, the host. Each has a vector clock: how far it is
itself, and how much of each other line has happened before what it does next. Whoever waits joins the clock of
what it waits for. So the order of two accesses is known from what the program says, whichever came first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from emu.accelerator.byte_regions import Region, overlap

Line: TypeAlias = Hashable
Clock: TypeAlias = dict[Line, int]


class Clocks:
    """Vector clocks of all lines."""

    def __init__(self) -> None:
        self._clocks: dict[Line, Clock] = {}

    def of(self, line: Line) -> Clock:
        """Return a line's clock; it goes on changing."""
        clock = self._clocks.get(line)
        if clock is None:
            clock = self._clocks[line] = {}
        return clock

    def tick(self, line: Line) -> int:
        """Begin a piece of work; return its time on the line."""
        clock = self.of(line)
        now = clock[line] = clock.get(line, 0) + 1
        return now

    def now(self, line: Line) -> Clock:
        """Return a copy of a line's clock: what an event holds."""
        return dict(self.of(line))

    def join(self, line: Line, other: Mapping[Line, int]) -> None:
        """Let what a line does from now on happen after what another clock knows."""
        clock = self.of(line)
        for key, time in other.items():
            if time > clock.get(key, 0):
                clock[key] = time

    def knows(self, line: Line, other: Line, time: int) -> bool:
        """Return whether the work of another line at a time happens before what a line does next."""
        return time <= self.of(line).get(other, 0)

    def lines(self) -> list[Line]:
        """Return the lines that have done anything."""
        return list(self._clocks)


class Access(NamedTuple):
    """A use of memory.

    Attributes:
        line: Who.
        time: When, on that line.
        is_write: Whether it writes.
        region: Which bytes.
        facts: What a report says of it.
        is_atomic: Whether it is a write that goes with others of its kind.
    """

    line: Line
    time: int
    is_write: bool
    region: Region
    facts: Any = None
    is_atomic: bool = False


class History:
    """Accesses of one block of memory that a later one may conflict with.

    Attributes:
        uses: The last access of each line.
    """

    def __init__(self) -> None:
        self.uses: dict[Line, Access] = {}
        self._accesses: dict[tuple[Line, bool, bool, Region], Access] = {}
        self._writes: dict[Line, int] = {}  # time of the last write of each line

    def conflicts(self, access: Access, known: Mapping[Line, int]) -> Iterator[Access]:
        """Yield the accesses that overlap another, one of both a write, and that are not known to come before it.

        Args:
            access: The other, which is not in the history yet.
            known: The clock of its line.
        """
        if not self._is_ordered(access, known):
            for other in self._accesses.values():
                if (
                    (access.is_write or other.is_write)
                    and not (access.is_atomic and other.is_atomic)
                    and other.line != access.line
                    and other.time > known.get(other.line, 0)
                    and overlap(access.region, other.region)
                ):
                    yield other

    def _is_ordered(self, access: Access, known: Mapping[Line, int]) -> bool:
        if access.is_write:
            for line, use in self.uses.items():
                if use.time > known.get(line, 0) and line != access.line:
                    return False
            return True
        for line, time in self._writes.items():
            if time > known.get(line, 0) and line != access.line:
                return False
        return True

    def add(self, access: Access, known: Mapping[Line, int]) -> None:
        """Add an access; forget those that it stands for.

        What conflicts with a forgotten one, and is not ordered after it, conflicts with this one, and is not ordered
        after this one.
        """
        if self._accesses and access.region.is_whole:
            covered = [
                key
                for key, other in self._accesses.items()
                if (access.is_write or not other.is_write)
                and (other.is_atomic or not access.is_atomic)
                and (other.line == access.line or other.time <= known.get(other.line, 0))
                and access.region.covers(other.region)
            ]
            for key in covered:
                del self._accesses[key]
        key = access.line, access.is_write, access.is_atomic, access.region
        self._accesses[key] = access
        self.uses[access.line] = access
        if access.is_write:
            self._writes[access.line] = access.time
