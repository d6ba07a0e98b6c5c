"""Rows to their experts and back, turn by turn: what the MoE operators have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.world.array import SymmetricArray
from emu.comm.world.world import Group
from emu.kernels.core.dtypes import BFLOAT16, DTYPES
from emu.kernels.core.messages import shown
from emu.mc2.arguments import integer, local
from emu.mc2.expert_routes import MAX_TURNS, Array, Routes, choose_turns, cut_turns
from emu.mc2.hccl import Hccl

HALF = (np.dtype(np.float16), BFLOAT16)
INT8, FLOAT32 = np.dtype(np.int8), np.dtype(np.float32)

MAX_ROWS = 1 << 40
"""Rows that one expert can have from one rank."""

OPERATORS = (
    "alltoallv_gmm",
    "gmm_alltoallv",
    "moe_distribute_dispatch",
    "moe_distribute_combine",
)
"""The operators that agree by :func:`agree`."""
_HEAD_WORDS = 10

Turn = tuple[int, int]


def matrix(
    name: str, value: Any, shape: tuple[int | str, ...], dtypes: Sequence[np.dtype[Any]]
) -> Array:
    """Return an operand as an ndarray of any strides.

    Args:
        name: What errors call it.
        value: The operand: an ndarray or a SymmetricArray.
        shape: Its extents; a letter stands for any.
        dtypes: What it may hold.

    Raises:
        ArgumentError: It is something else.
    """
    array = local(name, value)
    fits = array.ndim == len(shape) and all(
        isinstance(wanted, str) or wanted == extent
        for wanted, extent in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted_shape = ", ".join(str(n) for n in shape)
        raise ArgumentError(f"{name} must have shape [{wanted_shape}], but got {array.shape}")
    if array.dtype not in dtypes:
        names = ", ".join(str(d) for d in dtypes)
        raise ArgumentError(f"{name} must have dtype {names}, but got {array.dtype}")
    return array


def counts_of(name: str, value: Any, ranks: int, experts: int) -> Array:
    """Return counts of rows, index rank * experts + expert, as an int64 matrix of them.

    Raises:
        ArgumentError: They are no ``ranks * experts`` integers of at least 0.
    """
    if isinstance(value, SymmetricArray | np.ndarray):
        array = local(name, value)
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


class Exchange:
    """One operator's call on one rank: agreed counts, and turns in which rows move.

    Attributes:
        routes: This rank's counts.
        turns: First expert and end of each turn; the same on every rank.
    """

    def __init__(self, routes: Routes, turns: list[Turn]) -> None:
        self.routes = routes
        self.turns = turns

    def post_out(self, hccl: Hccl, owned: Array, room: Array, turn: Turn, commit: bool) -> int:
        """Prepare what takes rows by rank to ``room``, where a turn's rows then lie by rank."""
        return self._post(
            hccl, owned, self.routes.owned_runs(turn), room, self.routes.held_runs(turn), commit
        )

    def post_back(
        self,
        hccl: Hccl,
        held: Array,
        room: Array,
        turn: Turn,
        commit: bool,
        kept_by: int | None = None,
    ) -> int:
        """Prepare what takes a turn's rows, which lie by rank in ``held``, to their owners.

        ``kept_by`` is this rank where its rows for its own experts are not to be moved.
        """
        sent, received = self.routes.held_runs(turn), self.routes.owned_runs(turn)
        if kept_by is not None:
            sent[0][kept_by] = received[0][kept_by] = 0
        return self._post(hccl, held, sent, room, received, commit)

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


def agree(
    group: Group,
    operator: str,
    owned: Array,
    held: Array | None,
    alike: dict[str, int | np.dtype[Any]],
    row_bytes: int,
    row_work: int = 0,
    comm_turn: int = 0,
    names: tuple[str, str] = ("send_counts", "recv_counts"),
    back: bool = False,
) -> Exchange:
    """Compare what the ranks have been told, and cut the exchange into turns.

    Every member calls it. It moves counts only; no row has moved when it raises.

    Args:
        group: The ranks.
        operator: Which operator this is.
        owned: Rows of this rank for each expert of each rank.
        held: Rows of each rank for each expert of this rank. Default: ask the others.
        alike: What must be the same on every rank, by name.
        row_bytes: Bytes of a row that moves.
        row_work: Multiply-adds of a row's product; 0 where rows are only copied.
        comm_turn: Number of turns; 0 chooses.
        names: What the caller calls the numbers of rows that go out and that come in.
        back: Rows move from the experts to their owners.

    Raises:
        ArgumentError: Ranks disagree; all of them raise.
    """
    ranks, experts = owned.shape
    same = {"the number of experts": experts, "comm_turn": comm_turn, **alike}
    # As many words whatever the operator: so operators that differ are told by name.
    head = np.full(_HEAD_WORDS, -1, np.int64)
    head[:2] = OPERATORS.index(operator), row_work
    values = [DTYPES.index(v) if isinstance(v, np.dtype) else v for v in same.values()]
    head[2 : 2 + len(values)] = values
    words = np.concatenate([head, owned.reshape(-1), (owned if held is None else held).reshape(-1)])
    try:
        table = group.all_gather(words)
    except ArgumentError as error:
        raise ArgumentError(
            f"the number of experts must be the same on every rank, but rank {group.my_pe} has "
            f"{experts}: {error}"
        ) from error
    _compare_heads(table, operator, same)
    counts = table[:, _HEAD_WORDS:].reshape(ranks, 2, ranks, experts)
    owners = counts[:, 0]  # [owner, holder, expert]
    if held is not None:
        _compare(owners, counts[:, 1].swapaxes(0, 1), names, back)
    routes = Routes(owned, owners[:, group.my_pe].copy())
    busiest = max(int(owners.sum((1, 2)).max()), int(owners.sum((0, 2)).max()))
    turns = comm_turn or choose_turns(
        busiest, row_bytes, int(table[:, 1].max()), experts, ranks, group.link
    )
    return Exchange(routes, cut_turns(owners.sum((0, 1)), turns))


def _compare_heads(table: Array, operator: str, same: dict[str, int | np.dtype[Any]]) -> None:
    """Refuse heads that differ; ``same`` is what this rank's says, by name."""
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
    """Refuse counts, both [owner, holder, expert], where one rank says other than the other."""
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


def check_turns(comm_turn: Any, experts: int) -> int:
    """Return ``comm_turn`` as an integer.

    Raises:
        ArgumentError: It is not in [0, number of experts], or more than a communicator takes.
    """
    most = min(experts, MAX_TURNS)
    turns = integer("comm_turn", comm_turn, -1 << 70)
    if not 0 <= turns <= most:
        raise ArgumentError(
            f"comm_turn must be in [0, {most}] with {experts} experts a rank (a turn has at least one "
            f"expert, a call at most {MAX_TURNS} turns), but got {turns}"
        )
    return turns
