"""The communication server: a thread beside a PE's compute that moves what tiling data and messages describe.

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
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from emu.comm.arrays import Array, Words
from emu.comm.engine.records import MEMBER, PULL, STAGE
from emu.comm.errors import ArgumentError, ServerError, TaskMismatchError
from emu.comm.layout import LINE
from emu.comm.server import executor, tasks, transfer_tables, waits
from emu.comm.server.area import Areas
from emu.comm.server.comm_kernel import CommKernel, KernelLaunch
from emu.comm.server.words import CLOSING, DECODED, FAILED, POSTED, PULLED, SLOTS, SPINS
from emu.comm.sync.priority import ask_for_short_slices
from emu.comm.sync.signals import ring
from emu.comm.tiling.enums import PreparePosition
from emu.comm.world.group import Group
from emu.kernels.core.address import aligned_data
from emu.kernels.core.environment import usable_cores
from emu.kernels.core.jit import is_stored
from emu.kernels.reduce import SCRATCH_BYTES

_GRACE_S = 2.0
"""How long the report of tasks that differ waits for members that have not prepared theirs."""

_MIN_STAGING = 1 << 16


class Server:
    """The server of this PE in one group.

    Only its thread calls its methods, except :meth:`start` and :meth:`join`.

    Args:
        group: Its communicator.
        areas: Shared memory of the communicator's servers.

    Attributes:
        error: What went wrong, if anything did.
        served: Number of messages that it has read.
        next_task: Number of the task that it agrees on next.
    """

    def __init__(self, group: Group, areas: Areas) -> None:
        self._group, self._areas, self._heap = group, areas, group.heap
        self._me, self._my = areas.me, areas.my
        self.error: ServerError | None = None
        self.served = int(areas.mine[POSTED])
        self._decoded = self.next_task = int(areas.mine[DECODED])
        self._turns = int(areas.mine[PULLED])
        self._queue: collections.deque[Array] = collections.deque()
        self._addresses: Words = np.zeros(2 * group.n_pes + 1, np.int64)
        self._memory: Array = np.empty(SCRATCH_BYTES + LINE, np.uint8)
        self._kernel: CommKernel | None = None
        self._kernel_session = 0
        self._staging, self._staging_index, self._generation = 0, -1, 0
        self._staged = areas.heaps
        self._carry_out: Callable[..., bool] = executor.execute
        self._thread: threading.Thread | None = None
        areas.mine[SPINS] = _spins(group.segment.layout.n_pes, usable_cores())

    # --- the thread ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, daemon=True, name=f"emu-server-{self._group.name}"
            )
            self._thread.start()

    def join(self) -> None:
        """End the thread, if it runs; a task in its middle is left as it is."""
        if self._thread is not None:
            waits.post(self._areas.addresses, self._my, CLOSING, 1)
            self._thread.join()
            self._thread = None

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
            self._areas.report_failure(self._my)
        # Of tasks that differ the others make the whole report themselves.
        self._areas.mine[FAILED] = 1 + self._my
        ring(self._me, int(self._areas.members[self._my]))

    def _serve(self) -> bool:
        """Read the messages that have been left, and execute one task.

        All messages are read first: the members then know of each other's tasks before these are executed.

        Returns:
            False when this thread must end.
        """
        me, areas, my = self._me, self._areas, self._my
        addresses = areas.addresses
        if not self._queue and not waits.await_word(me, addresses, my, my, POSTED, self.served + 1):
            return False
        while self.served < waits.load_member_word(addresses, my, POSTED):
            records = self._read()
            self.served += 1
            for record in records:
                areas.records[my][self._decoded % SLOTS] = record.reshape(1).view(np.int64)
                self._decoded += 1
                waits.publish_record(
                    me, addresses, my, self._decoded, areas.record_words, tasks.AGREED_WORDS
                )
                self._queue.append(record)
        return self._execute(self._queue.popleft()) if self._queue else True

    def _read(self) -> list[Array]:
        """Take one message; return the records of its tasks."""
        slot = self.served % SLOTS
        message = self._areas.messages[slot].copy()
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
        launch = KernelLaunch(self._areas.launch, self._group.name)
        self._kernel, self._kernel_session = launch.kernel, session
        if launch.kernel.position == PreparePosition.KERNEL:
            return []
        return launch.records(self._group.n_pes, session, slot)

    def _execute(self, record: Array) -> bool:
        """Agree with the others on the next task, and execute it."""
        number, areas = self.next_task, self._areas
        self.next_task += 1
        records = self._agree(number)
        if records is None:
            return False
        need = transfer_tables.staging_of(records)
        self._reserve(need.total)
        made = transfer_tables.build(
            records,
            self._my,
            heaps=areas.heaps,
            staged=self._staged,
            need=need,
            number=number,
            first_turn=self._turns,
            scratch=int(aligned_data(id(self._memory))),
        )
        self._turns += int(record["repeat"])
        return bool(
            self._carry_out(
                self._me,
                areas.addresses,
                areas.members,
                made.task,
                made.stage,
                made.pull,
                made.members,
                self._addresses,
            )
        )

    def _agree(self, number: int) -> Array | None:
        """Wait for every member's record of a task; None: this thread must end.

        Raises:
            TaskMismatchError: They don't fit together.
        """
        areas, width, slot = self._areas, self._areas.record_words, number % SLOTS
        outcome = waits.await_records(
            self._me, areas.addresses, self._my, number + 1, width, tasks.AGREED_WORDS
        )
        if outcome == waits.INCOMPLETE:
            return None
        if outcome == waits.AGREED:
            table: Words = np.stack([records[slot] for records in areas.records])
            if tasks.counts_fit(table, self._group.n_pes):
                return table.view(areas.record_dtype)[:, 0]
        raise self._mismatch(number)

    def _mismatch(self, number: int) -> ServerError:
        """Make the report of tasks that differ; give those who are late a little time."""
        areas, n_pes = self._areas, self._group.n_pes
        deadline = time.monotonic() + _GRACE_S
        while True:
            known = {
                pe: areas.records[pe][number % SLOTS].view(areas.record_dtype)[0].copy()
                for pe in range(n_pes)
                if waits.load_member_word(areas.addresses, pe, DECODED) > number
            }
            if len(known) == n_pes or time.monotonic() > deadline:
                break
            time.sleep(0.005)
        cause = tasks.disagreement(known)
        return tasks.mismatch(self._group.name, known, n_pes, cause)

    def _reserve(self, nbytes: int) -> None:
        """Provide at least ``nbytes`` of staging memory on every member; all ask for the same."""
        if nbytes <= self._staging:
            return
        group, heap = self._group, self._heap
        size = max(_MIN_STAGING, 1 << (nbytes - 1).bit_length())
        label = f"=emu.server.staging.{self._generation}"
        dtype = np.dtype(np.uint8)
        index = heap.allocate(
            group.index, group.members, label, (size,), dtype, "emu.server.staging", poison=False
        )
        if self._staging_index >= 0:
            heap.release(self._staging_index)  # it goes when the last member has left it
        offset = heap.entry(index)[0]
        self._staged = self._areas.heaps + offset
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


def _type_of(dtype: np.dtype[np.generic]) -> Any:
    return numba.typeof(np.zeros(1, dtype))


_INT, _ROW = types.int64, types.int64[::1]
_TASK, _STAGE, _PULL, _MEMBER = map(_type_of, (executor.TASK, STAGE, PULL, MEMBER))
_EXECUTE_TYPES = (_INT, _ROW, _ROW, _TASK, _STAGE, _PULL, _MEMBER, _ROW)
STEP_TYPES = (_INT, *_EXECUTE_TYPES)
"""Types of the arguments of :func:`emu.comm.server.executor.execute_step`."""
_KERNELS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (executor.execute, _EXECUTE_TYPES),
    (waits.await_word, (_INT, _ROW, _INT, _INT, _INT, _INT)),
    (waits.await_records, (_INT, _ROW, _INT, _INT, _INT, _INT)),
    (waits.publish_record, (_INT, _ROW, _INT, _INT, _INT, _INT)),
    (waits.await_done, (_INT, _ROW, _INT, _INT, types.boolean)),
    (waits.leave_wait, (_INT, _INT, types.boolean)),
    (waits.count_done, (_ROW, _INT)),
    (waits.post, (_ROW, _INT, _INT, _INT)),
    (waits.load_member_word, (_ROW, _INT, _INT)),
    (ring, (_INT, _INT)),
)


@functools.cache
def load_kernels() -> None:
    """Load or compile in the main thread: a PE whose server compiles would look as if it waited."""
    for kernel, signature in _KERNELS:
        if hasattr(kernel, "compile"):  # absent under NUMBA_DISABLE_JIT
            kernel.compile(signature)


def preload() -> None:
    """Load the kernels if they have been compiled before, so that processes forked off have them."""
    if all(is_stored(kernel, signature) for kernel, signature in _KERNELS):
        load_kernels()
