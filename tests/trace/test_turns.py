"""Turns of communication servers have the bytes that they move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import emu
from emu.comm.tiling import HcclCommand, HcclDataType, make_mc2msg
from emu.mc2 import Hccl
from emu.trace.events import TURN_BIT, Kind, Thread
from emu.trace.reading import Trace, read_trace

N = 3
M, K, TILE, TAIL = 11, 6, 4, 3  # two full tiles of rows, one tail


def moves() -> None:
    world = emu.world()
    n, me = world.n_pes, world.my_pe
    with Hccl() as hccl:
        data = np.ones(64 * n, np.float32)
        out = np.zeros_like(data)
        hccl.AllReduce(data, out, 10, repeat=2, commit=True)
        hccl.AllGather(data, out, 12, commit=True)
        hccl.ReduceScatter(data, out, 7, commit=True)
        hccl.AlltoAll(data.astype(np.float16), out.astype(np.float16), 5, repeat=3, strideCount=16, commit=True)  # fmt: skip
        sent = [1 + me + 2 * other for other in range(n)]
        received = [1 + other + 2 * me for other in range(n)]
        starts = [20 * other for other in range(n)]
        last = hccl.AlltoAllV(data, sent, starts, np.float32, out, received, starts, commit=True)
        for handle in range(last + 1):
            while hccl.Query(handle) < (2, 1, 1, 3, 1)[handle]:
                hccl.Wait(handle)


def gathers() -> None:
    """Run a kernel whose task the host has prepared, in full tiles and a tail."""
    group = emu.world()
    x = np.ones((M, K), np.float32)
    out = np.zeros((group.n_pes * M, K), np.float32)
    message = make_mc2msg(
        "v1",
        preparePosition=0,
        commType=HcclCommand.ALLGATHER,
        dataType=HcclDataType.FP32,
        sendCnt=TILE * K,
        tailSendCnt=TAIL * K,
        tailSendOff=2 * TILE * K * 4,
        tailRecvOff=2 * TILE * K * 4,
        turnNum=3,
        tailNum=1,
        stride=M * K,
        totalCnt=M * K,
        hasCommOut=1,
        sendArgIndex=0,
        recvArgIndex=3,
        commOutArgIndex=4,
    )
    with Hccl(group, message.to_bytes(), [x, None, None, np.zeros(1), out]) as hccl:
        for _ in range(3):
            hccl.Wait(0)


def taken(program: object, path: Path) -> Trace:
    emu.launch(program, N, trace=path)
    return read_trace(path)


def turns(trace: Trace, pe: int) -> list[tuple[str, int]]:
    """The name and the bytes of each turn of a PE's server, in order."""
    events = trace.events[pe]
    chosen = events[(events["kind"] == Kind.TURN) & (events["thread"] == Thread.SERVER)]
    assert ((chosen["flow"] >= TURN_BIT) & (chosen["peer"] == -1)).all()
    chosen = chosen[np.argsort(chosen["start"], kind="stable")]
    return [(trace.sites[pe][event["site"]].name, int(event["size"])) for event in chosen]


def test_a_turn_has_the_bytes_of_its_member_s_input(tmp_path: Path) -> None:
    trace = taken(moves, tmp_path / "a.emutrace")
    for pe in range(N):
        sent = sum(1 + pe + 2 * other for other in range(N))
        assert turns(trace, pe) == [
            *[("AllReduce", 10 * 4)] * 2,
            ("AllGather", 12 * 4),
            ("ReduceScatter", 7 * N * 4),
            *[("AlltoAll", 5 * N * 2)] * 3,
            ("AlltoAllV", sent * 4),
        ]


def test_turns_that_the_host_has_prepared_are_recorded_tail_and_all(tmp_path: Path) -> None:
    trace = taken(gathers, tmp_path / "a.emutrace")
    for pe in range(N):
        assert turns(trace, pe) == [
            *[("AllGather", TILE * K * 4)] * 2,
            ("AllGather", TAIL * K * 4),
        ]


@pytest.mark.parametrize("turns_kept", [0, 1, 4])
def test_of_turns_that_are_no_longer_kept_the_first_are_missing(turns_kept: int) -> None:
    from emu.comm.server.server_end import Turn
    from emu.mc2.recorded import Move, record_turns

    class Recorder:
        def __init__(self) -> None:
            self.written: list[tuple[str, int]] = []

        def site(self, kind: Kind, name: str, **_: object) -> str:
            return name

        def write_span(self, site: str, begun: int, ended: int, size: int, flow: int) -> None:
            self.written.append((site, size))

    class Group:
        name, index, members = "world", 0, (0, 1)

    from emu.comm.world import recording

    moves_of_all = [Move(f"task {i}", i) for i in range(4)]
    kept = [Turn(0, i, 0, 10 * i, 10 * i + 5) for i in range(4 - turns_kept, 4)]
    recorder = Recorder()
    recording.active = recorder  # type: ignore[assignment]
    try:
        record_turns(Group(), kept, moves_of_all)  # type: ignore[arg-type]
    finally:
        recording.active = None
    assert recorder.written == [(f"task {i}", i) for i in range(4 - turns_kept, 4)]
