"""The base of all errors of Triton programs."""

from __future__ import annotations

from dataclasses import dataclass


class TritonError(Exception):
    """Base of the errors of a kernel or of its use."""


@dataclass(frozen=True)
class BadAccess:
    """An access to memory that does not belong to the tensor.

    Attributes:
        kernel: Name of the kernel.
        verb: ``"load"``, ``"store"`` or ``"atomic"``.
        file: Path of the source; empty if unknown.
        line: Line, from 1; 0 if unknown.
        column: Column, from 1; 0 if unknown.
        program: Indices x, y, z of the program.
        lane: Indices of the first lane that is outside, in the tile; ``()`` of a scalar.
        address: Address of that lane.
        argument: Name of the argument that the address comes from; None if it was read from memory.
        past_end: Bytes from the end of the nearest memory to the address, negative before the end; None if
            the address lies before its start, or no memory is known.
        before_start: Bytes from the address to the start of the memory; None if it lies past the end.
        text: The whole report.
    """

    kernel: str
    verb: str
    file: str
    line: int
    column: int
    program: tuple[int, int, int]
    lane: tuple[int, ...]
    address: int
    argument: str | None
    past_end: int | None
    before_start: int | None
    text: str


class OutOfBoundsError(TritonError, IndexError):
    """A checked or interpreted kernel used an address that is not in the memory of its tensor.

    Attributes:
        accesses: What was found, one :class:`BadAccess` for each access of the source, the first first. There is
            one unless the check is ``"bounds:all"``, and none of an interpreted kernel, whose traceback has the place.
        count: How often, over all programs: at least as many as there are accesses.
    """

    def __init__(self, accesses: tuple[BadAccess, ...], count: int) -> None:
        super().__init__(accesses, count)
        self.accesses = accesses
        self.count = count

    def __str__(self) -> str:
        parts = [access.text for access in self.accesses]
        if self.count > len(parts) > 1:
            parts.append(
                f"{self.count} accesses of tiles were outside; the first of each place is shown"
            )
        return "\n\n".join(parts)


@dataclass(frozen=True)
class UninitialisedRead:
    """A use of a value that was read from memory that nobody had written.

    Attributes:
        kernel: Name of the kernel.
        use: What depends on the value: ``"address"``, ``"mask"``, ``"condition"``, ``"bounds of a loop"``,
            ``"assertion"``, ``"stored value"`` or ``"operand of an atomic operation"``.
        file: Path of the source of the use; empty if unknown.
        line: Line of the use, from 1; 0 if unknown.
        column: Column of the use, from 1; 0 if unknown.
        load_file: Path of the source of the load; empty if unknown.
        load_line: Line of the load, from 1; 0 if unknown.
        site: ``file:line`` where the memory was allocated; empty if unknown.
        program: Indices x, y, z of the program.
        lane: Indices of the first lane of the use; ``()`` of a scalar.
        address: Address that was read.
        argument: Name of the argument that the load's address comes from; None if it was read from memory.
        text: The whole report.
    """

    kernel: str
    use: str
    file: str
    line: int
    column: int
    load_file: str
    load_line: int
    site: str
    program: tuple[int, int, int]
    lane: tuple[int, ...]
    address: int
    argument: str | None
    text: str


class UninitialisedError(TritonError, ValueError):
    """A checked kernel used a value that it had read from memory that nobody had written.

    Attributes:
        read: What was read and used.
    """

    def __init__(self, read: UninitialisedRead) -> None:
        super().__init__(read)
        self.read = read

    def __str__(self) -> str:
        return self.read.text


@dataclass(frozen=True)
class GridRace:
    """Two accesses of one launch to one element, at least one of them a store, that nothing orders.

    Attributes:
        kernel: Name of the kernel.
        kind: ``"race"`` of two programs, or ``"lanes"`` of two lanes of one program.
        is_benign: Whether both store the same bits, so that their order may not matter.
        verb: What the one does: ``"load"``, ``"store"`` or ``"atomic"``.
        program: Indices x, y, z of its program.
        lane: Indices of its lane in the tile; ``()`` of a scalar.
        file: Path of its source; empty if unknown.
        line: Line, from 1; 0 if unknown.
        column: Column, from 1; 0 if unknown.
        other_verb: What the other one does.
        other_program: Indices of its program.
        other_file: Path of its source; empty if unknown.
        other_line: Line, from 1; 0 if unknown.
        argument: Name of the argument that the address comes from; None if it was read from memory.
        element: Index of the element, counted from the argument; None if that is not known.
        address: Address of the element.
        size: Its bytes.
        text: The whole report.
    """

    kernel: str
    kind: str
    is_benign: bool
    verb: str
    program: tuple[int, int, int]
    lane: tuple[int, ...]
    file: str
    line: int
    column: int
    other_verb: str
    other_program: tuple[int, int, int]
    other_file: str
    other_line: int
    argument: str | None
    element: int | None
    address: int
    size: int
    text: str


class GridRaceError(TritonError, RuntimeError):
    """Programs of a checked launch, or lanes of one of them, have raced: what memory holds depends on their order.

    Attributes:
        races: What was found, one :class:`GridRace` for each pair of places in the source; those that are benign last.
    """

    def __init__(self, races: tuple[GridRace, ...]) -> None:
        super().__init__(races)
        self.races = races

    def __str__(self) -> str:
        return "\n\n".join(race.text for race in self.races)
