"""Devices that a partitioned program runs on, as the evaluator sees them.

A *process* in StableHLO's sense is a pair of a replica and a partition. Here it is one number,
``replica * n_partitions + partition``. Collectives need two things of a machine: to gather the
values of a group, and to pass values on along pairs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array

_T = TypeVar("_T")


class Device(Protocol):
    """One process of a running program."""

    @property
    def n_replicas(self) -> int:
        """Number of replicas."""

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""

    @property
    def process(self) -> int:
        """Number of this process."""

    def gather(self, value: Array, group: Sequence[int]) -> list[Array]:
        """Return the values of all members of a group, in its order; each of them must call."""

    def permute(self, value: Array, pairs: Sequence[tuple[int, int]]) -> Array | None:
        """Send a value to the targets of this process; return what its source sent, if it has one.

        Every process of a pair must call.
        """


class SingleDevice:
    """The only process of a program that is not partitioned."""

    n_replicas = 1
    n_partitions = 1
    process = 0

    def gather(self, value: Array, group: Sequence[int]) -> list[Array]:
        """Return the value; the group has no other member."""
        _check_members(group, 1)
        return [value]

    def permute(self, value: Array, pairs: Sequence[tuple[int, int]]) -> Array | None:
        """Return the value where the process sends to itself."""
        _check_members([p for pair in pairs for p in pair], 1)
        return value if pairs else None


class Rendezvous:
    """Meeting points of threads that stand for the processes of one program."""

    def __init__(self, n_replicas: int, n_partitions: int) -> None:
        self.n_replicas = n_replicas
        self.n_partitions = n_partitions
        self._lock = threading.Lock()
        self._rooms: dict[tuple[int, ...], tuple[threading.Barrier, dict[int, Array]]] = {}
        self._failed = False

    def exchange(self, process: int, value: Array, members: tuple[int, ...]) -> dict[int, Array]:
        """Return the values of all members once each has brought its own."""
        with self._lock:
            if self._failed:
                raise threading.BrokenBarrierError
            if members not in self._rooms:
                self._rooms[members] = (threading.Barrier(len(members)), {})
            barrier, values = self._rooms[members]
        values[process] = value
        barrier.wait()
        found = dict(values)
        # Nobody may bring the next value before all have taken this one.
        barrier.wait()
        return found

    def abort(self) -> None:
        """End the waiting of all: a process has failed."""
        with self._lock:
            self._failed = True
            for barrier, _ in self._rooms.values():
                barrier.abort()


class ThreadDevice:
    """One thread of ``run_on_threads``."""

    def __init__(self, process: int, rendezvous: Rendezvous) -> None:
        self.process = process
        self.n_replicas = rendezvous.n_replicas
        self.n_partitions = rendezvous.n_partitions
        self._rendezvous = rendezvous

    def gather(self, value: Array, group: Sequence[int]) -> list[Array]:
        """Return the values of all members of a group, in its order."""
        _check_members(group, self.n_replicas * self.n_partitions)
        found = self._rendezvous.exchange(self.process, value, tuple(sorted(group)))
        return [found[member] for member in group]

    def permute(self, value: Array, pairs: Sequence[tuple[int, int]]) -> Array | None:
        """Return what the source of this process sent."""
        members = sorted({process for pair in pairs for process in pair})
        _check_members(members, self.n_replicas * self.n_partitions)
        if self.process not in members:
            return None
        found = self._rendezvous.exchange(self.process, value, tuple(members))
        return next((found[source] for source, target in pairs if target == self.process), None)


def _check_members(members: Sequence[int], count: int) -> None:
    for member in members:
        if not 0 <= member < count:
            raise EvaluationError(f"a collective names process {member} of {count}")


def run_on_threads(
    function: Callable[[Device], _T], n_replicas: int, n_partitions: int
) -> list[_T]:
    """Call a function once per process, each in a thread of its own; return the results in order.

    The first failure ends the waiting of all and is raised.
    """
    rendezvous = Rendezvous(n_replicas, n_partitions)
    first: list[BaseException] = []

    def run(process: int) -> _T:
        try:
            return function(ThreadDevice(process, rendezvous))
        except BaseException as error:
            if not isinstance(error, threading.BrokenBarrierError):
                first.append(error)
            rendezvous.abort()
            raise

    count = n_replicas * n_partitions
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(run, process) for process in range(count)]
    if first:
        raise first[0]
    return [future.result() for future in futures]
