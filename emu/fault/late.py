"""``LateStores``: stores of a PE that arrive some time after they were issued."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import check_stopped

_SLICE_S = 0.05


class _Store(NamedTuple):
    due: float
    """When it arrives."""
    number: int
    pe: int
    epoch: int
    store: Callable[[], None]


class LateStores:
    """What a PE has issued and what is still on its way. A thread of the PE lets each arrive when it is due.

    All stores to one PE are late by the same time, so that they arrive in the order in which they were issued.

    Args:
        segment: The world's.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._heap: list[_Store] = []
        self._changed = threading.Condition()
        self._issued = 0
        self._epoch = 0
        self._thread: threading.Thread | None = None

    def add(self, pe: int, delay_s: float, store: Callable[[], None]) -> None:
        """Add a store to a PE."""
        with self._changed:
            self._issued += 1
            due = time.monotonic() + delay_s
            heapq.heappush(self._heap, _Store(due, self._issued, pe, self._epoch, store))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._deliver, daemon=True, name="emu-late-stores"
                )
                self._thread.start()
            self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether all have arrived."""
        return not self._heap

    def fence(self) -> None:
        """Note that what is done at a PE from now on comes after the stores to it so far."""
        self._epoch += 1

    def settle(self, pe: int) -> None:
        """Return when those have arrived at a PE that a fence separates from what comes now."""
        self._wait(lambda store: store.pe == pe and store.epoch < self._epoch)

    def quiet(self) -> None:
        """Return when all have arrived."""
        self._wait(lambda _: True)

    def wait(self, holds: Callable[[], bool]) -> None:
        """Return when a condition holds, or all have arrived.

        While stores are on their way this PE must not sleep as one that nobody but others can wake.
        """
        while self._heap and not holds():
            check_stopped(self._segment)
            with self._changed:
                self._changed.wait(0.001)

    def _wait(self, concerns: Callable[[_Store], bool]) -> None:
        with self._changed:
            while any(concerns(store) for store in self._heap):
                self._changed.wait(_SLICE_S)
                check_stopped(self._segment)

    def _deliver(self) -> None:
        with self._changed:
            while True:
                left = self._heap[0].due - time.monotonic() if self._heap else None
                if left is not None and left <= 0:
                    self._heap[0].store()  # it is on its way until it has arrived
                    heapq.heappop(self._heap)
                    self._changed.notify_all()
                else:
                    self._changed.wait(left)
