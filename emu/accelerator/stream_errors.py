"""What ``--check streams`` reports: two uses of memory that nothing orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from emu.check.places import between, quoted


class Line(NamedTuple):
    """A line of work.

    Attributes:
        kind: ``"cuda"``, ``"npu"``; ``"collectives"`` of a process group, ``"host"``.
        device: Index of the device.
        number: The stream's ``stream_id``; 0 of the default stream.
    """

    kind: str
    device: int = 0
    number: int = 0

    def __str__(self) -> str:
        if self.kind == "host":
            return "the host"
        if self.kind == "collectives":
            return "the stream of a process group's collectives"
        device = f"{self.kind}:{self.device}"
        return (
            f"stream {self.number} of {device}"
            if self.number
            else f"the default stream of {device}"
        )

    @property
    def name(self) -> str:
        """How a program might call the stream."""
        return f"s{self.number}" if self.number else f"torch.{self.kind}.default_stream()"


HOST = Line("host")
"""The program itself, in all of its threads."""


class Place(NamedTuple):
    """A line of the program: that nearest to an operator, outside of torch and emu."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Facts(NamedTuple):
    """What a report says of an access.

    Attributes:
        what: Name of the operator, or ``"kernel NAME"``.
        place: Where it was submitted.
        dtype: Of the tensor.
        shape: Of the tensor.
    """

    what: str
    place: Place
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StreamUse:
    """One of two uses of memory.

    Attributes:
        what: Name of the operator, or ``"kernel NAME"``.
        verb: ``"reads"``, ``"writes"``; ``"allocates"`` of what gets memory that was freed.
        line: The stream, or the host.
        file: Path of the source.
        lineno: Line of the source, from 1; 0 if unknown.
    """

    what: str
    verb: str
    line: Line
    file: str
    lineno: int

    def __str__(self) -> str:
        return f"{self.file}:{self.lineno}: {self.what} {self.verb} on {self.line}"


@dataclass(frozen=True)
class StreamRace:
    """Two uses of the same bytes, one of them a write, that nothing orders.

    Attributes:
        first: The use that the program asked for first.
        second: The other.
        dtype: Of the tensor that the second names; of the first's where memory was freed.
        shape: Likewise.
        low: The first byte of the storage that both may touch.
        high: The byte behind the last.
        nbytes: Bytes of the storage.
        freed: Where the storage died, if the memory may have become another tensor's; else "".
        advice: What would have ordered them.
    """

    first: StreamUse
    second: StreamUse
    dtype: str
    shape: tuple[int, ...]
    low: int
    high: int
    nbytes: int
    freed: str
    advice: str

    @property
    def text(self) -> str:
        """The whole report."""
        behind = ", perhaps in the same memory" if self.freed else ", and may run first"
        lines = [
            *quoted(str(self.first), self.first.file, self.first.lineno),
            *quoted(f"{self.second}{behind}", self.second.file, self.second.lineno),
            f"  tensor: {self.dtype}, shape {self.shape}, bytes {self.low} to {self.high} of the {self.nbytes} of its storage",
        ]
        if self.freed:
            lines.append(f"  freed at {self.freed}")
        lines.append(f"  {self.advice}")
        return "\n".join(lines)


class StreamOrderError(RuntimeError):
    """An operator or a kernel used memory that another stream may still be using.

    Attributes:
        races: What was found, one :class:`StreamRace` for each pair of lines.
    """

    def __init__(self, races: tuple[StreamRace, ...]) -> None:
        super().__init__(races)
        self.races = races

    def __str__(self) -> str:
        lead = "no event, wait or synchronisation orders two uses of the same memory"
        return "\n\n".join([f"{lead}:\n{self.races[0].text}", *(r.text for r in self.races[1:])])


def advice(first: Line, second: Line, first_place: Place, second_place: Place) -> str:
    """Return what would have ordered two accesses."""
    after, before = between(first_place, second_place)
    if first.kind == "collectives":
        return f"nobody waited for the collective of {after}: work.wait() before {before}"
    if second == HOST:
        return (
            f"the host never waited for {first} after {after}: torch.{first.kind}.synchronize(), "
            f"or synchronize() of the stream or of an event, before {before}"
        )
    if second.kind == "collectives":
        return (
            f"the stream that called the collective never waited for {first} after {after}: "
            f"torch.{first.kind}.current_stream().wait_stream({first.name}) before {before}"
        )
    return (
        f"{second} never waited for {first} after {after}: "
        f"{second.name}.wait_stream({first.name}), or an event, before {before}"
    )


def advice_on_freed(user: Line, owner: Line) -> str:
    """Return what would have kept memory from its next owner."""
    return (
        f"the memory belongs to {owner}, which never waited for {user}: record_stream({user.name}) of the tensor, "
        f"or {owner.name}.wait_stream({user.name}), before it is freed"
    )
