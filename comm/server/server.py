"""The communication server: a thread beside a PE's compute that moves what tiling data and messages say.

A *communicator* is a group with a server on each member. The compute side leaves *messages* in its part of
shared memory: that a communication kernel begins, with the bytes of its tiling data, and each task
that it prepares. The server reads these bytes, and nothing else of the compute side, and makes a
*record* of each task in shared memory. When all members' records stand it compares them: tasks that
don't fit together are an error on every member, at once, instead of a hang. Then it executes the
task turn by turn (:mod:`emu.comm.server.executor`), each turn when the compute side has released it.

The thread waits and copies in compiled code, without the GIL: it runs at the same time as the
compute side. Python runs for a task, not for a turn.

Tasks of a communicator are executed in the order in which they were prepared. Communicators don't wait
for each other: each has a thread of its own.
"""

from __future__ import annotations

import collections
import functools
import threading
import time
from typing import Any, NamedTuple

import numpy as np
from numba import types

from emu.comm.errors import ArgumentError, ServerError, TaskMismatchError
from emu.comm.layout import LINE
from emu.comm.memory.stop import check_stopped
from emu.comm.server import executor, tasks, transfer_tables
from emu.comm.server.comm_kernel import AREA_BYTES, Kernel, Launch
from emu.comm.server.priority import ask_for_short_slices
from emu.comm.sync.signals import ring
from emu.comm.tiling.enums import PreparePosition
from emu.comm.world.details import publishable
from emu.comm.world.group import Group
from emu.environment import usable_cores
from emu.kernels.atomics import fence, load_i64, store_i64
from emu.kernels.core.address import aligned_data
from emu.kernels.core.jit import is_stored, jit
from emu.kernels.reduce import SCRATCH_BYTES

Array = np.ndarray[Any, Any]
Words = np.ndarray[Any, np.dtype[np.int64]]

_GRACE_S = 2.0
"""How long the report of tasks that differ waits for members that have not prepared theirs."""

_END_S = 3.0
"""How long a PE that hears of another's failure waits for that PE to end because of it."""

_MIN_STAGING = 1 << 16


@jit(nogil=False)  # the server needs the GIL to read the message: let who prepares finish first
def _post(me: int, areas: Any, my: int, index: int, value: int) -> None:
    """Store a word of the compute side and wake the own server."""
    store_i64(areas[my] + 8 * index, value)
    fence()
    executor.ring_server(areas[my])


@jit()
def _load(address: int) -> Any:
    return load_i64(address)


class Turn(NamedTuple):
    """One turn on one rank."""

    rank: int
    task: int
    """Number of the task in the communicator."""
    turn: int
    """Number of the turn in its task."""
    start_ns: int
    """When the server began: the turn was released and those before it were executed.
    Nanoseconds of ``time.monotonic_ns``."""
    end_ns: int
    """When this rank had fetched all that it needed."""


class Server:
    """The server of this PE in one group, and the compute side's end of it.

    Attributes:
        group: Its communicator.
        heap: Address of this PE's symmetric heap.
        error: What went wrong; every later call raises it.
        prepared_turns: Turns of all tasks posted so far; kept by who posts them.
        sessions: Communication kernels so far.
        in_use: Whether a communication kernel is running.
        kept: Arrays of its tasks: they live as long as the server may use them.
    """

    def __init__(self, group: Group) -> None:
        _load_kernels()
        self.group = group
        self.error: ServerError | None = None
        self._me, self._my = group.me, group.my_pe
        n_pes = group.n_pes
        self._message_dtype = tasks.message_dtype(n_pes)
        self._record_dtype = tasks.record_dtype(n_pes)
        records = executor.SLOTS * self._record_dtype.itemsize
        messages = executor.SLOTS * self._message_dtype.itemsize
        head = 8 * executor.RECORDS
        area = group.alloc(
            head + records + messages + AREA_BYTES,
            np.uint8,
            name="emu.server",
            key="emu.server",
            poison=False,
        )
        layout = group.segment.layout
        start = group.segment.address + layout.heaps
        self._heaps: Words = np.array([start + p * layout.stride for p in group.members], np.int64)
        self.heap = int(self._heaps[self._my])
        self._areas: Words = self._heaps + area.offset
        self._worlds: Words = np.array(group.members, np.int64)
        bytes_ = [area.on(pe) for pe in range(n_pes)]
        self._words = [b[:head].view(np.int64) for b in bytes_]
        self._records = [
            b[head : head + records].view(np.int64).reshape(executor.SLOTS, -1) for b in bytes_
        ]
        mine = bytes_[self._my]
        self._messages = mine[head + records :][:messages].view(self._message_dtype)
        self.launch_area = mine[head + records + messages :]
        self._state = self._words[self._my]
        self._list: Words = np.zeros(n_pes + 2, np.int64)
        self._memory: Array = np.empty(SCRATCH_BYTES + LINE, np.uint8)
        self._thread: threading.Thread | None = None
        self._posted = int(self._state[executor.POSTED])
        self._served = self._posted
        self._decoded = self._next = int(self._state[executor.DECODED])
        self._queue: collections.deque[Array] = collections.deque()
        self._width = self._record_dtype.itemsize // 8
        self._turns = self.prepared_turns = int(self._state[executor.PULLED])
        self.sessions = 0
        self.in_use = False
        self.kept: list[Any] = []
        self._claims = threading.Lock()
        self._told = False
        self._kernel: Kernel | None = None
        self._kernel_session = 0
        self._staging, self._staging_index, self._generation = 0, -1, 0
        self._staged = self._heaps
        self._state[executor.A_SPINS] = _spins(layout.n_pes, usable_cores())

    # --- compute side ----------------------------------------------------------------------

    def claim(self) -> None:
        """Begin a communication kernel.

        Raises:
            ServerError: Another one runs, or the communicator cannot be used any more.
        """
        self.check()
        with self._claims:
            if self.in_use:
                raise ServerError(
                    f"communicator {self.group.name!r} must be finalised before it is used again: "
                    "another Hccl of this PE has it"
                )
            self.in_use = True
            self.sessions += 1

    def retract(self) -> None:
        """Take :meth:`claim` back: nothing was posted."""
        self.sessions -= 1
        self.in_use = False

    def give_up(self) -> None:
        """End a communication kernel; if its turns are not all done, nobody can use the communicator any more."""
        if self._unfinished():
            if not isinstance(self.error, TaskMismatchError):  # the others find that out themselves
                self.tell(self._my)
            self._end()
        self.kept.clear()
        self.in_use = False

    def _unfinished(self) -> bool:
        return int(executor.finished(self._areas, self._my)) < self.prepared_turns

    def post(self, message: Array, committed: int) -> int:
        """Leave a message; return the number of its slot.

        Args:
            message: Of ``message_dtype``.
            committed: Turns that are released already, from ``prepared_turns`` on.

        Returns:
            The slot, for :meth:`release`.
        """
        self._check_own()
        self._start()
        self._await_reading(executor.SLOTS)  # only after many empty kernels
        slot = self._posted % executor.SLOTS
        self._messages[slot] = message
        self._state[executor.COMMITS + slot] = committed
        self._note_release(self.prepared_turns, committed)
        self._posted += 1
        _post(self._me, self._areas, self._my, executor.POSTED, self._posted)
        return slot

    def leave_launch(self, area: Array) -> None:
        """Leave what a launch says where the server finds it, once it has read what stands there."""
        self._await_reading(1)
        self.launch_area[...] = area

    def _await_reading(self, most: int) -> None:
        """Wait until the server has left fewer than ``most`` messages unread."""
        while self._posted - self._served >= most:
            time.sleep(0.0002)
            self._check_own()
            check_stopped(self.group.segment)

    def _note_release(self, first: int, count: int) -> None:
        """Note when turns are released, for the emulated link; nobody asks where there is none."""
        if self.group.link is None:
            return
        start = executor.RELEASED + first % executor.RELEASED_TURNS
        if first % executor.RELEASED_TURNS + count <= executor.RELEASED_TURNS:
            self._state[start : start + count] = time.monotonic_ns()
        else:
            for number in range(first, first + count):
                self._note_release(number, 1)

    def release(self, slot: int, before: int, committed: int, base: int) -> None:
        """Release turns of a task.

        Args:
            slot: Its slot.
            before: Turns that were released before.
            committed: Turns that are released now.
            base: Number of its first turn.
        """
        self._check_own()
        self._note_release(base + before, committed - before)
        _post(self._me, self._areas, self._my, executor.COMMITS + slot, committed)

    def message(self) -> Array:
        """Return an empty message."""
        return np.zeros((), self._message_dtype)

    def finished(self) -> int:
        """Return how many turns of this communicator are done."""
        self.check()
        return int(executor.finished(self._areas, self._my))

    def wait(self, target: int, call: str) -> None:
        """Wait until ``target`` turns are done.

        Args:
            target: Number of turns, of all tasks so far.
            call: What the report says if nothing moves.

        Raises:
            ServerError: The server failed.
            StoppedError: The world was stopped.
        """
        me, areas, my = self._me, self._areas, self._my
        outcome = executor.await_turn(me, areas, my, target, False)
        if outcome == 0:
            try:
                while outcome == 0:
                    check_stopped(self.group.segment)
                    text = publishable({"call": call, "text": self.status(target)})
                    self.group.segment.write_text(int(self._worlds[my]), text)
                    outcome = executor.await_turn(me, areas, my, target, True)
            except BaseException:
                executor.leave_wait(me, int(areas[my]), False)
                raise
        if outcome == 2:
            self.check()

    def check(self) -> None:
        """Raise what went wrong in the server, if anything did; later calls say what follows from it."""
        failed = int(self._state[executor.FAILED])
        if not failed:
            return
        if not self._told:
            self._told = True
            if self.error is not None:
                raise self.error
            self._let_it_end()
        reason = f"rank {failed - 1} failed in a task, or left it unfinished"
        if self.error is not None:
            reason = f"an earlier task ended with {type(self.error).__name__}"
        elif failed - 1 == self._my:
            reason = "this rank left a task unfinished"
        raise ServerError(
            f"communicator {self.group.name!r} cannot be used any more: {reason}; make a new group"
        ) from self.error

    def _check_own(self) -> None:
        """As :meth:`check`, but hear of others only where something of theirs is waited for."""
        if self.error is not None:
            self.check()

    def _let_it_end(self) -> None:
        """Give the PE that failed time to end: then its error is the one to tell of, and stops this PE."""
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            check_stopped(self.group.segment)
            time.sleep(0.005)

    def status(self, target: int) -> str:
        """Say which members the turn before ``target`` waits for."""
        words = self._words
        late = [p for p, w in enumerate(words) if int(w[executor.DECODED]) < self._next]
        if late:
            return f"ranks {late} to prepare task {self._next - 1}"
        idle = [p for p, w in enumerate(words) if int(w[executor.READY]) < target]
        if idle:
            return f"ranks {idle} to release turn {target - 1}"
        behind = [p for p, w in enumerate(words) if int(w[executor.PULLED]) < target]
        return f"ranks {behind} to fetch turn {target - 1}" if behind else "its answer"

    def log(self, first: int, last: int) -> list[Turn]:
        """Return turns ``first`` to ``last - 1`` of every member, as far as they are executed.

        Only the last 4096 turns are kept.
        """
        rows = []
        for pe, words in enumerate(self._words):
            table = words[executor.LOG : executor.RELEASED].reshape(
                executor.LOG_TURNS, executor.LOG_WORDS
            )
            end = min(last, int(words[executor.PULLED]))
            for number in range(max(first, end - executor.LOG_TURNS), end):
                task, turn, start, stop = (int(v) for v in table[number % executor.LOG_TURNS])
                rows.append(Turn(pe, task, turn, start, stop))
        return rows

    def tell(self, failed: int) -> None:
        """Have every member hear that ``failed`` failed: nobody waits for it any more."""
        for pe, words in enumerate(self._words):
            if not words[executor.FAILED]:
                words[executor.FAILED] = 1 + failed
                ring(self._me, int(self._worlds[pe]))

    def stop(self) -> None:
        """End the thread.

        Raises:
            ServerError: A communication kernel has not been finalised; what it was doing is left as it is.
        """
        left = self.in_use and not self._state[executor.FAILED]
        if left and self._unfinished():
            self.tell(self._my)
        self._end()
        if left:
            raise ServerError(
                f"Hccl of communicator {self.group.name!r} must be finalised before its PE ends, but "
                f"was not: use it in a `with` statement, or call Finalize"
            )

    def _end(self) -> None:
        if self._thread is not None:
            _post(self._me, self._areas, self._my, executor.CLOSING, 1)
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, daemon=True, name=f"emu-server-{self.group.name}"
            )
            self._thread.start()

    # --- server side -----------------------------------------------------------------------

    def _run(self) -> None:
        ask_for_short_slices()
        try:
            while self._serve():
                pass
        except ServerError as error:
            self._fail(error)
        except ArgumentError as error:
            self._fail(ServerError(f"rank {self._my} was asked for what cannot be: {error}"))
        except Exception as error:  # noqa: BLE001 - the compute side must hear of anything
            wrapped = ServerError(
                f"the communication server of rank {self._my} failed: "
                f"{type(error).__name__}: {error}"
            )
            wrapped.__cause__ = error
            self._fail(wrapped)

    def _fail(self, error: ServerError) -> None:
        self.error = error
        if not isinstance(error, TaskMismatchError):
            self.tell(self._my)
        # Of tasks that differ the others make the whole report themselves.
        self._state[executor.FAILED] = 1 + self._my
        ring(self._me, int(self._worlds[self._my]))

    def _serve(self) -> bool:
        """Read what has been left, and execute one task; False: this thread shall end.

        All messages are read first: the members then know of each other's tasks before it is their turn.
        """
        me, areas, my = self._me, self._areas, self._my
        if not self._queue and not executor.await_word(
            me, areas, my, my, executor.POSTED, self._served + 1
        ):
            return False
        while self._served < _load(int(areas[my]) + 8 * executor.POSTED):
            records = self._read()
            self._served += 1
            for record in records:
                slot = self._decoded % executor.SLOTS
                self._records[my][slot] = record.reshape(1).view(np.int64)
                self._decoded += 1
                executor.publish_record(
                    me, areas, my, self._decoded, self._width, tasks.AGREED_WORDS
                )
                self._queue.append(record)
        return self._execute(self._queue.popleft()) if self._queue else True

    def _read(self) -> list[Array]:
        """Take one message; return the records of its tasks."""
        slot = self._served % executor.SLOTS
        message = self._messages[slot].copy()
        session = int(message["session"])
        if message["kind"] == tasks.LAUNCH:
            return self._launch(session, slot)
        if message["kind"] != tasks.PREPARE:
            raise ServerError(
                f"the kind of a message must be 1 or 2, but got {int(message['kind'])}"
            )
        record = tasks.decode(message, slot)
        if self._kernel is not None and self._kernel_session == session:
            command, op = int(record["command"]), int(record["op"])
            record["keeps_own"] = self._kernel.check_task(command, op)
        return [record]

    def _launch(self, session: int, slot: int) -> list[Array]:
        """Begin a communication kernel; return the tasks that its tiling data holds."""
        launch = Launch(self.launch_area, self.group.name)
        self._kernel, self._kernel_session = launch.kernel, session
        if launch.kernel.position == PreparePosition.KERNEL:
            return []
        return launch.records(self.group.n_pes, session, slot)

    def _execute(self, record: Array) -> bool:
        """Agree with the others on the next task, and execute it."""
        number, me, my = self._next, self._me, self._my
        self._next += 1
        records = self._agree(number)
        if records is None:
            return False
        need = transfer_tables.staging(records)
        self._reserve(need.total)
        made = transfer_tables.build(
            records,
            my,
            heaps=self._heaps,
            staged=self._staged,
            need=need,
            task=number,
            base=self._turns,
            scratch=int(aligned_data(id(self._memory))),
        )
        self._turns += int(record["repeat"])
        return bool(
            executor.run_turns(
                me, self._areas, self._worlds, made.plan, made.stage, made.pull, self._list
            )
        )

    def _agree(self, number: int) -> Array | None:
        """Wait for every member's record of a task; None: this thread shall end.

        Raises:
            TaskMismatchError: They don't fit together.
        """
        n_pes, slot = self.group.n_pes, number % executor.SLOTS
        outcome = executor.await_records(
            self._me, self._areas, self._my, number + 1, self._width, tasks.AGREED_WORDS
        )
        if outcome == 0:
            return None
        table: Words = np.empty((n_pes, self._width), np.int64)
        if outcome == 1:
            for pe in range(n_pes):
                table[pe] = self._records[pe][slot]
            if tasks.counts_fit(table, n_pes):
                return table.view(self._record_dtype)[:, 0]
        raise self._mismatch(number)

    def _mismatch(self, number: int) -> ServerError:
        """Make the report of tasks that differ; give those who are late a little time."""
        deadline = time.monotonic() + _GRACE_S
        while True:
            known = {
                pe: self._records[pe][number % executor.SLOTS].view(self._record_dtype)[0].copy()
                for pe, area in enumerate(self._areas)
                if _load(int(area) + 8 * executor.DECODED) > number
            }
            if len(known) == self.group.n_pes or time.monotonic() > deadline:
                break
            time.sleep(0.005)
        cause = tasks.disagreement(known)
        return tasks.mismatch(self.group.name, known, self.group.n_pes, cause)

    def _reserve(self, nbytes: int) -> None:
        """Have at least ``nbytes`` of staging memory on every member; all ask for the same."""
        if nbytes <= self._staging:
            return
        group, heap = self.group, self.group.heap
        size = max(_MIN_STAGING, 1 << (nbytes - 1).bit_length())
        label = f"=emu.server.staging.{self._generation}"
        dtype = np.dtype(np.uint8)
        index = heap.allocate(
            group.index, group.members, label, (size,), dtype, "emu.server.staging", poison=False
        )
        if self._staging_index >= 0:
            heap.release(self._staging_index)  # it goes when the last member has left it
        offset = heap.entry(index)[0]
        self._staged = self._heaps + offset
        self._staging, self._staging_index = size, index
        self._generation += 1


def _spins(n_pes: int, cores: int) -> int:
    """Return how many pauses of 25 ns a server makes before it sleeps.

    To fall asleep and to wake takes 13 µs of the processor. With a core for each server that is worth 50 µs
    of waiting; with a core for each PE 10, which beside a computation is no loss either; with more PEs
    the one that is waited for is mostly not running.
    """
    if 2 * n_pes <= cores:
        return 2000
    return 400 if n_pes <= cores else 0


def server_of(group: Group) -> Server:
    """Return the server of this PE in ``group``; it is made at the first call.

    Raises:
        CommError: This process is not a PE.
    """
    server = group.server
    if not isinstance(server, Server):
        server = group.server = Server(group)
    return server


_INT, _ROW, _TABLE = types.int64, types.int64[::1], types.int64[:, ::1]
_KERNELS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (executor.run_turns, (_INT, _ROW, _ROW, _ROW, _TABLE, _TABLE, _ROW)),
    (executor.await_word, (_INT, _ROW, _INT, _INT, _INT, _INT)),
    (executor.await_records, (_INT, _ROW, _INT, _INT, _INT, _INT)),
    (executor.publish_record, (_INT, _ROW, _INT, _INT, _INT, _INT)),
    (executor.await_turn, (_INT, _ROW, _INT, _INT, types.boolean)),
    (executor.leave_wait, (_INT, _INT, types.boolean)),
    (executor.finished, (_ROW, _INT)),
    (ring, (_INT, _INT)),
    (_post, (_INT, _ROW, _INT, _INT, _INT)),
    (_load, (_INT,)),
)


@functools.cache
def _load_kernels() -> None:
    """Load or compile in the main thread: a PE whose server compiles would look as if it waited."""
    for kernel, signature in _KERNELS:
        if hasattr(kernel, "compile"):  # absent under NUMBA_DISABLE_JIT
            kernel.compile(signature)


def preload() -> None:
    """Load the kernels if they have been compiled before, so that processes forked off have them."""
    if all(is_stored(kernel, signature) for kernel, signature in _KERNELS):
        _load_kernels()


__all__ = ["Server", "Turn", "preload", "server_of"]
