"""Events on a host that has done its work when a call returns; needs no torch."""

from __future__ import annotations

import time


class HostEvent:
    """Point in time on the host: it has happened once it is recorded."""

    def __init__(self) -> None:
        self._recorded_ns: int | None = None

    def record(self, stream: object = None) -> None:
        """Record the current time."""
        self._recorded_ns = time.perf_counter_ns()

    def wait(self, stream: object = None) -> None:
        """Return: nothing is under way."""

    def query(self) -> bool:
        """Return True: a recorded event has happened."""
        return True

    def synchronize(self) -> None:
        """Return: nothing is under way."""

    def elapsed_time(self, end_event: HostEvent) -> float:
        """Return the milliseconds from this event to ``end_event``.

        Raises:
            RuntimeError: One of them was not recorded.
        """
        if self._recorded_ns is None or end_event._recorded_ns is None:
            raise RuntimeError("both events must be recorded before their time is calculated")
        return (end_event._recorded_ns - self._recorded_ns) / 1e6
