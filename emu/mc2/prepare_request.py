"""One Prepare call of ``Hccl``: checks of its arguments, and the message to the server."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.server.comm_kernel import MemoryRegion
from emu.comm.server.server_end import ServerEnd
from emu.comm.server.tasks import NAMES, NUMPY_DTYPES, REDUCE_OPS, REDUCED_DTYPES, REDUCING, extent
from emu.comm.tiling.enums import HcclCommand, HcclDataType, HcclReduceOp
from emu.comm.world.checks import check
from emu.kernels.core.address import array_data
from emu.kernels.core.messages import shown
from emu.mc2.arguments import local_memory

Array = np.ndarray[Any, Any]

MAX_REPEAT = 255
"""Most turns of a task."""

_NUMBERS = {dtype: number for number, dtype in NUMPY_DTYPES.items()}
_KNOWN = "one of " + ", ".join(str(dtype) for dtype in _NUMBERS)
MAX_COUNT = 1 << 48


def locate(server: ServerEnd, name: str, value: object) -> tuple[Array, MemoryRegion]:
    """Return an array and where it lies.

    Raises:
        ArgumentError: It is not an array, or not dense.
    """
    array = local_memory(name, value)
    if not array.flags.c_contiguous:
        raise ArgumentError(
            f"{name} must be dense (C order), but got strides {array.strides} for shape "
            f"{array.shape}"
        )
    address = int(array_data(id(array)))
    offset = address - server.heap
    in_heap = 0 <= offset < server.group.segment.layout.heap_room
    return array, MemoryRegion(offset if in_heap else address, array.nbytes, in_heap)


def data_type(name: str, value: object) -> int:
    """Return the number of a dtype given as HcclDataType, its number, or a NumPy dtype.

    Raises:
        ArgumentError: It is not one of these.
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return check.integer(name, value, 0, len(NUMPY_DTYPES) - 1)
    dtype = value if isinstance(value, np.dtype) else check.dtype(name, value)
    number = _NUMBERS.get(dtype)
    if number is None:
        raise ArgumentError(f"{name} must be {_KNOWN}, but got {shown(value)}")
    return int(number)


class PrepareRequest:
    """Message of one task, filled as its arguments are checked.

    Attributes:
        message: Record that the server will read.
        kept: Arrays that must live until the task is done.
    """

    def __init__(
        self,
        server: ServerEnd,
        command: HcclCommand,
        count: object,
        repeat: object,
        dtype: object,
        *,
        count_name: str = "count",
    ) -> None:
        self.command, self.name = command, NAMES[command]
        self.count = check.integer(f"{count_name} of {self.name}", count, 0, MAX_COUNT)
        self.repeat = check.integer(f"repeat of {self.name}", repeat, 1, MAX_REPEAT)
        self._given = None if dtype is None else data_type("dtype", dtype)
        self._server, self._n_pes = server, server.group.n_pes
        self.message = server.message()
        self.message["command"], self.message["count"] = int(command), self.count
        self.message["repeat"] = self.repeat
        self.kept: tuple[Array, ...] = ()

    def set_operation(self, op: object) -> None:
        """Set the operation of a reduction."""
        try:
            number = HcclReduceOp(int(op)) if isinstance(op, int | np.integer) else None
        except ValueError:
            number = None
        if number is None or number not in REDUCE_OPS:
            raise ArgumentError(
                f"op of {self.name} must be HcclReduceOp.SUM, MAX or MIN, but got {shown(op)}"
            )
        self.message["op"] = int(number)

    def set_stride(self, stride: object = 0) -> tuple[int, int]:
        """Set strideCount; return the number of elements of input and output that the task spans."""
        self.message["stride"] = check.integer(f"strideCount of {self.name}", stride, 0, MAX_COUNT)
        return extent(self.message, self._n_pes)

    def set_counts(self, side: str, counts: object, displs: object) -> int:
        """Set the counts and displacements of one side; return the number of elements that they span."""
        names = (f"{side}Counts", "sdispls" if side == "send" else "rdispls")
        rows = []
        for name, values in zip(names, (counts, displs), strict=True):
            kinds = (list, tuple, range, np.ndarray)
            if not isinstance(values, kinds) or getattr(values, "ndim", 1) != 1:
                raise ArgumentError(f"{name} must be a list of integers, but got {shown(values)}")
            row = [check.integer(f"{name}[{i}]", v, 0, MAX_COUNT) for i, v in enumerate(values)]
            if len(row) != self._n_pes:
                raise ArgumentError(
                    f"{name} must have {self._n_pes} elements, one per rank, but got {len(row)}"
                )
            rows.append(row)
        self.message[f"{side}_counts"], self.message[f"{side}_displs"] = rows
        spans = sorted((d, n * self.repeat) for n, d in zip(*rows, strict=True) if n)
        # Overlapping sources are fine; overlapping targets would depend on the order of arrival.
        if side == "recv":
            for (start, length), (following, _) in itertools.pairwise(spans):
                if start + length > following:
                    raise ArgumentError(
                        f"rdispls must keep the ranks' elements apart, but {length} elements from "
                        f"{start} reach beyond {following}"
                    )
        return max((start + length for start, length in spans), default=0)

    def check_own_counts(self, my: int) -> None:
        """Check the counts that this rank sends itself; the servers compare the others."""
        sent, received = int(self.message["send_counts"][my]), int(self.message["recv_counts"][my])
        if sent != received:
            raise ArgumentError(
                f"sendCounts[{my}] and recvCounts[{my}] of rank {my} must be the same, what it sends to "
                f"itself, but got {sent} and {received}"
            )

    def set_memory(
        self, send: object, recv: object, sent: int, received: int, *, own: int | None = None
    ) -> None:
        """Set the two arrays.

        Args:
            send: Input.
            recv: Output.
            sent: Number of elements that the task reads.
            received: Number of elements up to the last that it writes.
            own: Element of ``recv`` at which ``send`` may begin if they overlap. Default: nowhere.
        """
        source, sends = self._place("send", send, sent)
        target, receives = self._place("recv", recv, received)
        if source.dtype != target.dtype:
            raise ArgumentError(
                f"recv must have the dtype of send, {source.dtype}, but got {target.dtype}"
            )
        number = data_type("send", source.dtype)
        if self._given is not None and self._given != number:
            raise ArgumentError(
                f"dtype must be that of send, {source.dtype}, but got "
                f"{HcclDataType(self._given).name}"
            )
        if self.command in REDUCING and number not in REDUCED_DTYPES:
            names = ", ".join(HcclDataType(d).name for d in sorted(REDUCED_DTYPES))
            raise ArgumentError(
                f"send of {self.name} must have one of the dtypes {names}, but got "
                f"{HcclDataType(number).name}"
            )
        if not target.flags.writeable:
            raise ArgumentError("recv must be writable, but got a read-only array")
        self._check_overlap(source, target, sent, received, own)
        message = self.message
        message["dtype"] = number
        for name, where in (("send", sends), ("recv", receives)):
            message[name], message[f"{name}_in_heap"] = where.address, where.in_heap
        self.kept = (source, target)

    def _place(self, name: str, value: object, needed: int) -> tuple[Array, MemoryRegion]:
        array, where = locate(self._server, f"{name} of {self.name}", value)
        if array.size < needed:
            raise ArgumentError(
                f"{name} of {self.name} must have at least {needed} elements for {self.repeat} "
                f"turns on {self._n_pes} ranks, but got {array.size}"
            )
        return array, where

    def _check_overlap(
        self, source: Array, target: Array, sent: int, received: int, own: int | None
    ) -> None:
        size = source.itemsize
        first, there = int(array_data(id(source))), int(array_data(id(target)))
        # In place: the task leaves this rank's own part where it is. Any other overlap would be overwritten
        # before peers have read it.
        if own is not None and first == there + own * size:
            return
        reach = there + received * size
        if sent and received and first < reach and there < first + sent * size:
            where = "" if own is None else f" but for element {own} of recv being that of send,"
            raise ArgumentError(
                f"recv of {self.name} must not overlap send,{where} but they share memory"
            )
