"""Work that is kept back until somebody needs it.

An accelerator runs a collective on its own stream: the call returns at once, and until the ``wait``
nobody may rely on the result. Here a collective is done at the latest moment that is allowed, so
that a script without the ``wait`` sees the old data every time and not one time in a thousand:

* in its own ``wait()``, ``is_completed()``, ``result()`` or ``get_future()``,
* in one of these of a later collective of the same group, because the order counts, which includes
  every collective that is not asynchronous,
* in :func:`flush`: a synchronisation of the device, and the end of the PE.

Receives are kept back in the same way, in a queue of their own for each sender. That a receive has been
asked for is told to the sender at once, so no sender waits for the ``wait`` of its receiver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.futures import Future

from emu.accelerator.distributed.point_to_point import Channels

try:
    from torch.distributed import Work as _Work
except ImportError:  # torch before 2.7
    from torch._C._distributed_c10d import Work as _Work

Run = Callable[[], None]

_pending: dict[int, Work] = {}
"""Collectives and receives that were not done yet, oldest first."""
_sends: dict[int, SentWork] = {}
"""Messages that nobody may have asked for yet."""
_MANY = 256


class Queue:
    """Work that must be done in order: a group's collectives, or the receives from one rank."""

    def __init__(self, *, collective: bool) -> None:
        self.collective = collective
        self._works: deque[QueuedWork] = deque()

    def add(self, run: Run, outputs: list[Any], source: int = -1) -> QueuedWork:
        """Append an operation; ``run`` does it."""
        work = QueuedWork(self, run, outputs, source)
        self._works.append(work)
        _pending[id(work)] = work
        return work

    def run_until(self, work: QueuedWork) -> None:
        """Do what stands before ``work``, then ``work``."""
        while not work.done:
            first = self._works.popleft()
            first.execute()

    def run_all(self) -> None:
        """Do everything."""
        while self._works:
            self._works.popleft().execute()

    def drop(self) -> None:
        """Have :func:`flush` leave out what is in the queue; who has a work can still wait for it."""
        for work in self._works:
            _pending.pop(id(work), None)


class Work(_Work):  # type: ignore[misc, unused-ignore]
    """What ``torch.distributed`` returns for an asynchronous operation."""

    def __init__(self, outputs: list[Any], source: int = -1) -> None:
        super().__init__()
        self._outputs = outputs
        self._source = source
        self._error: BaseException | None = None

    def complete(self) -> None:
        """Return when the operation is done."""
        raise NotImplementedError

    def wait(self, timeout: Any = None) -> bool:
        """Return when the operation is done.

        Args:
            timeout: Ignored: a world reports its deadlocks itself.

        Raises:
            CommError: What the operation raised.
        """
        self.complete()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Do the operation if it has not been done, and return True."""
        return self.wait()

    def is_success(self) -> bool:
        """Do the operation if it has not been done; return whether it raised nothing."""
        try:
            return self.wait()
        except Exception:
            if self._error is None:  # it was not this one that raised
                raise
            return False

    def exception(self) -> BaseException | None:
        """Return what the operation raised."""
        return self._error

    def synchronize(self) -> None:
        """As :meth:`wait`."""
        self.wait()

    def result(self) -> list[Any]:
        """Return the tensors that the operation writes, written."""
        self.wait()
        return self._outputs

    def get_future(self) -> Future[Any]:
        """Return a future that holds :meth:`result`; the operation is done first."""
        future: Future[Any] = Future()
        future.set_result(self.result())
        return future

    def source_rank(self) -> int:
        """Return the rank in the group that a message comes from."""
        return self._source

    def _source_rank(self) -> int:
        return self._source


class QueuedWork(Work):
    """An operation in a :class:`Queue`."""

    def __init__(self, queue: Queue, run: Run, outputs: list[Any], source: int) -> None:
        super().__init__(outputs, source)
        self.queue = queue
        self.done = False
        self._run: Run | None = run

    def execute(self) -> None:
        """Do it; what it raises is kept for every later ``wait`` and raised here too."""
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
        """Do what stands before it in its queue, and it."""
        self.queue.run_until(self)


class SentWork(Work):
    """A message on its way: it is done when its receiver has asked for it."""

    def __init__(self, channels: Channels, number: int, pe: int) -> None:
        super().__init__([])
        self.channels = channels
        self._number, self._pe = number, pe
        if len(_sends) >= _MANY:  # nobody has to wait for what was sent: forget what is done
            for work in list(_sends.values()):
                work.is_completed()
        _sends[id(self)] = self

    def complete(self) -> None:
        """Wait for the receiver to ask."""
        self.channels.await_match(self._number, self._pe)
        _sends.pop(id(self), None)

    def is_completed(self) -> bool:
        """Return whether the receiver has asked for it; does not wait."""
        matched = self.channels.is_matched(self._number, self._pe)
        if matched:
            _sends.pop(id(self), None)
        return matched


class JoinedWork(Work):
    """Several operations in one."""

    def __init__(self, works: list[Work]) -> None:
        super().__init__([tensor for work in works for tensor in work._outputs])
        self._works = works

    def complete(self) -> None:
        """Do all of them."""
        for work in self._works:
            work.wait()


def flush() -> None:
    """Do all that was kept back, collectives first, and wait until all messages are matched."""
    flush_collectives()
    for work in list(_pending.values()):
        work.complete()
    for work in list(_sends.values()):
        work.complete()


def drop_sends(channels: Channels) -> None:
    """Have :func:`flush` wait for no message of these channels any more."""
    for key, work in list(_sends.items()):
        if work.channels is channels:
            del _sends[key]


def flush_collectives() -> None:
    """Do the collectives that were kept back, in the order in which they were asked for."""
    for work in list(_pending.values()):
        if isinstance(work, QueuedWork) and work.queue.collective:
            work.complete()
