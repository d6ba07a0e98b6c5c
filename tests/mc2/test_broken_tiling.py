"""Tiling data with random mutations: refused by a domain error, or executed as it says, and never out of bounds.

``EMU_FUZZ_CALLS`` sets how many mutated messages each test makes.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.errors import ArgumentError, CommError, ServerError
from emu.comm.server.comm_kernel import (
    AREA_BYTES,
    KernelLaunch,
    MemoryRegion,
    read_kernel,
    write_launch,
)
from emu.comm.tiling import HcclCommand, HcclDataType, make_mc2msg
from emu.mc2 import Hccl

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "0"))
GUARD, ROOM = 4096, 2048
"""Bytes that nothing may touch on either side of each buffer, and bytes of a buffer."""
EDGES = (
    0,
    1,
    2,
    3,
    7,
    8,
    63,
    64,
    127,
    128,
    255,
    256,
    0xFFFF,
    1 << 31,
    (1 << 32) - 1,
    1 << 48,
    1 << 63,
)
FP16 = HcclDataType.FP16


def good_messages(group: str) -> list[bytes]:
    """Return messages of all versions: the host's task in several forms, and terms of a kernel."""
    first = {
        "preparePosition": 0, "dataType": FP16, "turnNum": 3, "tailNum": 1, "hasCommOut": 1,
        "sendCnt": 20, "tailSendCnt": 10, "tailSendOff": 80, "tailRecvOff": 80, "stride": 60,
        "sendArgIndex": 0, "recvArgIndex": 1, "commOutArgIndex": 2,
    }  # fmt: skip
    last = {**first, "commOrder": 1, "waitPolicy": 1, "workspaceOff": 64, "reduceOp": 0}
    hosts = [
        make_mc2msg(version, **fields, commType=command)
        for version in ("v1", "128")
        for fields, command in (
            (first, HcclCommand.ALLGATHER),
            ({**first, "rspPolicy": 2, "waitPolicy": 2}, HcclCommand.ALLTOALL),
            ({**last, "rspPolicy": 1}, HcclCommand.ALLREDUCE),
            (last, HcclCommand.ALLTOALL),
            ({**last, "recvCnt": 20, "sendCnt": 0, "tailRecvCnt": 10}, HcclCommand.REDUCE_SCATTER),
            ({**first, "useBufferType": 2}, HcclCommand.ALLGATHER),
        )
    ]
    terms = [make_mc2msg(preparePosition=1, commAlg=1)]
    terms.append(make_mc2msg("112", commAlg=1, sendCnt=20))
    for version in ("v2", "api", "api512"):
        message = make_mc2msg(version, n_tasks=2)
        if version != "v2":
            message.init.preparePosition = 1
        message.task0.opType, message.task1.opType = HcclCommand.ALLGATHER, HcclCommand.ALLREDUCE
        message.task0.groupName = group
        message.task0.skipLocalRankCopy = 1
        terms.append(message)
    return [message.to_bytes() for message in (*hosts, *terms)]


def mutated(rng: random.Random, messages: list[bytes]) -> bytes:
    data = bytearray(rng.choice(messages))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        how = rng.random()
        if how < 0.4:
            data[rng.randrange(len(data))] = rng.choice(
                (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 255, rng.randrange(256))
            )
        elif how < 0.8:
            size = rng.choice((1, 2, 4, 8))
            where = rng.randrange(max(1, len(data) // size)) * size
            value = rng.choice((*EDGES, rng.randrange(200))) & ((1 << 8 * size) - 1)
            data[where : where + size] = value.to_bytes(size, "little")
        elif how < 0.85:
            other = rng.choice(messages)
            cut = rng.randrange(min(len(data), len(other)))
            data[cut:] = other[cut:]
        elif how < 0.9:
            del data[rng.randrange(len(data)) :]
            data = data or bytearray(1)
        else:
            data += rng.randbytes(rng.choice((1, 4, 8, 280, 6000)))
    return bytes(data)


class Buffers:
    """Input, output, gathered output and workspace with guards around them, filled by rank."""

    def __init__(self, rank: int) -> None:
        self.whole = [np.full(ROOM + 2 * GUARD, 0x5A, np.uint8) for _ in range(4)]
        self.views = [whole[GUARD:-GUARD] for whole in self.whole]
        for index, view in enumerate(self.views):
            numbers = np.arange(ROOM // 2) % 7 + 10 * rank + index  # sums are exact in fp16
            view[:] = numbers.astype(np.float16).view(np.uint8)

    def guarded(self) -> bool:
        return all(
            (whole[:GUARD] == 0x5A).all() and (whole[-GUARD:] == 0x5A).all() for whole in self.whole
        )


def expected(data: bytes, group: str, everyone: list[Buffers], me: int) -> list[Any] | None:
    """Execute the host's task of a message in plain NumPy; return the buffers of one rank.

    None: it is not fp16 sums or copies from one buffer to another, and not compared.
    """
    message = read_kernel(data, None, group).message
    first = message.commOrder == 0
    kind = message.useBufferType or (6 if first else 4)
    place = {
        1: message.recvArgIndex,
        5: message.sendArgIndex,
        6: message.commOutArgIndex,
        4: 3,
    }.get(kind)
    offset = message.workspaceOff if kind == 4 else 0
    source, target = (message.sendArgIndex, place) if first else (place, message.recvArgIndex)
    if message.dataType != FP16 or message.reduceOp or None in (source, target) or source == target:
        return None
    sent, received = (offset * (not first), offset * first)
    n, command = len(everyone), message.commType
    out = [view.copy() for view in everyone[me].views]
    result = out[target].view(np.float16)
    inputs = [one.views[source].view(np.float16) for one in everyone]
    tiles = message.turnNum - message.tailNum
    names = ("sendCnt", "recvCnt", "sendOff", "recvOff")
    tails = ("tailSendCnt", "tailRecvCnt", "tailSendOff", "tailRecvOff")
    for turns, fields in ((tiles, names), (message.tailNum, tails)):
        if not turns:
            continue
        count, taken, *offs = (getattr(message, field) for field in fields)
        if command == HcclCommand.REDUCE_SCATTER:
            count = taken or count // n
        stride = message.stride or count
        begin, to = (offs[0] + sent) // 2, (offs[1] + received) // 2
        for turn in range(turns):
            here = turn * count

            def part(array: Any, start: int, here: int = here, count: int = count) -> Any:
                return array[start + here : start + here + count]

            for rank in range(n):
                if rank == me and not message.hasCommOut and command in (6, 10):
                    continue
                if command == HcclCommand.ALLGATHER:
                    part(result, to + rank * stride)[:] = part(inputs[rank], begin)
                elif command == HcclCommand.ALLTOALL:
                    part(result, to + rank * stride)[:] = part(inputs[rank], begin + me * stride)
            if command == HcclCommand.ALLREDUCE:
                part(result, to)[:] = sum(part(x, begin).astype(np.float32) for x in inputs)
            elif command == HcclCommand.REDUCE_SCATTER:
                part(result, to)[:] = sum(
                    part(x, begin + me * stride).astype(np.float32) for x in inputs
                )
    return out


def serve(seed: int, calls: int) -> tuple[dict[str, int], list[str]]:
    """Hand mutated messages to Hccl; return how they ended, and what was wrong."""
    group = emu.world()
    rng = random.Random(seed)
    messages = good_messages(group.name)
    ends = {"refused": 0, "terms": 0, "executed": 0, "compared": 0}
    wrong = []
    for number in range(calls):
        data = mutated(rng, messages)
        mine = Buffers(group.my_pe)
        args, workspace = mine.views[:3], mine.views[3]
        before = [view.copy() for view in mine.views]
        group.barrier()
        try:
            hccl = Hccl(group, data, args, workspace=workspace, window_bytes=ROOM)
        except CommError:
            ends["refused"] += 1
            if any((a != b).any() for a, b in zip(before, mine.views, strict=True)):
                wrong.append(f"{number}: refused, and changed: {data.hex()}")
            continue
        with hccl:
            turns = hccl._kernel.turns
            if turns:
                ends["executed"] += 1
                for _ in range(turns):
                    if hccl._tasks[0].committed < hccl._tasks[0].repeat:
                        hccl.Commit(0)
                while hccl.Wait(0) == 0:
                    pass
            else:
                ends["terms"] += 1
        whole = (
            expected(data, group.name, [Buffers(pe) for pe in range(group.n_pes)], group.my_pe)
            if turns
            else None
        )
        if not mine.guarded():
            wrong.append(f"{number}: out of bounds: {data.hex()}")
        if whole is not None:
            ends["compared"] += 1
            if any((a != b).any() for a, b in zip(whole, mine.views, strict=True)):
                wrong.append(
                    f"{number}: not what it says: {read_kernel(data, None, group.name).message}"
                )
        group.barrier()
    return ends, wrong


@pytest.mark.timeout(120 + CALLS // 20)
@pytest.mark.parametrize("n_pes", [1, 2])
def test_mutated_messages_are_refused_or_executed_as_they_say(n_pes):
    for ends, wrong in emu.launch(serve, n_pes, args=(n_pes, CALLS or 500), timeout=60):
        assert not wrong, f"{ends}, {len(wrong)}:\n" + "\n".join(wrong[:5])
        assert min(ends.values()) > 0, ends


def test_the_server_refuses_random_bytes_by_a_domain_error():
    """What it finds in shared memory is decoded without trust: lengths, numbers and indices too."""
    rng = random.Random(3)
    messages = good_messages("world")
    place = MemoryRegion(1 << 20, ROOM, False)
    refused = 0
    for _ in range(CALLS or 2000):
        area = np.zeros(AREA_BYTES, np.uint8)
        write_launch(area, mutated(rng, messages)[:5120], None, [place] * 3, place, (place, None))
        for _ in range(rng.randrange(3)):  # the header and the places too
            area[rng.randrange(rng.choice((16, 1600)))] = rng.randrange(256)
        try:
            launch = KernelLaunch(area, "world")
            if launch.kernel.turns:
                for record in launch.records(rng.choice((1, 2, 8)), 1, 0):
                    assert int(record["repeat"]) <= 255
        except (ArgumentError, ServerError):
            refused += 1
    assert refused
