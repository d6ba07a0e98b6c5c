"""Enumerations of the numbers in a communication message."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class PreparePosition(enum.IntEnum):
    """The side that prepares the tasks."""

    HOST = 0
    """The host has prepared all of them; the server fetches them once."""
    KERNEL = 1
    """The kernel posts them while it runs; the server serves them as they come."""


class UseBufferType(enum.IntEnum):
    """The buffer that the data is received in."""

    DEFAULT = 0
    OUTPUT = 1
    WINDOW_IN = 2
    WINDOW_OUT = 3
    WORKSPACE = 4
    INPUT = 5
    COMM_OUT = 6


class CommOrder(enum.IntEnum):
    """The order of communication and computation."""

    COMMUNICATION_FIRST = 0
    COMMUNICATION_LAST = 1


class WaitPolicy(enum.IntEnum):
    """The turns before which the server waits for the kernel."""

    EVERY_TURN = 1
    FIRST_TURN = 2


class RspPolicy(enum.IntEnum):
    """The turns after which the server answers the kernel."""

    EVERY_TURN = 1
    AT_THE_END = 2


class ExitPolicy(enum.IntEnum):
    """The point at which the server is done with a message."""

    AFTER_LAUNCH = 0
    AFTER_EXECUTION = 1


class CommAlg(enum.IntEnum):
    """The algorithm of a collective."""

    DEFAULT = 0
    FULL_MESH = 1
    """Any two ranks exchange directly; AllReduce is ReduceScatter and AllGather."""
    DOUBLE_RING = 2
    SWITCH_WING = 3


class HcclCommand(enum.IntEnum):
    """A kind of communication task."""

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
    """The operation by which a reduction combines the elements of the ranks."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3


class HcclDataType(enum.IntEnum):
    """The type of the elements of a task."""

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

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.name.lstrip("BFINPTU")) // 8  # the name ends with the number of bits

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype; of ``BF16`` that of ml_dtypes."""
        import numpy as np

        if self is HcclDataType.BF16:
            import ml_dtypes  # NumPy has no name for it

            bfloat16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        dtype: np.dtype[np.generic] = np.dtype(self.name.lower().replace("fp", "float"))
        return dtype

    @classmethod
    def from_numpy(cls, dtype: npt.DTypeLike | HcclDataType) -> HcclDataType:
        """Return the type of elements of a NumPy dtype.

        Args:
            dtype: Anything that ``numpy.dtype`` takes, of the machine's byte order.

        Raises:
            ArgumentError: No task can have such elements.
        """
        import numpy as np

        if isinstance(dtype, HcclDataType):
            return dtype
        try:
            given = np.dtype(dtype)
        except Exception:  # noqa: BLE001 - NumPy refuses other objects in many ways
            raise ArgumentError(f"dtype must be a NumPy dtype, but got {shown(dtype)}") from None
        # The name says nothing of the byte order, which must be the machine's.
        name = given.name.replace("bfloat", "bf").replace("float", "fp").upper()
        if name not in cls.__members__ or not given.isnative:
            names = ", ".join(str(member.numpy) for member in cls)
            raise ArgumentError(f"dtype must be one of {names}, but got {given}")
        return cls[name]


def label(member: enum.IntEnum) -> str:
    """Return the name of an enumeration's value in words: ``full mesh``."""
    return member.name.lower().replace("_", " ")
