"""The tables of a task that :func:`emu.comm.server.executor.execute` takes, built from the members' records.

Where a member's input lies follows from its record: in its symmetric heap, where the others read it in
place, or in its private memory, from where its server copies what the others need to a staging slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.comm.layout import LINE, round_up
from emu.comm.server import executor
from emu.comm.server.area import COMMITS
from emu.comm.server.tasks import NUMPY_DTYPES
from emu.comm.tiling.enums import HcclCommand
from emu.kernels.reduce import CODES

Array = np.ndarray[Any, Any]
Words = np.ndarray[Any, np.dtype[np.int64]]

_KINDS = {
    HcclCommand.ALLGATHER: executor.COPY,
    HcclCommand.ALLTOALL: executor.COPY,
    HcclCommand.ALLTOALLV: executor.COPY,
    HcclCommand.REDUCE_SCATTER: executor.REDUCE_SCATTER,
    HcclCommand.ALLREDUCE: executor.ALL_REDUCE,
}


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
    """``executor.STAGE[m]``."""
    pull: Array
    """``executor.PULL[n]``."""


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
        self.pull = np.zeros(self.n_pes, executor.PULL)

    def tables(self) -> tuple[Array, Array]:
        """Return the stage and the pull table."""
        command = int(self.mine["command"])
        if command == HcclCommand.ALLTOALLV:
            return self._tables_by_counts(), self.pull
        if command in (HcclCommand.ALLTOALL, HcclCommand.REDUCE_SCATTER):
            return self._tables_by_blocks(), self.pull
        self._fetch(0, 0, self.nbytes, self.members * self.stride)
        if command == HcclCommand.ALLREDUCE:
            self._fetch_results()
        whole = (int(self.mine["send"]), self.nbytes, self.nbytes, 0)
        return np.array([whole] if self.stages else [], executor.STAGE), self.pull

    def _fetch(self, direct: Any, packed: Any, nbytes: Any, target: Any) -> None:
        """Fill in where this member fetches from each, and where to.

        Args:
            direct: Byte offsets of its parts from where their inputs start.
            packed: Byte offsets of its parts in their staging slots.
            nbytes: Bytes of the parts, by which they walk on from turn to turn.
            target: Byte offsets in the output.
        """
        pull, there = self.pull, self.records
        in_heap = there["send_in_heap"] != 0
        base = there["send"] + np.where(in_heap, self.heaps, 0) + direct
        # This member reads its own input in place, too; the others cannot if it is private.
        in_place = in_heap | (self.members == self.my)
        pull["source"] = np.where(in_place, base, self.staged + packed)
        pull["step"] = np.where(in_place, nbytes, 0)  # each turn is staged from the start of a slot
        pull["other_slot"] = np.where(in_place, 0, self.need.slot)
        pull["target"] = self.output + target
        pull["target_step"] = pull["nbytes"] = nbytes
        if not self.mine["keeps_own"]:
            pull["nbytes"][self.my] = 0

    def _tables_by_blocks(self) -> Array:
        """Member ``p`` needs block ``p`` of each."""
        my, nbytes = self.my, self.nbytes
        self._fetch(my * self.stride, my * nbytes, nbytes, self.members * self.stride)
        start = int(self.mine["send"]) + self.members * self.stride
        return self._stage(start, nbytes, self.members * nbytes)

    def _tables_by_counts(self) -> Array:
        """Member ``p`` needs of each the part that its counts and displacements describe."""
        my, size, sent = self.my, self.itemsize, self.records["send_counts"]
        packed = np.cumsum(sent, axis=1) - sent
        direct = self.records["send_displs"][:, my] * size
        self._fetch(
            direct, packed[:, my] * size, sent[:, my] * size, self.mine["recv_displs"] * size
        )
        start = int(self.mine["send"]) + self.mine["send_displs"] * size
        return self._stage(start, sent[my] * size, packed[my] * size)

    def _stage(self, start: Words, nbytes: Any, offset: Words) -> Array:
        """Return the rows of private parts that the others get."""
        table = np.empty(self.n_pes, executor.STAGE)
        table["source"], table["offset"] = start, offset
        table["step"] = table["nbytes"] = nbytes
        return table[self.members != self.my] if self.stages else table[:0]

    def _fetch_results(self) -> None:
        """Fill in where the others' slices of an all-reduce are."""
        there, pull = self.records, self.pull
        in_heap = there["recv_in_heap"] != 0
        kept = self.staged + 2 * self.need.slot
        pull["result"] = np.where(in_heap, self.heaps + there["recv"], kept)
        pull["result_step"] = np.where(in_heap, self.nbytes, 0)
        pull["other_result"] = np.where(in_heap, 0, self.need.result)


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
    stage, pull = builder.tables()
    fields = {
        "my": my,
        "n_pes": len(records),
        "number": number,
        "next_turn": 0,
        "turns": int(mine["repeat"]),
        "first_turn": first_turn,
        "commit_word": COMMITS + int(mine["slot"]),
        "commits_before": int(mine["first"]),
        "wait_policy": int(mine["wait_policy"]),
        "answer_policy": int(mine["answer_policy"]),
        "kind": _KINDS[HcclCommand(command)],
        "itemsize": dtype.itemsize,
        "count": int(mine["count"]),
        "dtype_code": CODES[dtype],
        "op": int(mine["op"]),
        "output": builder.output,
        "output_step": builder.nbytes,
        "staging": int(staged[my]),
        "slot_bytes": need.slot,
        "results": int(staged[my]) + 2 * need.slot,
        "result_bytes": need.result,
        "publishes_result": int(command == HcclCommand.ALLREDUCE and not mine["recv_in_heap"]),
        "scratch": scratch,
    }
    task = np.array([tuple(fields[name] for name in executor.TASK.names or ())], executor.TASK)
    return TransferTables(task=task, stage=stage, pull=pull)
