"""Elements of PEs on other hosts, as kernels access them: by calls, with the operands in memory that the calls give.

A kernel on one host loads and stores what another PE holds; another host's heap is only a mirror. There it asks for a
*room*, writes places, values and mask of a tile into it, has the operation done through this PE's port, reads from the room what was found,
and gives the room back.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emu.comm.arrays import Array, Bytes
from emu.comm.hosts.port import Port
from emu.comm.sync.element_numbers import CAS, LOAD, STORE, room_for

_RUN_BYTES = 1024
"""From so many bytes on, elements that lie one behind the other travel as they lie."""


class RemoteElements:
    """The elements of other hosts that kernels of this PE access.

    Args:
        port: This PE's way to other hosts.
    """

    def __init__(self, port: Port) -> None:
        self._port = port
        self._used: dict[int, Bytes] = {}
        self._free: dict[int, list[Bytes]] = {}

    def by_name(self) -> dict[str, Callable[..., int]]:
        """Return the calls of kernels by name."""
        known = self.settle, self.take_room, self.give_room, self.elements
        return {function.__name__: function for function in known}

    def settle(self) -> int:
        """See to it that what a kernel stores here next is seen after what it has stored elsewhere."""
        self._port.settle()
        return 0

    def take_room(self, nbytes: int) -> int:
        """Return the address of memory that is the caller's until it is given back."""
        free = self._free.get(nbytes)
        room: Bytes = free.pop() if free else np.empty(nbytes, np.uint8)
        address = int(room.ctypes.data)
        self._used[address] = room
        return address

    def give_room(self, address: int) -> int:
        """Take back what :meth:`take_room` has returned."""
        room = self._used.pop(address)
        self._free.setdefault(room.size, []).append(room)
        return 0

    def elements(
        self, pe: int, room: int, count: int, size: int, kind: int, operation: int, masked: int
    ) -> int:
        """Do an operation on elements of a PE on another host.

        Args:
            pe: The PE.
            room: Where its operands stand, as :func:`~emu.comm.sync.element_numbers.room_for` says.
            count: Number of elements.
            size: Bytes of each.
            kind: As in :mod:`emu.comm.sync.element_numbers`.
            operation: Likewise.
            masked: Whether the mask says which elements count; else all do.
        """
        try:
            self._access(pe, _Operands(self._used[room], count, size, masked), kind, operation)
        except BaseException:
            self.give_room(room)  # the kernel ends here
            raise
        return 0

    def _access(self, pe: int, operands: _Operands, kind: int, operation: int) -> None:
        port, offsets = self._port, operands.offsets
        if not offsets.size:
            return
        if operation != LOAD:
            port.settle(port.places.host_of(pe))
        if operation in (LOAD, STORE) and operands.is_run:
            place = pe, int(offsets[0])
            if operation == STORE:
                data = np.ascontiguousarray(operands.take()).view(np.uint8)
                port.put(place, (1,), data, 0, add=False)
            else:
                found = np.empty(offsets.size * operands.size, np.uint8)
                port.get(place, (1,), found)
                operands.leave(found.view(operands.dtype))
            return
        lists = np.zeros((3 if operation == CAS else 2, offsets.size), np.int64)
        lists[0] = offsets
        if operation != LOAD:
            lists[1] = operands.take()
        if operation == CAS:
            lists[2] = operands.take_expected()
        port.elements(pe, (operation, kind, operands.size), lists, waits=operation != STORE)
        if operation != STORE:
            operands.leave(lists[1].astype(operands.dtype))


class _Operands:
    """What stands in a room.

    Attributes:
        size: Bytes of an element.
        dtype: Unsigned integers of this size.
        offsets: Places of those elements that count.
    """

    def __init__(self, memory: Bytes, count: int, size: int, masked: int) -> None:
        places = room_for(count, size)
        self.size, self.dtype = size, np.dtype(f"u{size}")
        end = places.values + count * size
        self._values = memory[places.values : end].view(self.dtype)
        end = places.expected + count * size
        self._expected = memory[places.expected : end].view(self.dtype)
        self._chosen: Array | slice = slice(None)
        if masked:
            self._chosen = np.flatnonzero(memory[places.mask : places.mask + count])
        self.offsets = memory[: places.values].view(np.int64)[self._chosen]

    @property
    def is_run(self) -> bool:
        """Whether they are many and lie one behind the other."""
        if self.offsets.size * self.size < _RUN_BYTES:
            return False
        return bool((np.diff(self.offsets) == self.size).all())

    def take(self) -> Array:
        """Return the values of those that count."""
        return self._values[self._chosen]

    def take_expected(self) -> Array:
        """Return what is expected of those that count."""
        return self._expected[self._chosen]

    def leave(self, found: Array) -> None:
        """Leave what was found of those that count where their values stood."""
        self._values[self._chosen] = found
