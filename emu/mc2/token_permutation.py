"""Orders of rows on their way between the ranks that own them and the experts that process them.

Every rank has the same number of experts, ``e``. A rank's own rows, for all experts of the group, lie in
the order of (rank, expert): *by rank*. The rows it receives, for its own experts from all ranks, lie
in the order of (expert, rank): *by expert*, so that each expert's rows are contiguous.

A turn of the exchange moves the rows of a few successive experts of every rank. By rank, these are one run
of rows for each rank; by expert, a single run. Inside that run an exchange leaves (or finds) the rows by rank,
since it moves one run per rank: the two orders agree only if the turn has a single expert.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.link_model import Link
from emu.mc2.splitting import turns_worth

Array = np.ndarray[Any, Any]

MAX_TURNS = 62
"""Most turns: the tasks of a communicator, less one for scales."""

COPY_TURN_BYTES = 1 << 20
"""Least bytes of one turn on the busiest rank, where rows are only copied and quantised: a turn has a fixed cost
of some 100 µs."""
_MANY_TURNS = 16


class TokenPermutation:
    """One rank's counts of rows, and the positions of the rows in both orders.

    Attributes:
        owned: [ranks, experts], int64: rows of this rank for each expert of each rank.
        held: [ranks, experts], int64: rows of each rank for each expert of this rank.
        owned_rows: Number of rows of this rank.
        held_rows: Number of rows for its experts.
        expert_starts: [experts + 1]: first row of each expert, by expert, and the end of the last.
    """

    def __init__(self, owned: Array, held: Array) -> None:
        self.owned = owned
        self.held = held
        self.owned_rows = int(owned.sum())
        self.held_rows = int(held.sum())
        self.expert_starts = _starts(held.sum(0))
        self._owned_starts = _starts(owned.reshape(-1))[:-1].reshape(owned.shape)

    def parts(self, expert: int, without: int | None = None) -> list[slice]:
        """Return the rows of one expert, by expert; ``without`` this rank's own, if given, in two parts."""
        rows = slice(int(self.expert_starts[expert]), int(self.expert_starts[expert + 1]))
        if without is None:
            return [rows]
        _, kept = self.kept_rows(expert, without)
        return [slice(rows.start, kept.start), slice(kept.stop, rows.stop)]

    def kept_rows(self, expert: int, rank: int) -> tuple[slice, slice]:
        """Return the rows that this rank, number ``rank``, has for its own expert.

        Returns:
            Their positions by rank, and by expert.
        """
        count = int(self.held[rank, expert])
        owned = int(self._owned_starts[rank, expert])
        held = int(self.expert_starts[expert] + self.held[:rank, expert].sum())
        return slice(owned, owned + count), slice(held, held + count)

    def held_run(self, turn: tuple[int, int]) -> slice:
        """Return the rows of experts ``turn[0]`` up to ``turn[1]``, by expert."""
        return slice(int(self.expert_starts[turn[0]]), int(self.expert_starts[turn[1]]))

    def owned_runs(self, turn: tuple[int, int]) -> tuple[Array, Array]:
        """Return lengths and starts of a turn's runs, one per rank, among the rows by rank."""
        return self.owned[:, slice(*turn)].sum(1), self._owned_starts[:, turn[0]]

    def held_runs(self, turn: tuple[int, int]) -> tuple[Array, Array]:
        """Return lengths and starts of a turn's runs, one per rank, as an exchange leaves or finds them."""
        counts = self.held[:, slice(*turn)].sum(1)
        return counts, self.expert_starts[turn[0]] + _starts(counts)[:-1]

    def is_direct(self, turn: tuple[int, int]) -> bool:
        """Return whether both orders of a turn's rows are the same."""
        return turn[1] - turn[0] == 1 or len(self.held) == 1

    def to_experts(self, source: Array, target: Array, turn: tuple[int, int]) -> None:
        """Copy the rows of a turn from the order by rank, as an exchange leaves them, to that by expert."""
        _take(source, self._index(turn), target, self.held_run(turn))

    def to_ranks(self, source: Array, target: Array, turn: tuple[int, int]) -> None:
        """Copy the rows of a turn from the order by expert to that by rank, as an exchange finds them."""
        index = self._index(turn)
        inverse = np.empty_like(index)
        inverse[index] = np.arange(len(index))
        _take(source, inverse, target, self.held_run(turn))

    def _index(self, turn: tuple[int, int]) -> Array:
        """Return, for each row of a turn by expert, its number among the same rows by rank."""
        counts = self.held[:, slice(*turn)]
        by_rank = _starts(counts.reshape(-1))[:-1].reshape(counts.shape)
        lengths = counts.T.reshape(-1)
        shift = by_rank.T.reshape(-1) - _starts(lengths)[:-1]
        return np.repeat(shift, lengths) + np.arange(int(lengths.sum()))


def cut_turns(loads: Array, turns: int) -> list[tuple[int, int]]:
    """Cut experts into runs of about equal load.

    Args:
        loads: Rows of each expert.
        turns: Number of runs, 1 to the number of experts.

    Returns:
        First expert and end of each run; no run is empty.
    """
    experts = len(loads)
    sums = np.cumsum(loads)
    ends: list[int] = []
    for i in range(1, turns):
        # End at the expert where the sum comes nearest to its share; each run keeps at least one.
        share = int(sums[-1]) * i
        end = int(np.argmin(np.abs(sums * turns - share))) + 1
        lowest = ends[-1] + 1 if ends else 1
        ends.append(min(max(end, lowest), experts - turns + i))
    return list(zip([0, *ends], [*ends, experts], strict=True))


def choose_turns(
    rows: int,
    row_bytes: int,
    row_work: int,
    experts: int,
    ranks: int,
    link: Link | None,
    *,
    cores: int | None = None,
) -> int:
    """Return the number of turns in which the ranks should move their rows.

    Args:
        rows: Rows of the rank that moves most.
        row_bytes: Bytes of a row.
        row_work: Multiply-adds of a row's product; 0 where rows are only copied.
        experts: Number of experts per rank, which limits the turns.
        ranks: Number of ranks.
        link: The emulated link between them.
        cores: Cores of the machine. Default: those it has.
    """
    if row_work:
        turns = turns_worth(rows * row_work, rows * row_bytes // ranks, ranks, link, cores=cores)
    else:
        turns = min(_MANY_TURNS, rows * row_bytes // COPY_TURN_BYTES)
    return max(1, min(turns, experts))


def _starts(counts: Array) -> Array:
    """Return the start of each run, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _take(source: Array, index: Array, target: Array, run: slice) -> None:
    bits = np.dtype(f"u{source.itemsize}")  # NumPy knows no bf16
    part, out = source[run].view(bits), target[run].view(bits)
    if out.size:
        np.take(part, index, axis=0, out=out, mode="clip")
