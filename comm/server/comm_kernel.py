"""Communication kernels and their launches, as the server reads them from tiling data.

The compute side writes the bytes of the tiling data, and where the operator's arguments lie, into its
part of shared memory; the server reads them there. With ``preparePosition`` 1 they only set the terms:
the kernel posts its tasks itself. With ``preparePosition`` 0 they *are* the task, cut into turns:

* turn i of the ``turnNum - tailNum`` full ones moves ``sendCnt`` elements of ``dataType``, i times as many
  behind ``sendOff`` bytes of the input and ``recvOff`` of the output; the tails go on with ``tailSendCnt``
  at ``tailSendOff`` and ``tailRecvOff``. ``stride`` are elements between two ranks' parts.
* ``commOrder`` 0: the input is argument ``sendArgIndex``, and ``useBufferType`` says where the output goes, by
  default (0 and 6) to argument ``commOutArgIndex``. ``commOrder`` 1: ``useBufferType`` says where the
  computation has left the input, by default (0 and 4) in the workspace behind ``workspaceOff``, and the
  output is argument ``recvArgIndex``.
* ``waitPolicy`` 1 has each turn wait for a Commit, 2 all of them for the first; 0 leaves it to ``commOrder``:
  what comes first waits for nothing, what comes last for every turn.
* ``rspPolicy`` 2 has the kernel hear of all turns at the end; else it hears of each.
* ``hasCommOut`` 1 has this rank's own part copied too.

``notifyOff``, ``notifyBeginCnt``, ``notifyEndCnt``, ``funID``, ``groupNum``, ``reuseMode``, ``taskType``,
``debugMode``, ``stepSize`` and ``exitPolicy`` are carried and change nothing here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import ArgumentError
from emu.comm.server import tasks
from emu.comm.server.tasks import EVERY_TURN, NEVER, ONCE
from emu.comm.tiling import (
    CommAlg,
    CommOrder,
    HcclCommand,
    HcclDataType,
    PreparePosition,
    RspPolicy,
    TilingData,
    UseBufferType,
    Version,
    WaitPolicy,
    read_mc2msg,
    version_of,
)

MAX_ARGUMENTS = 64
MAX_TILING_BYTES = 5120
MAX_TURNS = 255
"""Full turns, or tails, of the host's task."""
MAX_COUNT = 1 << 48

_WORKSPACE, _WINDOW_IN, _WINDOW_OUT = range(MAX_ARGUMENTS, MAX_ARGUMENTS + 3)
_ENTRY = np.dtype([("address", "<i8"), ("nbytes", "<u8"), ("in_heap", "<u4"), ("given", "<u4")])
_AREA = np.dtype(
    [
        ("tiling_bytes", "<u4"),
        ("expected", "<u4"),  # version of the message, counted from 1; 0: any
        ("n_arguments", "<u4"),
        ("reserved", "<u4"),
        ("regions", _ENTRY, (MAX_ARGUMENTS + 3,)),
        ("tiling", "u1", (MAX_TILING_BYTES,)),
    ]
)
AREA_BYTES = _AREA.itemsize
"""Bytes of shared memory per launch."""

_VERSIONS = tuple(Version)


class MemoryRegion(NamedTuple):
    """Dense memory of a PE: an offset in its heap, or an address of its process."""

    address: int
    nbytes: int
    in_heap: bool


@dataclass(frozen=True, kw_only=True)
class CommKernel:
    """A communication kernel as its tiling data describes it."""

    message: TilingData
    version: Version
    position: PreparePosition
    tasks: tuple[TilingData, ...]
    """The tasks that V2 and API messages list; none: any task may be prepared."""

    @property
    def turns(self) -> int:
        """Turns that the host has prepared."""
        return int(self.message.turnNum) if self.position == PreparePosition.HOST else 0

    @property
    def wait_policy(self) -> int:
        """Turns of the host's task before which the server waits, a ``WaitPolicy``; 0: none."""
        given = int(self.message.waitPolicy)
        last = self.message.commOrder == CommOrder.COMMUNICATION_LAST
        return given or (WaitPolicy.EVERY_TURN if last else 0)

    def check_task(self, command: int, op: int) -> bool:
        """Check that a task may be prepared; return whether this rank's own part is copied.

        Raises:
            ArgumentError: The message does not list it.
        """
        if not self.tasks:
            return True
        for task in self.tasks:
            if task.opType == command and (command not in tasks.REDUCING or task.reduceType == op):
                return not task.skipLocalRankCopy
        listed = ", ".join(
            tasks.NAMES.get(int(t.opType), str(t.opType))
            + (f" with op {t.reduceType}" if t.opType in tasks.REDUCING else "")
            for t in self.tasks
        )
        raise ArgumentError(
            f"a task must be one of those in the tiling data ({listed}), but got "
            f"{tasks.NAMES[command]}" + (f" with op {op}" if command in tasks.REDUCING else "")
        )


def tiling_bytes(tiling: Any) -> bytes:
    """Return tiling data given as a struct or as a buffer.

    Raises:
        ArgumentError: It is neither, or too long.
    """
    if isinstance(tiling, TilingData):
        data = tiling.to_bytes()
    elif type(tiling) is bytes:
        data = tiling
    else:
        try:
            data = memoryview(tiling).tobytes()
        except (TypeError, ValueError, BufferError):
            raise ArgumentError(
                f"tiling must be TilingData or a buffer of bytes, but got {type(tiling).__name__}"
            ) from None
    if len(data) > MAX_TILING_BYTES:
        raise ArgumentError(
            f"tiling must have at most {MAX_TILING_BYTES} bytes, but got {len(data)}"
        )
    return data


# By its bytes: the compute side and its server, threads of one process, parse the same tiling data once.
@functools.lru_cache(maxsize=64)
def read_kernel(tiling: bytes, expected: Version | None, group: str) -> CommKernel:
    """Read the tiling data of a communication kernel.

    Args:
        tiling: Bytes that begin with an Mc2Msg of any version.
        expected: Its version. Default: whatever is detected.
        group: Name of the communicator.

    Raises:
        ArgumentError: The bytes are not a message, or one that a server cannot execute.
    """
    message = read_mc2msg(tiling, expected=expected)
    version = version_of(message)
    listed: tuple[TilingData, ...] = ()
    if version in (Version.V2, Version.API, Version.API_512):
        count = message.count if version is Version.V2 else message.init.count
        listed = tuple(getattr(message, f"task{i}") for i in range(int(count)))
        position = 1 if version is Version.V2 else int(message.init.preparePosition)
        for task in listed:
            _check_listed(task, group)
    else:
        position = int(getattr(message, "preparePosition", 0))
        if message.commAlg not in (CommAlg.DEFAULT, CommAlg.FULL_MESH):
            raise ArgumentError(
                "commAlg must be 0 or 1 (full mesh), the algorithm that the server executes, but "
                f"got {message.commAlg}"
            )
    if position not in PreparePosition.__members__.values():
        raise ArgumentError(f"preparePosition must be 0 or 1, but got {position}")
    if position == PreparePosition.HOST and (
        listed or version in (Version.OLD_112, Version.PACKED_92)
    ):
        raise ArgumentError(
            f"a message of version {version.value} must not be executed as the host's task, because "
            "it lacks counts or argument indices: use version v1 or 128, or preparePosition 1"
        )
    return CommKernel(
        message=message, version=version, position=PreparePosition(position), tasks=listed
    )


def _check_listed(task: TilingData, group: str) -> None:
    if int(task.opType) not in tasks.NAMES:
        served = ", ".join(f"{c} {name}" for c, name in tasks.NAMES.items())
        raise ArgumentError(f"opType must be one of {served}, but got {task.opType}")
    name = bytes(task.groupName).rstrip(b"\0").decode(errors="replace")
    if name not in ("", group):
        raise ArgumentError(
            f"groupName must be that of the communicator, {group!r}, but got {name!r}"
        )
    algorithm = bytes(task.algConfig).rstrip(b"\0").decode(errors="replace")
    if algorithm and "fullmesh" not in algorithm.lower():
        raise ArgumentError(
            f"algConfig must be empty or name fullmesh, the algorithm that the server executes, but "
            f"got {algorithm!r}"
        )


def write_launch(
    area: Array,
    tiling: bytes,
    expected: Version | None,
    arguments: Sequence[MemoryRegion | None],
    workspace: MemoryRegion | None,
    windows: tuple[MemoryRegion | None, MemoryRegion | None],
) -> None:
    """Write a launch into shared memory, for the server.

    Args:
        area: ``AREA_BYTES`` bytes of it.
        tiling: The tiling data.
        expected: Version of its message, if it shall not be detected.
        arguments: Memory of the operator's arguments, in the order of its prototype; None for those left
            out.
        workspace: Memory of its workspace.
        windows: Memory of its windows, in and out.
    """
    header = area[:AREA_BYTES].view(_AREA)[0]
    header["tiling_bytes"], header["n_arguments"] = len(tiling), len(arguments)
    header["expected"] = 0 if expected is None else _VERSIONS.index(expected) + 1
    header["tiling"][: len(tiling)] = np.frombuffer(tiling, np.uint8)
    given = dict(enumerate(arguments))
    given |= {_WORKSPACE: workspace, _WINDOW_IN: windows[0], _WINDOW_OUT: windows[1]}
    for index, place in given.items():
        header["regions"][index] = (0, 0, 0, 0) if place is None else (*place, 1)


class KernelLaunch:
    """A launch as the server finds it in shared memory.

    Args:
        area: Its bytes.
        group: Name of the communicator.

    Raises:
        ArgumentError: See :func:`read_kernel`.
    """

    def __init__(self, area: Array, group: str) -> None:
        header = area[:AREA_BYTES].view(_AREA)[0]
        code, size, arguments = (
            int(header[f]) for f in ("expected", "tiling_bytes", "n_arguments")
        )
        for name, value, most in (
            ("expected version", code, len(_VERSIONS)),
            ("bytes of the tiling data", size, MAX_TILING_BYTES),
            ("arguments", arguments, MAX_ARGUMENTS),
        ):
            if value > most:
                raise ArgumentError(f"{name} of a launch must be at most {most}, but got {value}")
        expected = None if code == 0 else _VERSIONS[code - 1]
        tiling = bytes(header["tiling"][:size])
        self.kernel = read_kernel(tiling, expected, group)
        self._header = header

    def region(self, index: int, name: str) -> MemoryRegion:
        """Return the memory of an argument.

        Args:
            index: Of the argument, or, where ``name`` is useBufferType, of the workspace or a window.
            name: The field that says so.

        Raises:
            ArgumentError: There is no such argument.
        """
        count = int(self._header["n_arguments"])
        if index >= count and name != "useBufferType":
            raise ArgumentError(
                f"{name} must be in [0, {count}), the operator's arguments, but got {index}"
            )
        entry = self._header["regions"][index]
        if not entry["given"]:
            what = f"argument {index}" if index < MAX_ARGUMENTS else "the workspace or window"
            raise ArgumentError(f"{name} must name dense memory that was given, but {what} is none")
        return MemoryRegion(int(entry["address"]), int(entry["nbytes"]), bool(entry["in_heap"]))

    def records(self, n_pes: int, session: int, slot: int) -> list[Array]:
        """Make the records of the task that the host has prepared: full turns, then tails.

        Args:
            n_pes: Members of the communicator.
            session: Number of the kernel.
            slot: Slot of the message that announced it.

        Raises:
            ArgumentError: The fields don't fit together, or reach beyond the arguments.
        """
        message = self.kernel.message
        _check_host_task(message)
        parts = _parts(message, n_pes)
        once = message.rspPolicy == RspPolicy.AT_THE_END
        first, records = 0, []
        for index, part in enumerate(parts):
            record: Array = np.zeros((), tasks.record_dtype(n_pes))
            record["session"], record["index"] = session, index
            record["command"], record["dtype"] = int(message.commType), int(message.dataType)
            record["op"], record["count"] = message.reduceOp, part.count
            record["stride"], record["repeat"] = message.stride, part.repeat
            record["slot"], record["first"] = slot, first
            record["wait_policy"] = self.kernel.wait_policy
            record["answer_policy"] = EVERY_TURN
            if once:  # after the last turn of the last part, for all of them
                record["answer_policy"] = ONCE if index == len(parts) - 1 else NEVER
            record["keeps_own"] = bool(message.hasCommOut)
            tasks.check(record)
            self._find_memory(record, part, n_pes)
            records.append(record)
            first += part.repeat
        return records

    def _find_memory(self, record: Array, part: _Part, n_pes: int) -> None:
        """Fill in where input and output lie, and check that they are large enough."""
        message = self.kernel.message
        size = HcclDataType(int(record["dtype"])).itemsize
        try:
            sent, received = tasks.extent(record, n_pes)
        except ArgumentError as error:
            raise ArgumentError(f"stride of the tiling data: {error}") from None
        first = message.commOrder == CommOrder.COMMUNICATION_FIRST
        buffer, offset, field = self._buffer(first)
        if first:
            sides = [
                ("send", int(message.sendArgIndex), "sendArgIndex", part.send, sent),
                ("recv", buffer, field, part.recv + offset, received),
            ]
        else:
            sides = [
                ("send", buffer, field, part.send + offset, sent),
                ("recv", int(message.recvArgIndex), "recvArgIndex", part.recv, received),
            ]
        for name, index, source, start, count in sides:
            place = self.region(index, source)
            if start + count * size > place.nbytes:
                off = f"tail{name.capitalize()}Off" if part.is_tail else f"{name}Off"
                raise ArgumentError(
                    f"{off} must leave room for {count} elements of {size} bytes, but {start} + "
                    f"{count * size} is beyond the {place.nbytes} bytes of what {source} names"
                )
            if start % size:
                raise ArgumentError(f"offsets must be multiples of {size}, but got {start}")
            record[name], record[f"{name}_in_heap"] = place.address + start, place.in_heap

    def _buffer(self, first: bool) -> tuple[int, int, str]:
        """Return (place, byte offset in it, field that names it) of what useBufferType says."""
        message = self.kernel.message
        kind = int(message.useBufferType)
        if kind == UseBufferType.DEFAULT:
            kind = UseBufferType.COMM_OUT if first else UseBufferType.WORKSPACE
        by_index = {
            UseBufferType.OUTPUT: "recvArgIndex",
            UseBufferType.INPUT: "sendArgIndex",
            UseBufferType.COMM_OUT: "commOutArgIndex",
        }
        if kind in by_index:
            field = by_index[UseBufferType(kind)]
            return int(getattr(message, field)), 0, field
        if kind == UseBufferType.WORKSPACE:
            return _WORKSPACE, int(message.workspaceOff), "useBufferType"
        if kind in (UseBufferType.WINDOW_IN, UseBufferType.WINDOW_OUT):
            window = _WINDOW_IN if kind == UseBufferType.WINDOW_IN else _WINDOW_OUT
            return window, 0, "useBufferType"
        raise ArgumentError(f"useBufferType must be in [0, 6], but got {kind}")


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Turns of the host's task that move equally many elements: its full turns, or its tails."""

    repeat: int
    count: int
    send: int
    recv: int
    is_tail: bool


def _check_host_task(message: TilingData) -> None:
    """Check what the host's task says, apart from counts and places."""
    turns, tails = int(message.turnNum), int(message.tailNum)
    if not 0 <= tails <= turns or turns < 1:
        raise ArgumentError(
            f"turnNum must be at least 1 and at least tailNum, but they are {turns} and {tails}"
        )
    command, dtype = int(message.commType), int(message.dataType)
    if command not in tasks.NAMES or command == HcclCommand.ALLTOALLV:
        known = ", ".join(f"{c} {n}" for c, n in tasks.NAMES.items() if c != HcclCommand.ALLTOALLV)
        raise ArgumentError(f"commType must be one of {known}, but got {command}")
    if dtype not in tasks.NUMPY_DTYPES:
        raise ArgumentError(f"dataType must be in [0, 11], but got {dtype}")


def _parts(message: TilingData, n_pes: int) -> list[_Part]:
    """Return the parts of the host's task after checking their counts."""
    turns, tails = int(message.turnNum), int(message.tailNum)
    parts = []
    if turns > tails:
        parts.append(
            _Part(
                repeat=turns - tails,
                count=_count(message, "", n_pes),
                send=int(message.sendOff),
                recv=int(message.recvOff),
                is_tail=False,
            )
        )
    if tails:
        parts.append(
            _Part(
                repeat=tails,
                count=_count(message, "tail", n_pes),
                send=int(message.tailSendOff),
                recv=int(message.tailRecvOff),
                is_tail=True,
            )
        )
    for part in parts:
        if part.repeat > MAX_TURNS:
            what = "tailNum" if part.is_tail else "turnNum - tailNum"
            raise ArgumentError(f"{what} must be at most {MAX_TURNS}, but got {part.repeat}")
        if max(part.count, int(message.stride)) > MAX_COUNT:
            raise ArgumentError(
                f"counts and stride of the tiling data must be at most {MAX_COUNT}, but got "
                f"{max(part.count, int(message.stride))}"
            )
    total = sum(part.repeat * part.count for part in parts)
    if message.totalCnt not in (0, total):
        raise ArgumentError(
            f"totalCnt must be 0 or {total}, the elements of all turns, but got {message.totalCnt}"
        )
    return parts


def _count(message: TilingData, kind: str, n_pes: int) -> int:
    """Return the elements of a turn; the other side's count must be 0 or say the same."""
    names = ("tailSendCnt", "tailRecvCnt") if kind else ("sendCnt", "recvCnt")
    sent, received = (int(getattr(message, name)) for name in names)
    command = message.commType
    if command == HcclCommand.REDUCE_SCATTER:  # counted by what a rank receives
        count, other, name = received, sent, names[0]
        if not count and other % n_pes == 0:
            count = other // n_pes
    else:
        count, other, name = sent, received, names[1]
    whole = (
        count * n_pes if command in (HcclCommand.ALLGATHER, HcclCommand.REDUCE_SCATTER) else count
    )
    if other not in (0, count, whole):
        raise ArgumentError(
            f"{name} must be 0, {count} or {whole} beside {count} elements a turn, but got {other}"
        )
    return count
