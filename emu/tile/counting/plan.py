"""What is known of a kernel that counts before it runs: its counters, and what to make of them.

A *column* is a counter; each program has a row of them. How often a region ran is a sum of columns (``Runs``); what its
operations do each time is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

Runs: TypeAlias = dict[int, int]
"""A sum: factors of columns. Column ``ALWAYS`` is 1 in each program."""

ALWAYS = -1

ROWS_WORD, MARKING_WORD, GROUP_WORD, HEAD = 0, 1, 2, 3
"""Words of what a kernel that counts is given: the number of rows less 1, a power of two less 1; the address of the code that
marks what is touched; the binary logarithm of the programs of a group (``working_sets``); then ``POINTER_WORDS`` words for each argument of the
kernel, those of marks, and the rows."""

POINTER_WORDS = 7
"""Words of an argument. Its memory has *cells*, a bit for each element (the smallest, if there are several sizes): address of the
first element, number of cells, binary logarithm of an element's bytes, addresses of the cells of what was read and of what was
written. It has *lines*, with a bit for each group of programs: binary logarithm of a line's bytes, address of the bits of those that read it; what programs
only write they seldom share."""

GROUP_WORDS = 2
"""Words of the bits of a line."""

NO_COLUMN = -1

SCALAR, NARROW, WIDE, RANGE32, RANGE64 = range(5)
"""Kinds of offsets: none; a tile of i32 or of i64; the first of consecutive ones, which wrap as i32 or i64 do."""

NONE, BYTES, PREFIX = range(3)
"""Kinds of masks: none; a tile of bytes; the numbers of ``affine.Lanes``."""

MASK_VALUES = (0, 1, 3)
"""How many values tell of a mask of each kind."""

MARK_WORDS, MEMBER_WORDS = 7, 4
"""Words of a mark, and of each of its members: see :class:`Mark`."""

MOST_MEMBERS = 16
"""Members of a mark, at most."""


@dataclass(frozen=True)
class Dot:
    """A product of tiles, ``[batch, m, k] @ [batch, k, n]``, and the dtypes of its operands and its result."""

    batch: int
    m: int
    n: int
    k: int
    a: str
    b: str
    accumulator: str


@dataclass(frozen=True)
class Block:
    """What the operations of a region do each time it runs.

    Attributes:
        runs: How often it runs.
        operations: How many operations of tiles or scalars it has.
        work: Unit, dtype and number of what these do.
        dots: Its products.
    """

    runs: Runs
    operations: int
    work: tuple[tuple[str, str, int], ...]
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Site:
    """A memory operation.

    Attributes:
        verb: ``"load"``, ``"store"``, or the kind of an atomic operation.
        arguments: Positions of the arguments that its pointer may come from; none: it comes from memory, or an integer.
        element: Name of the type in memory.
        size: Bytes of an element.
        lanes: Number of elements.
        runs: How often it runs.
        column: Where its lanes are counted that the mask lets through; ``NO_COLUMN``: it has no mask.
    """

    verb: str
    arguments: tuple[int, ...]
    element: str
    size: int
    lanes: int
    runs: Runs
    column: int

    @property
    def is_atomic(self) -> bool:
        """Whether it is an atomic operation."""
        return self.verb not in ("load", "store")


@dataclass(frozen=True)
class Member:
    """An access of a mark: to elements that lie at the mark's offsets from an address of its own.

    Attributes:
        argument: Whose memory it is.
        unit: Bytes by which offsets count.
        is_read: Whether it reads.
        is_written: Whether it writes.
    """

    argument: int
    unit: int
    is_read: bool
    is_written: bool


@dataclass(frozen=True)
class Mark:
    """Accesses that are marked together: they have the same offsets and the same mask.

    Attributes:
        kind: Kind of its offsets; ``SCALAR``: there is but one element, at the address.
        lanes: Number of elements.
        row: Number of elements along the last axis.
        mask: Kind of its mask.
        step: By how much the offsets of elements differ that lie side by side.
        bytes: Of an element.
        members: The accesses.
    """

    kind: int
    lanes: int
    row: int
    mask: int
    step: int
    bytes: int
    members: tuple[Member, ...]

    def words(self) -> list[int]:
        """Return it as the code that marks reads it."""
        members = [
            (HEAD + POINTER_WORDS * m.argument, m.unit, int(m.is_read), int(m.is_written))
            for m in self.members
        ]
        sizes = (self.kind, self.lanes, self.row, self.mask, self.step, self.bytes)
        return [*sizes, len(members), *(word for member in members for word in member)]


@dataclass(frozen=True)
class Plan:
    """What a kernel that counts counts.

    Attributes:
        is_apart: Whether it does nothing else: it runs after the kernel itself. Else it runs in its place.
        columns: Number of columns.
        arguments: Number of the kernel's own arguments.
        blocks: Its regions.
        sites: Its memory operations.
        granules: For each argument the bytes of memory that a cell stands for; 0: it has no cells.
        marks: What the kernel tells of its accesses.
    """

    is_apart: bool
    columns: int
    arguments: int
    blocks: tuple[Block, ...]
    sites: tuple[Site, ...]
    granules: tuple[int, ...]
    marks: tuple[Mark, ...]

    @property
    def first_mark(self) -> int:
        """Number of the word at which the marks begin."""
        return HEAD + POINTER_WORDS * self.arguments

    @property
    def first_row(self) -> int:
        """Number of the word at which the rows begin."""
        return self.first_mark + sum(
            MARK_WORDS + MEMBER_WORDS * len(mark.members) for mark in self.marks
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Plan:
        """Return the plan of :meth:`to_json`."""
        blocks = tuple(
            Block(
                _runs(b["runs"]),
                b["operations"],
                tuple((unit, dtype, n) for unit, dtype, n in b["work"]),
                tuple(Dot(**d) for d in b["dots"]),
            )
            for b in stored["blocks"]
        )
        sites = tuple(
            Site(**{**s, "runs": _runs(s["runs"]), "arguments": tuple(s["arguments"])})
            for s in stored["sites"]
        )
        marks = tuple(
            Mark(**{**m, "members": tuple(Member(**member) for member in m["members"])})
            for m in stored["marks"]
        )
        return Plan(
            stored["is_apart"],
            stored["columns"],
            stored["arguments"],
            blocks,
            sites,
            tuple(stored["granules"]),
            marks,
        )


def _runs(stored: Mapping[str, int]) -> Runs:
    """Return a sum whose columns were made texts by JSON."""
    return {int(column): factor for column, factor in stored.items()}


def plus(first: Runs, second: Runs, factor: int = 1) -> Runs:
    """Return a sum of two sums."""
    total = dict(first)
    for column, n in second.items():
        total[column] = total.get(column, 0) + factor * n
    return {column: n for column, n in total.items() if n}
