"""Communication kernels whose tiling data the server reads: the host's tasks, and terms for the kernel's."""

from __future__ import annotations

import re

import numpy as np
import pytest

import emu
from emu.comm.errors import ArgumentError, TaskMismatchError
from emu.comm.tiling import HcclCommand, HcclDataType, HcclReduceOp, convert, make_mc2msg
from emu.mc2 import Hccl

M, K, TILE, TAIL = 11, 6, 4, 3  # two full tiles of rows, one tail


def gather_message(version="v1", **more):
    """AllGather of [M, K] by rows: the host's own task."""
    fields = {
        "preparePosition": 0,
        "commType": HcclCommand.ALLGATHER,
        "dataType": HcclDataType.FP32,
        "sendCnt": TILE * K,
        "tailSendCnt": TAIL * K,
        "tailSendOff": 2 * TILE * K * 4,
        "tailRecvOff": 2 * TILE * K * 4,
        "turnNum": 3,
        "tailNum": 1,
        "stride": M * K,
        "totalCnt": M * K,
        "hasCommOut": 1,
        "sendArgIndex": 0,
        "recvArgIndex": 3,
        "commOutArgIndex": 4,
    }
    return make_mc2msg(version, **{**fields, **more})


def host_gathers(version, more, commits):
    """Run the task of the host; return what was gathered and what Wait and Query said."""
    group = emu.world()
    x = np.arange(M * K, dtype=np.float32).reshape(M, K) + 1000 * group.my_pe
    out = np.full((group.n_pes * M, K), -1, np.float32)
    tiling = gather_message(version, **more).to_bytes()
    with Hccl(group, tiling, [x, None, None, np.zeros(1), out]) as hccl:
        for _ in range(commits):
            hccl.Commit(0)
        said = [hccl.Wait(0) for _ in range(4)]
        turns = hccl.Query(0)
    return out, said, turns


@pytest.mark.parametrize("version", ["v1", "128"])
@pytest.mark.parametrize(
    ("more", "commits"),
    [
        ({}, 0),  # communication comes first: nothing to wait for
        ({"waitPolicy": 1}, 3),
        ({"waitPolicy": 2}, 1),
        ({"rspPolicy": 1}, 0),
        ({"rspPolicy": 2}, 0),
        ({"useBufferType": 6, "commAlg": 1}, 0),
    ],
)
def test_the_host_prepares_a_gather_of_tiles_and_tail(version, more, commits):
    whole = np.concatenate(
        [np.arange(M * K, dtype=np.float32).reshape(M, K) + 1000 * r for r in range(2)]
    )
    for out, said, turns in emu.launch(host_gathers, 2, args=(version, more, commits)):
        assert (out == whole).all()
        assert said == [0, 0, 0, -1]
        assert turns == 3


def test_own_rows_are_left_out_where_the_message_says_so():
    results = emu.launch(host_gathers, 2, args=("v1", {"hasCommOut": 0}, 0))
    for rank, (out, _, _) in enumerate(results):
        assert (out.reshape(2, M, K)[rank] == -1).all()
        assert (out.reshape(2, M, K)[1 - rank] >= 0).all()


def responses_come_at_the_end():
    group = emu.world()
    x, out = np.zeros((M, K), np.float32), np.zeros((group.n_pes * M, K), np.float32)
    message = gather_message(waitPolicy=1, rspPolicy=2)
    with Hccl(group, message, [x, None, None, np.zeros(1), out]) as hccl:
        hccl.Commit(0)
        hccl.Commit(0)
        group.barrier()
        deadline_of_the_first_two = hccl.Query(0)
        hccl.Commit(0)
        hccl.Wait(0)
        return deadline_of_the_first_two, hccl.Query(0)


def test_a_kernel_that_hears_at_the_end_hears_of_nothing_before():
    assert emu.launch(responses_come_at_the_end, 2) == [(0, 3)] * 2


def computes_first(place):
    """ReduceScatter of what a computation leaves in the workspace, the output, or a window."""
    group = emu.world()
    n, r = group.n_pes, group.my_pe
    rows, width, turns = 4, 5, 2
    y = np.zeros((turns * rows, width), np.float16)
    partial = np.zeros((n, turns * rows, width), np.float16)
    message = make_mc2msg(
        preparePosition=0,
        commType=HcclCommand.REDUCE_SCATTER,
        reduceOp=HcclReduceOp.SUM,
        dataType=HcclDataType.FP16,
        recvCnt=rows * width,
        turnNum=turns,
        stride=turns * rows * width,
        commOrder=1,
        recvArgIndex=2,
        sendArgIndex=0,
        **{
            "workspace": {"workspaceOff": 64},
            "input": {"useBufferType": 5},
            "window": {"useBufferType": 2},
        }[place],
    )
    workspace = np.zeros(64 + partial.nbytes, np.uint8)
    args = [partial, None, y]
    with Hccl(group, message, args, workspace=workspace) as hccl:
        if place == "workspace":
            partial = workspace[64:].view(np.float16).reshape(partial.shape)
        elif place == "window":
            window = hccl.GetWindowsInAddr(r)
            partial = window[: partial.nbytes].view(np.float16).reshape(partial.shape)
        for turn in range(turns):
            part = slice(turn * rows, (turn + 1) * rows)
            partial[:, part] = np.arange(n)[:, None, None] + turn + r
            hccl.Commit(0)
        assert hccl.Wait(0) == 0
    expected = np.repeat([n * r + n * (n - 1) / 2 + n * t for t in range(turns)], rows)
    assert (y == expected[:, None]).all(), y


@pytest.mark.parametrize("place", ["workspace", "input", "window"])
def test_communication_that_comes_last_waits_for_each_turn(place):
    emu.launch(computes_first, 3, args=(place,))


def reduces_in_place():
    group = emu.world()
    y = np.full(12, group.my_pe, np.int32)
    message = make_mc2msg(
        "128",
        commType=HcclCommand.ALLREDUCE,
        reduceOp=HcclReduceOp.MAX,
        dataType=HcclDataType.INT32,
        sendCnt=4,
        turnNum=3,
        commOrder=1,
        useBufferType=1,
        waitPolicy=2,
        recvArgIndex=1,
    )
    with Hccl(group, message.to_bytes(), [None, y]) as hccl:
        hccl.Commit(0)
        with pytest.raises(ArgumentError, match="must be committed at most 3 times"):
            hccl.Commit(0)
        with pytest.raises(ArgumentError, match="the host has prepared the task"):
            hccl.AllReduce(y, y, 1)
    assert (y == group.n_pes - 1).all()


def test_the_output_is_reduced_in_place():
    emu.launch(reduces_in_place, 2)


def listed_tasks(version):
    """V2 and API messages: the kernel prepares what they list, and nothing else."""
    group = emu.world()
    n, r = group.n_pes, group.my_pe
    message = make_mc2msg(version, n_tasks=2)
    if version != "v2":
        message.init.preparePosition = 1
    message.task0.opType = HcclCommand.ALLGATHER
    message.task0.groupName = group.name
    message.task0.algConfig = "AllGather=level0:fullmesh"
    message.task0.skipLocalRankCopy = 1
    message.task1.opType, message.task1.reduceType = HcclCommand.ALLREDUCE, HcclReduceOp.MAX
    x, out = np.full(3, r + 1, np.int32), np.zeros((n, 3), np.int32)
    with Hccl(group, message) as hccl:
        hccl.AllGather(x, out, 3, commit=True)
        with pytest.raises(ArgumentError, match=re.escape("must be one of those in the tiling")):
            hccl.AlltoAll(out, np.zeros((n, 3), np.int32), 3)
        with pytest.raises(ArgumentError, match="but got AllReduce with op 0"):
            hccl.AllReduce(x, x, 3, commit=True)
        hccl.AllReduce(x, x, 3, op=HcclReduceOp.MAX, commit=True)
    expected = np.repeat(np.arange(1, n + 1), 3).reshape(n, 3)
    expected[r] = 0  # the own part was to be skipped
    assert (out == expected).all(), out
    assert (x == n).all()
    with Hccl(group) as hccl:  # the terms ended with their kernel
        hccl.AllGather(x, out, 3, commit=True)
    assert (out == n).all()


@pytest.mark.parametrize("version", ["v2", "api", "api512"])
def test_messages_that_list_tasks_are_the_terms_of_the_kernel(version):
    emu.launch(listed_tasks, 2, args=(version,))


REFUSED = [
    ({"preparePosition": 7}, "preparePosition must be 0 or 1, but got 7"),
    ({"commAlg": 2}, "commAlg must be 0 or 1 (full mesh)"),
    ({"turnNum": 0}, "turnNum must be at least 1 and at least tailNum, but they are 0 and 1"),
    ({"tailNum": 4}, "turnNum must be at least 1 and at least tailNum, but they are 3 and 4"),
    ({"commType": 1}, "commType must be one of"),
    ({"commType": 8}, "commType must be one of"),
    ({"dataType": 12}, "dataType must be in [0, 11], but got 12"),
    ({"totalCnt": 65}, "totalCnt must be 0 or 66, the elements of all turns, but got 65"),
    ({"recvCnt": 5}, "recvCnt must be 0, 24 or 48"),
    ({"stride": 10}, "strideCount of AllGather must be at least 48"),
    ({"sendOff": 100}, "sendOff must leave room for 48 elements of 4 bytes"),
    ({"tailSendOff": 200}, "tailSendOff must leave room for 18 elements"),
    ({"tailRecvOff": 196}, "tailRecvOff must leave room for"),
    ({"recvOff": 2}, "offsets must be multiples of 4, but got 2"),
    ({"sendArgIndex": 5}, "sendArgIndex must be in [0, 5)"),
    (
        {"commOutArgIndex": 1},
        "commOutArgIndex must name dense memory that was given, but argument 1",
    ),
    (
        {"useBufferType": 4},
        "useBufferType must name dense memory that was given, but the workspace",
    ),
    ({"useBufferType": 7}, "useBufferType must be in [0, 6], but got 7"),
]


def refused_messages():
    group = emu.world()
    x, out = np.zeros((M, K), np.float32), np.zeros((group.n_pes * M, K), np.float32)
    strided = np.zeros((4, 4))[:, ::2]  # an argument that the server has no use for
    args = [x, None, strided, np.zeros(1), out]
    for more, text in REFUSED:
        with pytest.raises(ArgumentError, match=re.escape(text)):
            Hccl(group, gather_message(**more), args)
    with pytest.raises(ArgumentError, match="sendArgIndex must name dense memory"):
        Hccl(group, gather_message(sendArgIndex=2), args)
    old = convert(make_mc2msg(turnNum=1, sendCnt=4), "112")
    with pytest.raises(ArgumentError, match="a message of version 112 must not be executed"):
        Hccl(group, old.to_bytes(), args)
    packed = gather_message(commAlg=1).to_bytes()
    with pytest.raises(ArgumentError, match="must have 96 "):
        Hccl(group, packed[:60], args)
    listed = make_mc2msg("v2", n_tasks=1)
    listed.task0.opType = HcclCommand.SEND
    with pytest.raises(ArgumentError, match="opType must be one of"):
        Hccl(group, listed)
    listed.task0.opType, listed.task0.groupName = HcclCommand.ALLGATHER, "elsewhere"
    with pytest.raises(ArgumentError, match="groupName must be that of the communicator, 'world'"):
        Hccl(group, listed)
    listed.task0.groupName, listed.task0.algConfig = "", "AllGather=level0:doublering"
    with pytest.raises(ArgumentError, match="algConfig must be empty or name fullmesh"):
        Hccl(group, listed)
    with Hccl(group, gather_message(), args):  # nothing of all that is left behind
        pass
    return True


def test_messages_that_cannot_be_executed_are_refused_before_they_are_sent():
    assert emu.launch(refused_messages, 2) == [True, True]


def kernels_follow_each_other():
    """A kernel without tasks ends before its server has read what it was launched with."""
    group = emu.world()
    x, out = np.zeros((M, K), np.float32), np.zeros((group.n_pes * M, K), np.float32)
    args = [x, None, None, np.zeros(1), out]
    for number in range(100):
        x[:] = number
        with Hccl(group, make_mc2msg(preparePosition=1)):
            pass
        with Hccl(group, gather_message(waitPolicy=1), args) as hccl:
            for _ in range(3):
                hccl.Commit(0)
        assert (out == number).all()


def test_a_launch_waits_until_the_one_before_has_been_read():
    emu.launch(kernels_follow_each_other, 2, timeout=20)


def one_rank_has_other_tiling_data():
    group = emu.world()
    x, out = np.zeros((M, K), np.float32), np.zeros((group.n_pes * M, K), np.float32)
    more = {"totalCnt": 0, "sendCnt": TILE * K - 6} if group.my_pe else {}
    args = [x, None, None, np.zeros(1), out]
    with (
        pytest.raises(TaskMismatchError) as caught,
        Hccl(group, gather_message(**more), args) as hccl,
    ):
        hccl.Wait(0)
    return str(caught.value)


def test_hosts_that_differ_are_reported():
    for text in emu.launch(one_rank_has_other_tiling_data, 2):
        assert "count must be the same on every rank" in text
        assert "count=24" in text
        assert "count=18" in text
        assert "from the host's tiling data" in text
