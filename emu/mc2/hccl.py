"""``Hccl``: the communication API of a fused operator's kernel, under its C++ names.

An operator makes one ``Hccl`` per call, on every rank. It *prepares* its communication tasks, *commits*
them turn by turn as their inputs become ready, computes in the meantime, and *waits* for a turn
before it uses the turn's output. The communication server of the PE (:mod:`emu.comm.server.server`)
executes the tasks concurrently, over several hosts, too::

    with Hccl(group) as hccl:
        handle = hccl.AllGather(x, gathered, count, strideCount=stride, repeat=tiles, commit=True)
        ...  # multiply the own rows
        for tile in range(tiles):
            hccl.Wait(handle)
            ...  # multiply the rows that have arrived
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from emu.comm.errors import ArgumentError, ServerError, SymmetricMemoryError
from emu.comm.server.comm_kernel import (
    MAX_ARGUMENTS,
    CommKernel,
    KernelLaunch,
    MemoryRegion,
    read_kernel,
    tiling_bytes,
    write_launch,
)
from emu.comm.server.ends import server_of
from emu.comm.server.server_end import ServerEnd, Turn
from emu.comm.server.tasks import LAUNCH, NAMES, PREPARE, operator_tag
from emu.comm.tiling import (
    HcclCommand,
    HcclReduceOp,
    PreparePosition,
    UseBufferType,
    Version,
    WaitPolicy,
)
from emu.comm.world import recording
from emu.comm.world.array import SymmetricArray
from emu.comm.world.checks import check
from emu.comm.world.current import world
from emu.comm.world.group import Group
from emu.kernels.core.messages import shown
from emu.mc2.arguments import Tensor
from emu.mc2.prepare_request import MAX_COUNT, PrepareRequest, data_type, locate
from emu.mc2.recorded import Move, moves_of, record_turns
from emu.tile.counting.state import Counting

Array = np.ndarray[Any, Any]

MAX_TASKS = 63
"""Tasks that a communication kernel can prepare."""

WINDOW_BYTES = 200 << 20
"""Default size of a window in bytes; only touched pages take memory."""


_WINDOWS = (UseBufferType.WINDOW_IN, UseBufferType.WINDOW_OUT)


class _Task:
    """The compute side's record of a prepared task."""

    def __init__(self, slot: int, name: str, repeat: int, base: int, committed: int) -> None:
        self.slot, self.name, self.repeat, self.base = slot, name, repeat, base
        self.committed, self.waited = committed, 0


class Hccl:
    """Compute side of a communication kernel: prepares, commits and awaits its tasks.

    Arrays are taken as flat memory that starts at their first element, as pointers are; an offset is a
    slice of a flat array. They must be dense. Input and output that lie in the PE's symmetric heap
    (``group.alloc``) are used by the other ranks in place; other input is copied once more.

    A turn is done when its output is there on this rank and no rank reads its input any more.

    The five Prepare calls (``AllReduce`` to ``AlltoAllV``) share three parameters: ``dtype``, an HcclDataType or
    a NumPy dtype, must be that of the arrays (default: theirs); ``repeat`` is the number of turns, 1 to
    255; ``commit`` releases all turns at once. Each returns the handle of its task, and raises
    ArgumentError for a bad argument, in which case nothing is prepared.

    With tiling data whose ``preparePosition`` is 0 the host has prepared the one task of the kernel: its
    handle is 0, and there is nothing to prepare (:mod:`emu.comm.server.comm_kernel`).

    Attributes:
        operator: The operator whose kernel this is, as reports show it, with all that must be the same on every
            rank: tasks of different operators never match. Default: empty.

    Args:
        group: The communicator. Default: the world.
        tiling: The operator's tiling data, bytes that begin with an Mc2Msg of any version; the server
            reads these bytes. Default: none, the kernel prepares any tasks.
        args: The operator's inputs in the order of its prototype, None for optional ones that are
            left out, then its outputs: the list that the argument indices of the tiling data refer to. Those
            that the server uses must be dense.
        version: Version of the Mc2Msg. Default: it is detected.
        workspace: The operator's workspace, for tiling data that names it.
        window_bytes: Size of each of the two windows.

    Raises:
        ArgumentError: The tiling data is malformed, or does not fit ``args``.
        ServerError: The communicator is in use, or an earlier kernel left it unusable.
    """

    def __init__(
        self,
        group: Group | None = None,
        tiling: object = None,
        args: Sequence[object] = (),
        *,
        version: Version | str | None = None,
        workspace: Tensor | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        if group is not None and not isinstance(group, Group):
            raise ArgumentError(f"group must be a Group or None, but got {shown(group)}")
        self._group: Group = world() if group is None else group
        self._server: ServerEnd = server_of(self._group)
        self._window_bytes = check.integer("window_bytes", window_bytes, 1, MAX_COUNT)
        self._tasks: list[_Task] = []
        self._moves: list[Move] = []
        self._last_waited = 0
        self._closed = False
        self.operator = ""
        self._server.claim()
        self._first_turn = self._server.prepared_turns
        self._kernel: CommKernel | None = None
        if tiling is not None:
            try:
                self._launch(tiling, version, args, workspace)
            except BaseException:
                self._closed = True
                self._server.kept.clear()
                self._server.retract()
                raise

    def _launch(self, tiling: object, version: object, args: object, workspace: object) -> None:
        """Hand the tiling data and the places of the arguments to the server.

        The server decodes the bytes that it finds in shared memory, and so does this side, first: errors are
        raised here, in the caller's thread, before anything is posted. The message itself is parsed once, since
        :func:`read_kernel` caches its results.
        """
        server = self._server
        data, expected = tiling_bytes(tiling), _version(version)
        kernel = read_kernel(data, expected, self._group.name)
        if not isinstance(args, list | tuple):
            raise ArgumentError(f"args must be a list or tuple of arrays, but got {shown(args)}")
        if len(args) > MAX_ARGUMENTS:
            raise ArgumentError(f"args must be at most {MAX_ARGUMENTS}, but got {len(args)}")
        places = [
            None if value is None or _is_strided(value) else self._keep(f"args[{i}]", value)
            for i, value in enumerate(args)
        ]
        space = None if workspace is None else self._keep("workspace", workspace)
        windows: tuple[MemoryRegion | None, MemoryRegion | None] = (None, None)
        if kernel.position == PreparePosition.HOST and kernel.message.useBufferType in _WINDOWS:
            me = self._group.my_pe
            windows = (
                self._keep("window", self.GetWindowsInAddr(me)),
                self._keep("window", self.GetWindowsOutAddr(me)),
            )
        _check_indices(kernel, places)
        area = np.zeros_like(server.launch_area)
        write_launch(area, data, expected, places, space, windows)
        if kernel.position == PreparePosition.HOST:  # raise the server's errors here
            for record in KernelLaunch(area, self._group.name).records(self._group.n_pes, 0, 0):
                self._moves += moves_of(record, self._group.n_pes)
                self._count(record)
        server.leave_launch(area)
        self._kernel = kernel
        message = server.message()
        message["kind"], message["session"] = LAUNCH, server.sessions
        committed = kernel.turns if kernel.position == 0 and kernel.wait_policy == 0 else 0
        slot = server.post(message, committed)
        if kernel.position == PreparePosition.HOST:
            name = NAMES[int(kernel.message.commType)]
            base = server.prepared_turns
            server.prepared_turns += kernel.turns
            self._tasks.append(_Task(slot, name, kernel.turns, base, committed))

    def _keep(self, name: str, value: object) -> MemoryRegion:
        array, where = locate(self._server, name, value)
        self._server.kept.append(array)
        return where

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.Finalize()
        else:
            self._leave()

    # --- prepare ---------------------------------------------------------------------------

    def AllReduce(
        self,
        send: Any,
        recv: Any,
        count: int,
        dtype: Any = None,
        op: int = HcclReduceOp.SUM,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Combine every rank's ``send`` element by element into everyone's ``recv``.

        Turn i uses the elements from ``count * i`` of both. ``recv`` may be ``send``. Elements combine in
        the order of ranks, fp16 and bf16 in fp32 with one rounding at the end; integers wrap.

        Args:
            send: At least ``count * repeat`` elements.
            recv: As many, of the same dtype.
            count: Elements of a turn.
            op: ``SUM``, ``MAX`` or ``MIN``.
        """
        request = PrepareRequest(self._server, HcclCommand.ALLREDUCE, count, repeat, dtype)
        request.set_operation(op)
        request.set_memory(send, recv, *request.set_stride(), own=0)
        return self._prepare(request, commit)

    def AllGather(
        self,
        send: Any,
        recv: Any,
        sendCount: int,
        dtype: Any = None,
        strideCount: int = 0,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Collect every rank's ``send``: rank r's turn i lands at ``recv[r * strideCount + i * sendCount]``.

        Args:
            send: At least ``sendCount * repeat`` elements. It may be this rank's part of ``recv``.
            recv: At least ``(ranks - 1) * strideCount + sendCount * repeat`` elements.
            sendCount: Elements of a turn.
            strideCount: Elements between two ranks' parts of ``recv``. 0: ``sendCount``, for one turn.
        """
        request = PrepareRequest(
            self._server, HcclCommand.ALLGATHER, sendCount, repeat, dtype, count_name="sendCount"
        )
        sizes = request.set_stride(strideCount)
        stride = int(request.message["stride"]) or request.count
        request.set_memory(send, recv, *sizes, own=self._group.my_pe * stride)
        return self._prepare(request, commit)

    def ReduceScatter(
        self,
        send: Any,
        recv: Any,
        recvCount: int,
        dtype: Any = None,
        op: int = HcclReduceOp.SUM,
        strideCount: int = 0,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Combine block r of every rank's ``send`` into rank r's ``recv``.

        Turn i uses the elements from ``r * strideCount + i * recvCount`` of ``send`` and from
        ``i * recvCount`` of ``recv``. They combine as in :meth:`AllReduce`.

        Args:
            send: At least ``(ranks - 1) * strideCount + recvCount * repeat`` elements.
            recv: At least ``recvCount * repeat`` elements, apart from ``send``.
            recvCount: Elements of a turn.
            op: ``SUM``, ``MAX`` or ``MIN``.
            strideCount: Elements between two ranks' blocks. 0: ``recvCount``, for one turn.
        """
        request = PrepareRequest(
            self._server,
            HcclCommand.REDUCE_SCATTER,
            recvCount,
            repeat,
            dtype,
            count_name="recvCount",
        )
        request.set_operation(op)
        request.set_memory(send, recv, *request.set_stride(strideCount))
        return self._prepare(request, commit)

    def AlltoAll(
        self,
        send: Any,
        recv: Any,
        dataCount: int,
        dtype: Any = None,
        strideCount: int = 0,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Send block j of ``send`` to rank j, where it becomes block i of ``recv`` if it is rank i's.

        Block b of turn t are ``dataCount`` elements from ``b * strideCount + t * dataCount``.

        Args:
            send: At least ``(ranks - 1) * strideCount + dataCount * repeat`` elements.
            recv: As many, apart from ``send``.
            dataCount: Elements of a block and turn.
            strideCount: Elements between two blocks. 0: ``dataCount``, for one turn.
        """
        request = PrepareRequest(
            self._server, HcclCommand.ALLTOALL, dataCount, repeat, dtype, count_name="dataCount"
        )
        request.set_memory(send, recv, *request.set_stride(strideCount))
        return self._prepare(request, commit)

    def AlltoAllV(
        self,
        send: Any,
        sendCounts: Sequence[int],
        sdispls: Sequence[int],
        dtype: Any,
        recv: Any,
        recvCounts: Sequence[int],
        rdispls: Sequence[int],
        recvDtype: Any = None,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Send blocks of different sizes: ``sendCounts[j]`` elements from ``sdispls[j]`` to rank j.

        In turn t every block begins ``t`` times its own count further on. ``sendCounts[j]`` of rank i must
        be ``recvCounts[i]`` of rank j.

        Args:
            send: Source of the elements.
            sendCounts: Elements for each rank, as many as there are ranks.
            sdispls: Where each rank's elements begin in ``send``.
            dtype: HcclDataType or NumPy dtype of both arrays, or None.
            recv: Where received elements go, apart from ``send``.
            recvCounts: Elements from each rank.
            rdispls: Where each rank's elements go.
            recvDtype: Must be ``dtype`` if it is given.
        """
        request = PrepareRequest(self._server, HcclCommand.ALLTOALLV, 0, repeat, dtype)
        if recvDtype is not None and dtype is not None:
            kinds = data_type("dtype", dtype), data_type("recvDtype", recvDtype)
            if kinds[0] != kinds[1]:
                raise ArgumentError(
                    f"recvDtype must be dtype, {shown(dtype)}, but got {shown(recvDtype)}"
                )
        sent = request.set_counts("send", sendCounts, sdispls)
        received = request.set_counts("recv", recvCounts, rdispls)
        request.check_own_counts(self._group.my_pe)
        request.set_memory(send, recv, sent, received)
        return self._prepare(request, commit)

    def _prepare(self, request: PrepareRequest, commit: bool) -> int:
        commit = check.flag("commit", commit)
        self._check_open()
        if self._kernel is not None:
            if self._kernel.position == PreparePosition.HOST:
                raise ArgumentError(
                    f"{request.name} cannot be prepared when preparePosition is 0: the host has "
                    "prepared the task, handle 0"
                )
            self._kernel.check_task(int(request.command), int(request.message["op"]))
        if len(self._tasks) == MAX_TASKS:
            raise ArgumentError(f"a communication kernel can prepare at most {MAX_TASKS} tasks")
        server, message = self._server, request.message
        message["kind"], message["session"] = PREPARE, server.sessions
        message["index"] = len(self._tasks)
        if self.operator:
            message["operator"], message["tag"] = operator_tag(self.operator)
        committed = request.repeat if commit else 0
        server.kept.append(request.kept)
        slot = server.post(message, committed)
        base = server.prepared_turns
        server.prepared_turns += request.repeat
        self._tasks.append(_Task(slot, request.name, request.repeat, base, committed))
        self._moves += moves_of(message, self._group.n_pes)
        self._count(message)
        return len(self._tasks) - 1

    # --- turns -----------------------------------------------------------------------------

    def Commit(self, handle: int) -> None:
        """Release the next turn of a task: its input is ready.

        Raises:
            ArgumentError: An unknown handle, or one whose turns are all released.
        """
        task = self._task(handle)
        if task.committed == task.repeat:
            raise ArgumentError(
                f"handle {handle} ({task.name}) must be committed at most {task.repeat} times, its "
                "repeat, but got one more Commit"
            )
        kernel = self._kernel
        once = kernel is not None and kernel.turns and kernel.wait_policy == WaitPolicy.FIRST_TURN
        before = task.committed
        after = task.repeat if once else before + 1
        self._server.release(task.slot, before, after, task.base)
        task.committed = after

    def Wait(self, handle: int) -> int:
        """Wait for the next turn of a task.

        Returns:
            0 when the turn is done; -1, at once, if no committed turn is left to wait for.

        Raises:
            ArgumentError: An unknown handle, or one prepared before another that was waited for.
            TaskMismatchError: The ranks prepared tasks that don't fit together.
            DeadlockError, PEDiedError, PeerFailedError: The turn cannot come.
        """
        task = self._task(handle)
        if handle < self._last_waited:
            raise ArgumentError(
                f"Hccl.Wait takes handles in the order of preparation, but got {handle} "
                f"({task.name}) after {self._last_waited}"
            )
        if task.waited == task.committed:
            return -1
        self._last_waited = handle
        call = f"Hccl.Wait({handle}) of {task.name}, turn {task.waited} of {task.repeat},"
        self._server.wait(task.base + task.waited + 1, call)
        task.waited += 1
        return 0

    def Query(self, handle: int) -> int:
        """Return the number of turns of a task that are done."""
        task = self._task(handle)
        return min(max(self._server.finished() - task.base, 0), task.repeat)

    def Finalize(self) -> None:
        """Wait for all tasks and release the communicator; a second call does nothing.

        Raises:
            ServerError: Turns of some task were never committed. The communicator cannot be used any more.
        """
        if self._closed:
            return
        for handle, task in enumerate(self._tasks):
            if task.committed < task.repeat:
                self._leave()
                raise ServerError(
                    f"Finalize was called too early: handle {handle} ({task.name}) has {task.repeat} turns, "
                    f"but only {task.committed} committed"
                )
        try:
            if self._tasks:
                self._server.wait(self._server.prepared_turns, "Hccl.Finalize")
                if recording.active is not None:
                    self._record(self._group.my_pe)
        finally:
            self._leave()

    def _count(self, task: Array) -> None:
        if Counting.moved is not None:
            from emu.mc2.counted import note_task  # where somebody counts

            note_task(self._group, task)

    def _record(self, rank: int) -> None:
        last = self._server.prepared_turns
        turns = self._server.log(self._first_turn, last, rank)
        record_turns(self._group, turns, self._moves)

    def _leave(self) -> None:
        """Release the communicator; tasks left unfinished by an error make it unusable."""
        if not self._closed:
            self._closed = True
            self._server.give_up()

    def _check_open(self) -> None:
        if self._closed:
            raise ArgumentError("this Hccl must not be used after Finalize; make a new one")

    def _task(self, handle: int) -> _Task:
        self._check_open()
        tasks = self._tasks
        if type(handle) is not int or not 0 <= handle < len(tasks):
            handle = check.integer("handle", handle, 0)
            if handle >= len(tasks):
                raise ArgumentError(f"handle must be in [0, {len(tasks)}), but got {handle}")
        return tasks[handle]

    # --- the communicator ------------------------------------------------------------------

    def GetRankId(self) -> int:
        """Return this PE's number in the communicator."""
        return self._group.my_pe

    def GetRankDim(self) -> int:
        """Return the number of ranks."""
        return self._group.n_pes

    def GetWindowsInAddr(self, rank: int) -> Array:
        """Return rank ``rank``'s input window: bytes that every rank can read and write.

        Raises:
            ArgumentError: The rank is on another host.
        """
        return self._window("in", rank)

    def GetWindowsOutAddr(self, rank: int) -> Array:
        """Return rank ``rank``'s output window; as :meth:`GetWindowsInAddr`."""
        return self._window("out", rank)

    def _window(self, name: str, rank: int) -> Array:
        rank = check.integer("rank", rank, 0, self._group.n_pes - 1)
        key = f"emu.hccl.window.{name}"
        try:
            window = self._group.alloc(self._window_bytes, np.uint8, name=key, key=key)
        except SymmetricMemoryError as error:
            raise SymmetricMemoryError(
                f"window_bytes must be the same in every Hccl of communicator {self._group.name!r} and "
                f"fit in the heap, but got {self._window_bytes}: {error}"
            ) from None
        return window.on(rank)

    def Turns(self) -> list[Turn]:
        """Return the execution times of this kernel's finished turns, on every rank, each on the clock of its own host."""
        return self._server.log(self._first_turn, self._server.prepared_turns)


def _is_strided(value: object) -> bool:
    if isinstance(value, SymmetricArray):
        return not value.dense
    return isinstance(value, np.ndarray) and not value.flags.c_contiguous


def _version(version: object) -> Version | None:
    if version is None or isinstance(version, Version):
        return version
    known = {one.value: one for one in Version}
    if not isinstance(version, str) or version not in known:
        raise ArgumentError(
            f"version must be one of {', '.join(known)}, or None, but got {shown(version)}"
        )
    return known[version]


def _check_indices(kernel: CommKernel, places: list[MemoryRegion | None]) -> None:
    """Check that the argument indices of tiling data name arguments, if there are any."""
    message = kernel.message
    owner = message.config if kernel.version is Version.V2 else message
    for name in ("sendArgIndex", "recvArgIndex", "commOutArgIndex"):
        index = getattr(owner, name, None)
        if places and index is not None and index >= len(places):
            raise ArgumentError(
                f"{name} must be in [0, {len(places)}), the operator's arguments, but got {index}"
            )
