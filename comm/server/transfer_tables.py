"""The tables of a task that :func:`emu.comm.server.executor.execute` takes, built from the members' records.

Where a member's input lies follows from its record: in its symmetric heap, where the others read it in
place, or in its private memory, from where its server copies what the others need to a staging slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.engine.records import KEPT, MEMBER, NONE, PULL, STAGE
from emu.comm.layout import LINE, round_up
from emu.comm.server import executor
from emu.comm.server.tasks import NUMPY_DTYPES
from emu.comm.server.words import COMMITS
from emu.comm.tiling.enums import HcclCommand
from emu.kernels.reduce import CODES

_KINDS = {
    HcclCommand.ALLGATHER: executor.COPY,
    HcclCommand.ALLTOALL: executor.COPY,
    HcclCommand.ALLTOALLV: executor.COPY,
    HcclCommand.REDUCE_SCATTER: executor.REDUCE_SCATTER,
    HcclCommand.ALLREDUCE: executor.ALL_REDUCE,
}

_NO_STAGE, _NO_PULL, _NO_MEMBER = np.zeros(0, STAGE), np.zeros(0, PULL), np.zeros(0, MEMBER)


@dataclass(frozen=True, kw_only=True)
class Staging:
    """Symmetric memory that a task needs on each member: two slots of either kind."""

    slot: int
    """Bytes of a slot for private input."""
    result: int
    """Bytes of a slot for this member's slice of an all-reduce."""

    @property
    def total(self) -> int:
        """Bytes of all four."""
        return 2 * (self.slot + self.result)


@dataclass(frozen=True, kw_only=True)
class TransferTables:
    """The tables of one task on one member."""

    task: Array
    """``executor.TASK[1]``."""
    stage: Array
    """``STAGE[m]``."""
    pull: Array
    """``PULL[n]``; no rows for a reduction."""
    members: Array
    """``MEMBER[n]``; no rows for a copy."""


def staging_of(records: Array) -> Staging:
    """Return the memory that the members need; every member gets the same from the same records.

    Args:
        records: A record of each member.
    """
    first = records[0]
    command, size = int(first["command"]), NUMPY_DTYPES[int(first["dtype"])].itemsize
    n_pes, nbytes = len(records), int(first["count"]) * size
    slot = result = 0
    # One member that stages is enough: all must divide the memory alike, as the others compute its addresses.
    if not records["send_in_heap"].all():
        slot = nbytes
        if command in (HcclCommand.ALLTOALL, HcclCommand.REDUCE_SCATTER):
            slot = nbytes * n_pes
        elif command == HcclCommand.ALLTOALLV:
            slot = int(records["send_counts"].sum(axis=1).max()) * size
    if command == HcclCommand.ALLREDUCE and not records["recv_in_heap"].all():
        result = round_up(-(-int(first["count"]) // n_pes) * size, LINE)
    return Staging(slot=round_up(slot, LINE), result=result)


class _Builder:
    """Makes the tables of one member; columns are vectors over the members."""

    def __init__(self, records: Array, my: int, heaps: Words, staged: Words, need: Staging) -> None:
        self.records, self.my, self.heaps, self.staged, self.need = records, my, heaps, staged, need
        self.mine = records[my]
        self.n_pes = len(records)
        self.itemsize = NUMPY_DTYPES[int(self.mine["dtype"])].itemsize
        self.nbytes = int(self.mine["count"]) * self.itemsize
        self.stride = (int(self.mine["stride"]) or int(self.mine["count"])) * self.itemsize
        self.members: Words = np.arange(self.n_pes)
        start = int(heaps[my]) if self.mine["recv_in_heap"] else 0
        self.output = start + int(self.mine["recv"])
        self.stages = need.slot > 0 and not self.mine["send_in_heap"]
        self.turns = int(self.mine["repeat"])

    def tables(self) -> tuple[Array, Array, Array]:
        """Return the stage, the pull and the member table."""
        command = int(self.mine["command"])
        if command == HcclCommand.ALLTOALLV:
            return self._tables_by_counts()
        if command in (HcclCommand.ALLTOALL, HcclCommand.REDUCE_SCATTER):
            return self._tables_by_blocks(command == HcclCommand.REDUCE_SCATTER)
        whole = self._stage_rows(int(self.mine["send"]), self.nbytes, np.zeros(1, np.int64))
        sources = self._sources(0, 0)
        if command == HcclCommand.ALLREDUCE:
            return whole, _NO_PULL, self._members(sources)
        return whole, self._pull(sources, self.nbytes, self.members * self.stride), _NO_MEMBER

    def _tables_by_blocks(self, reduces: bool) -> tuple[Array, Array, Array]:
        """Member ``p`` needs block ``p`` of each."""
        my, nbytes = self.my, self.nbytes
        sources = self._sources(my * self.stride, my * nbytes)
        others = self.members != my
        start = int(self.mine["send"]) + self.members * self.stride
        stage = self._stage_rows(start[others], nbytes, (self.members * nbytes)[others])
        if reduces:
            return stage, _NO_PULL, self._members(sources)
        return stage, self._pull(sources, nbytes, self.members * self.stride), _NO_MEMBER

    def _tables_by_counts(self) -> tuple[Array, Array, Array]:
        """Member ``p`` needs of each the part that its counts and displacements describe."""
        my, size, sent = self.my, self.itemsize, self.records["send_counts"]
        packed = np.cumsum(sent, axis=1) - sent
        sources = self._sources(self.records["send_displs"][:, my] * size, packed[:, my] * size)
        others = self.members != my
        start = int(self.mine["send"]) + self.mine["send_displs"] * size
        nbytes, offsets = sent[my] * size, packed[my] * size
        stage = self._stage_rows(start[others], nbytes[others], offsets[others])
        return (
            stage,
            self._pull(sources, sent[:, my] * size, self.mine["recv_displs"] * size),
            _NO_MEMBER,
        )

    def _sources(self, direct: Words | int, packed: Words | int) -> tuple[Words, Words]:
        """Return where the parts for this member lie: addresses, and distances of the other slot or 0.

        Args:
            direct: Byte offsets of the parts from where the members' inputs start.
            packed: Byte offsets of the parts in their staging slots.
        """
        there = self.records
        in_heap = there["send_in_heap"] != 0
        base = there["send"] + np.where(in_heap, self.heaps, 0) + direct
        # This member reads its own input in place, too; the others cannot if it is private.
        in_place = in_heap | (self.members == self.my)
        return (
            np.where(in_place, base, self.staged + packed),
            np.where(in_place, 0, self.need.slot),
        )

    def _stage_rows(self, start: Words | int, piece: Words | int, offset: Words) -> Array:
        """Return the rows of private parts that the others get.

        Args:
            start: Addresses.
            piece: Bytes per turn.
            offset: Byte offsets in the staging slot.
        """
        if not self.stages:
            return _NO_STAGE
        table = np.zeros(len(offset), STAGE)
        table["source"], table["offset"], table["piece"] = start, offset, piece
        table["nbytes"] = piece * self.turns
        return table

    def _pull(self, sources: tuple[Words, Words], piece: Words | int, target: Words) -> Array:
        """Return where this member fetches from each, and where to.

        Args:
            sources: Result of :meth:`_sources`.
            piece: Bytes per turn.
            target: Byte offsets in the output.
        """
        pull = np.zeros(self.n_pes, PULL)
        pull["source"], pull["other_slot"] = sources
        pull["target"] = self.output + target
        pull["piece"] = piece
        if not self.mine["keeps_own"]:
            pull["piece"][self.my] = 0
        pull["nbytes"] = pull["piece"] * self.turns
        return pull

    def _members(self, sources: tuple[Words, Words]) -> Array:
        """Return where a reduction reads inputs, and the slices that the others reduce."""
        there, table = self.records, np.zeros(self.n_pes, MEMBER)
        table["source"], table["other_slot"] = sources
        in_heap = there["recv_in_heap"] != 0
        kept = self.staged + 2 * self.need.slot
        table["result"] = np.where(in_heap, self.heaps + there["recv"], kept)
        table["other_result"] = np.where(in_heap, 0, self.need.result)
        return table


def tables_of(
    records: Array, my: int, heaps: Words, staged: Words, need: Staging
) -> tuple[Array, Array, Array]:
    """Return the stage, the pull and the member table of a member; for the arguments see :func:`build`."""
    return _Builder(records, my, heaps, staged, need).tables()


def build(
    records: Array,
    my: int,
    *,
    heaps: Words,
    staged: Words,
    need: Staging,
    number: int,
    first_turn: int,
    scratch: int,
) -> TransferTables:
    """Make the tables of a task.

    Args:
        records: A record of each member; they fit together.
        my: This member.
        heaps: Address of each member's heap.
        staged: Address of each member's staging memory.
        need: How it is divided.
        number: Number of the task in the communicator.
        first_turn: Number of its first turn in the communicator.
        scratch: Address of memory for reductions.

    Returns:
        The tables.
    """
    builder = _Builder(records, my, heaps, staged, need)
    mine = records[my]
    command, dtype = int(mine["command"]), NUMPY_DTYPES[int(mine["dtype"])]
    stage, pull, members = builder.tables()
    sliced = command == HcclCommand.ALLREDUCE
    count = int(mine["count"])
    fields = {
        "my": my,
        "n_pes": len(records),
        "number": number,
        "next_turn": 0,
        "turns": builder.turns,
        "first_turn": first_turn,
        "commit_word": COMMITS + int(mine["slot"]),
        "commits_before": int(mine["first"]),
        "wait_policy": int(mine["wait_policy"]),
        "answer_policy": int(mine["answer_policy"]),
        "kind": _KINDS[HcclCommand(command)],
        "itemsize": dtype.itemsize,
        "count": count,
        "total": count * builder.turns,
        "sliced": int(sliced),
        "dtype_code": CODES[dtype],
        "op": int(mine["op"]),
        "output": builder.output,
        "staging": int(staged[my]),
        "slot_bytes": need.slot,
        "results": int(staged[my]) + 2 * need.slot,
        "result_bytes": need.result,
        "delivery": KEPT if sliced and not mine["recv_in_heap"] else NONE,
        "scratch": scratch,
    }
    task = np.array([tuple(fields[name] for name in executor.TASK.names or ())], executor.TASK)
    return TransferTables(task=task, stage=stage, pull=pull, members=members)
