"""From the records of a task to the tables that :func:`emu.comm.turns.run_turns` executes.

Where a member's input lies follows from its record: in its symmetric heap, where the others read it in
place, or in its private memory, from where its server copies what the others need to a staging slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.comm import turns
from emu.comm.layout import LINE, round_up
from emu.comm.tasks import NUMPY_DTYPES
from emu.comm.tiling.enums import HcclCommand
from emu.kernels.reduce import CODES

Array = np.ndarray[Any, Any]
Words = np.ndarray[Any, np.dtype[np.int64]]

_KINDS = {
    HcclCommand.ALLGATHER: turns.COPY,
    HcclCommand.ALLTOALL: turns.COPY,
    HcclCommand.ALLTOALLV: turns.COPY,
    HcclCommand.REDUCE_SCATTER: turns.REDUCE_SCATTER,
    HcclCommand.ALLREDUCE: turns.ALL_REDUCE,
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


def staging(records: list[Array]) -> Staging:
    """Return what the members need; every member gets the same from the same records."""
    first = records[0]
    command, size = int(first["command"]), NUMPY_DTYPES[int(first["dtype"])].itemsize
    n_pes, nbytes = len(records), int(first["count"]) * size
    slot = result = 0
    if any(not record["send_in_heap"] for record in records):
        slot = nbytes
        if command in (HcclCommand.ALLTOALL, HcclCommand.REDUCE_SCATTER):
            slot = nbytes * n_pes
        elif command == HcclCommand.ALLTOALLV:
            slot = max(int(record["send_counts"].sum()) for record in records) * size
    if command == HcclCommand.ALLREDUCE and any(not r["recv_in_heap"] for r in records):
        result = round_up(-(-int(first["count"]) // n_pes) * size, LINE)
    return Staging(slot=round_up(slot, LINE), result=result)


class _Builder:
    """What the tables of one member have in common."""

    def __init__(self, records: list[Array], my: int, heaps: Words, staged: Words, need: Staging):
        self.records, self.my, self.heaps, self.staged = records, my, heaps, staged
        self.slot, self.result = need.slot, need.result
        first = records[my]
        self.n_pes = len(records)
        self.size = NUMPY_DTYPES[int(first["dtype"])].itemsize
        self.nbytes = int(first["count"]) * self.size
        self.stride = (int(first["stride"]) or int(first["count"])) * self.size

    def input(self, pe: int, direct: int, step: int, packed: int) -> tuple[int, int, int]:
        """Return (address, step, bytes to the other slot) of a part of ``pe``'s input.

        Args:
            pe: Whose.
            direct: Byte offset of the part from where the input starts.
            step: Bytes from turn to turn there.
            packed: Byte offset in a staging slot.
        """
        record = self.records[pe]
        if record["send_in_heap"]:
            return int(self.heaps[pe]) + int(record["send"]) + direct, step, 0
        if pe == self.my:
            return int(record["send"]) + direct, step, 0
        return int(self.staged[pe]) + packed, 0, self.slot

    def output(self, pe: int) -> int:
        """Return the address where ``pe``'s output starts."""
        record = self.records[pe]
        start = int(self.heaps[pe]) if record["recv_in_heap"] else 0
        return start + int(record["recv"])

    def rows(self) -> tuple[list[Any], list[Any]]:
        """Return the stage and the pull table."""
        command = int(self.records[self.my]["command"])
        if command == HcclCommand.ALLTOALLV:
            return self._by_counts()
        blocks = command in (HcclCommand.ALLTOALL, HcclCommand.REDUCE_SCATTER)
        return self._by_blocks() if blocks else self._whole()

    def _stages(self) -> bool:
        return self.slot > 0 and not self.records[self.my]["send_in_heap"]

    def _whole(self) -> tuple[list[Any], list[Any]]:
        """Everyone needs all that a member gives."""
        stage, pull = [], []
        if self._stages():
            stage.append((int(self.records[self.my]["send"]), self.nbytes, self.nbytes, 0))
        target = self.output(self.my)
        for pe in range(self.n_pes):
            source = self.input(pe, 0, self.nbytes, 0)
            pull.append((*source, target + pe * self.stride, self.nbytes, self.nbytes))
        return stage, pull

    def _by_blocks(self) -> tuple[list[Any], list[Any]]:
        """Member ``p`` needs block ``p`` of each."""
        stage, pull = [], []
        nbytes, my = self.nbytes, self.my
        target = self.output(my)
        for pe in range(self.n_pes):
            if pe != my and self._stages():
                start = int(self.records[my]["send"]) + pe * self.stride
                stage.append((start, nbytes, nbytes, pe * nbytes))
            source = self.input(pe, my * self.stride, nbytes, my * nbytes)
            pull.append((*source, target + pe * self.stride, nbytes, nbytes))
        return stage, pull

    def _by_counts(self) -> tuple[list[Any], list[Any]]:
        stage, pull = [], []
        my, size = self.my, self.size
        mine, target = self.records[my], self.output(my)
        start = 0
        for pe in range(self.n_pes):
            nbytes = int(mine["send_counts"][pe]) * size
            if pe != my and self._stages() and nbytes:
                source = int(mine["send"]) + int(mine["send_displs"][pe]) * size
                stage.append((source, nbytes, nbytes, start))
            start += nbytes
        for pe in range(self.n_pes):
            there = self.records[pe]
            nbytes = int(there["send_counts"][my]) * size
            packed = int(there["send_counts"][:my].sum()) * size
            source_row = self.input(pe, int(there["send_displs"][my]) * size, nbytes, packed)
            place = target + int(mine["recv_displs"][pe]) * size
            pull.append((*source_row, place, nbytes, nbytes))
        return stage, pull

    def results(self, pe: int) -> tuple[int, int, int]:
        """Return (address, step, bytes to the other slot) of ``pe``'s results of an all-reduce."""
        if self.records[pe]["recv_in_heap"]:
            return self.output(pe), self.nbytes, 0
        return int(self.staged[pe]) + 2 * self.slot, 0, self.result


def build(
    records: list[Array],
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
        records: What each member was asked for; they fit together.
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
    stage, pull = builder.rows()
    if not mine["keeps_own"]:
        pull[my] = (*pull[my][:5], 0)
    reduces_all = command == HcclCommand.ALLREDUCE
    pull = [
        (*row, *(builder.results(pe) if reduces_all else (0, 0, 0))) for pe, row in enumerate(pull)
    ]
    plan: Words = np.zeros(turns.PLAN_WORDS, np.int64)
    for index, value in {
        turns.MY: my,
        turns.N_PES: len(records),
        turns.TASK: task,
        turns.TURNS: int(mine["repeat"]),
        turns.BASE: base,
        turns.COMMIT: turns.COMMITS + int(mine["slot"]),
        turns.COMMIT_BASE: int(mine["first"]),
        turns.WAIT_POLICY: int(mine["wait_policy"]),
        turns.ANSWER_POLICY: int(mine["answer_policy"]),
        turns.KIND: _KINDS[HcclCommand(command)],
        turns.SIZE: dtype.itemsize,
        turns.COUNT: int(mine["count"]),
        turns.CODE: CODES[dtype],
        turns.OP: int(mine["op"]),
        turns.RECV: builder.output(my),
        turns.RECV_STEP: builder.nbytes,
        turns.STAGING: int(staged[my]),
        turns.SLOT_BYTES: need.slot,
        turns.RESULTS: int(staged[my]) + 2 * need.slot,
        turns.RESULT_BYTES: need.result,
        turns.PUBLISH_RESULT: int(reduces_all and not mine["recv_in_heap"]),
        turns.SCRATCH: scratch,
    }.items():
        plan[index] = value
    return Routes(
        plan=plan,
        stage=np.array(stage, np.int64).reshape(-1, 4),
        pull=np.array(pull, np.int64).reshape(-1, 9),
    )


__all__ = ["Routes", "Staging", "build", "staging"]
