"""The enumerations of tiling data and of the communication API, with their numbers in the bytes."""

from __future__ import annotations

import enum


class HcclCommand(enum.IntEnum):
    """What a task does."""

    BROADCAST = 1
    ALLREDUCE = 2
    REDUCE = 3
    SEND = 4
    RECEIVE = 5
    ALLGATHER = 6
    REDUCE_SCATTER = 7
    ALLTOALLV = 8
    ALLTOALLVC = 9
    ALLTOALL = 10
    GATHER = 11
    SCATTER = 12
    BATCH_SEND_RECV = 13
    ALLGATHER_V = 16
    REDUCE_SCATTER_V = 17


class HcclReduceOp(enum.IntEnum):
    """How a reduction combines."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3


class HcclDataType(enum.IntEnum):
    """Of what kind the elements are."""

    INT8 = 0
    INT16 = 1
    INT32 = 2
    FP16 = 3
    FP32 = 4
    INT64 = 5
    UINT64 = 6
    UINT8 = 7
    UINT16 = 8
    UINT32 = 9
    FP64 = 10
    BF16 = 11
