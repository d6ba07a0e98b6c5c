"""From the records of a task to the tables that :func:`emu.comm.server.executor.run_turns` executes.

Where a member's input lies follows from its record: in its symmetric heap, where the others read it in
place, or in its private memory, from where its server copies what the others need to a staging slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.comm.layout import LINE, round_up
from emu.comm.server import executor
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
    """Bytes of symmetric memory that a task needs on each member: two slots of either kind."""

    slot: int
    result: int

    @property
    def total(self) -> int:
        """Bytes of all four."""
        return 2 * (self.slot + self.result)


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The tables of one task on one member."""

    plan: Words
    stage: Words
    pull: Words


def staging(records: Array) -> Staging:
    """Return what the members need; every member gets the same from the same records.

    Args:
        records: A record of each member.
    """
    first = records[0]
    command, size = int(first["command"]), NUMPY_DTYPES[int(first["dtype"])].itemsize
    n_pes, nbytes = len(records), int(first["count"]) * size
    slot = result = 0
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
        self.size = NUMPY_DTYPES[int(self.mine["dtype"])].itemsize
        self.nbytes = int(self.mine["count"]) * self.size
        self.stride = (int(self.mine["stride"]) or int(self.mine["count"])) * self.size
        self.members: Words = np.arange(self.n_pes)
        start = int(heaps[my]) if self.mine["recv_in_heap"] else 0
        self.output = start + int(self.mine["recv"])
        self.stages = need.slot > 0 and not self.mine["send_in_heap"]
        self.pull: Words = np.zeros((self.n_pes, 9), np.int64)

    def fetch(self, direct: Any, packed: Any, nbytes: Any, target: Any) -> None:
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
        in_place = in_heap | (self.members == self.my)
        pull[:, executor.P_SOURCE] = np.where(in_place, base, self.staged + packed)
        pull[:, executor.P_STEP] = np.where(in_place, nbytes, 0)
        pull[:, executor.P_SLOT] = np.where(in_place, 0, self.need.slot)
        pull[:, executor.P_TARGET] = self.output + target
        pull[:, executor.P_TARGET_STEP] = pull[:, executor.P_BYTES] = nbytes
        if not self.mine["keeps_own"]:
            pull[self.my, executor.P_BYTES] = 0

    def tables(self) -> tuple[Words, Words]:
        """Return the stage and the pull table."""
        command = int(self.mine["command"])
        if command == HcclCommand.ALLTOALLV:
            return self._by_counts(), self.pull
        if command in (HcclCommand.ALLTOALL, HcclCommand.REDUCE_SCATTER):
            return self._by_blocks(), self.pull
        self.fetch(0, 0, self.nbytes, self.members * self.stride)
        if command == HcclCommand.ALLREDUCE:
            self._results()
        row = [[int(self.mine["send"]), self.nbytes, self.nbytes, 0]]
        return np.array(row if self.stages else [], np.int64).reshape(-1, 4), self.pull

    def _by_blocks(self) -> Words:
        """Member ``p`` needs block ``p`` of each."""
        my, nbytes = self.my, self.nbytes
        self.fetch(my * self.stride, my * nbytes, nbytes, self.members * self.stride)
        start = int(self.mine["send"]) + self.members * self.stride
        return self._staged(start, nbytes, self.members * nbytes)

    def _by_counts(self) -> Words:
        my, size, sent = self.my, self.size, self.records["send_counts"]
        places = np.cumsum(sent, axis=1) - sent
        direct = self.records["send_displs"][:, my] * size
        self.fetch(
            direct, places[:, my] * size, sent[:, my] * size, self.mine["recv_displs"] * size
        )
        start = int(self.mine["send"]) + self.mine["send_displs"] * size
        return self._staged(start, sent[my] * size, places[my] * size)

    def _staged(self, start: Words, nbytes: Any, offset: Words) -> Words:
        """Return the rows of private parts that the others get."""
        table: Words = np.empty((self.n_pes, 4), np.int64)
        table[:, executor.S_SOURCE], table[:, executor.S_OFFSET] = start, offset
        table[:, executor.S_STEP] = table[:, executor.S_BYTES] = nbytes
        if not self.stages:
            return table[:0]
        rows: Words = table[self.members != self.my]
        return rows

    def _results(self) -> None:
        """Fill in where the others' slices of an all-reduce are."""
        there, pull = self.records, self.pull
        in_heap = there["recv_in_heap"] != 0
        kept = self.staged + 2 * self.need.slot
        pull[:, executor.P_RESULT] = np.where(in_heap, self.heaps + there["recv"], kept)
        pull[:, executor.P_RESULT_STEP] = np.where(in_heap, self.nbytes, 0)
        pull[:, executor.P_RESULT_SLOT] = np.where(in_heap, 0, self.need.result)


def build(
    records: Array,
    my: int,
    *,
    heaps: Words,
    staged: Words,
    need: Staging,
    task: int,
    base: int,
    scratch: int,
) -> Routes:
    """Make the tables of a task.

    Args:
        records: A record of each member; they fit together.
        my: This member.
        heaps: Address of each member's heap.
        staged: Address of each member's staging memory.
        need: How it is divided.
        task: Number of the task.
        base: Number of its first turn.
        scratch: Memory for reductions.

    Returns:
        The tables.
    """
    builder = _Builder(records, my, heaps, staged, need)
    mine = records[my]
    command, dtype = int(mine["command"]), NUMPY_DTYPES[int(mine["dtype"])]
    stage, pull = builder.tables()
    reduces_all = command == HcclCommand.ALLREDUCE
    plan: Words = np.zeros(executor.PLAN_WORDS, np.int64)
    for index, value in {
        executor.MY: my,
        executor.N_PES: len(records),
        executor.TASK: task,
        executor.TURNS: int(mine["repeat"]),
        executor.BASE: base,
        executor.COMMIT: executor.COMMITS + int(mine["slot"]),
        executor.COMMIT_BASE: int(mine["first"]),
        executor.WAIT_POLICY: int(mine["wait_policy"]),
        executor.ANSWER_POLICY: int(mine["answer_policy"]),
        executor.KIND: _KINDS[HcclCommand(command)],
        executor.SIZE: dtype.itemsize,
        executor.COUNT: int(mine["count"]),
        executor.CODE: CODES[dtype],
        executor.OP: int(mine["op"]),
        executor.RECV: builder.output,
        executor.RECV_STEP: builder.nbytes,
        executor.STAGING: int(staged[my]),
        executor.SLOT_BYTES: need.slot,
        executor.RESULTS: int(staged[my]) + 2 * need.slot,
        executor.RESULT_BYTES: need.result,
        executor.PUBLISH_RESULT: int(reduces_all and not mine["recv_in_heap"]),
        executor.SCRATCH: scratch,
    }.items():
        plan[index] = value
    return Routes(plan=plan, stage=stage, pull=pull)


__all__ = ["Routes", "Staging", "build", "staging"]
