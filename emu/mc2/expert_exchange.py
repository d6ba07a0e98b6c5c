"""Exchange of rows with their experts, turn by turn: the common part of the MoE operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.world.array import SymmetricArray
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.kernels.core.dtypes import DTYPES
from emu.kernels.core.messages import shown
from emu.mc2.arguments import local_memory
from emu.mc2.hccl import Hccl
from emu.mc2.splitting import cores_for
from emu.mc2.token_permutation import (
    MAX_TURNS,
    Array,
    TokenPermutation,
    choose_turns,
    cut_turns,
)

MAX_ROWS = 1 << 40
"""Most rows that one expert can have from one rank."""

OPERATORS = (
    "alltoallv_gmm",
    "gmm_alltoallv",
    "moe_distribute_dispatch",
    "moe_distribute_combine",
)
"""The operators that agree by :meth:`ExpertCall.agree`."""
_HEAD_WORDS = 10

Turn = tuple[int, int]


def counts_of(name: str, value: object, ranks: int, experts: int) -> Array:
    """Return counts of rows, index rank * experts + expert, as an int64 matrix of them.

    Raises:
        ArgumentError: They are not ``ranks * experts`` integers of at least 0.
    """
    if isinstance(value, SymmetricArray | np.ndarray):
        array = local_memory(name, value)
    else:
        try:
            array = np.asarray(value)
        except Exception:  # noqa: BLE001 - NumPy raises whatever a strange object's methods raise
            raise ArgumentError(f"{name} must be integers, but got {shown(value)}") from None
    if array.dtype.kind not in "iu" and (array.size or array.dtype.kind == "O"):
        raise ArgumentError(f"{name} must be integers, but got {shown(value)}")
    if array.shape != (ranks * experts,):
        raise ArgumentError(
            f"{name} must have {ranks * experts} elements, one for each of {experts} experts on each of "
            f"{ranks} ranks, but got shape {array.shape}"
        )
    if array.size and int(array.min()) < 0:
        rank, expert = divmod(int(array.argmin()), experts)
        raise ArgumentError(
            f"{name} must not be negative, but got {int(array.min())} for expert {expert} of rank {rank}"
        )
    if array.size and int(array.max()) > MAX_ROWS:
        rank, expert = divmod(int(array.argmax()), experts)
        raise ArgumentError(
            f"{name} must be at most {MAX_ROWS}, but got {int(array.max())} for expert {expert} of rank "
            f"{rank}"
        )
    return array.astype(np.int64).reshape(ranks, experts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertCall:
    """The facts of one operator's call that all ranks compare before rows move.

    Attributes:
        operator: One of :data:`OPERATORS`.
        invariants: Values that must be the same on every rank, by the names that errors call them.
        row_bytes: Bytes of a row that moves.
        row_work: Multiply-adds of a row's product; 0 where rows are only copied.
        comm_turn: Number of turns; 0: automatic.
        names: The caller's names for the counts of rows that go out and that come in.
        back: Rows move from the experts to their owners.
    """

    operator: str
    invariants: dict[str, int | np.dtype[np.generic]]
    row_bytes: int
    row_work: int = 0
    comm_turn: int = 0
    names: tuple[str, str] = ("send_counts", "recv_counts")
    back: bool = False

    def agree(self, group: Group, owned: Array, held: Array | None) -> RowExchange:
        """Compare the arguments of all ranks, and cut the exchange into turns.

        Every member calls it. It moves counts only; no row has moved when it raises.

        Args:
            group: The ranks.
            owned: [ranks, experts]: rows of this rank for each expert of each rank.
            held: [ranks, experts]: rows of each rank for each expert of this rank. None: taken from the
                other ranks.

        Raises:
            ArgumentError: Ranks disagree; all of them raise.
        """
        ranks, experts = owned.shape
        same = {"the number of experts": experts, "comm_turn": self.comm_turn, **self.invariants}
        table = self._gather(group, same, owned, owned if held is None else held)
        _compare_heads(table, self.operator, same)
        counts = table[:, _HEAD_WORDS:].reshape(ranks, 2, ranks, experts)
        owners = counts[:, 0]  # [owner, holder, expert]
        if held is not None:
            _compare(owners, counts[:, 1].swapaxes(0, 1), self.names, self.back)
        permutation = TokenPermutation(owned, owners[:, group.my_pe].copy())
        busiest = max(int(owners.sum((1, 2)).max()), int(owners.sum((0, 2)).max()))
        turns = self.comm_turn or choose_turns(
            *(busiest, self.row_bytes, int(table[:, 1].max()), experts, ranks, group.link),
            cores=cores_for(group),
        )
        return RowExchange(permutation, cut_turns(owners.sum((0, 1)), turns))

    def _gather(
        self, group: Group, same: dict[str, int | np.dtype[np.generic]], owned: Array, held: Array
    ) -> Array:
        """Return a row per rank: a head of :data:`_HEAD_WORDS` words, then its counts."""
        # As many words whatever the operator: so operators that differ are reported by name.
        head = np.full(_HEAD_WORDS, -1, np.int64)
        head[:2] = OPERATORS.index(self.operator), self.row_work
        values = [DTYPES.index(v) if isinstance(v, np.dtype) else v for v in same.values()]
        head[2 : 2 + len(values)] = values
        try:
            return group.all_gather(np.concatenate([head, owned.reshape(-1), held.reshape(-1)]))
        except ArgumentError as error:
            raise ArgumentError(
                f"the number of experts must be the same on every rank, but rank {group.my_pe} has "
                f"{owned.shape[1]}: {error}"
            ) from error


class RowExchange:
    """One operator's call on one rank: agreed counts, and turns in which rows move.

    Attributes:
        permutation: This rank's counts.
        turns: First expert and end of each turn; the same on every rank.
    """

    def __init__(self, permutation: TokenPermutation, turns: list[Turn]) -> None:
        self.permutation = permutation
        self.turns = turns

    def post_out(self, hccl: Hccl, owned: Array, room: Array, turn: Turn, commit: bool) -> int:
        """Prepare the task that takes rows by rank to ``room``, where a turn's rows then lie by rank."""
        return self._post(
            hccl,
            owned,
            self.permutation.owned_runs(turn),
            room,
            self.permutation.held_runs(turn),
            commit,
        )

    def post_back(
        self, hccl: Hccl, held: Array, room: Array, turn: Turn, kept_by: int | None = None
    ) -> int:
        """Prepare the task that takes a turn's rows, which lie by rank in ``held``, to their owners.

        ``kept_by`` is this rank where its rows for its own experts are not to be moved.
        """
        sent, received = self.permutation.held_runs(turn), self.permutation.owned_runs(turn)
        if kept_by is not None:
            sent[0][kept_by] = received[0][kept_by] = 0
        return self._post(hccl, held, sent, room, received, commit=False)

    @staticmethod
    def _post(
        hccl: Hccl,
        source: Array,
        sent: tuple[Array, Array],
        target: Array,
        received: tuple[Array, Array],
        commit: bool,
    ) -> int:
        width = math.prod(source.shape[1:])
        numbers = [[int(n) * width for n in part] for part in (*sent, *received)]
        handle = hccl.AlltoAllV(
            source.reshape(-1), numbers[0], numbers[1], None,
            target.reshape(-1), numbers[2], numbers[3], commit=commit,
        )  # fmt: skip
        return int(handle)


class Staging:
    """Rows by expert, and a buffer for those turns whose rows an exchange leaves or finds by rank.

    Attributes:
        rows: [held rows, ...], by expert.
    """

    def __init__(self, permutation: TokenPermutation, turns: Sequence[Turn], rows: Array) -> None:
        self.rows = rows
        self._permutation = permutation
        direct = all(permutation.is_direct(turn) for turn in turns)
        self._by_rank = rows if direct else np.empty_like(rows)

    def buffer(self, turn: Turn) -> Array:
        """Return the memory that an exchange of a turn writes or reads: the rows where both orders agree."""
        return self.rows if self._permutation.is_direct(turn) else self._by_rank

    def to_experts(self, turn: Turn) -> None:
        """Move the rows of a turn, which have come, to their places by expert."""
        if not self._permutation.is_direct(turn):
            self._permutation.to_experts(self._by_rank, self.rows, turn)

    def to_ranks(self, turn: Turn) -> None:
        """Copy the rows of a turn, which are to be sent, to their places by rank."""
        if not self._permutation.is_direct(turn):
            self._permutation.to_ranks(self.rows, self._by_rank, turn)


def _compare_heads(
    table: Array, operator: str, same: dict[str, int | np.dtype[np.generic]]
) -> None:
    """Check that the heads of all ranks agree; ``same`` has this rank's values by name."""
    called = [OPERATORS[code] for code in table[:, 0].tolist()]
    if len(set(called)) > 1:
        raise ArgumentError(
            f"every rank must call the same operator, but got {', '.join(called)} by rank"
        )
    for column, (name, value) in enumerate(same.items(), 2):
        values = table[:, column].tolist()
        if len(set(values)) > 1:
            said = [str(DTYPES[v] if isinstance(value, np.dtype) else v) for v in values]
            raise ArgumentError(
                f"{name} must be the same on every rank, but got {', '.join(said)} by rank"
            )


def _compare(owners: Array, holders: Array, names: tuple[str, str], back: bool) -> None:
    """Check that owners and holders, both [owner, holder, expert], state the same counts."""
    wrong = np.argwhere(owners != holders)
    if not len(wrong):
        return
    owner, holder, expert = (int(n) for n in wrong[0])
    mine, theirs = int(owners[owner, holder, expert]), int(holders[owner, holder, expert])
    sender, receiver, sent, received = owner, holder, mine, theirs
    if back:
        sender, receiver, sent, received = holder, owner, theirs, mine
    raise ArgumentError(
        f"{names[1]} must match {names[0]}: for expert {expert} of rank {holder}, rank {sender} sends "
        f"{sent} rows to rank {receiver}, but rank {receiver} was told to receive {received}"
        f"{f' (the first of {len(wrong)} such counts)' if len(wrong) > 1 else ''}"
    )


def check_turns(comm_turn: object, experts: int) -> int:
    """Return ``comm_turn`` as an integer.

    Raises:
        ArgumentError: It is not in [0, number of experts], or exceeds a communicator's tasks.
    """
    most = min(experts, MAX_TURNS)
    turns = check.integer("comm_turn", comm_turn)
    if not 0 <= turns <= most:
        raise ArgumentError(
            f"comm_turn must be in [0, {most}] with {experts} experts per rank (a turn has at least one "
            f"expert, a call at most {MAX_TURNS} turns), but got {turns}"
        )
    return turns
