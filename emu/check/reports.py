"""What the checks of PEs report: one frozen dataclass a kind, its text, and the error that has all of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from emu.check.places import quoted
from emu.comm.errors import CommError
from emu.comm.world.listening import Findings


@dataclass(frozen=True)
class Access:
    """One of two accesses.

    Attributes:
        pe: World number of the PE that does it.
        operation: ``"put"``, ``"get"``, ``"signal_op"``, ``"load"``, ``"store"``, ``"all_reduce"`` and so on.
        verb: ``"reads"``, ``"writes"`` or ``"updates"``, which is atomic.
        file: Path of the source.
        line: Line of the source, from 1; 0 if it is not known.
    """

    pe: int
    operation: str
    verb: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.operation} of PE {self.pe} {self.verb}"


@dataclass(frozen=True)
class Race:
    """Two accesses of the same bytes of symmetric memory, one of them a write, that nothing orders.

    Attributes:
        first: The access that was noted first.
        second: The other.
        heap: World number of the PE whose memory it is.
        array: Name, shape and dtype of the array.
        low: First byte of it that both touch; the second access may share more bytes with the first.
        high: The byte behind the last of these.
        elements: The same bytes as elements, as text.
        reason: Why they have no order.
        advice: What would order them.
    """

    kind: ClassVar[str] = "race"

    first: Access
    second: Access
    heap: int
    array: str
    low: int
    high: int
    elements: str
    reason: str
    advice: str

    @property
    def pair(self) -> tuple[Any, ...]:
        """What makes two reports the same: both lines and operations, in either order."""
        sides = ((s.file, s.line, s.operation) for s in (self.first, self.second))
        return (self.kind, *sorted(sides))

    @property
    def text(self) -> str:
        """The report."""
        one, two = self.first, self.second
        who = f"PE {one.pe}" if one.pe == two.pe else f"PEs {one.pe} and {two.pe}"
        lines = [
            f"race: {who} use the same memory of PE {self.heap}, and nothing orders them"
            if one.pe != two.pe
            else f"race: {who} uses the same memory of PE {self.heap} twice, and nothing orders the uses",
            *quoted(f"  {one}", one.file, one.line),
            *quoted(f"  {two}", two.file, two.line),
            f"  memory: {self.array}, {self.elements}",
            f"  why: {self.reason}",
            f"  mend: {self.advice}",
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Leak:
    """A symmetric array that was not freed by all members of its group.

    Attributes:
        array: Name, shape and dtype.
        nbytes: Bytes on each PE.
        place: File and line where it was allocated, or the end of that.
        missing: Number of members that have not freed it.
    """

    kind: ClassVar[str] = "leak"

    array: str
    nbytes: int
    place: str
    missing: int

    @property
    def pair(self) -> tuple[Any, ...]:
        """What makes two reports the same."""
        return (self.kind, self.array, self.place)

    @property
    def text(self) -> str:
        """The report."""
        who = "a member has" if self.missing == 1 else f"{self.missing} members have"
        return f"leak: {who} not freed {self.array} ({self.nbytes} bytes a PE)\n  allocated at {self.place}"


@dataclass(frozen=True)
class Note:
    """Something that limits what a check can say."""

    kind: ClassVar[str] = "note"

    message: str

    @property
    def pair(self) -> tuple[Any, ...]:
        """What makes two reports the same."""
        return (self.kind, self.message)

    @property
    def text(self) -> str:
        """The report."""
        return f"note: {self.message}"


Report = Race | Leak | Note

_KINDS: dict[str, type[Race | Leak | Note]] = {k.kind: k for k in (Race, Leak, Note)}


def as_dictionary(report: Report) -> dict[str, Any]:
    """Return a report as data for JSON."""
    return {"kind": report.kind, **dataclasses.asdict(report)}


def from_dictionary(data: dict[str, Any]) -> Report:
    """Return the report of :func:`as_dictionary`."""
    fields = dict(data)
    kind = _KINDS[fields.pop("kind")]
    for side in ("first", "second"):
        if side in fields:
            fields[side] = Access(**fields[side])
    return kind(**fields)


class CheckError(CommError, Findings):
    """Checks have found something in a program.

    Attributes:
        reports: What was found, one report for each pair of lines.
        results: What the PEs returned, in their order; empty if some did not.
    """

    def __init__(self, reports: tuple[Report, ...], results: list[Any] | None = None) -> None:
        super().__init__(reports, results)
        self.reports = reports
        self.results = results if results is not None else []

    def __str__(self) -> str:
        count = len(self.reports)
        head = f"checks found {count} problem{'s' * (count != 1)}"
        return "\n\n".join([head, *(report.text for report in self.reports)])
