"""Messages between two members of a group.

A message is put into the sender's memory at once, its header into a ring of the receiver, and then the
receiver's count of messages from this sender is incremented. A receive waits for that count, fetches, and
increments the count of messages taken, which lets the sender reuse the memory.

Posting a receive increments ``posted`` on the sender; a blocking send waits for that. So two ranks that both
send first wait for each other forever, as on accelerators, and the world reports it; but a rank that has
posted its receive and is busy elsewhere delays nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emu.accelerator.arrays import Array
from emu.comm.errors import ArgumentError
from emu.comm.ops import Cmp
from emu.kernels.core.dtype_table import DTYPES

if TYPE_CHECKING:  # they load Numba, and a process that is no PE needs neither
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group

RING = 1024
"""Messages that may be in flight from one rank to another; one more waits for the first."""

_WORDS = 8  # of a header, a cache line: bytes, size class, slab, slot, dtype
_LEAST = 256  # bytes of the smallest staging buffer
_SLAB = 1 << 20  # bytes that are allocated at once for small buffers


class Channels:
    """Messages of one group in both directions; every member makes one."""

    def __init__(self, group: Group) -> None:
        n = group.n_pes
        self._group = group
        self._arrived = self._signal("messages that came, by sender")
        self._posted = self._signal("receives asked for, by receiver")
        self._taken = self._signal("messages taken, by receiver")
        self._headers = group.alloc(
            (n, RING, _WORDS), np.int64, key="torch.distributed headers", poison=False
        )
        self._sent = [0] * n
        self._asked = [0] * n
        self._received = [0] * n
        self._free: dict[int, list[tuple[int, int]]] = {}
        self._slabs: dict[int, int] = {}
        self._flying: list[tuple[int, int, int, tuple[int, int]]] = []

    def _signal(self, what: str) -> SymmetricArray:
        name = f"torch.distributed: {what}"
        return self._group.alloc(self._group.n_pes, np.uint64, name=name, key=name, poison=False)

    # --- sending ---------------------------------------------------------------------------

    def send(self, data: Array, pe: int) -> int:
        """Send a flat array to member ``pe`` and return the number of the message.

        ``data`` may be changed at once. The call waits only if :data:`RING` messages are still in flight.
        """
        group, number = self._group, self._sent[pe]
        if number >= RING:
            group.wait_until(self._taken, Cmp.GE, number - RING + 1, index=pe)
        nbytes = data.nbytes
        size = max(_LEAST, 1 << (nbytes - 1).bit_length())
        slab, slot = place = self._take_buffer(size)
        buffer = self._buffer(size, slab).local
        buffer[slot, :nbytes] = data.view(np.uint8)
        self._flying.append((number, pe, size, place))
        header = np.zeros(_WORDS, np.int64)
        header[:5] = nbytes, size, slab, slot, DTYPES.index(data.dtype)
        group.put(self._headers[group.my_pe, number % RING], header, pe)
        self._sent[pe] = number + 1
        group.signal_op(self._arrived, number + 1, pe, index=group.my_pe)
        return number

    def is_matched(self, number: int, pe: int) -> bool:
        """Return whether member ``pe`` has posted the receive of message ``number``."""
        group = self._group
        return group.fetch(self._posted, group.my_pe, index=pe) > number

    def await_match(self, number: int, pe: int) -> None:
        """Wait until member ``pe`` has posted the receive of message ``number``."""
        self._group.wait_until(self._posted, Cmp.GE, number + 1, index=pe)

    def _take_buffer(self, size: int) -> tuple[int, int]:
        """Return (slab, slot) of a free buffer of ``size`` bytes."""
        free = self._free.setdefault(size, [])
        if not free:
            self._collect()
        if not free:
            slab = self._slabs.get(size, 0)
            self._buffer(size, slab)
            self._slabs[size] = slab + 1
            free.extend((slab, slot) for slot in reversed(range(max(1, _SLAB // size))))
        return free.pop()

    def _collect(self) -> None:
        """Reclaim the buffers of messages that were received."""
        group = self._group
        taken = [group.fetch(self._taken, group.my_pe, index=pe) for pe in range(group.n_pes)]
        flying = []
        for message in self._flying:
            number, pe, size, place = message
            if number < taken[pe]:
                self._free[size].append(place)
            else:
                flying.append(message)
        self._flying = flying

    def _buffer(self, size: int, slab: int) -> SymmetricArray:
        shape = (max(1, _SLAB // size), size)
        key = f"torch.distributed staging {size}.{slab}"
        return self._group.alloc(shape, np.uint8, key=key, poison=False)

    # --- receiving -------------------------------------------------------------------------

    def ask(self, pe: int) -> int:
        """Post a receive of the next message of member ``pe``, and return that message's number."""
        group, number = self._group, self._asked[pe]
        self._asked[pe] = number + 1
        group.signal_op(self._posted, number + 1, pe, index=group.my_pe)
        return number

    def receive(self, number: int, pe: int, data: Array) -> None:
        """Wait for message ``number`` of member ``pe`` and store it in ``data``.

        Raises:
            ArgumentError: It has another size or dtype. It is consumed, and ``data`` is unchanged.
        """
        group = self._group
        group.wait_until(self._arrived, Cmp.GE, number + 1, index=pe)
        header = self._headers.local[pe, number % RING]
        nbytes, size, slab, slot, kind = (int(word) for word in header[:5])
        dtype = DTYPES[kind]
        fits = nbytes == data.nbytes and dtype == data.dtype
        if fits and nbytes:
            group.get(self._buffer(size, slab)[slot, :nbytes], pe, out=data.view(np.uint8))
        group.signal_op(self._taken, number + 1, pe, index=group.my_pe)
        if not fits:
            raise ArgumentError(
                f"tensor must have the {nbytes // dtype.itemsize} elements of {dtype} that rank {pe} "
                f"of the group sent, but got {data.size} of {data.dtype}"
            )
