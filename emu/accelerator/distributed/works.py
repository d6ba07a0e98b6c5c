"""Deferred operations, which run when their result is needed.

An accelerator runs a collective on its own stream: the call returns at once, and the result is undefined until
the ``wait``. Here a collective runs at the latest moment that is allowed, so that a script without
the ``wait`` sees the old data every time and not one time in a thousand:

* in its own ``wait()``, ``is_completed()``, ``result()`` or ``get_future()``,
* in one of these of a later collective of the same group, because the order counts, which includes
  every collective that is not asynchronous,
* in :func:`flush`: a synchronisation of the device, and the end of the PE.

Receives are deferred in the same way, in a queue per sender. The sender learns of a posted receive at
once, so it never waits for the ``wait`` of its receiver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch.futures import Future

from emu.accelerator.annotations import Tensor
from emu.accelerator.distributed.point_to_point import Channels

try:
    from torch.distributed import Work as _Work
except ImportError:  # torch before 2.7
    from torch._C._distributed_c10d import Work as _Work

Run: TypeAlias = Callable[[], object]

_pending: dict[int, Work] = {}
"""Deferred collectives and receives, oldest first."""
_sends: dict[int, SentWork] = {}
"""Messages whose receive may not have been posted yet."""
_MANY = 256


class Queue:
    """Operations that must run in order: a group's collectives, or the receives from one rank."""

    def __init__(self, *, collective: bool) -> None:
        self.collective = collective
        self._works: deque[QueuedWork] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether no operation is deferred."""
        return not self._works

    def add(self, run: Run, outputs: list[Tensor], source: int = -1) -> QueuedWork:
        """Append an operation, which ``run`` performs."""
        work = QueuedWork(self, run, outputs, source)
        self._works.append(work)
        _pending[id(work)] = work
        return work

    def run_until(self, work: QueuedWork) -> None:
        """Run the operations before ``work``, then ``work``."""
        while not work.done:
            first = self._works.popleft()
            first.execute()

    def run_all(self) -> None:
        """Run all operations."""
        while self._works:
            self._works.popleft().execute()

    def drop(self) -> None:
        """Exclude the queued operations from :func:`flush`; they can still be waited for one by one."""
        for work in self._works:
            _pending.pop(id(work), None)


class Work(_Work):  # type: ignore[misc, unused-ignore] # not final in older stubs
    """Handle of an asynchronous operation, as ``torch.distributed`` returns it."""

    def __init__(self, outputs: list[Tensor], source: int = -1) -> None:
        super().__init__()
        self._outputs = outputs
        self._source = source
        self._error: BaseException | None = None

    def complete(self) -> None:
        """Return when the operation is done."""
        raise NotImplementedError

    def wait(self, timeout: object = None) -> bool:
        """Return when the operation is done.

        Args:
            timeout: Ignored: the World reports deadlocks itself.

        Raises:
            CommError: The operation's error.
        """
        self.complete()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Run the operation if it has not run yet, and return True."""
        return self.wait()

    def is_success(self) -> bool:
        """Run the operation if it has not run yet; return whether it succeeded."""
        try:
            return self.wait()
        except Exception:
            if self._error is None:  # an earlier operation of the queue raised
                raise
            return False

    def exception(self) -> BaseException | None:
        """Return the operation's error, or None."""
        return self._error

    def synchronize(self) -> None:
        """Wait, as :meth:`wait` does."""
        self.wait()

    def result(self) -> list[Tensor]:
        """Return the operation's output tensors, after waiting for it."""
        self.wait()
        return self._outputs

    def get_future(self) -> Future[list[Tensor]]:
        """Return a finished future that holds :meth:`result`; this runs the operation."""
        future: Future[list[Tensor]] = Future()
        future.set_result(self.result())
        return future

    def source_rank(self) -> int:
        """Return the rank in the group that a message comes from."""
        return self._source

    def _source_rank(self) -> int:
        return self._source


class QueuedWork(Work):
    """Operation in a :class:`Queue`."""

    def __init__(self, queue: Queue, run: Run, outputs: list[Tensor], source: int) -> None:
        super().__init__(outputs, source)
        self.queue = queue
        self.done = False
        self._run: Run | None = run

    def execute(self) -> None:
        """Run the operation; an error is raised here and by every later ``wait``."""
        run, self._run, self.done = self._run, None, True
        _pending.pop(id(self), None)
        assert run is not None
        try:
            run()
        except BaseException as error:
            self._error = error
            raise
        with torch._C.DisableTorchFunction():
            for tensor in self._outputs:
                if not tensor.is_inference():
                    torch.autograd.graph.increment_version(tensor)

    def complete(self) -> None:
        """Run the operations before it in its queue, and it."""
        self.queue.run_until(self)


class SentWork(Work):
    """Message in flight: it is done when its receive has been posted."""

    def __init__(self, channels: Channels, number: int, pe: int) -> None:
        super().__init__([])
        self.channels = channels
        self._number, self._pe = number, pe
        if len(_sends) >= _MANY:  # scripts need not wait for sends: forget those that are done
            for work in list(_sends.values()):
                work.is_completed()
        _sends[id(self)] = self

    def complete(self) -> None:
        """Wait until the receive is posted."""
        self.channels.await_match(self._number, self._pe)
        _sends.pop(id(self), None)

    def is_completed(self) -> bool:
        """Return whether the receive is posted, without waiting."""
        matched = self.channels.is_matched(self._number, self._pe)
        if matched:
            _sends.pop(id(self), None)
        return matched


class JoinedWork(Work):
    """Several operations under one handle."""

    def __init__(self, works: list[Work]) -> None:
        super().__init__([tensor for work in works for tensor in work._outputs])
        self._works = works

    def complete(self) -> None:
        """Run all of them."""
        for work in self._works:
            work.wait()


def flush() -> None:
    """Run all deferred operations, collectives first, and wait until all messages are matched."""
    flush_collectives()
    for work in list(_pending.values()):
        work.complete()
    for work in list(_sends.values()):
        work.complete()


def drop_sends(channels: Channels) -> None:
    """Exclude the messages of these channels from :func:`flush`."""
    for key, work in list(_sends.items()):
        if work.channels is channels:
            del _sends[key]


def flush_collectives() -> None:
    """Run the deferred collectives in the order of their calls."""
    for work in list(_pending.values()):
        if isinstance(work, QueuedWork) and work.queue.collective:
            work.complete()
