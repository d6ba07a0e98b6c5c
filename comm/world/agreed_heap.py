"""``AgreedHeap``: a PE's handle on tables that are alike on several hosts."""

from __future__ import annotations

import copy

import numpy as np

from emu.comm.hosts.host_heap import dtype_number
from emu.comm.hosts.port import Port
from emu.comm.memory.heap import Heap
from emu.comm.memory.segment import Segment


class AgreedHeap(Heap):
    """The table of allocations, in which agents enter what host 0 has decided (:mod:`emu.comm.hosts.tables`).

    Args:
        segment: Shared memory of the host.
        me: Address of the PE's block.
        pe: Its number.
        port: Its way to the agent.
        poison: Whether new memory is poisoned.
    """

    def __init__(self, segment: Segment, me: int, pe: int, port: Port, *, poison: bool) -> None:
        super().__init__(segment, me, pe, poison=poison)
        self._port = port

    def through(self, port: Port) -> AgreedHeap:
        """Return this heap for a thread that has a port of its own."""
        found = copy.copy(self)
        found._port = port
        return found

    def allocate(
        self,
        group: int,
        members: tuple[int, ...],
        key: str,
        shape: tuple[int, ...],
        dtype: np.dtype[np.generic],
        name: str,
        *,
        poison: bool = True,
    ) -> int:
        """Find or make an allocation on all hosts; as :meth:`Heap.allocate`."""
        index: int = self._port.agree(
            {
                "call": "alloc",
                "group": group,
                "key": key,
                "shape": shape,
                "dtype": dtype_number(dtype),
                "name": name,
                "poison": poison,
            }
        )
        return index

    def release(self, index: int) -> None:
        """Count this member's ``free``; the last one gives the memory back, on all hosts."""
        self._port.agree({"call": "free", "index": index}, waits=False)

    def find(self, group: int, prefix: str) -> list[int]:
        """Return the indices of a group's allocations whose key starts with ``prefix``."""
        self._port.agree({"call": "settle"})  # what was decided before has come here then
        return super().find(group, prefix)
