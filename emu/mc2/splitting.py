"""How the rows of an operator are cut into turns of communication."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emu.comm.errors import ArgumentError

MAX_REPEAT = 255
"""Turns that one task of the communication server can have."""

MAX_TURNS = 8
"""Turns when the operator chooses. What cannot be hidden is one turn's worth, so eight leave 12 % of it."""

LEAST_ROWS = 64
"""Rows that a chosen tile has at least. Packing the weight for a product of 64 rows costs about a tenth of
the product, for 32 rows about three tenths."""

UNIT = 16
"""Rows that a chosen tile is a multiple of, so that few products end in a ragged block."""

WORTH = 1 << 24
"""Multiply-adds that a chosen turn has at least: a few hundred microseconds, against which posting a turn
and waiting for it do not count."""


@dataclass(frozen=True, slots=True)
class TileSplit:
    """Rows cut into ``tiles`` full tiles, and ``tails`` shorter (or longer) ones after them.

    Attributes:
        tile: Rows of a full tile.
        tiles: How many there are, at least 1.
        tail: Rows of a tail; 0 where there is none.
        tails: How many tails there are.
    """

    tile: int
    tiles: int
    tail: int = 0
    tails: int = 0

    @property
    def rows(self) -> int:
        """Rows in all."""
        return self.tile * self.tiles + self.tail * self.tails

    @property
    def turns(self) -> int:
        """Turns in all: one for each tile and tail."""
        return self.tiles + self.tails

    @property
    def longest(self) -> int:
        """Rows of the longest turn."""
        return max(self.tile, self.tail)

    @property
    def tail_start(self) -> int:
        """The first row after the full tiles."""
        return self.tile * self.tiles

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the first row and the number of rows of each turn, in order."""
        for i in range(self.tiles):
            yield i * self.tile, self.tile
        for i in range(self.tails):
            yield self.tail_start + i * self.tail, self.tail

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield the first row, the rows of a turn and the turns, of the tiles and of the tails."""
        yield 0, self.tile, self.tiles
        if self.tails:
            yield self.tail_start, self.tail, self.tails

    @classmethod
    def by_rows(cls, rows: int, tile: int) -> TileSplit:
        """Cut into tiles of ``tile`` rows and one tail of what is left."""
        if not 1 <= tile <= rows:
            raise ArgumentError(f"tile_rows must be in [1, {rows}], but got {tile}")
        tiles, tail = divmod(rows, tile)
        return cls(tile, tiles, tail, 1 if tail else 0)

    @classmethod
    def by_turns(cls, rows: int, turns: int) -> TileSplit:
        """Cut into exactly ``turns`` turns whose rows differ by one unit at most, the longer ones first.

        The unit is 16 rows where that divides ``rows`` and each turn gets at least one; else one row.
        """
        if not 1 <= turns <= rows:
            raise ArgumentError(
                f"comm_turn must be in [0, {rows}] for {rows} rows, but got {turns}"
            )
        if rows >= turns * UNIT and rows % UNIT == 0:
            return _even(rows // UNIT, turns, UNIT)
        return _even(rows, turns, 1)

    @classmethod
    def chosen(cls, rows: int, work: int) -> TileSplit:
        """Cut as seems best for ``rows`` rows with ``work`` multiply-adds in all.

        At most ``MAX_TURNS`` turns, as many as give each ``LEAST_ROWS`` rows and ``WORTH`` multiply-adds.
        Tiles are multiples of ``UNIT`` rows, and a tail takes what is left.
        """
        turns = max(1, min(MAX_TURNS, rows // LEAST_ROWS, work // WORTH))
        if turns == 1:
            return cls(rows, 1)
        tile = -(-rows // (turns * UNIT)) * UNIT
        return cls.by_rows(rows, tile)


def _even(count: int, turns: int, unit: int) -> TileSplit:
    small, more = divmod(count, turns)
    if more == 0:
        return TileSplit(small * unit, turns)
    return TileSplit((small + 1) * unit, more, small * unit, turns - more)


def split_rows(rows: int, work: int, comm_turn: int, tile_rows: int | None) -> TileSplit:
    """Cut ``rows`` rows as the arguments of an operator ask for.

    Args:
        rows: Rows to cut.
        work: Multiply-adds in all.
        comm_turn: Number of turns; 0 has it chosen (:meth:`TileSplit.chosen`).
        tile_rows: Rows of a full tile, in place of ``comm_turn``.

    Returns:
        The cut.

    Raises:
        ArgumentError: A number of turns or rows that cannot be, or both given.
    """
    if isinstance(comm_turn, bool) or not isinstance(comm_turn, int) or comm_turn < 0:
        raise ArgumentError(f"comm_turn must be an integer of at least 0, but got {comm_turn!r}")
    if tile_rows is not None:
        if isinstance(tile_rows, bool) or not isinstance(tile_rows, int):
            raise ArgumentError(f"tile_rows must be an integer, but got {tile_rows!r}")
        if comm_turn:
            raise ArgumentError(f"comm_turn must be 0 with tile_rows, but got {comm_turn}")
        split = TileSplit.by_rows(rows, tile_rows)
    elif comm_turn:
        split = TileSplit.by_turns(rows, comm_turn)
    else:
        split = TileSplit.chosen(rows, work)
    if max(split.tiles, split.tails) > MAX_REPEAT:
        raise ArgumentError(
            f"an operator must have at most {MAX_REPEAT} equal turns, but got {split.tiles}"
        )
    return split
