"""Tables of tasks: all members' turns, executed by one process, do what the commands mean."""

from __future__ import annotations

import numpy as np
import pytest

from emu.comm.engine import steps
from emu.comm.layout import LINE
from emu.comm.server import tasks
from emu.comm.server.transfer_tables import TransferTables, build, staging_of
from emu.comm.tiling.enums import HcclCommand, HcclDataType, HcclReduceOp
from emu.kernels.reduce import SCRATCH_BYTES

N_PES, COUNT, TURNS = 3, 40, 3
ROOM = COUNT * TURNS * N_PES
COMMANDS = [*tasks.NAMES]


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def aligned(nbytes: int) -> np.ndarray:
    memory = np.zeros(nbytes + LINE, np.uint8)
    start = -address(memory) % LINE
    return memory[start : start + nbytes]


class Machine:
    """Members with a heap and private memory each; ``places`` says whose input and output is in the heap."""

    def __init__(self, command: HcclCommand, places: str) -> None:
        random = np.random.default_rng(int(command))
        self.heaps = [aligned(8 * ROOM) for _ in range(N_PES)]
        self.inputs, self.sent, self.received, self.records = [], [], [], []
        counts = random.integers(0, COUNT // 2, (N_PES, N_PES))  # row: sender, column: receiver
        for pe in range(N_PES):
            in_heap = {"heap": True, "private": False, "mixed": pe == 1}[places]
            halves = self.heaps[pe].view(np.int32).reshape(2, ROOM)
            send, recv = halves if in_heap else (np.zeros(ROOM, np.int32), np.zeros(ROOM, np.int32))
            send[:] = random.integers(-1000, 1000, ROOM)
            record = np.zeros((), tasks.record_dtype(N_PES))
            record["command"], record["dtype"], record["op"] = (
                command,
                HcclDataType.INT32,
                HcclReduceOp.SUM,
            )
            record["count"], record["repeat"], record["keeps_own"] = COUNT, TURNS, 1
            record["stride"] = 0 if command == HcclCommand.ALLREDUCE else COUNT * TURNS
            record["send_in_heap"] = record["recv_in_heap"] = in_heap
            base = address(self.heaps[pe]) if in_heap else 0
            record["send"], record["recv"] = address(send) - base, address(recv) - base
            if command == HcclCommand.ALLTOALLV:
                # The parts of all turns of a pair follow each other.
                record["send_counts"], record["recv_counts"] = counts[pe], counts[:, pe]
                record["send_displs"] = TURNS * (np.cumsum(counts[pe]) - counts[pe])
                record["recv_displs"] = TURNS * (np.cumsum(counts[:, pe]) - counts[:, pe])
            self.inputs.append(send)  # the records hold its address only
            self.sent.append(send.copy())
            self.received.append(recv)
            self.records.append(record)
        self.table = np.stack(self.records)
        self.need = staging_of(self.table)
        self.staging = [aligned(self.need.total) for _ in range(N_PES)]
        self.scratch = aligned(SCRATCH_BYTES)

    def tables(self, my: int, first_turn: int) -> TransferTables:
        return build(
            self.table,
            my,
            heaps=np.array([address(h) for h in self.heaps]),
            staged=np.array([address(s) for s in self.staging]),
            need=self.need,
            number=0,
            first_turn=first_turn,
            scratch=address(self.scratch),
        )

    def run(self, first_turn: int) -> None:
        addresses = np.zeros(2 * N_PES + 1, np.int64)
        made = [self.tables(my, first_turn) for my in range(N_PES)]
        plans = [m.task.view(np.recarray)[0] for m in made]
        members = [m.members.view(np.recarray) for m in made]
        for turn in range(TURNS):
            slot = (first_turn + turn) & 1
            for plan, m in zip(plans, made, strict=True):
                steps.stage_turn(plan, m.stage.view(np.recarray), turn, slot, 0)
            for plan, m, table in zip(plans, made, members, strict=True):
                for row in m.pull.view(np.recarray):
                    steps.pull_piece(row, turn, slot, 0)
                if len(table):
                    steps.reduce_slice(plan, table, addresses, turn, slot, 0)
            for my, (plan, table) in enumerate(zip(plans, members, strict=True)):
                for pe in range(N_PES):
                    if plan.sliced and pe != my:
                        steps.collect_slice(plan, table, pe, turn, slot, 0)


def expected(
    command: HcclCommand, sent: list[np.ndarray], my: int, record: np.ndarray
) -> np.ndarray:
    whole = COUNT * TURNS
    result = np.zeros(ROOM, np.int32)
    if command == HcclCommand.ALLREDUCE:
        result[:whole] = sum(send[:whole] for send in sent)
    elif command == HcclCommand.REDUCE_SCATTER:
        result[:whole] = sum(send[my * whole : (my + 1) * whole] for send in sent)
    elif command == HcclCommand.ALLGATHER:
        result[:] = np.concatenate([send[:whole] for send in sent])
    elif command == HcclCommand.ALLTOALL:
        result[:] = np.concatenate([send[my * whole : (my + 1) * whole] for send in sent])
    return result


@pytest.mark.parametrize("first_turn", [0, 5])
@pytest.mark.parametrize("places", ["heap", "private", "mixed"])
@pytest.mark.parametrize("command", [c for c in COMMANDS if c != HcclCommand.ALLTOALLV])
def test_turns_of_all_members_do_what_the_command_means(
    command: HcclCommand, places: str, first_turn: int
) -> None:
    machine = Machine(command, places)
    machine.run(first_turn)
    for my, received in enumerate(machine.received):
        wanted = expected(command, machine.sent, my, machine.records[my])
        np.testing.assert_array_equal(received, wanted)


@pytest.mark.parametrize("places", ["heap", "private", "mixed"])
def test_parts_of_different_lengths_go_where_the_displacements_say(places: str) -> None:
    machine = Machine(HcclCommand.ALLTOALLV, places)
    machine.run(1)
    for my, received in enumerate(machine.received):
        for pe, record in enumerate(machine.records):
            length = TURNS * int(record["send_counts"][my])
            here, there = (
                int(machine.records[my]["recv_displs"][pe]),
                int(record["send_displs"][my]),
            )
            part = machine.sent[pe][there : there + length]
            np.testing.assert_array_equal(received[here : here + length], part)


def test_members_whose_input_is_in_the_heap_need_no_staging() -> None:
    for command in COMMANDS:
        assert Machine(command, "heap").need.total == 0
        assert Machine(command, "mixed").need.slot > 0


def test_a_member_that_does_not_keep_its_own_part_copies_nothing_of_it() -> None:
    machine = Machine(HcclCommand.ALLGATHER, "private")
    machine.table["keeps_own"] = 0
    for my in range(N_PES):
        pull = machine.tables(my, 0).pull
        assert pull["nbytes"][my] == 0
        assert (np.delete(pull["nbytes"], my) == 4 * COUNT * TURNS).all()
