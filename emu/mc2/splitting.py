"""Division of an operator's rows into turns of communication."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from emu.comm.errors import ArgumentError
from emu.comm.link_model import Link
from emu.comm.world.checks import check
from emu.comm.world.current import spans_hosts
from emu.comm.world.group import Group

MAX_REPEAT = 255
"""Most turns of one task of the communication server."""

MAX_TURNS = 16
"""Most turns that the operator chooses: one turn cannot be hidden, which is 6 % of sixteen."""

UNIT = 32
"""Unit of the rows of a chosen tile: with a packed weight, a product of 32 rows is as fast as a large one; one of
48 is a tenth slower, because its last block is ragged."""

TURN_S = 100e-6
"""Cost of one more turn in seconds: posting it, waking the servers, and the cache lines they evict."""

_MULTIPLY_ADDS_PER_S = 1e11
_COPIED_BYTES_PER_S = 4e9


def turns_worth(
    work: int, pair_bytes: int, n_pes: int, link: Link | None, *, cores: int | None = None
) -> int:
    """Return the number of turns that should take the least time.

    In t turns all but one t-th of the shorter of computation and communication is hidden, and each turn
    costs ``TURN_S``: the best t is the root of their quotient. The time of the computation is that of a core
    with 1e11 multiply-adds per second; the time of the communication is the link's, or 4 GB/s for
    all that a PE fetches. Where nothing sleeps, without a link, nothing is hidden unless there is a core for
    every PE's server too: one turn is then best.

    Args:
        work: Multiply-adds of a PE.
        pair_bytes: Bytes that a PE fetches from each other PE.
        n_pes: Size of the group.
        link: The emulated link of the world.
        cores: Cores of the machine. Default: those it has.
    """
    cores = cores or os.cpu_count() or 1
    # Every PE has a server thread: without a core for each, copying takes time from multiplying.
    if n_pes == 1 or (link is None and 2 * n_pes > cores):
        return 1
    moving = pair_bytes * (n_pes - 1) / _COPIED_BYTES_PER_S
    if link is not None:
        moving = max(moving, pair_bytes / link.bandwidth)
    return max(1, min(MAX_TURNS, int((min(work / _MULTIPLY_ADDS_PER_S, moving) / TURN_S) ** 0.5)))


def cores_for(group: Group) -> int | None:
    """Return the cores for which :func:`turns_worth` chooses in a group; None: those of this machine.

    Every member must choose the same number, and hosts may differ: over hosts they are enough for every PE and its server.
    """
    return 2 * group.n_pes if spans_hosts(group) else None


@dataclass(frozen=True, slots=True)
class TileSplit:
    """Rows cut into ``tiles`` full tiles, and ``tails`` shorter (or longer) ones after them.

    Attributes:
        tile: Rows of a full tile, at least 1.
        tiles: Number of full tiles, at least 1.
        tail: Rows of a tail; 0 if there is none.
        tails: Number of tails.

    Raises:
        ArgumentError: A field is not such an integer.
    """

    tile: int
    tiles: int
    tail: int = 0
    tails: int = 0

    def __post_init__(self) -> None:
        check.integer("tile", self.tile, 1)
        check.integer("tiles", self.tiles, 1)
        check.integer("tail", self.tail, 0)
        check.integer("tails", self.tails, 0)
        if bool(self.tail) != bool(self.tails):
            raise ArgumentError(
                f"tail and tails must both be 0 or both be more, but got {self.tail} and {self.tails}"
            )

    @property
    def rows(self) -> int:
        """Total number of rows."""
        return self.tile * self.tiles + self.tail * self.tails

    @property
    def turns(self) -> int:
        """Number of turns: one for each tile and tail."""
        return self.tiles + self.tails

    @property
    def longest(self) -> int:
        """Number of rows of the longest turn."""
        return max(self.tile, self.tail)

    @property
    def tail_start(self) -> int:
        """First row after the full tiles."""
        return self.tile * self.tiles

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the first row and the number of rows of each turn, in order."""
        for i in range(self.tiles):
            yield i * self.tile, self.tile
        for i in range(self.tails):
            yield self.tail_start + i * self.tail, self.tail

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield (first row, rows of a turn, number of turns) of the tiles, then of the tails."""
        yield 0, self.tile, self.tiles
        if self.tails:
            yield self.tail_start, self.tail, self.tails

    @classmethod
    def by_rows(cls, rows: int, tile: int) -> TileSplit:
        """Cut into tiles of ``tile`` rows and one tail for the rest.

        Raises:
            ArgumentError: ``rows`` is below 1, or ``tile`` not in [1, rows].
        """
        rows = check.integer("rows", rows, 1)
        tile = check.integer("tile_rows", tile, 1, rows)
        tiles, tail = divmod(rows, tile)
        return cls(tile, tiles, tail, 1 if tail else 0)

    @classmethod
    def by_turns(cls, rows: int, turns: int) -> TileSplit:
        """Cut into exactly ``turns`` turns whose rows differ by one unit at most, the longer ones first.

        The unit is 32 rows where that divides ``rows`` and each turn gets at least one; else one row.

        Raises:
            ArgumentError: ``rows`` is below 1, or ``turns`` not in [1, rows].
        """
        rows = check.integer("rows", rows, 1)
        turns = check.integer("comm_turn", turns, 0)
        if not 1 <= turns <= rows:
            raise ArgumentError(
                f"comm_turn must be in [0, {rows}] for {rows} rows, but got {turns}"
            )
        # Whole units keep the blocks of a packed weight's products full.
        if rows >= turns * UNIT and rows % UNIT == 0:
            return _even(rows // UNIT, turns, UNIT)
        return _even(rows, turns, 1)

    @classmethod
    def chosen(cls, rows: int, turns: int) -> TileSplit:
        """Cut into about ``turns`` turns: tiles of a multiple of ``UNIT`` rows, and a tail for the rest.

        Raises:
            ArgumentError: ``rows`` is below 1, or ``turns`` below 0.
        """
        rows = check.integer("rows", rows, 1)
        turns = max(1, check.integer("turns", turns, 0))
        tile = max(1, round(rows / (turns * UNIT))) * UNIT
        if turns <= 1 or tile >= rows:
            return cls(rows, 1)
        return cls.by_rows(rows, tile)


def _even(count: int, turns: int, unit: int) -> TileSplit:
    small, more = divmod(count, turns)
    if more == 0:
        return TileSplit(small * unit, turns)
    return TileSplit((small + 1) * unit, more, small * unit, turns - more)


def split_rows(rows: int, comm_turn: int, tile_rows: int | None, worth: int) -> TileSplit:
    """Cut ``rows`` rows as an operator's arguments request.

    Args:
        rows: Rows to cut.
        comm_turn: Number of turns; 0: automatic.
        tile_rows: Rows of a full tile, in place of ``comm_turn``.
        worth: Number of turns to choose (:func:`turns_worth`).

    Returns:
        The cut.

    Raises:
        ArgumentError: The number of turns or rows is impossible, or both are given.
    """
    comm_turn = check.integer("comm_turn", comm_turn, 0)
    if tile_rows is not None:
        tile_rows = check.integer("tile_rows", tile_rows, 1, rows)
        if comm_turn:
            raise ArgumentError(f"comm_turn must be 0 with tile_rows, but got {comm_turn}")
        split = TileSplit.by_rows(rows, tile_rows)
    elif comm_turn:
        split = TileSplit.by_turns(rows, comm_turn)
    else:
        split = TileSplit.chosen(rows, worth)
    if max(split.tiles, split.tails) > MAX_REPEAT:
        raise ArgumentError(
            f"an operator must have at most {MAX_REPEAT} equal turns, but got {split.tiles}"
        )
    return split
