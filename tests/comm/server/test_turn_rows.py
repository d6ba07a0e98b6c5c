"""Rows that go to other hosts: with them, and nothing else from there, members do what the commands mean."""

from __future__ import annotations

import numpy as np
import pytest

from emu.comm.engine import steps
from emu.comm.layout import LINE, round_up
from emu.comm.server import tasks
from emu.comm.server.transfer_tables import build, staging_of
from emu.comm.server.turn_rows import TurnRows
from emu.comm.tiling.enums import HcclCommand, HcclDataType, HcclReduceOp
from emu.kernels.reduce import SCRATCH_BYTES

HOSTS = (0, 0, 1, 2, 2)
"""Host of each member."""
N, COUNT, TURNS = len(HOSTS), 50, 3
WHOLE = COUNT * TURNS
HEAP = 2 * 4 * WHOLE * N
"""Bytes of a heap: an input, and an output."""
UNSEEN = 0x55


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


class Hosts:
    """Each host has a segment with the heap and the staging memory of every member, of which its own are real."""

    def __init__(self, command: HcclCommand, in_heap: list[bool]) -> None:
        draw = np.random.default_rng(int(command))
        counts = draw.integers(0, COUNT, (N, N))  # row: sender, column: receiver
        inputs = [draw.integers(-1000, 1000, WHOLE * N).astype(np.int32) for _ in range(N)]
        self.inputs = inputs
        self.outputs = [np.zeros(WHOLE * N, np.int32) for _ in range(N)]
        self.table = np.stack(
            [self._record(command, pe, in_heap[pe], counts, inputs[pe]) for pe in range(N)]
        )
        self.need = staging_of(self.table)
        self.stride = HEAP + -HEAP % LINE + self.need.total
        room = self.stride * N + LINE
        self.memory = [np.full(room, UNSEEN, np.uint8) for _ in range(3)]
        self.base = [address(memory) + -address(memory) % LINE for memory in self.memory]
        self.segments = [
            memory[-address(memory) % LINE :][: self.stride * N] for memory in self.memory
        ]
        for pe, host in enumerate(HOSTS):
            if in_heap[pe]:
                half = HEAP // 2
                start = pe * self.stride
                heap = self.segments[host][start : start + HEAP].view(np.int32)
                heap[: half // 4], heap[half // 4 :] = inputs[pe], 0
                self.outputs[pe] = heap[half // 4 :]
        self.scratch = np.zeros(SCRATCH_BYTES + LINE, np.uint8)

    def _record(
        self, command: HcclCommand, pe: int, in_heap: bool, counts: np.ndarray, source: np.ndarray
    ) -> np.ndarray:
        record = np.zeros((), tasks.record_dtype(N))
        record["command"], record["dtype"] = command, HcclDataType.INT32
        record["op"], record["keeps_own"] = HcclReduceOp.SUM, 1
        record["count"], record["repeat"] = COUNT, TURNS
        record["stride"] = 0 if command == HcclCommand.ALLREDUCE else WHOLE
        record["send_in_heap"] = record["recv_in_heap"] = in_heap
        record["send"] = 0 if in_heap else address(source)
        record["recv"] = HEAP // 2 if in_heap else address(self.outputs[pe])
        if command == HcclCommand.ALLTOALLV:
            record["send_counts"], record["recv_counts"] = counts[pe], counts[:, pe]
            record["send_displs"] = TURNS * (np.cumsum(counts[pe]) - counts[pe])
            record["recv_displs"] = TURNS * (np.cumsum(counts[:, pe]) - counts[:, pe])
        return record

    def run(self, first_turn: int) -> int:
        """Execute all turns; return the bytes that went to other hosts as inputs."""
        pes = np.arange(N)
        heaps = [self.base[host] + pes * self.stride for host in HOSTS]
        staged = [start + HEAP + -HEAP % LINE for start in heaps]
        scratch = address(self.scratch) + -address(self.scratch) % LINE
        made = [
            build(
                self.table, my, heaps=heaps[my], staged=staged[my], need=self.need,
                number=0, first_turn=first_turn, scratch=scratch,
            )
            for my in range(N)
        ]  # fmt: skip
        rows = [
            TurnRows(self.table, my, HOSTS, heaps[my], staged[my], self.need, self.base[HOSTS[my]])
            for my in range(N)
        ]
        addresses = np.zeros(2 * N + 1, np.int64)
        moved = 0
        for turn in range(TURNS):
            number = first_turn + turn
            slot = number & 1
            plans = [m.task.view(np.recarray)[0] for m in made]
            tables = [m.members.view(np.recarray) for m in made]
            for my in range(N):
                steps.stage_turn(plans[my], made[my].stage.view(np.recarray), turn, slot, 0)
                moved += self._send(HOSTS[my], rows[my].inputs(turn, number))
            for my in range(N):
                for row in made[my].pull.view(np.recarray):
                    steps.pull_piece(row, turn, slot, 0)
                if len(tables[my]):
                    steps.reduce_slice(plans[my], tables[my], addresses, turn, slot, 0)
            for my in range(N):
                self._send(HOSTS[my], rows[my].results(turn, number))
            for my in range(N):
                for pe in range(N):
                    if plans[my].sliced and pe != my:
                        steps.collect_slice(plans[my], tables[my], pe, turn, slot, 0)
        return moved

    def _send(self, here: int, rows: list[tuple[int, int, int]]) -> int:
        """Copy rows of a host's segment to the same place elsewhere."""
        total = 0
        for offset, nbytes, only in rows:
            assert nbytes > 0
            for host in range(3) if only < 0 else [only]:
                if host != here:
                    part = slice(offset, offset + nbytes)
                    self.segments[host][part] = self.segments[here][part]
                    total += nbytes
        return total


def expected(hosts: Hosts, command: HcclCommand, my: int) -> np.ndarray:
    sent, result = hosts.inputs, np.zeros(WHOLE * N, np.int32)
    mine = slice(my * WHOLE, (my + 1) * WHOLE)
    if command == HcclCommand.ALLREDUCE:
        result[:WHOLE] = sum(send[:WHOLE] for send in sent)
    elif command == HcclCommand.REDUCE_SCATTER:
        result[:WHOLE] = sum(send[mine] for send in sent)
    elif command == HcclCommand.ALLGATHER:
        result[:] = np.concatenate([send[:WHOLE] for send in sent])
    elif command == HcclCommand.ALLTOALL:
        result[:] = np.concatenate([send[mine] for send in sent])
    else:
        for pe, record in enumerate(hosts.table):
            length = TURNS * int(record["send_counts"][my])
            there = int(record["send_displs"][my])
            here = int(hosts.table[my]["recv_displs"][pe])
            result[here : here + length] = sent[pe][there : there + length]
    return result


def least(hosts: Hosts, command: HcclCommand) -> int:
    """Return the bytes of inputs that must go to other hosts."""
    apart = np.array([[a != b for b in HOSTS] for a in HOSTS])
    if command == HcclCommand.ALLTOALLV:
        return int((hosts.table["send_counts"] * apart).sum()) * 4 * TURNS
    if command == HcclCommand.ALLGATHER:  # once to each of two others
        return N * 2 * WHOLE * 4
    if command != HcclCommand.ALLREDUCE:
        return int(apart.sum()) * WHOLE * 4
    share = round_up(-(-COUNT // N), LINE // 4)
    shares = [max(0, min(share, COUNT - pe * share)) for pe in range(N)]
    return int((np.array(shares) * apart).sum()) * 4 * TURNS


@pytest.mark.parametrize("first_turn", [0, 5])
@pytest.mark.parametrize("places", ["heap", "private", "mixed"])
@pytest.mark.parametrize("command", list(tasks.NAMES))
def test_with_these_rows_members_of_three_hosts_do_what_the_command_means(
    command: HcclCommand, places: str, first_turn: int
) -> None:
    in_heap = [{"heap": True, "private": False, "mixed": pe % 2 == 1}[places] for pe in range(N)]
    hosts = Hosts(command, in_heap)
    moved = hosts.run(first_turn)
    for my in range(N):
        np.testing.assert_array_equal(hosts.outputs[my], expected(hosts, command, my))
    assert moved == least(hosts, command)
